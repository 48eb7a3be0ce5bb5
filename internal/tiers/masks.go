package tiers

import (
	"fmt"
	"path/filepath"

	"palyra/internal/config"
	"palyra/internal/dotenv"
)

// masksOf is which files are masked where, by the configuration. Without a key the state's own is opened.
func masksOf(c config.Config, key []byte) (*dotenv.Masks, error) {
	names, err := dotenv.NewNames(c.Dotenv.Names)
	if err != nil {
		return nil, fmt.Errorf("tiers: dotenv.names: %w", err)
	}
	m := &dotenv.Masks{Names: names, Off: c.Dotenv.Unmasked, Key: key}
	if c.Dotenv.Mask == "off" {
		m.Off = []string{"/"}
	}
	if key == nil {
		m.Key, err = dotenv.OpenKey(filepath.Join(c.Paths.Keys, "dotenv.key"))
	}
	return m, err
}
