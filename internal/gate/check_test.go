package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"palyra"
)

// checks answers for the plan as nobody holds it.
func checks(a palyra.Answer) func(context.Context) (palyra.Decision, error) {
	return func(context.Context) (palyra.Decision, error) {
		d := answered(a)
		d.Digest = digestOf(plan("a.txt").Unsandboxed())
		return d, nil
	}
}

func (w *world) check(ctx context.Context, p palyra.Proposal) (palyra.Outcome, error) {
	w.t.Helper()
	p.Principal, p.Owner, p.Surface, p.Session, p.Tool = "agent:local", "user:alice", palyra.SurfaceHook, "S1", "palyra.fs.write"
	p.Arguments = json.RawMessage(`{"path":"a.txt"}`)
	out, err := w.gate().Check(ctx, callID, p, Watcher{Events: w.watch})
	w.checkEnd(out, err)
	if w.runs > 0 || len(w.granted) > 0 || slices.Contains(w.trace, "attest") {
		w.t.Errorf("a check ran, granted or attested something: %q", w.trace)
	}
	if out.Attestation != nil || out.GrantID != "" || out.JournalPosition != 0 {
		w.t.Errorf("a check came back with %+v", out)
	}
	return out, err
}

func TestACheckTakesOneBarrierAndRunsNothing(t *testing.T) {
	w := newWorld(t)
	var saw palyra.Plan
	w.verdict = func(r palyra.Request) palyra.Verdict { saw = r.Plan; return always(palyra.Allow)(r) }
	out, err := w.check(t.Context(), palyra.Proposal{})
	if err != nil {
		t.Fatal(err)
	}
	w.wantTrace(
		"admit", "resolve", "judge false",
		"record [call.proposed call.judged call.checked]", "heard call.proposed", "heard call.judged", "heard call.checked",
	)
	if out.Outcome != palyra.OutcomeAllowed || out.ExitCode != 0 || out.PlanDigest != digestOf(plan("a.txt").Unsandboxed()) ||
		out.PlanDigest == digestOf(plan("a.txt")) ||
		!slices.Equal(out.Policies, []string{"p-allow"}) || !strings.Contains(out.Reason, "runs it itself") {
		t.Errorf("got %+v", out)
	}
	if saw.Tier != palyra.TierUnsandboxed || saw.Limits != (palyra.Limits{}) || saw.Enforcement.Mode != "none" {
		t.Errorf("policy saw a plan that is held: %+v", saw)
	}
	if row := w.rows[callID]; row.State != palyra.Checked {
		t.Errorf("the durable call is %s", row.State)
	}
	if e := w.journal[2].(palyra.CallChecked); e.Effect != palyra.Allow || e.Tier != palyra.TierUnsandboxed || e.Plan != out.PlanDigest ||
		e.Approval != "" || e.Lease != "" {
		t.Errorf("the line reads %+v", e)
	}
}

func TestACheckAsksAndUsesTheAnswer(t *testing.T) {
	w := newWorld(t)
	w.verdict, w.desk = asking(palyra.Allow), checks(palyra.AnswerAllow)
	out, err := w.check(t.Context(), palyra.Proposal{})
	if err != nil || out.Outcome != palyra.OutcomeAllowed || out.ApprovalID != approvalID || !strings.Contains(out.Reason, "user:alice") {
		t.Fatalf("%+v %v", out, err)
	}
	e, ok := w.journal[len(w.journal)-1].(palyra.CallChecked)
	if !ok || e.Approval != approvalID || e.Lease != leaseID || e.Effect != palyra.Ask {
		t.Errorf("the line does not name its answer: %+v", e)
	}
}

// What refuses a call refuses a check.
func TestChecksAreRefused(t *testing.T) {
	cases := map[string]struct {
		set    func(*world)
		p      palyra.Proposal
		layer  palyra.Layer
		reason palyra.Reason
	}{
		"by the catalogue": {func(w *world) {
			w.admit = func() (palyra.Tool, error) { return palyra.Tool{}, errStop }
		}, palyra.Proposal{}, palyra.LayerCatalog, palyra.ReasonInternal},
		"by the planner": {func(w *world) {
			w.resolve = func() (palyra.Plan, error) { return palyra.Plan{}, errStop }
		}, palyra.Proposal{}, palyra.LayerPlan, palyra.ReasonInternal},
		"by policy": {func(w *world) { w.verdict = always(palyra.Deny) }, palyra.Proposal{}, palyra.LayerPolicy, palyra.ReasonPolicyDenied},
		"by a person": {func(w *world) {
			w.verdict, w.desk = asking(palyra.Allow), checks(palyra.AnswerDeny)
		}, palyra.Proposal{}, palyra.LayerApproval, palyra.ReasonApprovalDenied},
		"by time": {func(w *world) {
			w.verdict, w.desk = asking(palyra.Allow), checks(palyra.AnswerTimeout)
		}, palyra.Proposal{}, palyra.LayerApproval, palyra.ReasonApprovalExpired},
		"not awaited": {
			func(w *world) { w.verdict = asking(palyra.Allow) },
			palyra.Proposal{NoWait: true},
			palyra.LayerApproval,
			palyra.ReasonApprovalNotAwaited,
		},
		"an answer for the sandboxed plan": {func(w *world) {
			w.verdict, w.desk = asking(palyra.Allow), answers(palyra.AnswerAllow)
		}, palyra.Proposal{}, palyra.LayerGrant, palyra.ReasonInternal},
		"the lease is gone": {func(w *world) {
			w.verdict, w.desk = asking(palyra.Allow), checks(palyra.AnswerAllow)
			w.refuse = func(e palyra.Event) error {
				if e.Kind() == "call.checked" {
					return palyra.Errorf(palyra.Conflict, palyra.ReasonGrantSpent, "spent")
				}
				return nil
			}
		}, palyra.Proposal{}, palyra.LayerGrant, palyra.ReasonGrantSpent},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.set(w)
			out, err := w.check(t.Context(), c.p)
			w.wantRefusal(out, err, c.layer, c.reason)
		})
	}
}

// What a check replaces is kept before its line is on record, so before anybody hears yes; without that nobody does.
func TestACheckKeepsWhatItReplaces(t *testing.T) {
	kept := func(w *world, err error) func(context.Context, *palyra.Call) (func(bool), error) {
		return func(context.Context, *palyra.Call) (func(bool), error) {
			w.trace = append(w.trace, "foresee")
			return func(told bool) { w.trace = append(w.trace, fmt.Sprintf("told %t", told)) }, err
		}
	}
	w := newWorld(t)
	w.foresee = kept(w, nil)
	if out, err := w.check(t.Context(), palyra.Proposal{}); err != nil || !strings.Contains(out.Reason, "'palyra undo'") {
		t.Errorf("%+v, %v", out, err)
	}
	w.wantTrace(
		"admit", "resolve", "judge false", "foresee", "record [call.proposed call.judged call.checked]",
		"heard call.proposed", "heard call.judged", "heard call.checked", "told true",
	)

	w = newWorld(t)
	w.foresee = kept(w, palyra.Errorf(palyra.Exhausted, palyra.ReasonQuotaExceeded, "full"))
	out, err := w.check(t.Context(), palyra.Proposal{})
	w.wantRefusal(out, err, palyra.LayerTier, palyra.ReasonQuotaExceeded)

	w = newWorld(t)
	w.foresee = func(context.Context, *palyra.Call) (func(bool), error) { panic("a defect") }
	out, err = w.check(t.Context(), palyra.Proposal{})
	w.wantRefusal(out, err, palyra.LayerTier, palyra.ReasonInternal)

	w = newWorld(t)
	w.foresee = kept(w, nil)
	w.verdict, w.desk = asking(palyra.Allow), checks(palyra.AnswerAllow)
	w.refuse = func(e palyra.Event) error {
		if e.Kind() == "call.checked" {
			return palyra.Errorf(palyra.Conflict, palyra.ReasonGrantSpent, "spent")
		}
		return nil
	}
	out, err = w.check(t.Context(), palyra.Proposal{})
	w.wantRefusal(out, err, palyra.LayerGrant, palyra.ReasonGrantSpent)
	if !slices.Contains(w.trace, "told false") || slices.Contains(w.trace, "told true") {
		t.Errorf("%q", w.trace)
	}
}

// A check whose question outlives its daemon is still a check.
func TestAResumedCheckRunsNothing(t *testing.T) {
	w := newWorld(t)
	w.verdict = asking(palyra.Allow)
	stop, cancel := context.WithCancelCause(context.Background())
	w.desk = func(ctx context.Context) (palyra.Decision, error) {
		cancel(ErrStopping)
		return palyra.Decision{}, ctx.Err()
	}
	if _, err := w.check(stop, palyra.Proposal{}); !errors.Is(err, ErrStopping) {
		t.Fatalf("stopping: %v", err)
	}
	row := w.rows[callID]
	row.Stored = row.State
	if row.State != palyra.Pending || !row.Proposal.Check {
		t.Fatalf("on record: %+v", row)
	}
	w.desk = checks(palyra.AnswerAllow)
	out, err := w.gate().Resume(t.Context(), &row, Watcher{Events: w.watch})
	if err != nil || out.Outcome != palyra.OutcomeAllowed || w.runs != 0 || len(w.granted) != 0 {
		t.Errorf("%+v %v, %d runs", out, err, w.runs)
	}
}

// A sandboxed call and its check are never one plan, and no grant comes of a check.
func TestNoGrantForACheck(t *testing.T) {
	p := plan("a.txt").Unsandboxed()
	c := &palyra.Call{ID: callID, Plan: p, Digest: digestOf(p), Verdict: palyra.Verdict{Effect: palyra.Allow}}
	if _, err := palyra.NewGrant("G", c, noon); err == nil {
		t.Error("a grant for a plan that nobody holds")
	}
	c.Plan = plan("a.txt")
	c.Digest, c.Proposal.Check = digestOf(c.Plan), true
	if _, err := palyra.NewGrant("G", c, noon); err == nil {
		t.Error("a grant for a check")
	}
}
