package approval

import (
	"strings"
	"testing"

	"palyra"
)

// unsandboxed is a call that its agent means to run itself.
func unsandboxed(c *palyra.Call) {
	c.Proposal.Check, c.Plan = true, c.Plan.Unsandboxed()
}

func (w *world) checkedBy(c *palyra.Call, lease palyra.LeaseID) error {
	return w.record(c, palyra.CallChecked{Call: c.ID, Plan: c.Digest, Lease: lease, Tier: c.Plan.Tier})
}

// An answer for the sandboxed call is none for the check, and the other way round,
// however wide it is.
func TestNoLeaseCrossesTheSandbox(t *testing.T) {
	options := map[string][]voteOption{
		"once": nil, "session": {scoped(palyra.ScopeSession)}, "widened": {scoped(palyra.ScopeSession), widened(palyra.WidenPathRoot)},
		"the workspace": {scoped(palyra.ScopeSession), widened(palyra.WidenWorkspace)},
	}
	for name, o := range options {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			held, open := call(t, "src/a.txt"), call(t, "src/a.txt", unsandboxed)
			if held.Digest == open.Digest {
				t.Fatal("one digest for both")
			}
			d := w.decide(w.ask(held), palyra.AnswerAllow, o...).Decision
			if _, ok := w.covered(open); ok {
				t.Error("a yes for the sandbox covers the agent's own tools")
			}
			wantErr(t, w.checkedBy(open, d.Lease), palyra.Conflict, palyra.ReasonPlanChanged)
			other := newWorld(t)
			d = other.decide(other.ask(open), palyra.AnswerAllow, o...).Decision
			if _, ok := other.covered(held); ok {
				t.Error("a yes for a check covers a call")
			}
			wantErr(t, other.grant(held, d.Lease), palyra.Conflict, palyra.ReasonPlanChanged)
		})
	}
}

func TestAnAnswerForOnceIsForOneCheck(t *testing.T) {
	w := newWorld(t)
	c := call(t, "src/a.txt", unsandboxed)
	d := w.decide(w.ask(c), palyra.AnswerAllow).Decision
	if err := w.checkedBy(c, d.Lease); err != nil {
		t.Fatal(err)
	}
	if _, ok := w.covered(c); ok {
		t.Error("a spent lease covers")
	}
	wantErr(t, w.checkedBy(c, d.Lease), palyra.Conflict, palyra.ReasonGrantSpent)
}

func TestTheQuestionSaysThatNothingHoldsIt(t *testing.T) {
	w := newWorld(t)
	a := w.ask(call(t, "src/a.txt", unsandboxed))
	if !strings.Contains(a.Prompt.Title, "outside any sandbox") || a.Prompt.Notes[0] != palyra.UnsandboxedNote {
		t.Errorf("%q %q", a.Prompt.Title, a.Prompt.Notes)
	}
	if n := len(a.Prompt.Options); n != 3 || a.Prompt.Options[n-1].Name != palyra.WidenWorkspace {
		t.Errorf("offered: %+v", a.Prompt.Options)
	}
	if a := w.ask(call(t, "src/b.txt")); strings.Contains(a.Prompt.Title, "sandbox") {
		t.Errorf("%q", a.Prompt.Title)
	}
}
