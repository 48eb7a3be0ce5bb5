package client_test

import (
	"context"
	"slices"
	"testing"

	"palyra"
	"palyra/client"
)

func TestWatchCall(t *testing.T) {
	b := newBench(t)
	b.parts.OnWatch = func(_ context.Context, id palyra.CallID, w palyra.Watch) (palyra.Outcome, error) {
		c := &palyra.Call{ID: id, Digest: "sha256:01"}
		w.Event(c, palyra.CallProposed{Call: id, Session: "S1"}) // the door has said so already
		w.Event(c, palyra.ApprovalJoined{Approval: "A1", Call: id})
		c.Decision = palyra.Decision{Approval: "A1", Answer: palyra.AnswerAllow, By: "user:ann"}
		w.Event(c, palyra.CallJudged{Call: id, Again: true})
		w.Running(c)
		return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: id, Stdout: "late"}, nil
	}
	var got []string
	out, err := b.agent().WatchCall(t.Context(), "C7", func(e client.CallEvent) {
		switch {
		case e.Accepted != nil:
			got = append(got, "accepted "+string(e.Accepted.CallID))
		case e.ApprovalRequested != nil:
			got = append(got, "asked "+string(e.ApprovalRequested.ApprovalID))
		case e.ApprovalResolved != nil:
			got = append(got, "resolved "+string(e.ApprovalResolved.Answer))
		case e.Running != nil:
			got = append(got, "running")
		}
	})
	if err != nil || out.CallID != "C7" || out.Stdout != "late" {
		t.Fatalf("%+v %v", out, err)
	}
	if want := []string{"accepted C7", "asked A1", "resolved allow", "running"}; !slices.Equal(got, want) {
		t.Errorf("heard %v", got)
	}
	if out, err := b.operator().WatchCall(t.Context(), "other", nil); err != nil || out.CallID != "other" {
		t.Errorf("an operator: %+v %v", out, err)
	}
}

// An agent learns nothing of others' calls, not even that they exist.
func TestWatchCallOfAnother(t *testing.T) {
	b := newBench(t)
	if _, err := b.agent().WatchCall(t.Context(), "other", nil); reason(err) != palyra.ReasonNotFound {
		t.Errorf("%v", err)
	}
	for _, what := range b.parts.Seen() {
		if what == "watch other" {
			t.Error("it was watched")
		}
	}
}

func TestWatchCallFails(t *testing.T) {
	b := newBench(t)
	b.parts.OnWatch = func(context.Context, palyra.CallID, palyra.Watch) (palyra.Outcome, error) {
		return palyra.Outcome{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the daemon is stopping")
	}
	if _, err := b.agent().WatchCall(t.Context(), "C1", nil); reason(err) != palyra.ReasonStopping {
		t.Errorf("%v", err)
	}
}
