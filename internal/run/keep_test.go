package run

import (
	"context"
	"errors"
	"testing"

	"palyra"
	"palyra/internal/gate"
)

// A question about what a call changed outlives the daemon: the answer settles it, with the output of the run, and
// nothing runs again.
func TestHeldChangesOutliveTheDaemon(t *testing.T) {
	for name, answer := range map[string]palyra.Answer{"kept": palyra.AnswerAllow, "dropped": palyra.AnswerDeny} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ch := w.call(t.Context(), w.proposal(`{"weigh":true,"print":["hello"]}`))
			question := <-w.parts.asked
			id := <-w.parts.started
			w.close()
			if r := <-ch; !errors.Is(r.err, gate.ErrStopping) {
				t.Fatalf("%+v", r)
			}

			w.open()
			if err := w.calls.Recover(t.Context(), no); err != nil {
				t.Fatal(err)
			}
			if n := w.calls.InFlight(); n != 0 {
				t.Errorf("%d calls that wait hold memory", n)
			}
			held, err := w.ledger.Get(t.Context(), id)
			if err != nil || held.State != palyra.Settling || held.Keep.Approval != question {
				t.Fatalf("%+v, %v", held, err)
			}
			w.parts.channel(question) <- palyra.Decision{Approval: question, Answer: answer, Digest: held.Keep.Digest, Lease: "L"}
			w.calls.ApprovalSettled(question)
			if got := <-w.parts.settled; got.call != id || got.keep != (answer == palyra.AnswerAllow) {
				t.Errorf("settled as %+v", got)
			}
			out, err := w.calls.Watch(t.Context(), id, palyra.Watch{})
			if err != nil || out.Stdout != "hello" || (out.Effects == palyra.EffectsKept) != (answer == palyra.AnswerAllow) {
				t.Errorf("%+v, %v", out, err)
			}
			if len(w.parts.started) != 0 {
				t.Error("it ran again")
			}
			if c, err := w.ledger.Get(t.Context(), id); err != nil || c.State != palyra.Finished ||
				c.Keep == nil || c.Keep.Result != nil || c.Approval != "" {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
}

// A daemon that died before the end of a call was on record cannot say how it ended, but what became of its changes: as
// its stage says, and where it does not, nothing is said. What cannot be told yet stays for the next start.
func TestChangesWithoutAQuestionAreGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		became palyra.Result
		says   string
	}{
		"kept":     {palyra.Result{Effects: palyra.EffectsKept}, "; what it changed in its workspace was kept"},
		"dropped":  {palyra.Result{Effects: palyra.EffectsDropped}, "; nothing that it changed in its workspace was kept"},
		"conflict": {palyra.Result{Effects: palyra.EffectsConflict, Failure: &palyra.Refusal{Text: "somebody else"}}, "; somebody else"},
		"unknown":  {palyra.Result{}, ", and what became of its changes"},
		"broken":   {palyra.Result{Refusal: &palyra.Refusal{Text: "not there"}}, ", and what became of its changes"},
		"stopping": {palyra.Result{Refusal: &palyra.Refusal{Reason: palyra.ReasonStopping}}, ""},
	} {
		t.Run(name, func(t *testing.T) { changesAreGivenUp(t, c.became, c.says) })
	}
}

func changesAreGivenUp(t *testing.T, became palyra.Result, says string) {
	w := newWorld(t)
	s, err := w.sessions.Resolve(t.Context(), w.proposal(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	p := w.proposal(`{}`)
	p.Session = s.ID
	c := &palyra.Call{ID: "C", Proposal: p, State: palyra.Settling, Tool: palyra.Tool{Name: "t"}}
	c.Keep = &palyra.Keep{Effects: palyra.Effects{Created: 1}}
	if _, err := w.ledger.Record(t.Context(), c, palyra.CallSettling{Call: c.ID}); err != nil {
		t.Fatal(err)
	}
	var swept []palyra.State
	w.calls.cutOff = func(_ context.Context, c *palyra.Call) palyra.Result {
		swept = append(swept, c.State)
		return became
	}
	told := 0
	w.calls.settled = func(c *palyra.Call) { told++ }
	err = w.calls.Recover(t.Context(), yes)
	if len(swept) != 1 || swept[0] != palyra.Settling {
		t.Errorf("swept %v", swept)
	}
	c, readErr := w.ledger.Get(t.Context(), "C")
	if readErr != nil {
		t.Fatal(readErr)
	}
	if says == "" {
		if err == nil || c.State != palyra.Settling || told != 0 {
			t.Errorf("%+v, %v, told %d times", c, err, told)
		}
		return
	}
	if err != nil || c.State != palyra.Unknown || c.Outcome.Outcome != palyra.OutcomeUnknown || told != 1 ||
		c.Outcome.Effects != became.Effects || c.Outcome.Changes == nil || c.Outcome.Changes.Created != 1 ||
		c.Outcome.Reason != "the daemon died before it was on record how the call ended"+says {
		t.Errorf("%+v, %v, told %d times", c.Outcome, err, told)
	}
}

// Whoever cancels a call whose changes are asked about gets none of them kept.
func TestCancelDropsHeldChanges(t *testing.T) {
	w := newWorld(t)
	ch := w.call(t.Context(), w.proposal(`{"weigh":true}`))
	question := <-w.parts.asked
	id := <-w.parts.started
	w.calls.LeaseEnded("L") // nothing runs under it any more
	if err := w.calls.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if r := <-ch; r.err != nil || r.out.Effects != palyra.EffectsDropped {
		t.Fatalf("%+v", r)
	}
	if got := <-w.parts.settled; got.keep || len(w.parts.withdrew) != 1 || w.parts.withdrew[0] != question {
		t.Errorf("%+v, withdrawn %v", got, w.parts.withdrew)
	}
}
