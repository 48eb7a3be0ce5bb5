package gate

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"palyra"
)

func TestAllowedTakesTwoBarriers(t *testing.T) {
	w := newWorld(t)
	out, err := w.do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.wantTrace(
		"admit", "resolve", "judge false",
		"record [call.proposed call.judged call.granted]", "heard call.proposed", "heard call.judged", "heard call.granted",
		"resolve", "run", "attest",
		"record [call.finished]", "heard call.finished",
	)
	if out.Outcome != palyra.OutcomeFinished || out.Stdout != "done" || string(out.Output) != `{"ok":true}` || out.CallID != callID ||
		out.SessionID != "S1" || out.GrantID == "" || out.JournalPosition != 3 || out.PlanDigest != digestOf(plan("a.txt")) ||
		out.ApprovalID != "" {
		t.Errorf("got %+v", out)
	}
}

func TestAskedWaitsDurably(t *testing.T) {
	w := newWorld(t)
	w.verdict, w.desk = asking(palyra.Allow), answers(palyra.AnswerAllow)
	out, err := w.do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.wantTrace(
		"admit", "resolve", "judge false", "cover", "prepare",
		"record [call.proposed call.judged approval.requested]", "heard call.proposed", "heard call.judged", "heard approval.requested",
		"wait", "judge true",
		"record [call.judged call.granted]", "heard call.judged", "heard call.granted",
		"resolve", "run", "attest",
		"record [call.finished]", "heard call.finished",
	)
	if out.ApprovalID != approvalID || out.Outcome != palyra.OutcomeFinished {
		t.Errorf("got %+v", out)
	}
	if g := w.journal[4].(palyra.CallGranted); g.Approval != approvalID || g.Lease != leaseID {
		t.Errorf("the granted line does not name its answer: %+v", g)
	}
	if j := w.journal[3].(palyra.CallJudged); !j.Again || j.Effect != palyra.Allow || j.Approval != approvalID {
		t.Errorf("the second judgement reads %+v", j)
	}
}

func TestAJoinedQuestionIsRecordedAsJoined(t *testing.T) {
	w := newWorld(t)
	w.verdict, w.desk, w.joined = asking(palyra.Allow), answers(palyra.AnswerAllow), true
	if _, err := w.do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if j, ok := w.journal[2].(palyra.ApprovalJoined); !ok || j.Approval != approvalID || j.Call != callID {
		t.Errorf("line 3 is %+v", w.journal[2])
	}
}

func TestALeaseAnswersWithoutAQuestion(t *testing.T) {
	w := newWorld(t)
	d := answered(palyra.AnswerAllow)
	d.Reused, d.Scope = true, palyra.ScopeSession
	w.verdict, w.lease = asking(palyra.Allow), &d
	if _, err := w.do(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantTrace(
		"admit", "resolve", "judge false", "cover", "judge true",
		"record [call.proposed call.judged call.judged call.granted]",
		"heard call.proposed", "heard call.judged", "heard call.judged", "heard call.granted",
		"resolve", "run", "attest", "record [call.finished]", "heard call.finished",
	)
}

func TestAFreshNeedIsNeverCoveredByALease(t *testing.T) {
	w := newWorld(t)
	d := answered(palyra.AnswerAllow)
	d.Reused = true
	w.lease, w.desk = &d, answers(palyra.AnswerAllow)
	w.verdict = func(r palyra.Request) palyra.Verdict {
		v := asking(palyra.Allow)(r)
		v.Need.Fresh = true
		return v
	}
	if _, err := w.do(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, step := range w.trace {
		if step == "cover" {
			t.Error("a lease was looked for")
		}
	}
}

// Every layer that can refuse before a run: what the agent is told, that it is
// on record, and that nothing ran.
func TestRefusals(t *testing.T) {
	bad := palyra.Errorf(palyra.Invalid, palyra.ReasonPathOutside, "outside").WithRemedy("inside")
	cases := []struct {
		name   string
		set    func(*world)
		layer  palyra.Layer
		reason palyra.Reason
	}{
		{"unknown tool", func(w *world) {
			w.admit = func() (palyra.Tool, error) {
				return palyra.Tool{}, palyra.Errorf(palyra.NotFound, palyra.ReasonUnknownTool, "no such tool")
			}
		}, palyra.LayerCatalog, palyra.ReasonUnknownTool},
		{"a path outside", func(w *world) {
			w.resolve = func() (palyra.Plan, error) { return palyra.Plan{}, bad }
		}, palyra.LayerPlan, palyra.ReasonPathOutside},
		{"an error without a code", func(w *world) {
			w.resolve = func() (palyra.Plan, error) { return palyra.Plan{}, errors.New("stat /home/alice/.ssh: no") }
		}, palyra.LayerPlan, palyra.ReasonInternal},
		{"a plan without a digest", func(w *world) {
			w.resolve = func() (palyra.Plan, error) { p := plan("a"); p.Arguments = json.RawMessage("{"); return p, nil }
		}, palyra.LayerPlan, palyra.ReasonInternal},
		{"policy denies", func(w *world) { w.verdict = always(palyra.Deny) }, palyra.LayerPolicy, palyra.ReasonPolicyDenied},
		{"policy says nothing", func(w *world) {
			w.verdict = func(palyra.Request) palyra.Verdict { return palyra.Verdict{} }
		}, palyra.LayerPolicy, palyra.ReasonPolicyDenied},
		{"a policy fails though another allows", func(w *world) {
			w.verdict = func(palyra.Request) palyra.Verdict {
				return palyra.Verdict{Effect: palyra.Allow, Errors: []string{"type error"}}
			}
		}, palyra.LayerPolicy, palyra.ReasonPolicyError},
		{"an effect from nowhere", func(w *world) { w.verdict = always(palyra.Allow + 1) }, palyra.LayerPolicy, palyra.ReasonPolicyDenied},
		{"denied by a person", func(w *world) {
			w.verdict, w.desk = asking(palyra.Allow), answers(palyra.AnswerDeny)
		}, palyra.LayerApproval, palyra.ReasonApprovalDenied},
		{"nobody answered", func(w *world) {
			w.verdict, w.desk = asking(palyra.Allow), answers(palyra.AnswerTimeout)
		}, palyra.LayerApproval, palyra.ReasonApprovalExpired},
		{"the question failed", func(w *world) {
			w.verdict, w.desk = asking(palyra.Allow), answers(palyra.AnswerError)
		}, palyra.LayerApproval, palyra.ReasonApprovalFailed},
		{"an empty answer", func(w *world) {
			w.verdict, w.desk = asking(palyra.Allow), answers("")
		}, palyra.LayerApproval, palyra.ReasonApprovalFailed},
		{"the desk fails", func(w *world) {
			w.verdict = asking(palyra.Allow)
			w.desk = func(context.Context) (palyra.Decision, error) {
				return palyra.Decision{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonApprovalFailed, "x")
			}
		}, palyra.LayerApproval, palyra.ReasonApprovalFailed},
		{"the answer is not enough", func(w *world) {
			w.verdict, w.desk = asking(palyra.Deny), answers(palyra.AnswerAllow)
		}, palyra.LayerPolicy, palyra.ReasonPolicyDenied},
		{"policy asks again", func(w *world) {
			w.verdict, w.desk = asking(palyra.Ask), answers(palyra.AnswerAllow)
		}, palyra.LayerPolicy, palyra.ReasonPolicyDenied},
		{"policy fails the second time", func(w *world) {
			w.desk = answers(palyra.AnswerAllow)
			w.verdict = func(r palyra.Request) palyra.Verdict {
				v := asking(palyra.Allow)(r)
				if r.Approval != nil {
					v.Errors = []string{"x"}
				}
				return v
			}
		}, palyra.LayerPolicy, palyra.ReasonPolicyError},
		{"the approver saw another plan", func(w *world) {
			w.verdict = asking(palyra.Allow)
			w.desk = func(context.Context) (palyra.Decision, error) {
				d := answered(palyra.AnswerAllow)
				d.Digest = digestOf(plan("b.txt"))
				return d, nil
			}
		}, palyra.LayerGrant, palyra.ReasonInternal},
		{"an allow that left no lease", func(w *world) {
			w.verdict = asking(palyra.Allow)
			w.desk = func(context.Context) (palyra.Decision, error) {
				d := answered(palyra.AnswerAllow)
				d.Lease = ""
				return d, nil
			}
		}, palyra.LayerGrant, palyra.ReasonInternal},
		{"the lease is gone", func(w *world) {
			w.verdict, w.desk = asking(palyra.Allow), answers(palyra.AnswerAllow)
			w.refuse = func(e palyra.Event) error {
				if e.Kind() == "call.granted" {
					return palyra.Errorf(palyra.Conflict, palyra.ReasonGrantSpent, "spent")
				}
				return nil
			}
		}, palyra.LayerGrant, palyra.ReasonGrantSpent},
		{"too many questions", func(w *world) {
			w.verdict = asking(palyra.Allow)
			w.refuse = func(e palyra.Event) error {
				if e.Kind() == "approval.requested" {
					return palyra.Errorf(palyra.Exhausted, palyra.ReasonTooManyPending, "too many")
				}
				return nil
			}
		}, palyra.LayerApproval, palyra.ReasonTooManyPending},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.set(w)
			out, err := w.do(t.Context())
			w.wantRefusal(out, err, c.layer, c.reason)
			if w.runs != 0 {
				t.Error("it ran")
			}
			if n := len(w.granted); n != 0 {
				t.Errorf("%d granted lines", n)
			}
			if strings.Contains(out.Reason+out.Remedy, ".ssh") {
				t.Errorf("the agent learns %q", out.Reason)
			}
			if c.layer == palyra.LayerPolicy && len(w.rows[callID].Verdict.Policies) > 0 && len(out.Policies) == 0 {
				t.Error("the policies that decided are not named")
			}
			if out.Attestation != nil || out.GrantID != "" || out.ExitCode == 0 {
				t.Errorf("it looks as if it had run: attestation %v, grant %q, exit code %d", out.Attestation, out.GrantID, out.ExitCode)
			}
		})
	}
}

// A runner may still find that a file changed: nothing ran then, and the refusal
// says so although the call was granted.
func TestARunnerThatWillNotStart(t *testing.T) {
	w := newWorld(t)
	w.execute = func(context.Context, palyra.Launch) palyra.Result {
		r := palyra.RefusalOf(palyra.LayerTier, palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "the file changed").WithRemedy("again"))
		return palyra.Result{Refusal: &r}
	}
	out, err := w.do(t.Context())
	w.wantRefusal(out, err, palyra.LayerTier, palyra.ReasonPlanChanged)
	if out.JournalPosition == 0 || out.GrantID == "" {
		t.Errorf("the granted line is not named: %+v", out)
	}
}

func TestAToolThatFailsIsFinishedAndAttested(t *testing.T) {
	w := newWorld(t)
	w.execute = func(context.Context, palyra.Launch) palyra.Result {
		f := palyra.RefusalOf(palyra.LayerTier, palyra.Errorf(palyra.NotFound, palyra.ReasonFileNotFound, "no such file").WithRemedy("make it"))
		return palyra.Result{ExitCode: 1, Failure: &f, Stderr: []byte{0xff}}
	}
	out, err := w.do(t.Context())
	if err != nil || out.Outcome != palyra.OutcomeFinished || out.ExitCode != 1 || out.ReasonCode != palyra.ReasonFileNotFound ||
		out.Remedy != "make it" || out.StderrB64 != "/w==" || out.Attestation == nil {
		t.Errorf("got %+v, %v", out, err)
	}
	if f := w.journal[len(w.journal)-1].(palyra.CallFinished); f.ExitCode != 1 || f.Signed.Digest == "" || f.Attestation != f.Signed.Digest {
		t.Errorf("finished as %+v", f)
	}
}

// The attestation binds the outcome that is delivered, byte for byte.
func TestTheAttestationBindsTheOutcome(t *testing.T) {
	w := newWorld(t)
	w.verdict, w.desk = asking(palyra.Allow), answers(palyra.AnswerAllow)
	out, err := w.do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	body, err := out.BodyDigest()
	f := w.journal[len(w.journal)-1].(palyra.CallFinished)
	p := f.Signed.Predicate
	if err != nil || p.OutcomeDigest != body || f.Body != body {
		t.Errorf("delivered %s (%v), attested %s, journaled %s", body, err, p.OutcomeDigest, f.Body)
	}
	if p.PlanDigest != out.PlanDigest || p.Decision == nil || p.Decision.Approval != approvalID ||
		p.Separation != palyra.SeparationPassphrase ||
		p.Verdict != palyra.Ask || p.LeaseID != leaseID || p.StdoutDigest != palyra.SumBytes([]byte("done")) || p.Principal != "agent:local" {
		t.Errorf("attested %+v", p)
	}
}

func TestAnAllowedCallAttestsNoDecision(t *testing.T) {
	w := newWorld(t)
	if _, err := w.do(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := w.journal[len(w.journal)-1].(palyra.CallFinished).Signed.Predicate
	if p.Decision != nil || p.Separation != "" || p.Verdict != palyra.Allow {
		t.Errorf("attested %+v", p)
	}
}

func TestNoWaitLeavesTheQuestionOpen(t *testing.T) {
	w := newWorld(t)
	w.verdict = asking(palyra.Allow)
	out, err := w.doWith(t.Context(), palyra.Proposal{NoWait: true, Proposer: palyra.Proposer{Session: "S1"}, Tool: "palyra.fs.write"})
	w.wantRefusal(out, err, palyra.LayerApproval, palyra.ReasonApprovalNotAwaited)
	if out.ApprovalID != approvalID || !strings.Contains(out.Remedy, string(approvalID)) {
		t.Errorf("the approval is not named: %+v", out)
	}
	for _, e := range w.journal {
		if e.Kind() == "approval.withdrawn" {
			t.Error("the question was withdrawn")
		}
	}
}

// Nobody is asked for an answer that no call could use: it would be for this call alone, which
// does not wait.
func TestNoWaitAsksForNoFreshAnswer(t *testing.T) {
	w := newWorld(t)
	w.verdict = asking(palyra.Allow)
	once := w.verdict
	w.verdict = func(r palyra.Request) palyra.Verdict {
		v := once(r)
		v.Need.Fresh = true
		return v
	}
	out, err := w.doWith(t.Context(), palyra.Proposal{NoWait: true, Proposer: palyra.Proposer{Session: "S1"}, Tool: "palyra.fs.write"})
	w.wantRefusal(out, err, palyra.LayerApproval, palyra.ReasonApprovalNotAwaited)
	if out.ApprovalID != "" {
		t.Errorf("an approval is named: %+v", out)
	}
	for _, e := range w.journal {
		if e.Kind() == "approval.requested" {
			t.Error("a question was opened")
		}
	}
}

// A question that was settled while we joined it is prepared anew, a few times.
func TestAQuestionSettledWhileJoiningIsAskedAgain(t *testing.T) {
	for _, losses := range []int{1, 2, 3} {
		w := newWorld(t)
		w.verdict, w.desk = asking(palyra.Allow), answers(palyra.AnswerAllow)
		n := 0
		w.refuse = func(e palyra.Event) error {
			if e.Kind() == "approval.requested" {
				if n++; n <= losses {
					return palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "settled")
				}
			}
			return nil
		}
		out, err := w.do(t.Context())
		if losses < questionTries {
			if err != nil || out.Outcome != palyra.OutcomeFinished {
				t.Errorf("%d losses: %+v, %v", losses, out, err)
			}
			continue
		}
		w.wantRefusal(out, err, palyra.LayerApproval, palyra.ReasonAlreadyDecided)
	}
}

func TestCancelWithdrawsTheQuestion(t *testing.T) {
	w := newWorld(t)
	w.verdict = asking(palyra.Allow)
	ctx, cancel := context.WithCancel(t.Context())
	w.desk = func(ctx context.Context) (palyra.Decision, error) {
		cancel()
		return palyra.Decision{}, ctx.Err()
	}
	out, err := w.do(ctx)
	if err != nil || out.Outcome != palyra.OutcomeCancelled || out.ReasonCode != palyra.ReasonCancelled {
		t.Fatalf("got %+v, %v", out, err)
	}
	kinds := kindsOf(w.journal)
	if got := kinds[len(kinds)-2:]; got[0] != "approval.withdrawn" || got[1] != "call.cancelled" {
		t.Errorf("the last lines are %v", got)
	}
	if c := w.journal[len(w.journal)-1].(palyra.CallCancelled); c.State != palyra.Pending || c.By != "agent:local" {
		t.Errorf("cancelled as %+v", c)
	}
	if w.runs != 0 {
		t.Error("it ran")
	}
}

func TestStoppingLeavesTheQuestionPending(t *testing.T) {
	w := newWorld(t)
	w.verdict = asking(palyra.Allow)
	ctx, cancel := context.WithCancelCause(t.Context())
	w.desk = func(ctx context.Context) (palyra.Decision, error) {
		cancel(ErrStopping)
		return palyra.Decision{}, ctx.Err()
	}
	_, err := w.do(ctx)
	if e := palyra.AsError(err); e.Code != palyra.Unavailable || e.Reason != palyra.ReasonStopping || !errors.Is(err, ErrStopping) ||
		e.Remedy == "" {
		t.Fatalf("got %v", err)
	}
	if row := w.rows[callID]; row.State != palyra.Pending || w.records != 1 {
		t.Errorf("the durable call is %s after %d records", row.State, w.records)
	}

	// The next daemon goes on from the row alone.
	row := w.rows[callID]
	row.Stored = row.State
	if row.Detail.Diff == "" {
		t.Error("what the approver should see is lost")
	}
	w.desk = answers(palyra.AnswerAllow)
	out, err := w.gate().Resume(t.Context(), &row, Watcher{Events: w.watch})
	w.checkEnd(out, err)
	if err != nil || out.Outcome != palyra.OutcomeFinished || w.runs != 1 {
		t.Errorf("resumed to %+v, %v", out, err)
	}
}

func TestResumeTakesOnlyPendingCalls(t *testing.T) {
	for _, s := range palyra.States() {
		for _, id := range []palyra.ApprovalID{"", approvalID} {
			if s == palyra.Pending && id != "" {
				continue
			}
			w := newWorld(t)
			out, err := w.gate().Resume(t.Context(), &palyra.Call{ID: callID, State: s, Approval: id}, Watcher{})
			if palyra.CodeOf(err) != palyra.Conflict || out.Outcome != "" || w.records+w.runs != 0 {
				t.Errorf("%s with approval %q: %+v, %v", s, id, out, err)
			}
		}
	}
}

// After a restart the plan that is granted is the one from the row; a row that
// was tampered with no longer has its digest.
func TestResumeOfAnAlteredRow(t *testing.T) {
	w := newWorld(t)
	w.verdict, w.desk = asking(palyra.Allow), answers(palyra.AnswerAllow)
	p := plan("b.txt")
	row := palyra.Call{
		ID: callID, State: palyra.Pending, Approval: approvalID, Plan: p, Detail: p.Detail, Digest: digestOf(plan("a.txt")),
		Tool: palyra.Tool{Name: "palyra.fs.write"}, Proposal: palyra.Proposal{Tool: "palyra.fs.write"}, Stored: palyra.Pending,
	}
	w.rows[callID] = row
	out, err := w.gate().Resume(t.Context(), &row, Watcher{Events: w.watch})
	if err != nil || out.Outcome != palyra.OutcomeRefused || out.Layer != palyra.LayerGrant || w.runs != 0 {
		t.Errorf("got %+v, %v", out, err)
	}
}

func TestPanicsBecomeRefusalsOnRecord(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(*world)
		layer palyra.Layer
	}{
		"admit":   {func(w *world) { w.admit = func() (palyra.Tool, error) { panic("secret-in-panic") } }, palyra.LayerCatalog},
		"resolve": {func(w *world) { w.resolve = func() (palyra.Plan, error) { panic("secret-in-panic") } }, palyra.LayerPlan},
		"resolve again": {func(w *world) {
			w.resolve = atLaunch(func() (palyra.Plan, error) { panic("secret-in-panic") })
		}, palyra.LayerTier},
		"judge": {func(w *world) {
			w.verdict = func(palyra.Request) palyra.Verdict { panic("secret-in-panic") }
		}, palyra.LayerPolicy},
		"judge again": {func(w *world) {
			w.desk = answers(palyra.AnswerAllow)
			w.verdict = func(r palyra.Request) palyra.Verdict {
				if r.Approval != nil {
					panic("secret-in-panic")
				}
				return asking(palyra.Allow)(r)
			}
		}, palyra.LayerPolicy},
		"wait": {func(w *world) {
			w.verdict = asking(palyra.Allow)
			w.desk = func(context.Context) (palyra.Decision, error) { panic("secret-in-panic") }
		}, palyra.LayerApproval},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.set(w)
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("the panic left the gate: %v", r)
				}
			}()
			out, err := w.do(t.Context())
			if err != nil || out.Outcome != palyra.OutcomeRefused || out.Layer != c.layer || w.runs != 0 {
				t.Errorf("got %+v, %v", out, err)
			}
			if strings.Contains(out.Reason+out.Remedy, "secret-in-panic") {
				t.Errorf("the panic is told to the agent: %q", out.Reason)
			}
		})
	}
}

// A tool that panics may have done something: that is a finished, failed run.
func TestAPanicInAToolIsAFinishedRun(t *testing.T) {
	w := newWorld(t)
	w.execute = func(context.Context, palyra.Launch) palyra.Result { panic("secret-in-panic") }
	out, err := w.do(t.Context())
	if err != nil || out.Outcome != palyra.OutcomeFinished || out.ExitCode == 0 || out.ReasonCode != palyra.ReasonInternal ||
		out.Attestation == nil {
		t.Fatalf("got %+v, %v", out, err)
	}
	if strings.Contains(out.Reason+out.Stderr, "secret-in-panic") {
		t.Error("the panic is told to the agent")
	}
	if p := w.journal[len(w.journal)-1].(palyra.CallFinished).Signed.Predicate; p.KillReason != "panic" || p.StartedAt == "" ||
		p.FinishedAt == "" {
		t.Errorf("attested %+v", p)
	}
}

func failure(ctx context.Context, reason palyra.Reason) palyra.Result {
	<-ctx.Done()
	f := palyra.RefusalOf(palyra.LayerTier, palyra.Errorf(palyra.Expired, reason, "ended early"))
	return palyra.Result{ExitCode: 1, Failure: &f}
}

func TestARunEndsAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.execute = func(ctx context.Context, _ palyra.Launch) palyra.Result { return failure(ctx, palyra.ReasonTimedOut) }
		began := time.Now()
		out, err := w.do(t.Context())
		if err != nil || out.Outcome != palyra.OutcomeTimedOut || out.ReasonCode != palyra.ReasonTimedOut || out.Attestation == nil {
			t.Errorf("got %+v, %v", out, err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("it ended after %s, the plan says 1s", took)
		}
	})
}

// A cancel during the run stops the tool; what happened is still signed,
// recorded and delivered, though the caller is gone.
func TestACancelDuringTheRunIsAttested(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.execute = func(ctx context.Context, _ palyra.Launch) palyra.Result {
		cancel()
		return failure(ctx, palyra.ReasonCancelled)
	}
	out, err := w.do(ctx)
	if err != nil || out.Outcome != palyra.OutcomeCancelled || out.ReasonCode != palyra.ReasonCancelled || out.Attestation == nil {
		t.Errorf("got %+v, %v", out, err)
	}
}

// A tool that ended well just as the caller left did finish.
func TestACancelAfterTheWorkIsDoneChangesNothing(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.execute = func(context.Context, palyra.Launch) palyra.Result {
		cancel()
		return palyra.Result{Stdout: []byte("done")}
	}
	out, err := w.do(ctx)
	if err != nil || out.Outcome != palyra.OutcomeFinished || out.Stdout != "done" {
		t.Errorf("got %+v, %v", out, err)
	}
}

// A caller that has already left is not told that the system is broken.
func TestACallerThatLeftBeforeAnythingWasAsked(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.resolve = func() (palyra.Plan, error) { return palyra.Plan{}, ctx.Err() }
	out, err := w.do(ctx)
	if err != nil || out.ReasonCode != palyra.ReasonCancelled || w.runs != 0 {
		t.Errorf("got %s by %s for %s, %v", out.Outcome, out.Layer, out.ReasonCode, err)
	}
}

func TestLongNamesAreClippedInTheJournal(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("x", 1<<20) + "\xff"
	out, err := w.doWith(t.Context(), palyra.Proposal{
		Tool: palyra.ToolName(long), Workspace: long, Key: long, Arguments: json.RawMessage("{}"),
	})
	if err != nil || len(out.Tool) > 600 {
		t.Fatalf("%d bytes, %v", len(out.Tool), err)
	}
	p := w.journal[0].(palyra.CallProposed)
	if len(p.Tool) > 600 || len(p.Workspace) > 600 || len(p.Key) > 600 {
		t.Errorf("%d %d %d bytes in a line", len(p.Tool), len(p.Workspace), len(p.Key))
	}
	if p.InputBytes != 2 || p.Input != palyra.SumBytes([]byte("{}")) {
		t.Errorf("the input stands as %d bytes, %s", p.InputBytes, p.Input)
	}
}

// Arguments that the catalogue refused may be no JSON at all, or megabytes: the
// refusal is on record all the same, and the line has their size and digest.
func TestRefusedArgumentsAreOnRecord(t *testing.T) {
	for name, raw := range map[string]string{
		"malformed": `{"path":`, "not UTF-8": "{\"path\":\"\xff\"}", "huge": `"` + strings.Repeat("x", 10<<20) + `"`, "empty": "",
	} {
		w := newWorld(t)
		w.admit = func() (palyra.Tool, error) {
			return palyra.Tool{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "bad arguments")
		}
		out, err := w.doWith(t.Context(), palyra.Proposal{Tool: "palyra.fs.write", Arguments: json.RawMessage(raw)})
		w.wantRefusal(out, err, palyra.LayerCatalog, palyra.ReasonMalformedInput)
		p := w.journal[0].(palyra.CallProposed)
		if p.InputBytes != int64(len(raw)) || p.Input != palyra.SumBytes([]byte(raw)) {
			t.Errorf("%s: on record as %d bytes, %s", name, p.InputBytes, p.Input)
		}
	}
}

func TestNewWantsEveryPart(t *testing.T) {
	w := newWorld(t)
	full := w.gate().Config
	for name, drop := range map[string]func(*Config){
		"ledger": func(c *Config) { c.Ledger = nil }, "catalog": func(c *Config) { c.Catalog = nil },
		"planner": func(c *Config) { c.Planner = nil },
		"judge":   func(c *Config) { c.Judge = nil }, "desk": func(c *Config) { c.Desk = nil }, "runner": func(c *Config) { c.Runner = nil },
		"attester": func(c *Config) { c.Attester = nil }, "ids": func(c *Config) { c.NewID = nil }, "clock": func(c *Config) { c.Now = nil },
	} {
		c := full
		drop(&c)
		if g, err := New(c); err == nil || g != nil {
			t.Errorf("a gate without its %s", name)
		}
	}
}

func TestAGateWithoutAWatcher(t *testing.T) {
	w := newWorld(t)
	if out, err := w.gate().Do(t.Context(), callID, palyra.Proposal{Tool: "t"}, Watcher{}); err != nil ||
		out.Outcome != palyra.OutcomeFinished {
		t.Errorf("got %+v, %v", out, err)
	}
}

// Why a run was ended from outside stands in its outcome and its attestation.
func TestWhoEndedARunIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		cause  error
		reason palyra.Reason
		kill   string
	}{
		"cancelled": {nil, palyra.ReasonCancelled, "cancelled"},
		"revoked": {
			palyra.Errorf(palyra.Expired, palyra.ReasonGrantRevoked, "the grant was ended"), palyra.ReasonGrantRevoked,
			"grant_revoked",
		},
		"stopping": {ErrStopping, palyra.ReasonStopping, "daemon_stopping"},
		"other":    {errors.New("x"), palyra.ReasonCancelled, "cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			w.execute = func(run context.Context, _ palyra.Launch) palyra.Result {
				cancel(c.cause)
				return failure(run, palyra.ReasonCancelled)
			}
			out, err := w.do(ctx)
			p := w.journal[len(w.journal)-1].(palyra.CallFinished).Signed.Predicate
			if err != nil || out.Outcome != palyra.OutcomeCancelled || out.ReasonCode != c.reason || p.KillReason != palyra.Stop(c.kill) {
				t.Errorf("got %+v, %v; attested %q", out, err, p.KillReason)
			}
		})
	}
}
