package approval

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

func TestSettledIsToldAndKnown(t *testing.T) {
	w := newWorld(t)
	var told []palyra.ApprovalID
	w.desk.OnSettled(func(id palyra.ApprovalID) { told = append(told, id) })
	state := func(id palyra.ApprovalID, settled bool, pending int64) {
		t.Helper()
		got, err := w.desk.Settled(t.Context(), id)
		if err != nil || got != settled {
			t.Errorf("settled %v, %v", got, err)
		}
		if n, err := w.desk.CountPending(t.Context()); err != nil || n != pending {
			t.Errorf("%d pending, want %d, %v", n, pending, err)
		}
	}
	a := w.ask(call(t, "src/a.txt", withNeed(palyra.Need{Votes: 2})))
	b := w.ask(call(t, "src/b.txt"))
	w.decide(a, palyra.AnswerAllow)
	state(a.ID, false, 2)
	w.journal.fail = func(palyra.Event) error { return errors.New("no journal") }
	if _, err := w.desk.Decide(t.Context(), vote(b, palyra.AnswerDeny)); err == nil || len(told) != 0 {
		t.Errorf("told %v of what is not durable, %v", told, err)
	}
	w.journal.fail = nil
	w.decide(a, palyra.AnswerAllow, from("user:bob"))
	state(a.ID, true, 1)
	w.pass(5 * time.Minute)
	if _, err := w.desk.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	state(b.ID, true, 0)
	if len(told) != 2 || told[0] != a.ID || told[1] != b.ID {
		t.Errorf("told %v", told)
	}
	if _, err := w.desk.Settled(t.Context(), palyra.ApprovalID(newID())); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("no such approval: %v", err)
	}
}

// A decision carries the terms of the lease it left, to those who wait for it,
// who look it up, and whom it covers later; evidence of a run rests on them.
func TestDecisionsCarryTheirTerms(t *testing.T) {
	for name, c := range map[string]struct {
		options []voteOption
		covers  string // another plan
	}{
		"once":    {nil, ""},
		"session": {[]voteOption{scoped(palyra.ScopeSession)}, ""},
		"widened": {[]voteOption{scoped(palyra.ScopeSession), widened(palyra.WidenPathRoot)}, "src/b.txt"},
	} {
		w := newWorld(t)
		first := call(t, "src/a.txt")
		a := w.ask(first)
		decided := w.decide(a, palyra.AnswerAllow, c.options...).Decision
		lease, err := w.desk.Lease(t.Context(), decided.Lease)
		if err != nil {
			t.Fatal(err)
		}
		if exact := lease.Terms.PlanDigest == first.Digest; exact != (c.covers == "") || lease.Terms.Principal != first.Proposal.Principal {
			t.Errorf("%s: terms %+v", name, lease.Terms)
		}
		waited, err := w.desk.Wait(t.Context(), a.ID)
		if err != nil {
			t.Fatal(err)
		}
		next := first
		if c.covers != "" {
			next = call(t, c.covers)
		}
		reused, ok := w.covered(next)
		if !ok || !reused.Reused {
			t.Errorf("%s: not covered: %+v", name, reused)
		}
		for how, d := range map[string]palyra.Decision{
			"decided": decided, "waited": waited, "reused": reused, "read": w.get(a.ID).Decision,
			"lease": lease.Decision,
		} {
			if d.Terms == nil {
				t.Errorf("%s, %s: no terms", name, how)
			} else if diff := cmp.Diff(lease.Terms, *d.Terms); diff != "" {
				t.Errorf("%s, %s: %s", name, how, diff)
			}
		}
	}
}

func TestADenyHasNoTerms(t *testing.T) {
	w := newWorld(t)
	a := w.ask(call(t, "src/a.txt"))
	if a.Decision.Terms != nil {
		t.Errorf("pending, with terms %+v", a.Decision.Terms)
	}
	if d := w.decide(a, palyra.AnswerDeny).Decision; d.Terms != nil {
		t.Errorf("denied, with terms %+v", d.Terms)
	}
}
