package daemon

import (
	"path/filepath"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/bubble"
	"palyra/internal/sandbox/confine"
)

// warmBytes is what rooms that wait for their program may take together.
const warmBytes = 256 << 20

// drivers makes the drivers of this system's tiers: cells, and cells in bubblewrap.
func (d *Daemon) drivers() ([]sandbox.Backend, error) {
	c := d.Config.Config.Process
	b, err := confine.New(confine.Config{
		Cell: cellPath(c), Digest: d.CellDigest, Cgroup: c.Cgroup, Warm: int(c.Warm), StateID: d.mark(), Log: d.Log,
	})
	if err != nil {
		return nil, err
	}
	room, err := bubble.New(bubble.Config{
		Bwrap: c.Bwrap, Cell: cellPath(c), Digest: d.CellDigest, Cgroup: c.Cgroup, Warm: int(c.Warm), WarmBytes: warmBytes, StateID: d.mark(),
		Dir:        filepath.Join(filepath.Dir(d.Config.Config.Paths.State), "seals"),
		Quarantine: d.Config.Config.Paths.Quarantine, Tmp: c.TmpBytes, Log: d.Log,
		Closed: d.closed(), Kept: c.QuarantineBytes, KeptWorkspace: c.QuarantineWorkspaceBytes,
		Stages: d.places().Stages, StageBytes: c.StageBytes, StageNames: int(c.StageNames),
	})
	if err != nil {
		return []sandbox.Backend{b}, err
	}
	return []sandbox.Backend{b, room}, nil
}
