package run

import (
	"testing"

	"palyra"
)

// asked waits until a call's question is on record, and returns its call.
func (w *world) asked(p palyra.Proposal) (palyra.CallID, <-chan result) {
	w.t.Helper()
	ids, done := make(chan palyra.CallID, 1), make(chan result, 1)
	go func() {
		out, err := w.calls.Call(w.t.Context(), p, palyra.Watch{Event: func(c *palyra.Call, e palyra.Event) {
			if _, ok := e.(palyra.ApprovalRequested); ok {
				ids <- c.ID
			}
		}})
		done <- result{out, err}
	}()
	return <-ids, done
}

// parent starts a call that runs until the world ends.
func (w *world) parent() palyra.CallID {
	w.t.Helper()
	w.call(w.t.Context(), w.proposal(`{"hold":true}`))
	return <-w.parts.started
}

// What came out of a call ends with it, and nothing else does.
func TestChildrenEndWithTheirParent(t *testing.T) {
	w := newWorld(t)
	child, other := w.proposal(`{"ask":true}`), w.proposal(`{"ask":true,"n":2}`)
	child.Parent = w.parent()
	id, done := w.asked(child)
	otherID, otherDone := w.asked(other)
	w.calls.endChildren(&palyra.Call{})
	w.calls.endChildren(&palyra.Call{ID: "P2"})
	if err := w.calls.Cancel(t.Context(), child.Parent); err != nil {
		t.Error(err)
	}
	if r := <-done; r.err != nil || r.out.Outcome != palyra.OutcomeCancelled {
		t.Errorf("%+v", r)
	}
	if c, err := w.calls.Get(t.Context(), id); err != nil || c.State != palyra.Cancelled {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := w.calls.Get(t.Context(), otherID); err != nil || c.State != palyra.Pending {
		t.Errorf("%+v, %v", c, err)
	}
	if err := w.calls.Cancel(t.Context(), otherID); err != nil {
		t.Error(err)
	}
	<-otherDone
}

// A question whose call died with an earlier daemon is withdrawn at the next
// start.
func TestOrphansAreWithdrawn(t *testing.T) {
	w := newWorld(t)
	child := w.proposal(`{"ask":true}`)
	child.Parent = w.parent()
	id, done := w.asked(child)
	w.restart()
	<-done
	if c, err := w.calls.Get(t.Context(), id); err != nil || c.State != palyra.Cancelled {
		t.Errorf("%+v, %v", c, err)
	}
}

// Who follows a call hears of the questions that it waits for, and of nothing
// else that its children do.
func TestRelayedQuestions(t *testing.T) {
	w := newWorld(t)
	heard := make(chan palyra.Event, 16)
	done := make(chan result, 1)
	ids := make(chan palyra.CallID, 1)
	go func() {
		out, err := w.calls.Call(t.Context(), w.proposal(`{"ask":true}`), palyra.Watch{Event: func(c *palyra.Call, e palyra.Event) {
			if a, ok := e.(palyra.ApprovalRequested); ok && a.Approval != "A9" {
				ids <- c.ID
				return
			}
			heard <- e
		}})
		done <- result{out, err}
	}()
	id := <-ids
	w.calls.relay(id, &palyra.Call{ID: "C9"}, palyra.CallGranted{Call: "C9", Lease: "L9"})
	w.calls.relay(id, &palyra.Call{ID: "C9"}, palyra.ApprovalRequested{Approval: "A9"})
	w.calls.relay("nobody", &palyra.Call{ID: "C9"}, palyra.ApprovalRequested{Approval: "A9"})
	for e := range heard {
		if _, ok := e.(palyra.CallGranted); ok {
			t.Error("a grant was relayed")
		}
		if a, ok := e.(palyra.ApprovalRequested); ok && a.Approval == "A9" {
			break
		}
	}
	if err := w.calls.Cancel(t.Context(), id); err != nil {
		t.Error(err)
	}
	<-done
}
