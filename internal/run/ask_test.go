package run

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
)

// asker is a call that runs until it is cancelled, and what those who follow it hear.
func (w *world) asker() (call *palyra.Call, heard <-chan palyra.Event, ended <-chan result) {
	w.t.Helper()
	events, done := make(chan palyra.Event, 64), make(chan result, 1)
	go func() {
		out, err := w.calls.Call(w.t.Context(), w.proposal(`{"hold":true}`),
			palyra.Watch{Event: func(_ *palyra.Call, e palyra.Event) { events <- e }})
		done <- result{out, err}
	}()
	call, err := w.calls.Get(w.t.Context(), <-w.parts.started)
	if err != nil {
		w.t.Fatal(err)
	}
	return call, events, done
}

type answered struct {
	Answer
	err error
}

// ask lets a call ask, and returns the approval that people are asked for.
func (w *world) ask(ctx context.Context, parent *palyra.Call) (palyra.ApprovalID, <-chan answered) {
	w.t.Helper()
	done := make(chan answered, 1)
	go func() {
		a, err := w.calls.Ask(ctx, parent, "palyra.net.allow", json.RawMessage(`{"ask":true}`), "a program")
		done <- answered{a, err}
	}()
	return <-w.parts.asked, done
}

// say settles an approval as the answer of a lease; the lease's name is the approval's.
func (w *world) say(approval palyra.ApprovalID, answer palyra.Answer, scope palyra.Scope) *palyra.Call {
	w.t.Helper()
	calls, err := w.ledger.waitingFor(w.t.Context(), approval)
	if err != nil || len(calls) != 1 {
		w.t.Fatalf("%d calls wait, %v", len(calls), err)
	}
	w.parts.channel(approval) <- palyra.Decision{
		Approval: approval, Answer: answer, Scope: scope, Lease: palyra.LeaseID(approval),
		Digest: calls[0].Digest,
	}
	return calls[0]
}

func told(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// What a call asks for is a call of its own, in the name of the one that asked. Who
// follows that one hears the question, and a yes for once holds as long as it runs.
func TestAskIsACallOfItsOwn(t *testing.T) {
	w := newWorld(t)
	parent, heard, _ := w.asker()
	approval, done := w.ask(t.Context(), parent)
	for e := range heard {
		if a, ok := e.(palyra.ApprovalRequested); ok && a.Approval == approval {
			break
		}
	}
	child := w.say(approval, palyra.AnswerAllow, palyra.ScopeOnce)
	p := child.Proposal
	if p.Parent != parent.ID || len(p.Line) != 1 || p.Line[0] != parent.ID || p.Session != parent.Proposal.Session ||
		p.Principal != parent.Proposal.Principal || p.Purpose != "a program" || p.Tool != "palyra.net.allow" {
		t.Errorf("%+v", p)
	}
	if a := <-done; a.err != nil || a.Grant != palyra.GrantID(approval) || a.Revoked != nil || !a.Until.IsZero() {
		t.Errorf("%+v", a)
	}
}

// A no is denied in the words of whoever said it.
func TestAskIsDenied(t *testing.T) {
	w := newWorld(t)
	parent, _, _ := w.asker()
	approval, done := w.ask(t.Context(), parent)
	w.say(approval, palyra.AnswerDeny, "")
	if a := <-done; palyra.CodeOf(a.err) != palyra.Denied || palyra.AsError(a.err).Reason != palyra.ReasonApprovalDenied ||
		palyra.AsError(a.err).Remedy == "" {
		t.Errorf("%+v", a)
	}
	parent.Proposal.NoWait = true
	if _, err := w.calls.Ask(t.Context(), parent, "t", json.RawMessage(`{}`), ""); palyra.CodeOf(err) != palyra.Denied {
		t.Error(err)
	}
}

// The clock of the one that asks stands still while people are asked, and not while
// policy answers by itself.
func TestAskStopsTheClock(t *testing.T) {
	w := newWorld(t)
	parent, _, _ := w.asker()
	var paused, resumed atomic.Int64
	w.calls.mu.Lock()
	w.calls.byID[parent.ID].underway.pause = func() func() {
		paused.Add(1)
		return func() { resumed.Add(1) }
	}
	w.calls.mu.Unlock()
	if _, err := w.calls.Ask(t.Context(), parent, "t", json.RawMessage(`{}`), ""); err != nil || paused.Load() != 0 {
		t.Errorf("stopped %d times, %v", paused.Load(), err)
	}
	<-w.parts.started
	approval, done := w.ask(t.Context(), parent)
	w.say(approval, palyra.AnswerAllow, palyra.ScopeOnce)
	if a := <-done; a.err != nil || paused.Load() != 1 || resumed.Load() != 1 {
		t.Errorf("stopped %d times, set going %d times, %v", paused.Load(), resumed.Load(), a.err)
	}
}

// The answer of a lease ends with it.
func TestAskGoesByItsLease(t *testing.T) {
	w := newWorld(t)
	until := time.Now().Add(time.Hour)
	ends := palyra.LeaseEnd("")
	w.calls.lease = func(_ context.Context, id palyra.LeaseID) (palyra.Lease, error) {
		return palyra.Lease{ID: id, ExpiresAt: until, Ended: ends}, nil
	}
	parent, _, _ := w.asker()
	approval, done := w.ask(t.Context(), parent)
	w.say(approval, palyra.AnswerAllow, palyra.ScopeSession)
	a := <-done
	if a.err != nil || !a.Until.Equal(until) || a.Revoked == nil || told(a.Revoked) {
		t.Fatalf("%+v", a)
	}
	w.calls.LeaseEnded(palyra.LeaseID(approval))
	if !told(a.Revoked) {
		t.Error("nobody was told that the lease has ended")
	}
	approval, done = w.ask(t.Context(), parent)
	ends = palyra.LeaseSpent // by this answer
	w.say(approval, palyra.AnswerAllow, palyra.ScopeSession)
	if a := <-done; a.err != nil {
		t.Errorf("one that is used up: %v", a.err)
	}
	gone := errors.New("gone")
	w.calls.lease = func(context.Context, palyra.LeaseID) (palyra.Lease, error) { return palyra.Lease{}, gone }
	approval, done = w.ask(t.Context(), parent)
	w.say(approval, palyra.AnswerAllow, palyra.ScopeSession)
	if a := <-done; a.err == nil {
		t.Error("a lease that cannot be looked at is one to go by")
	}
}

// A question is withdrawn when whoever asked gives up, or is over; who is over asks
// nothing more, and nothing is kept for it.
func TestAskEndsWithItsCall(t *testing.T) {
	w := newWorld(t)
	parent, _, ended := w.asker()
	ctx, giveUp := context.WithCancel(t.Context())
	first, gaveUp := w.ask(ctx, parent)
	second, left := w.ask(t.Context(), parent)
	giveUp()
	if a := <-gaveUp; !errors.Is(a.err, context.Canceled) {
		t.Errorf("%+v", a)
	}
	if calls, err := w.ledger.waitingFor(t.Context(), first); err != nil || len(calls) != 0 {
		t.Errorf("%d calls still wait, %v", len(calls), err)
	}
	if calls, err := w.ledger.waitingFor(t.Context(), second); err != nil || len(calls) != 1 {
		t.Errorf("%d calls wait for the other, %v", len(calls), err)
	}
	if err := w.calls.Cancel(t.Context(), parent.ID); err != nil {
		t.Error(err)
	}
	<-ended
	if a := <-left; palyra.CodeOf(a.err) != palyra.Denied || palyra.AsError(a.err).Reason != palyra.ReasonCancelled {
		t.Errorf("%+v", a)
	}
	before := w.tape.count(palyra.CallProposed{}.Kind())
	if _, err := w.calls.Ask(t.Context(), parent, "t", json.RawMessage(`{}`), ""); palyra.CodeOf(err) != palyra.Expired {
		t.Error(err)
	}
	if w.tape.count(palyra.CallProposed{}.Kind()) != before || w.calls.runs(parent.ID) != nil {
		t.Error("a call that is over still asks")
	}
}

// Whoever goes by a lease hears of its end, once for all.
func TestLeasesTellTheirRuns(t *testing.T) {
	w := newWorld(t)
	one, two := w.parent(), w.parent()
	a, b, other := w.calls.goesBy(one, "LEASE"), w.calls.goesBy(two, "LEASE"), w.calls.goesBy(one, "OTHER")
	w.calls.LeaseEnded("NOBODY")
	w.calls.LeaseEnded("LEASE")
	w.calls.LeaseEnded("LEASE")
	if !told(a) || !told(b) || told(other) {
		t.Errorf("told: %v, %v; the other: %v", told(a), told(b), told(other))
	}
}

// Nothing is kept for runs that are over, though a lease that was used up is never
// told to have ended.
func TestLeasesForgetRunsThatAreOver(t *testing.T) {
	w := newWorld(t)
	over, stays := w.parent(), w.parent()
	w.calls.goesBy(over, "SPENT")
	w.calls.goesBy(over, "SHARED")
	still := w.calls.goesBy(stays, "SHARED")
	if err := w.calls.Cancel(t.Context(), over); err != nil {
		t.Error(err)
	}
	w.calls.LeaseEnded("SHARED")
	if !told(still) {
		t.Error("the run that goes on was not told")
	}
	if w.calls.goesBy(over, "LATE") != nil || w.calls.runs(over) != nil {
		t.Error("a run that is over still watches, or has a clock")
	}
}
