package tiers

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"

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

// unmasking are those of the names that are links by which files like .env are found, or lead to one: once they are others, what they
// led to is an ordinary file. Where nobody can tell, all of them are.
func (t *Tiers) unmasking(ctx context.Context, workspace string, names []string) (out []string) {
	if !t.Masks.On(workspace) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookWithin)
	defer cancel()
	links, err := t.Masks.Links(ctx, workspace)
	if err != nil {
		t.Log.Warn("which links lead to files like .env cannot be told, so all that a run changed counts", "workspace", workspace, "err", err)
		return names
	}
	changed := map[string]bool{}
	for _, name := range names {
		changed[name] = true
	}
	for _, link := range links {
		for ; link != "."; link = path.Dir(link) { // with all that leads to it
			if changed[link] {
				out = append(out, link)
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(out)))
}
