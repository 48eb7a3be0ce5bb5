package daemon

import (
	"palyra/internal/tiers"
	"palyra/internal/undo"
)

// keptBy is what runs replaced, where that is remembered.
func keptBy(t *tiers.Tiers) *undo.Kept {
	stages, past := t.Remembers()
	if past == nil {
		return nil
	}
	return undo.NewKept(stages, past)
}
