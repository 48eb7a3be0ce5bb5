package approval

import (
	"testing"

	"palyra"
)

// How questions ended is told in short, with the call that asked.
func TestEnded(t *testing.T) {
	w := newWorld(t)
	open, denied := w.ask(call(t, "a")), w.ask(call(t, "b"))
	w.decide(denied, palyra.AnswerDeny)
	got, err := w.desk.Ended(t.Context(), []palyra.ApprovalID{open.ID, denied.ID, "none"})
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if e := got[open.ID]; e.Answer != palyra.AnswerPending || e.Call != open.Call {
		t.Errorf("open: %+v", e)
	}
	if e := got[denied.ID]; e.Answer != palyra.AnswerDeny || e.Call != denied.Call || e.Method == "" {
		t.Errorf("denied: %+v", e)
	}
	if got, err := w.desk.Ended(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := w.desk.Ended(t.Context(), make([]palyra.ApprovalID, maxEnded+1)); err == nil {
		t.Error("too many at once")
	}
}
