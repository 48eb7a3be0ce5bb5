package config

import (
	"os"
	"path/filepath"
)

// Suffixes of the directories beside that of the runs.
const (
	cachesSuffix  = "-caches"
	postureSuffix = "-posture"
	stagesSuffix  = "-stages"
	keptSuffix    = "-undo"
)

// Places are the directories that programs run with. The daemon, which makes them, and the commands that show
// them find the same ones.
type Places struct {
	Cells   string `json:"cells"`   // private directories of runs
	Caches  string `json:"caches"`  // what is kept between runs, by workspace
	Posture string `json:"posture"` // what is planted to try the tiers out
	Stages  string `json:"stages"`  // what runs under way wrote, until it is their workspaces'
	Undo    string `json:"undo"`    // what calls replaced in their workspaces, for a while
}

// Places finds them for the state with this id. A root daemon's runs are of other users, who cannot reach into its
// state, so theirs are below /var/lib: not /run, which is often mounted so that nothing there can be executed.
func (c Config) Places(stateID string) Places {
	return placesBelow(c.cells(os.Geteuid() == 0, "/var/lib", stateID))
}

func placesBelow(cells string) Places {
	return Places{
		Cells: cells, Caches: cells + cachesSuffix, Posture: cells + postureSuffix, Stages: cells + stagesSuffix,
		Undo: cells + keptSuffix,
	}
}

func (c Config) cells(root bool, base, stateID string) string {
	if dir := c.Process.Dir; dir != "" {
		return dir
	}
	if !root {
		return filepath.Join(filepath.Dir(c.Paths.State), "cells")
	}
	if fi, err := os.Stat(base); err != nil || !fi.IsDir() {
		base = os.TempDir()
	}
	return filepath.Join(base, "palyra-cells-"+stateID)
}
