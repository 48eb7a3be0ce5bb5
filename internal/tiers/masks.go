package tiers

import (
	"fmt"
	"path/filepath"

	"palyra/internal/config"
	"palyra/internal/dotenv"
)

// masksOf is which files are masked where, by the configuration. Without a key the state's own is opened.
func masksOf(c config.Config, key []byte) (*dotenv.Masks, error) {
	m, err := dotenv.NewMasks(c.Dotenv.Names, c.Dotenv.Unmasked, c.Dotenv.Mask == "off")
	if err != nil {
		return nil, fmt.Errorf("tiers: dotenv.names: %w", err)
	}
	if m.Key = key; key == nil {
		m.Key, err = dotenv.OpenKey(filepath.Join(c.Paths.Keys, "dotenv.key"))
	}
	return m, err
}
