package changes

import (
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// What became of the changes is said of the workspace: what was dropped is no loss, what is held waits for an answer,
// and what was undone is not there.
func TestWhatBecameOfThem(t *testing.T) {
	one := palyra.Effects{Removed: 1}
	kept, none := palyra.EffectsKept, client.UndoNone
	for want, x := range map[string]client.CallChanges{
		"Effects  kept\nUndo     palyra undo C1\n1 path: 1 removed":        {Effects: kept, Undo: client.UndoKept},
		"Effects  kept\nUndo     not possible: what it replaced":           {Effects: kept, Undo: none},
		"Effects  undone: the workspace is as before the call\nUndo":       {Effects: kept, Undo: client.UndoUndone},
		"Effects  dropped: nothing in the workspace was changed\n":         {Effects: palyra.EffectsDropped},
		"Would have changed 1 path: 1 removed":                             {Effects: palyra.EffectsDropped},
		"until somebody answers; palyra approvals show A1\nWould change 1": {Effects: palyra.EffectsHeld, Approval: "A1"},
		"Effects  conflict: somebody else changed":                         {Effects: palyra.EffectsConflict},
		"sealed\n  .git/hooks/x\n":                                         {Effects: kept, Quarantined: []palyra.PathText{".git/hooks/x"}},
		"Not the last: call C2 came later; it wrote":                       {Effects: kept, Lasting: "C2", LastingWhy: "it wrote"},
	} {
		x.Call, x.Counts = "C1", one
		var b strings.Builder
		printChanges(&b, x)
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
