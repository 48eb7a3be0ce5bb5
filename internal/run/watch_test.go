package run

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
)

// watch follows a call on its own goroutine; asked hears its questions.
func (w *world) watch(ctx context.Context, id palyra.CallID) (done <-chan watchEnd, asked <-chan palyra.ApprovalID) {
	ends, questions := make(chan watchEnd, 1), make(chan palyra.ApprovalID, 8)
	go func() {
		out, err := w.calls.Watch(ctx, id, palyra.Watch{Event: func(_ *palyra.Call, e palyra.Event) {
			switch e := e.(type) {
			case palyra.ApprovalRequested:
				questions <- e.Approval
			case palyra.ApprovalJoined:
				questions <- e.Approval
			}
		}})
		ends <- watchEnd{out, err}
	}()
	return ends, questions
}

type watchEnd struct {
	out palyra.Outcome
	err error
}

// Any number follow a call under way, and one that has ended is told at once.
func TestWatchACallUnderWayAndAfter(t *testing.T) {
	w := newWorld(t)
	ch := w.call(t.Context(), w.proposal(`{"ask":true}`))
	approval := <-w.parts.asked
	calls, _ := w.ledger.waitingFor(t.Context(), approval)
	id := calls[0].ID
	one, asked := w.watch(t.Context(), id)
	if got := <-asked; got != approval {
		t.Errorf("asked %s, want %s", got, approval)
	}
	ctx, leave := context.WithCancel(t.Context())
	two, _ := w.watch(ctx, id)
	leave()
	if r := <-two; !errors.Is(r.err, context.Canceled) {
		t.Errorf("a follower that left: %+v", r)
	}
	w.allow(approval, calls[0].Digest)
	first, r := <-ch, <-one
	if r.err != nil || r.out.CallID != id || r.out.Outcome != first.out.Outcome {
		t.Errorf("%+v", r)
	}
	out, err := w.calls.Watch(t.Context(), id, palyra.Watch{})
	if err != nil || out.CallID != id || out.Outcome != palyra.OutcomeFinished {
		t.Errorf("after the end: %+v %v", out, err)
	}
	if len(w.parts.started) != 1 {
		t.Errorf("ran %d times", len(w.parts.started))
	}
	if _, err := w.calls.Watch(t.Context(), "01ARZ3NDEKTSV4RRFFQ69G5FAV", palyra.Watch{}); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("no call: %v", err)
	}
}

// A call that waits since an earlier daemon is followed on: its question is told
// again, and it runs once.
func TestWatchOverARestart(t *testing.T) {
	w := newWorld(t)
	ch := w.call(t.Context(), w.proposal(`{"ask":true}`))
	approval := <-w.parts.asked
	calls, _ := w.ledger.waitingFor(t.Context(), approval)
	w.close()
	<-ch
	w.open()
	if err := w.calls.Recover(t.Context(), no); err != nil {
		t.Fatal(err)
	}
	done, asked := w.watch(t.Context(), calls[0].ID)
	if got := <-asked; got != approval {
		t.Errorf("asked %s, want %s", got, approval)
	}
	w.allow(approval, calls[0].Digest)
	w.calls.ApprovalSettled(approval)
	if r := <-done; r.err != nil || r.out.Outcome != palyra.OutcomeFinished || r.out.CallID != calls[0].ID {
		t.Errorf("%+v", r)
	}
	if len(w.parts.started) != 1 {
		t.Errorf("ran %d times", len(w.parts.started))
	}
}

// One who proposes a call of an earlier daemon again, by its key, hears that it runs.
func TestRunsIsHeardByKeyOverARestart(t *testing.T) {
	w := newWorld(t)
	p := w.proposal(`{"ask":true}`)
	p.Key = "k"
	ch := w.call(t.Context(), p)
	approval := <-w.parts.asked
	calls, _ := w.ledger.waitingFor(t.Context(), approval)
	w.close()
	<-ch
	w.open()
	if err := w.calls.Recover(t.Context(), no); err != nil {
		t.Fatal(err)
	}
	var again heard
	done := again.joins(func(x palyra.Watch) (palyra.Outcome, error) { return w.calls.Call(t.Context(), p, x) })
	w.allow(approval, calls[0].Digest)
	w.calls.ApprovalSettled(approval)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if i := slices.Index(again.kinds, "running"); i < 0 || i < slices.Index(again.kinds, "call.granted") {
		t.Errorf("heard %v", again.kinds)
	}
}

// A call whose end is never taken is looked at again, and not without a pause.
func TestWatchDoesNotSpin(t *testing.T) {
	w := newWorld(t)
	w.call(t.Context(), w.proposal(`{"ask":true}`))
	approval := <-w.parts.asked
	calls, _ := w.ledger.waitingFor(t.Context(), approval)
	w.restart()
	w.parts.stale = &atomic.Int64{}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	done, _ := w.watch(ctx, calls[0].ID)
	w.parts.channel(approval) <- palyra.Decision{Answer: palyra.AnswerDeny} // settled for good
	<-done
	if n := w.parts.stale.Load(); n == 0 || n > 40 {
		t.Errorf("it was tried %d times", n)
	}
}
