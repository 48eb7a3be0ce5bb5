package daemon

import (
	"path/filepath"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/bubble"
	"palyra/internal/sandbox/confine"
	"palyra/internal/sandbox/local"
	"palyra/internal/tiers"
)

// warmBytes is what rooms that wait for their program may take together.
const warmBytes = 256 << 20

// drivers makes the drivers of this system's tiers: cells, and cells in bubblewrap.
func drivers(c tiers.Config) ([]sandbox.Backend, error) {
	p := c.Settings.Process
	places := &local.Places{} // a look takes longer than the rest of the start
	b, err := confine.New(confine.Config{
		Cell: c.CellPath(), Digest: c.CellDigest, Cgroup: p.Cgroup, Warm: int(p.Warm), StateID: c.Mark(), Places: places, Log: c.Log,
	})
	if err != nil {
		return nil, err
	}
	room, err := bubble.New(bubble.Config{
		Bwrap: p.Bwrap, Cell: c.CellPath(), Digest: c.CellDigest, Cgroup: p.Cgroup, Warm: int(p.Warm), WarmBytes: warmBytes, StateID: c.Mark(),
		Dir:        filepath.Join(filepath.Dir(c.Settings.Paths.State), "seals"),
		Quarantine: c.Settings.Paths.Quarantine, Tmp: p.TmpBytes, Places: places, Log: c.Log,
		Closed: c.Settings.Closed(c.StateID), Kept: p.QuarantineBytes, KeptWorkspace: p.QuarantineWorkspaceBytes,
		Stages: c.Places().Stages, Undo: c.Places().Undo, StageBytes: p.StageBytes, StageNames: int(p.StageNames), AllStages: p.AllStages,
	})
	if err != nil {
		return []sandbox.Backend{b}, err
	}
	return []sandbox.Backend{b, room}, nil
}
