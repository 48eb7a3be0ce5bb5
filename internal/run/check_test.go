package run

import (
	"errors"
	"testing"

	"palyra"
	"palyra/internal/gate"
)

func TestCheckRunsNothing(t *testing.T) {
	w := newWorld(t)
	out, err := w.calls.Check(t.Context(), w.proposal(`{}`), palyra.Watch{})
	if err != nil || out.Outcome != palyra.OutcomeAllowed || len(w.parts.started) != 0 {
		t.Fatalf("%+v %v, %d started", out, err, len(w.parts.started))
	}
	c, err := w.calls.Get(t.Context(), out.CallID)
	if err != nil || c.State != palyra.Checked || !c.Proposal.Check || c.Plan.Tier != palyra.TierUnsandboxed ||
		c.Outcome.Outcome != palyra.OutcomeAllowed {
		t.Errorf("%+v %v", c, err)
	}
	if out, err = w.calls.Check(t.Context(), w.proposal(`{"deny":true}`), palyra.Watch{}); err != nil || out.Outcome != palyra.OutcomeRefused {
		t.Errorf("%+v %v", out, err)
	}
	if err := w.calls.Cancel(t.Context(), c.ID); palyra.CodeOf(err) != palyra.Conflict {
		t.Errorf("an ended check was cancelled: %v", err)
	}
}

// A key that was used for a check is none for a call, and the other way round: a
// yes must not pass for a run.
func TestACheckAndACallShareNoKey(t *testing.T) {
	w := newWorld(t)
	p := w.proposal(`{}`)
	p.Key = "k1"
	first, err := w.calls.Check(t.Context(), p, palyra.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := w.calls.Check(t.Context(), p, palyra.Watch{}); err != nil || again.CallID != first.CallID {
		t.Errorf("a repeat: %+v %v", again, err)
	}
	if _, err := w.calls.Call(t.Context(), p, palyra.Watch{}); palyra.AsError(err).Reason != palyra.ReasonIdempotencyReused {
		t.Errorf("a call with the key of a check: %v", err)
	}
	p.Key = "k2"
	if _, err := w.calls.Call(t.Context(), p, palyra.Watch{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.calls.Check(t.Context(), p, palyra.Watch{}); palyra.AsError(err).Reason != palyra.ReasonIdempotencyReused {
		t.Errorf("a check with the key of a call: %v", err)
	}
}

// A check that waits when the daemon stops is a check when it goes on.
func TestARestartedCheckRunsNothing(t *testing.T) {
	w := newWorld(t)
	ch := make(chan result, 1)
	go func() {
		out, err := w.calls.Check(t.Context(), w.proposal(`{"ask":true}`), palyra.Watch{})
		ch <- result{out: out, err: err}
	}()
	id := <-w.parts.asked
	calls, _ := w.ledger.waitingFor(t.Context(), id)
	w.close()
	if r := <-ch; !errors.Is(r.err, gate.ErrStopping) {
		t.Fatalf("%+v", r)
	}
	w.open()
	if err := w.calls.Recover(t.Context(), no); err != nil {
		t.Fatal(err)
	}
	w.allow(id, calls[0].Digest)
	w.calls.ApprovalSettled(id)
	out, err := w.calls.Watch(t.Context(), calls[0].ID, palyra.Watch{})
	if err != nil || out.Outcome != palyra.OutcomeAllowed || len(w.parts.started) != 0 {
		t.Errorf("%+v %v, %d started", out, err, len(w.parts.started))
	}
}
