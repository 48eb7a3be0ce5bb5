package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/gate"
)

func yes(context.Context, palyra.ApprovalID) (bool, error) { return true, nil }
func no(context.Context, palyra.ApprovalID) (bool, error)  { return false, nil }

func TestCallFinishes(t *testing.T) {
	w := newWorld(t)
	var kinds []string
	out, err := w.calls.Call(t.Context(), w.proposal(`{}`), palyra.Watch{
		Event: func(_ *palyra.Call, e palyra.Event) { kinds = append(kinds, e.Kind()) },
	})
	if err != nil || out.Outcome != palyra.OutcomeFinished || string(out.Output) != `"done"` {
		t.Fatalf("%+v, %v", out, err)
	}
	want := []string{"call.proposed", "call.judged", "call.granted", "call.finished"}
	if len(kinds) != len(want) {
		t.Fatalf("watched %v, want %v", kinds, want)
	}
	c, err := w.calls.Get(t.Context(), out.CallID)
	if err != nil || c.State != palyra.Finished || c.Outcome.CallID != out.CallID {
		t.Errorf("ledger has %+v, %v", c, err)
	}
	if w.calls.InFlight() != 0 {
		t.Error("a landed call is still in flight")
	}
}

func TestKeyReturnsTheFirstOutcome(t *testing.T) {
	w := newWorld(t)
	p := w.proposal(`{}`)
	p.Key = "k1"
	first, err := w.calls.Call(t.Context(), p, palyra.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.calls.Call(t.Context(), p, palyra.Watch{})
	if err != nil || again.CallID != first.CallID {
		t.Fatalf("second call %s, %v; want %s", again.CallID, err, first.CallID)
	}
	if len(w.parts.started) != 1 {
		t.Errorf("ran %d times", len(w.parts.started))
	}
	p.Arguments = []byte(`{"deny":true}`)
	if _, err := w.calls.Call(t.Context(), p, palyra.Watch{}); palyra.CodeOf(err) != palyra.Conflict {
		t.Errorf("a key reused for another call: %v", err)
	}
}

func TestKeyJoinsACallUnderWay(t *testing.T) {
	w := newWorld(t)
	p := w.proposal(`{"ask":true}`)
	p.Key = "k2"
	a := w.call(t.Context(), p)
	id := <-w.parts.asked
	b := w.call(t.Context(), p)
	c, _ := w.ledger.waitingFor(t.Context(), id)
	w.allow(id, c[0].Digest)
	ra, rb := <-a, <-b
	if ra.err != nil || rb.err != nil || ra.out.CallID != rb.out.CallID {
		t.Fatalf("%+v\n%+v", ra, rb)
	}
	if len(w.parts.started) != 1 {
		t.Errorf("ran %d times", len(w.parts.started))
	}
}

func TestClientGoesAwayCallGoesOn(t *testing.T) {
	w := newWorld(t)
	ctx, leave := context.WithCancel(t.Context())
	ch := w.call(ctx, w.proposal(`{"ask":true,"hold":true}`))
	id := <-w.parts.asked
	leave()
	if r := <-ch; !errors.Is(r.err, context.Canceled) {
		t.Fatalf("%+v", r)
	}
	calls, _ := w.ledger.waitingFor(t.Context(), id)
	if len(calls) != 1 {
		t.Fatalf("%d calls wait", len(calls))
	}
	w.allow(id, calls[0].Digest)
	<-w.parts.started
	if n := w.calls.Running(); n != 1 {
		t.Errorf("%d calls run", n)
	}
	if err := w.calls.Cancel(t.Context(), calls[0].ID); err != nil {
		t.Errorf("it ended before it was told to: %v", err)
	}
}

func TestCancelPendingWithdraws(t *testing.T) {
	w := newWorld(t)
	ch := w.call(t.Context(), w.proposal(`{"ask":true}`))
	id := <-w.parts.asked
	calls, _ := w.ledger.waitingFor(t.Context(), id)
	if n := w.calls.Running(); n != 0 || w.calls.InFlight() != 1 {
		t.Errorf("%d of %d calls run, and all wait for an answer", n, w.calls.InFlight())
	}
	if err := w.calls.Cancel(t.Context(), calls[0].ID); err != nil {
		t.Fatal(err)
	}
	r := <-ch
	if r.err != nil || r.out.Outcome != palyra.OutcomeCancelled {
		t.Fatalf("%+v", r)
	}
	if len(w.parts.withdrew) != 1 || w.parts.withdrew[0] != id {
		t.Errorf("withdrawn: %v", w.parts.withdrew)
	}
	if err := w.calls.Cancel(t.Context(), calls[0].ID); palyra.CodeOf(err) != palyra.Conflict {
		t.Errorf("cancel of an ended call: %v", err)
	}
	if err := w.calls.Cancel(t.Context(), "01ARZ3NDEKTSV4RRFFQ69G5FAV"); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("cancel of no call: %v", err)
	}
}

func TestCancelAndLeaseEndStopARun(t *testing.T) {
	for name, stop := range map[string]func(*world, palyra.CallID, palyra.LeaseID){
		"cancel": func(w *world, call palyra.CallID, _ palyra.LeaseID) { _ = w.calls.Cancel(w.t.Context(), call) },
		"lease":  func(w *world, _ palyra.CallID, lease palyra.LeaseID) { w.calls.LeaseEnded(lease) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ch := w.call(t.Context(), w.proposal(`{"ask":true,"hold":true}`))
			id := <-w.parts.asked
			calls, _ := w.ledger.waitingFor(t.Context(), id)
			w.allow(id, calls[0].Digest)
			call := <-w.parts.started
			stop(w, call, palyra.LeaseID("L"+id))
			r := <-ch
			if r.err != nil || r.out.Outcome != palyra.OutcomeCancelled {
				t.Fatalf("%+v", r)
			}
		})
	}
}

func TestStopLeavesTheQuestionOpenAndRestartResumes(t *testing.T) {
	w := newWorld(t)
	ch := w.call(t.Context(), w.proposal(`{"ask":true}`))
	id := <-w.parts.asked
	calls, _ := w.ledger.waitingFor(t.Context(), id)
	w.close()
	if r := <-ch; !errors.Is(r.err, gate.ErrStopping) {
		t.Fatalf("%+v", r)
	}
	if _, err := w.calls.Call(t.Context(), w.proposal(`{}`), palyra.Watch{}); err == nil {
		t.Error("a stopped daemon took a call")
	}

	w.open()
	if err := w.calls.Recover(t.Context(), no); err != nil {
		t.Fatal(err)
	}
	if n := w.calls.InFlight(); n != 0 {
		t.Errorf("%d unsettled calls hold memory", n)
	}
	w.allow(id, calls[0].Digest)
	w.calls.ApprovalSettled(id)
	if got := <-w.parts.started; got != calls[0].ID {
		t.Errorf("resumed %s, want %s", got, calls[0].ID)
	}
}

func TestRecoverGivesUpWhatMayHaveRun(t *testing.T) {
	w := newWorld(t)
	s, err := w.sessions.Resolve(t.Context(), w.proposal(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	p := w.proposal(`{}`)
	p.Session = s.ID
	for _, state := range []palyra.State{palyra.Granted, palyra.Judged} {
		c := &palyra.Call{ID: palyra.CallID("C" + string(state)), Proposal: p, State: state, Tool: palyra.Tool{Name: "t"}}
		if _, err := w.ledger.Record(t.Context(), c, palyra.CallProposed{Call: c.ID}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.calls.Recover(t.Context(), yes); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[palyra.CallID]palyra.OutcomeKind{"Cgranted": palyra.OutcomeUnknown, "Cjudged": palyra.OutcomeRefused} {
		c, err := w.calls.Get(t.Context(), id)
		if err != nil || c.Outcome == nil || c.Outcome.Outcome != want {
			t.Errorf("%s: %+v, %v", id, c, err)
		}
	}
	if len(w.parts.started) != 0 {
		t.Error("recovery ran something")
	}
}

// A stale copy of a pending call must never make it run again.
func TestStaleResumeDoesNotRunTwice(t *testing.T) {
	w := newWorld(t)
	ch := w.call(t.Context(), w.proposal(`{"ask":true,"hold":true}`))
	id := <-w.parts.asked
	calls, _ := w.ledger.waitingFor(t.Context(), id)
	stale := *calls[0]
	w.allow(id, stale.Digest)
	<-w.parts.started

	// While it runs, another walk tries with the stale copy.
	w2 := stale
	if _, err := w.calls.gate.Resume(t.Context(), &w2, gate.Watcher{}); palyra.CodeOf(err) != palyra.Conflict {
		t.Errorf("resume of a running call: %v", err)
	}
	close(w.parts.proceed)
	<-ch
	w3 := stale
	if _, err := w.calls.gate.Resume(t.Context(), &w3, gate.Watcher{}); palyra.CodeOf(err) != palyra.Conflict {
		t.Errorf("resume of a finished call: %v", err)
	}
	if len(w.parts.started) != 0 {
		t.Error("it ran twice")
	}
}

func TestListPages(t *testing.T) {
	w := newWorld(t)
	var ids []palyra.CallID
	for range 5 {
		out, err := w.calls.Call(t.Context(), w.proposal(`{}`), palyra.Watch{})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, out.CallID)
	}
	page, more, err := w.calls.List(t.Context(), palyra.CallFilter{Reach: operator, Principal: "agent:test", Limit: 2})
	if err != nil || len(page) != 2 || more != page[1].ID || page[0].ID != ids[4] {
		t.Fatalf("%v, %v", page, err)
	}
	page, more, _ = w.calls.List(t.Context(), palyra.CallFilter{Reach: operator, Cursor: string(more)})
	if len(page) != 3 || more != "" || page[0].ID != ids[2] {
		t.Errorf("second page %v", page)
	}
	if page, _, _ = w.calls.List(t.Context(), palyra.CallFilter{Reach: operator, Principal: "agent:other"}); len(page) != 0 {
		t.Errorf("another's calls: %v", page)
	}
}

func TestBadKey(t *testing.T) {
	w := newWorld(t)
	for _, k := range []string{"a\x00b", "\xff", string(make([]byte, maxKey+1))} {
		p := w.proposal(`{}`)
		p.Key = k
		if _, err := w.calls.Call(t.Context(), p, palyra.Watch{}); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%.10q: %v", k, err)
		}
	}
}

// A list is bounded in bytes, whatever agents put into their calls.
func TestListLeavesOutWhatIsLarge(t *testing.T) {
	w := newWorld(t)
	big := `{"text":"` + strings.Repeat("x", 3<<20) + `"}`
	var last palyra.CallID
	for range 4 {
		out, err := w.calls.Call(t.Context(), w.proposal(big), palyra.Watch{})
		if err != nil {
			t.Fatal(err)
		}
		last = out.CallID
	}
	var seen int
	f := palyra.CallFilter{Reach: operator, Limit: 100}
	for {
		page, more, err := w.calls.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range page {
			seen++
			if len(c.Proposal.Arguments) > maxShown || len(c.Plan.Arguments) > maxShown {
				t.Errorf("%d bytes of arguments listed", len(c.Proposal.Arguments))
			}
		}
		if more == "" {
			break
		}
		f.Cursor = string(more)
	}
	if seen != 4 {
		t.Errorf("%d calls listed", seen)
	}
	c, err := w.calls.Get(t.Context(), last) // an ended call keeps little of what was large
	if err != nil || c.State != palyra.Finished || len(c.Proposal.Arguments) > maxKept {
		t.Errorf("%s with %d bytes, %v", c.State, len(c.Proposal.Arguments), err)
	}
}

// One principal's calls must not take the place of the others'.
func TestEachPrincipalIsBounded(t *testing.T) {
	w := newWorld(t)
	w.parts.asked = make(chan palyra.ApprovalID, 1000)
	p := w.proposal(`{"ask":true}`)
	for i := range maxEach {
		q := p
		q.Arguments = json.RawMessage(fmt.Sprintf(`{"ask":true,"n":%d}`, i))
		w.call(t.Context(), q)
		<-w.parts.asked
	}
	if _, err := w.calls.Call(t.Context(), p, palyra.Watch{}); palyra.CodeOf(err) != palyra.Exhausted {
		t.Errorf("call %d: %v", maxEach+1, err)
	}
	other := w.proposal(`{}`)
	other.Principal = "agent:other"
	if _, err := w.calls.Call(t.Context(), other, palyra.Watch{}); err != nil {
		t.Errorf("another principal: %v", err)
	}
	w.calls.CancelAll("agent:test")
	large := w.proposal(`{"ask":true,"text":"` + strings.Repeat("x", maxEachBytes) + `"}`)
	large.Principal = "agent:large"
	if _, err := w.calls.Call(t.Context(), large, palyra.Watch{}); palyra.CodeOf(err) != palyra.Exhausted {
		t.Errorf("too many bytes: %v", err)
	}
}

// A lease that ends between the commit of the grant and the start of the run
// stops the run all the same.
func TestLeaseEndedBeforeTheRunIsKnown(t *testing.T) {
	w := newWorld(t)
	w.calls.lease = func(context.Context, palyra.LeaseID) (palyra.Lease, error) {
		return palyra.Lease{Ended: "revoked"}, nil
	}
	ch := w.call(t.Context(), w.proposal(`{"ask":true,"hold":true}`))
	id := <-w.parts.asked
	calls, _ := w.ledger.waitingFor(t.Context(), id)
	w.allow(id, calls[0].Digest)
	if r := <-ch; r.err != nil || r.out.Outcome != palyra.OutcomeCancelled {
		t.Fatalf("%+v", r)
	}
}

func TestKeyInAnotherWorkspaceIsAnotherCall(t *testing.T) {
	w := newWorld(t)
	s, err := w.sessions.Resolve(t.Context(), w.proposal(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	p := w.proposal(`{}`)
	p.Session, p.Key = s.ID, "k"
	if _, err := w.calls.Call(t.Context(), p, palyra.Watch{}); err != nil {
		t.Fatal(err)
	}
	p.Workspace = "/elsewhere"
	if _, err := w.calls.Call(t.Context(), p, palyra.Watch{}); palyra.AsError(err).Reason != palyra.ReasonIdempotencyReused {
		t.Error(err)
	}
}

// A call that was allowed while the disk was full goes on when there is room
// again, once and without a restart.
func TestAllowedOnAFullDiskGoesOnLater(t *testing.T) {
	w := newWorld(t)
	w.calls.rest = time.Millisecond
	w.parts.full = 3
	ch := w.call(t.Context(), w.proposal(`{"ask":true}`))
	id := <-w.parts.asked
	calls, _ := w.ledger.waitingFor(t.Context(), id)
	w.allow(id, calls[0].Digest)
	if r := <-ch; palyra.AsError(r.err).Reason != palyra.ReasonDiskFull {
		t.Fatalf("%+v", r)
	}
	if got := <-w.parts.started; got != calls[0].ID {
		t.Errorf("%s ran, want %s", got, calls[0].ID)
	}
	w.calls.Stop()
	if c, err := w.ledger.Get(t.Context(), calls[0].ID); err != nil || !c.State.Ended() || len(w.parts.started) != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

// A call whose end the disk had no room for does not stay granted: it is given up
// as soon as that can be recorded, without a restart and without a second run.
func TestAnEndThatCouldNotBeRecordedIsMadeUpFor(t *testing.T) {
	w := newWorld(t)
	w.calls.rest = time.Millisecond
	w.parts.fullEnd = 3
	if r := <-w.call(t.Context(), w.proposal(`{}`)); palyra.AsError(r.err).Reason != palyra.ReasonDiskFull {
		t.Fatalf("%+v", r)
	}
	id := <-w.parts.started
	if gone := <-w.parts.gone; gone != id {
		t.Errorf("%s was given up, want %s", gone, id)
	}
	w.calls.Stop()
	c, err := w.ledger.Get(t.Context(), id)
	if err != nil || c.State != palyra.Unknown || c.Outcome == nil || c.Outcome.Outcome != palyra.OutcomeUnknown || len(w.parts.started) != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

// A call that an earlier daemon asked about is repeated with its key: pending,
// under way and ended it is the same call, whatever its arguments look like, and
// what is attested is the digest of the bytes that were sent.
func TestARepeatAfterARestartIsTheSameCall(t *testing.T) {
	w := newWorld(t)
	p := w.proposal("{ \"ask\":true,\t\"hold\": true,\n \"print\": [\"a > b < c & d \u2028\"] }")
	s, err := w.sessions.Resolve(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	p.Session, p.Key = s.ID, "k"
	first := w.call(t.Context(), p)
	id := <-w.parts.asked
	w.restart()
	<-first
	calls, err := w.ledger.waitingFor(t.Context(), id)
	if err != nil || len(calls) != 1 {
		t.Fatal(calls, err)
	}
	w.allow(id, calls[0].Digest)
	w.calls.ApprovalSettled(id)
	if got := <-w.parts.started; got != calls[0].ID {
		t.Fatalf("%s runs, want %s", got, calls[0].ID)
	}
	again := w.call(t.Context(), p) // while it runs
	other := p
	other.Arguments = json.RawMessage(`{"ask":true}`)
	if r := <-w.call(t.Context(), other); palyra.AsError(r.err).Reason != palyra.ReasonIdempotencyReused {
		t.Errorf("another request with the key: %+v", r)
	}
	close(w.parts.proceed)
	for _, r := range []result{<-again, <-w.call(t.Context(), p)} {
		if r.err != nil || r.out.CallID != calls[0].ID || r.out.Outcome != palyra.OutcomeFinished {
			t.Errorf("%+v", r)
		}
	}
	if d, _ := w.parts.inputs.Load(calls[0].ID); d != palyra.SumBytes(p.Arguments) {
		t.Errorf("attested input %v", d)
	}
	if len(w.parts.started) != 0 {
		t.Error("it ran twice")
	}
}
