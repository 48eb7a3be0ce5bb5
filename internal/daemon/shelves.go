package daemon

import (
	"context"
	"os"

	"palyra/internal/config"
	"palyra/internal/prune"
	"palyra/internal/quarantine"
)

// prunableDirs are the directories whose entries grow old: the quarantine of workspaces, and caches that the
// last run left.
func (d *Daemon) prunableDirs() map[string]prune.Shelf {
	p := d.Settings.Process
	return map[string]prune.Shelf{
		"quarantine": {
			Dir: d.Settings.Paths.Quarantine, Name: prune.IsCall, Keep: prune.Days(p.QuarantineDays), Most: p.QuarantineBytes,
			Used: quarantine.Usage,
		},
		"caches": {Dir: d.places().Caches, Name: prune.IsCache, Keep: prune.Days(p.CacheDays)},
	}
}

// places are the directories that programs run with.
func (d *Daemon) places() config.Places { return d.Settings.Places(d.stateID) }

// tidy removes the directories beside that of the runs, which goes with the runner, where there is nothing in them.
func (d *Daemon) tidy() {
	if d.stateID == "" {
		return
	}
	for _, dir := range []string{d.places().Caches, d.places().Posture, d.places().Undo, d.places().Servers()} {
		_ = os.Remove(dir) // one that is not empty stays
	}
}

// pruneShelves removes entries that have lain unused for too long. A failure is logged and tried again.
func (d *Daemon) pruneShelves(ctx context.Context) {
	for _, s := range d.prunableDirs() {
		gone, err := s.Prune(ctx, now())
		if err != nil && ctx.Err() == nil {
			d.Log.Warn("not all that is old could be removed", "from", s.Dir, "error", err)
		}
		if gone > 0 {
			d.Log.Info("removed what was not used for long", "from", s.Dir, "entries", gone, "days", int(s.Keep.Hours()/24))
		}
	}
}
