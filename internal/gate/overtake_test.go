package gate

import (
	"context"
	"slices"
	"testing"

	"palyra"
)

// overtaken is how the desk closes a question that a new lease covers.
func overtaken(w *world) func(context.Context) (palyra.Decision, error) {
	return func(context.Context) (palyra.Decision, error) {
		d := answered(palyra.AnswerAllow)
		d.Approval, d.Digest, d.Reused, d.Scope = "A2", digestOf(plan("b.txt")), true, palyra.ScopeSession
		w.lease = &d
		return palyra.Decision{Approval: approvalID, Answer: palyra.AnswerError, Lease: leaseID, Reason: "covered by lease"}, nil
	}
}

// A call whose question was overtaken goes on under the lease, judged with the answer
// behind that; its lines and its outcome name that answer.
func TestALeaseOvertakesTheQuestion(t *testing.T) {
	w := newWorld(t)
	w.verdict = asking(palyra.Allow)
	w.desk = overtaken(w)
	var signed palyra.Predicate
	w.signs = func(_ context.Context, p palyra.Predicate) error {
		signed = p
		return nil
	}
	out, err := w.do(t.Context())
	if err != nil || out.Outcome != palyra.OutcomeFinished || out.ApprovalID != "A2" || out.GrantID != palyra.GrantID(leaseID) {
		t.Fatalf("%+v %v", out, err)
	}
	w.wantTrace(
		"admit", "resolve", "judge false", "cover", "prepare",
		"record [call.proposed call.judged approval.requested]",
		"heard call.proposed", "heard call.judged", "heard approval.requested",
		"wait", "judge false", "cover", "judge true",
		"record [call.judged call.granted]", "heard call.judged", "heard call.granted",
		"resolve", "run", "attest", "record [call.finished]", "heard call.finished",
	)
	for _, e := range w.journal {
		if g, ok := e.(palyra.CallGranted); ok && (g.Approval != "A2" || g.Lease != leaseID) {
			t.Errorf("granted as %+v", g)
		}
	}
	if d := signed.Decision; d == nil || !d.Reused || d.Approval != "A2" || signed.LeaseID != leaseID {
		t.Errorf("signed %+v", d)
	}
	if row := w.rows[callID]; row.Approval != approvalID {
		t.Errorf("the call names question %s", row.Approval)
	}
}

// A check goes on in the same way.
func TestALeaseOvertakesTheQuestionOfACheck(t *testing.T) {
	w := newWorld(t)
	w.verdict = asking(palyra.Allow)
	w.desk = overtaken(w)
	out, err := w.check(t.Context(), palyra.Proposal{})
	if err != nil || out.Outcome != palyra.OutcomeAllowed || out.ApprovalID != "A2" {
		t.Fatalf("%+v %v", out, err)
	}
	if e, ok := w.journal[len(w.journal)-1].(palyra.CallChecked); !ok || e.Approval != "A2" || e.Lease != leaseID {
		t.Errorf("the line reads %+v", e)
	}
}

// A lease that ended before the call woke permits nothing, nor does one permit what
// policy denies by then.
func TestAnOvertakenQuestionIsNoAnswer(t *testing.T) {
	w := newWorld(t)
	w.verdict = asking(palyra.Allow)
	wake := overtaken(w)
	w.desk = func(ctx context.Context) (palyra.Decision, error) {
		d, err := wake(ctx)
		w.lease = nil
		return d, err
	}
	out, err := w.do(t.Context())
	w.wantRefusal(out, err, palyra.LayerApproval, palyra.ReasonApprovalFailed)

	w = newWorld(t)
	w.verdict = asking(palyra.Deny)
	w.desk = overtaken(w)
	out, err = w.do(t.Context())
	w.wantRefusal(out, err, palyra.LayerPolicy, palyra.ReasonPolicyDenied)
}

// What the session did while the question was open counts: a lease that does not cover the call as it is judged by then
// permits nothing, nor does any where that cannot be read.
func TestAnOvertakenCallIsJudgedAsTheSessionIsNow(t *testing.T) {
	secret := []string{palyra.LabelSecret}
	for what, c := range map[string]struct {
		now    func() ([]string, error) // the labels when the call woke
		covers func(*palyra.Call) bool
		reason palyra.Reason
	}{
		"the lease is for sessions without it": {
			now:    func() ([]string, error) { return secret, nil },
			covers: func(c *palyra.Call) bool { return !slices.Contains(c.Proposal.Labels, palyra.LabelSecret) },
			reason: palyra.ReasonApprovalFailed,
		},
		"it is for less risk": {
			now:    func() ([]string, error) { return secret, nil },
			covers: func(c *palyra.Call) bool { return c.Verdict.Risk.Level != palyra.RiskHigh },
			reason: palyra.ReasonApprovalFailed,
		},
		"policy wants an answer of its own": {
			now:    func() ([]string, error) { return append(secret, "fresh"), nil },
			covers: func(*palyra.Call) bool { return true },
			reason: palyra.ReasonApprovalFailed,
		},
		"unknown": {
			now:    func() ([]string, error) { return nil, errDisk },
			covers: func(*palyra.Call) bool { return true },
			reason: palyra.ReasonPolicyError,
		},
		"control": {now: func() ([]string, error) { return nil, nil }, covers: func(c *palyra.Call) bool { return len(c.Proposal.Labels) == 0 }},
	} {
		w := newWorld(t)
		w.verdict = func(r palyra.Request) palyra.Verdict {
			v := asking(palyra.Allow)(r)
			if len(r.Labels) > 0 {
				v.Risk.Level = palyra.RiskHigh
			}
			v.Need.Fresh = slices.Contains(r.Labels, "fresh")
			return v
		}
		wake, woken := overtaken(w), false
		w.desk = func(ctx context.Context) (palyra.Decision, error) {
			woken = true
			return wake(ctx)
		}
		w.covers = c.covers
		w.labels = func() ([]string, error) {
			if !woken {
				return nil, nil
			}
			woken = c.reason != palyra.ReasonPolicyError // what cannot be read once can be the next time
			return c.now()
		}
		out, err := w.do(t.Context())
		if c.reason == "" {
			if err != nil || out.Outcome != palyra.OutcomeFinished {
				t.Errorf("%s: %+v %v", what, out, err)
			}
			continue
		}
		if err != nil || out.Outcome != palyra.OutcomeRefused || out.ReasonCode != c.reason || w.runs > 0 {
			t.Errorf("%s: %+v %v", what, out, err)
		}
	}
}

// A question that need not be asked any more when it would be opened is not: the lease
// is found instead.
func TestALeaseComesBeforeTheQuestion(t *testing.T) {
	w := newWorld(t)
	w.verdict = asking(palyra.Allow)
	w.refuse = func(e palyra.Event) error {
		if e.Kind() != "approval.requested" {
			return nil
		}
		_, _ = overtaken(w)(context.Background())
		return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "a grant covers it")
	}
	out, err := w.do(t.Context())
	if err != nil || out.Outcome != palyra.OutcomeFinished || out.ApprovalID != "" || out.GrantID != palyra.GrantID(leaseID) {
		t.Fatalf("%+v %v", out, err)
	}
}
