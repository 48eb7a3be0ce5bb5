package run

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"palyra"
)

const fetches = `{"egress":["a.test:80"],"flows":[{"host":"a.test","port":80,"address":"192.0.2.1","bytes_in":9,"bytes_out":7,"verdict":"allow"}]}`

// both is what a connection leaves behind.
var both = []string{palyra.LabelSent, palyra.LabelUntrusted}

// done runs a call to its end.
func (w *world) done(p palyra.Proposal) palyra.Outcome {
	w.t.Helper()
	out, err := w.calls.Call(w.t.Context(), p, palyra.Watch{})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) labels(session palyra.SessionID) []string {
	w.t.Helper()
	s, err := w.sessions.Get(w.t.Context(), session)
	if err != nil {
		w.t.Fatal(err)
	}
	return s.Labels
}

// lines returns the lines of the journal that label a session.
func (w *world) lines(session palyra.SessionID) (all []palyra.SessionLabeled) {
	w.tape.mu.Lock()
	defer w.tape.mu.Unlock()
	for _, e := range w.tape.events {
		if l, ok := e.(palyra.SessionLabeled); ok && l.Session == session {
			all = append(all, l)
		}
	}
	return all
}

func (w *world) wantLabels(session palyra.SessionID, want ...string) {
	w.t.Helper()
	if got := w.labels(session); !slices.Equal(got, want) {
		w.t.Errorf("the session has %v, want %v", got, want)
	}
}

func TestWhatACallDidStaysWithItsSession(t *testing.T) {
	w := newWorld(t)
	other := w.proposal(`{}`)
	other.Session = "other"
	first := w.done(w.proposal(`{}`))
	w.wantLabels(first.SessionID)
	fetch := w.done(w.proposal(fetches))
	w.wantLabels(first.SessionID, both...)
	if l := w.lines(first.SessionID); len(l) != 1 || l[0].Call != fetch.CallID || !slices.Equal(l[0].Labels, both) {
		t.Errorf("the journal has %+v", l)
	}
	w.done(w.proposal(`{}`))
	if got := w.parts.last().Labels; !slices.Equal(got, both) {
		t.Errorf("the next call was judged with %v", got)
	}
	w.done(w.proposal(fetches))
	w.done(w.proposal(`{"secrets":["npm"]}`))
	w.wantLabels(first.SessionID, palyra.LabelSent, palyra.LabelSecret, palyra.LabelUntrusted)
	if l := w.lines(first.SessionID); len(l) != 2 || !slices.Equal(l[1].Labels, []string{palyra.LabelSecret}) {
		t.Errorf("a label is told more than once: %+v", l)
	}
	w.wantLabels(w.done(other).SessionID)
	if got := w.parts.last().Labels; len(got) > 0 {
		t.Errorf("another session's call was judged with %v", got)
	}
	w.restart()
	w.done(w.proposal(`{}`))
	if got := w.parts.last().Labels; len(got) != 3 {
		t.Errorf("after a restart a call was judged with %v", got)
	}
}

// What a client says of labels counts for nothing.
func TestLabelsAreNotTheCallersToGive(t *testing.T) {
	w := newWorld(t)
	p := w.proposal(`{}`)
	p.Labels = []string{"clean", palyra.LabelSecret}
	out := w.done(p)
	w.wantLabels(out.SessionID)
	if got := w.parts.last().Labels; len(got) > 0 {
		t.Errorf("judged with %v", got)
	}
}

// A call that waits for an answer is judged again with what happened meanwhile.
func TestAWaitingCallSeesWhatHappenedMeanwhile(t *testing.T) {
	w := newWorld(t)
	id, done := w.asked(w.proposal(`{"ask":true}`))
	if got := w.parts.last().Labels; len(got) > 0 {
		t.Fatalf("first judged with %v", got)
	}
	w.done(w.proposal(fetches))
	call, err := w.calls.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	w.allow(call.Approval, call.Digest)
	if r := <-done; r.err != nil {
		t.Fatal(r.err)
	}
	if r := w.parts.last(); r.Call != id || r.Approval == nil || !slices.Equal(r.Labels, both) {
		t.Errorf("judged again with %v", r.Labels)
	}
	if call, err = w.calls.Get(t.Context(), id); err != nil || !slices.Equal(call.Proposal.Labels, both) {
		t.Errorf("on record are %v, %v", call.Proposal.Labels, err)
	}
}

// A call under way shows what it reads before it ends: it counts by its plan, and
// no longer when it turns out to have done nothing.
func TestACallUnderWayCountsByItsPlan(t *testing.T) {
	w := newWorld(t)
	ch := w.call(t.Context(), w.proposal(`{"hold":true,"egress":["a.test:80"]}`))
	<-w.parts.started
	out := w.done(w.proposal(`{}`))
	if got := w.parts.last().Labels; !slices.Equal(got, both) {
		t.Errorf("judged with %v", got)
	}
	w.wantLabels(out.SessionID)
	w.parts.proceed <- struct{}{}
	if r := <-ch; r.err != nil {
		t.Fatal(r.err)
	}
	w.wantLabels(out.SessionID)
	w.done(w.proposal(`{}`))
	if got := w.parts.last().Labels; len(got) > 0 {
		t.Errorf("what did not happen is held against the session: %v", got)
	}
}

// The end of a call that nobody saw is taken to be the worst that its plan allows.
func TestAnUnknownEndCountsByItsPlan(t *testing.T) {
	w := newWorld(t)
	session := w.done(w.proposal(`{}`)).SessionID
	<-w.parts.started
	w.call(context.Background(), w.proposal(`{"hold":true,"egress":["a.test:80"],"secrets":["npm"]}`))
	id := <-w.parts.started
	call, err := w.ledger.Get(t.Context(), id) // as a daemon that was killed leaves it
	if err != nil {
		t.Fatal(err)
	}
	if err := w.calls.giveUp(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	w.wantLabels(session, palyra.LabelSent, palyra.LabelSecret, palyra.LabelUntrusted)
	if l := w.lines(session); len(l) != 1 || l[0].Call != id {
		t.Errorf("the journal has %+v", l)
	}
}

// What a call out of a run does is done in the session of that run as well, and
// what that session did is known to the call.
func TestACallOutOfARunLabelsTheRunsSession(t *testing.T) {
	w := newWorld(t)
	p := w.proposal(`{"hold":true,"secrets":["npm"]}`)
	w.call(t.Context(), p)
	parent := <-w.parts.started
	call, err := w.ledger.Get(t.Context(), parent)
	if err != nil {
		t.Fatal(err)
	}
	child := w.proposal(fetches)
	child.Session, child.Parent = "inside", parent
	out := w.done(child)
	if got := w.parts.last().Labels; !slices.Equal(got, []string{palyra.LabelSecret}) {
		t.Errorf("the child was judged with %v", got)
	}
	w.wantLabels(out.SessionID, both...)
	w.wantLabels(call.Proposal.Session, both...)
	grandchild := w.proposal(`{"secrets":["npm"]}`)
	grandchild.Session, grandchild.Parent = "deep", out.CallID
	w.wantLabels(w.done(grandchild).SessionID, palyra.LabelSecret)
	w.wantLabels(call.Proposal.Session, palyra.LabelSent, palyra.LabelSecret, palyra.LabelUntrusted)
}

// A parent that is not on record cannot be asked what it did.
func TestLabelsThatCannotBeReadDeny(t *testing.T) {
	w := newWorld(t)
	p := w.proposal(`{}`)
	p.Parent = "01J9Z8Q2V5T6Y7W8X9A0B1C2D3"
	if out := w.done(p); out.Outcome != palyra.OutcomeRefused || out.ReasonCode != palyra.ReasonPolicyError {
		t.Errorf("%+v", out)
	}
}

// Whatever cuts a record short, the labels and the end of the call are there
// together or not at all.
func TestLabelsComeWithTheEndOfTheCall(t *testing.T) {
	w := newWorld(t)
	out := w.done(w.proposal(fetches))
	call, err := w.ledger.Get(t.Context(), out.CallID)
	if err != nil {
		t.Fatal(err)
	}
	w.tape.mu.Lock()
	defer w.tape.mu.Unlock()
	last := len(w.tape.events) - 1
	f, ok := w.tape.events[last-1].(palyra.CallFinished)
	if !ok || f.Call != call.ID || !slices.Equal(f.Labels, both) || w.tape.events[last].Kind() != "session.labeled" {
		b, _ := json.Marshal(w.tape.events[last-1:])
		t.Errorf("the journal ends with %s", b)
	}
}

// What the agent does itself after a check is seen by nobody: the session has what the
// plan lets it do.
func TestACheckCountsByItsPlan(t *testing.T) {
	w := newWorld(t)
	p := w.proposal(fetches)
	p.Check = true
	out := w.done(p)
	if out.Outcome != palyra.OutcomeAllowed {
		t.Fatalf("%+v", out)
	}
	w.wantLabels(out.SessionID, both...)
	quiet := w.proposal(`{}`)
	quiet.Check, quiet.Session = true, "quiet"
	w.wantLabels(w.done(quiet).SessionID)
}
