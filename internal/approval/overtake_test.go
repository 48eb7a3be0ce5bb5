package approval

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"palyra"
)

// One answer for the workspace closes the questions that were open already and that it
// covers, without a vote, in the transaction that makes the lease; whoever waits wakes,
// and the lease covers its call. Every other question stays.
func TestALeaseOvertakesOpenQuestions(t *testing.T) {
	w := newWorld(t)
	first, second, third := call(t, "a.txt"), call(t, "src/b.txt"), call(t, "src/c.txt")
	a, b, c := w.ask(first), w.ask(second), w.ask(third)
	joined := call(t, "src/c.txt")
	w.ask(joined)
	stay := map[string]palyra.ApprovalID{
		"fresh":             w.ask(call(t, "d.txt", withNeed(palyra.Need{Votes: 1, Fresh: true}))).ID,
		"two people":        w.ask(call(t, "e.txt", withNeed(palyra.Need{Votes: 2}))).ID,
		"riskier":           w.ask(call(t, "f.txt", func(c *palyra.Call) { c.Verdict.Risk.Level = palyra.RiskCritical })).ID,
		"another session":   w.ask(call(t, "b.txt", inSession(session2))).ID,
		"another agent":     w.ask(call(t, "b.txt", by("agent:other"))).ID,
		"another room":      w.ask(call(t, "g.txt", func(c *palyra.Call) { c.Proposal.Room = "room" })).ID,
		"obeyed":            w.ask(call(t, ".envrc")).ID,
		"another workspace": w.ask(call(t, "h.txt", func(c *palyra.Call) { c.Plan.Workspace.Path = "/x" })).ID,
		"another tier":      w.ask(call(t, "i.txt", func(c *palyra.Call) { c.Plan = c.Plan.Unsandboxed() })).ID,
	}
	woken := make(chan palyra.Decision, 2)
	for _, id := range []palyra.ApprovalID{b.ID, c.ID} {
		go func() {
			d, err := w.desk.Wait(context.Background(), id)
			if err != nil {
				t.Error(err)
			}
			woken <- d
		}()
	}
	before := len(w.kinds())
	lease := w.decide(a, palyra.AnswerAllow, scoped(palyra.ScopeSession), widened(palyra.WidenWorkspace)).Decision.Lease
	for range 2 {
		if d := <-woken; !d.Overtaken() || d.Lease != lease || len(d.Votes) != 0 || d.By != bySystem ||
			d.Reason != "covered by lease "+string(lease) {
			t.Errorf("a waiter is told %+v", d)
		}
	}
	if got, want := w.kinds()[before:], []string{
		"approval.decided", "grant.created", "approval.decided",
		"approval.decided",
	}; !slices.Equal(got, want) {
		t.Errorf("lines %v, want %v", got, want)
	}
	for _, c := range []*palyra.Call{second, third, joined} {
		d, ok := w.covered(c)
		if !ok || d.Lease != lease || d.Approval != a.ID || !d.Reused {
			t.Errorf("%v: covered %v by %+v", c.Plan.Writes, ok, d)
		}
		if err := w.grant(c, d.Lease); err != nil {
			t.Error(err)
		}
	}
	for name, id := range stay {
		if !w.get(id).Pending() {
			t.Errorf("%s: closed", name)
		}
	}
}

// What covers one plan, or a number of calls, takes no question's place: the uses are
// for whoever comes first.
func TestWhatOvertakesNothing(t *testing.T) {
	for name, options := range map[string][]voteOption{
		"exact":   {scoped(palyra.ScopeSession)},
		"once":    {scoped(palyra.ScopeOnce)},
		"counted": {scoped(palyra.ScopeSession), widened(palyra.WidenWorkspace), uses(3)},
	} {
		w := newWorld(t)
		a, b := w.ask(call(t, "a.txt")), w.ask(call(t, "b.txt"))
		w.decide(a, palyra.AnswerAllow, options...)
		if !w.get(b.ID).Pending() {
			t.Errorf("%s: closed", name)
		}
	}
	w := newWorld(t)
	a, b := w.ask(call(t, "a.txt")), w.ask(call(t, "b.txt"))
	w.pass(time.Second)
	w.decide(a, palyra.AnswerDeny)
	if !w.get(b.ID).Pending() {
		t.Error("a deny closed another question")
	}
}

// The lease and the closing of what it covers are durable together or not at all.
func TestOvertakingIsOneStep(t *testing.T) {
	w := newWorld(t)
	a, b := w.ask(call(t, "a.txt")), w.ask(call(t, "b.txt"))
	n := 0
	w.journal.fail = func(e palyra.Event) error {
		if e.Kind() == "approval.decided" {
			if n++; n == 2 {
				return errors.New("disk full")
			}
		}
		return nil
	}
	if _, err := w.desk.Decide(context.Background(), vote(a, palyra.AnswerAllow, scoped(palyra.ScopeSession),
		widened(palyra.WidenWorkspace))); err == nil {
		t.Fatal("decided without its line")
	}
	if !w.get(a.ID).Pending() || !w.get(b.ID).Pending() {
		t.Error("half of it stands")
	}
}

// A question that a lease came to cover after the desk was asked for one is not opened.
func TestAQuestionThatCameTooLate(t *testing.T) {
	w := newWorld(t)
	first, late := call(t, "a.txt"), call(t, "b.txt")
	a := w.ask(first)
	if _, ok := w.covered(late); ok {
		t.Fatal("covered already")
	}
	q, _, err := w.desk.Prepare(context.Background(), late)
	if err != nil {
		t.Fatal(err)
	}
	w.decide(a, palyra.AnswerAllow, scoped(palyra.ScopeSession), widened(palyra.WidenWorkspace))
	if err := w.record(late, requested(late, q)); palyra.CodeOf(err) != palyra.Conflict {
		t.Errorf("opened: %v", err)
	}
	if _, ok := w.covered(late); !ok {
		t.Error("not covered")
	}
}
