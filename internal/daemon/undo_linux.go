package daemon

import (
	"palyra/internal/preimage"
	"palyra/internal/stage"
	"palyra/internal/tiers"
	"palyra/internal/undo"
)

// openKept opens what calls replaced. A daemon without it serves, and nothing can be undone.
func (d *Daemon) openKept(t *tiers.Tiers) *undo.Kept {
	if stages, past := t.Remembers(); past != nil { // turns are taken in one place
		return undo.NewKept(stages, past)
	}
	past, err := preimage.Open(d.places().Undo) // first: who gives stages back takes an empty directory of others' away
	if err != nil {
		d.Log.Warn("calls cannot be undone: there is no place for what they replace", "err", err)
		return nil
	}
	p := d.Settings.Process
	stages, err := stage.Open(d.places().Stages, stage.Limits{Entries: int(p.StageNames), Bytes: p.StageBytes, All: p.AllStages}, d.Log)
	if err != nil {
		d.Log.Warn("calls cannot be undone: there is no place for what they replace", "err", err)
		_ = past.Close()
		return nil
	}
	return undo.NewKept(stages, past)
}
