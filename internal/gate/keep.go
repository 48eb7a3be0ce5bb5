package gate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"palyra"
)

// What becomes of the changes of a staged run. They are on record and judged before any of them is kept; where
// policy asks, they lie on their stage until somebody has answered, also over a restart.

// weigh is asked by the runner once nothing of a staged run lives. Whatever goes wrong, nothing is kept.
func (w *walk) weigh(ctx context.Context, s palyra.Staged) (ruling palyra.Ruling) {
	defer func() {
		if r := recover(); r != nil {
			w.unkept, ruling = palyra.AsError(fmt.Errorf("gate: panic: %v", r)), palyra.RulingDrop
		}
	}()
	plan := w.call.Plan
	plan.Effects = &s.Effects
	digest, err := plan.Digest()
	if err != nil {
		w.unkept = err
		return palyra.RulingDrop
	}
	w.call.Keep = &palyra.Keep{Effects: s.Effects, Facts: s.Facts, Detail: s.Detail, Digest: digest}
	w.judgeKeep(ctx, nil)
	w.moveTo(palyra.Settling)
	if _, err := w.record(ctx, settling(w.call, false)); err != nil { // barrier: nothing is kept before this line
		w.broken = err
		return palyra.RulingDrop
	}
	switch v := w.call.Keep.Verdict; {
	case onlyLooks(v):
		return palyra.RulingDrop
	case v.Effect == palyra.Allow:
		return palyra.RulingKeep
	case v.Effect == palyra.Ask && !w.call.Proposal.NoWait:
		return palyra.RulingHold
	case v.Effect == palyra.Ask:
		w.unkept = notAwaitedFresh()
	default:
		w.unkept = denied(v)
	}
	return palyra.RulingDrop
}

// weighUntil weighs what a run changed, and drops it where the call was ended meanwhile: by a cancel, or with the lease or
// the credential that it ran by. What policy would keep is then half of a work that nobody stands for any more. How the
// program itself ended, also by its limits, is no matter.
func (w *walk) weighUntil(call context.Context) palyra.Weigher {
	return func(ctx context.Context, s palyra.Staged) palyra.Ruling {
		ruling := w.weigh(ctx, s)
		cause := context.Cause(call)
		if cause == nil || errors.Is(cause, ErrStopping) || ruling == palyra.RulingDrop {
			return ruling
		}
		w.unkept = palyra.CallWasCancelled()
		if e := (*palyra.Error)(nil); errors.As(cause, &e) {
			w.unkept = e
		}
		return palyra.RulingDrop
	}
}

// onlyLooks reports whether the changes are those of a call that only looks, such as git's refreshed index: nobody
// wants them, so they are dropped unasked, and that is no failure.
func onlyLooks(v palyra.Verdict) bool { return v.Looks && len(v.Errors) == 0 }

// judgeKeep asks policy whether the changes are kept. An answer is for these changes alone.
func (w *walk) judgeKeep(ctx context.Context, facts *palyra.ApprovalFacts) {
	w.call.Keep.Verdict = w.verdict(ctx, facts, &w.call.Keep.Facts)
	w.call.Keep.Verdict.Need.Fresh = true
}

// askToKeep opens the question about changes that are held, and waits for its answer.
func (w *walk) askToKeep(ctx context.Context, res palyra.Result) (palyra.Outcome, error) {
	res.Changes = nil // the list has them
	res = w.Mask.Result(res)
	held, err := json.Marshal(res)
	if err != nil {
		return w.settle(ctx, res, false, err)
	}
	w.call.Keep.Result = held
	for try := 1; w.call.Keep.Approval == ""; try++ {
		switch kept, err := w.keepQuestion(ctx); { // barrier: the open question, and what the run brought back
		case err == nil:
		case !kept: // nobody can answer: they need not lie there until the next start
			w.settleSafely(context.WithoutCancel(ctx), false)
			return palyra.Outcome{}, err
		case palyra.CodeOf(err) != palyra.Conflict || try == questionTries:
			return w.settle(ctx, res, false, err)
		}
	}
	return w.awaitKeep(ctx, res)
}

// keepQuestion is question for the changes of a run.
func (w *walk) keepQuestion(ctx context.Context) (kept bool, err error) {
	a, joined, err := w.prepare(ctx, w.call.Asked())
	if err != nil {
		return true, err
	}
	w.call.Keep.Approval = a.ID
	w.note(settling(w.call, false)) // the line that holds the document
	if _, err = w.record(ctx, requested(w.call, a, joined)); err == nil {
		return true, nil
	}
	w.call.Keep.Approval, w.pending = "", nil
	return recorded(err), err
}

// awaitKeep waits for the answer. A caller who gives up drops the changes; a daemon that stops leaves them
// where they are.
func (w *walk) awaitKeep(ctx context.Context, res palyra.Result) (palyra.Outcome, error) {
	keep := w.call.Keep
	if keep.Decision.Answer == palyra.AnswerAllow { // an earlier daemon recorded it, and died
		return w.settle(ctx, res, true, nil)
	}
	d, err := w.wait(ctx, keep.Approval)
	switch {
	case err == nil:
	case errors.Is(context.Cause(ctx), ErrStopping):
		return palyra.Outcome{}, stoppingWith(w.call.ID)
	case ctx.Err() != nil:
		w.note(palyra.ApprovalWithdrawn{Approval: keep.Approval, Call: w.call.ID})
		return w.settle(ctx, res, false, palyra.CallWasCancelled())
	default:
		return w.settle(ctx, res, false, err)
	}
	if keep.Decision = d; d.Answer != palyra.AnswerAllow {
		return w.settle(ctx, res, false, notKept(d))
	}
	facts := w.facts(d)
	w.judgeKeep(ctx, &facts)
	if keep.Verdict.Effect != palyra.Allow {
		return w.settle(ctx, res, false, insufficient(keep.Verdict))
	}
	keep.Verdict.Effect = palyra.Ask               // it took an answer
	_, err = w.record(ctx, settling(w.call, true)) // barrier: the use of the answer is taken
	switch {
	case palyra.CodeOf(err) == palyra.Conflict:
		return w.settle(ctx, res, false, err)
	case err != nil:
		return palyra.Outcome{}, err
	}
	return w.settle(ctx, res, true, nil)
}

// notKept is notAllowed for the changes of a run. A no is about those alone: the same command may run again.
func notKept(d palyra.Decision) error {
	e := palyra.AsError(notAllowed(d))
	if d.Answer == palyra.AnswerDeny {
		return e.WithRemedy("talk to the approver before it is run again; what it changes is then asked about again")
	}
	return e
}

// settle keeps or drops what is held, and ends the call.
func (w *walk) settle(ctx context.Context, res palyra.Result, keep bool, why error) (palyra.Outcome, error) {
	w.unkept = why
	after := w.settleSafely(context.WithoutCancel(ctx), keep)
	if r := after.Refusal; r != nil { // nothing was done: it goes on later
		return palyra.Outcome{}, palyra.Errorf(palyra.Unavailable, r.Reason, "what call %s changed is not settled yet: %s", w.call.ID, r.Text).
			WithRemedy("%s", r.Remedy)
	}
	res.Effects = after.Effects
	res.Left = append(res.Left, after.Left...)
	res.Quarantined, res.More = append(res.Quarantined, after.Quarantined...), res.More+after.More
	if f := after.Failure; f != nil {
		fail(&res, *f)
	}
	w.call.Keep.Result = nil
	return w.finish(ctx, w.explainDropped(res))
}

func (w *walk) settleSafely(ctx context.Context, keep bool) (res palyra.Result) {
	defer func() {
		if r := recover(); r != nil {
			f := palyra.RefusalOf(palyra.LayerTier, fmt.Errorf("gate: panic while changes were settled: %v", r))
			res = palyra.Result{Effects: palyra.EffectsLost, Failure: &f}
		}
	}()
	return w.Runner.Settle(ctx, w.call, keep)
}

// explainDropped returns a result that says why its changes were dropped, where they were.
func (w *walk) explainDropped(res palyra.Result) palyra.Result {
	if res.Effects != palyra.EffectsDropped || w.unkept == nil && w.call.Keep != nil && onlyLooks(w.call.Keep.Verdict) {
		return res
	}
	layer, e := palyra.LayerPolicy, palyra.AsError(cmp.Or(w.unkept, error(errUnweighed)))
	if w.call.Keep != nil && w.call.Keep.Approval != "" {
		layer = palyra.LayerApproval
	}
	f := palyra.Refusal{
		Layer: layer, Code: e.Code, Reason: palyra.ReasonEffectsDropped, Remedy: e.Remedy,
		Text: "the program ran, and nothing that it changed was kept: " + e.Text,
	}
	if w.call.Keep != nil && layer == palyra.LayerPolicy {
		f.Policies = policyIDs(w.call.Keep.Verdict)
	}
	fail(&res, f)
	return res
}

var errUnweighed = palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "nobody said that it may be")

// fail adds a failure to a result. What ended the run comes first.
func fail(res *palyra.Result, f palyra.Refusal) {
	if res.Failure == nil {
		res.Failure = &f
	} else {
		first := *res.Failure
		first.Text += "; " + f.Text
		res.Failure = &first
	}
	res.ExitCode = cmp.Or(res.ExitCode, palyra.ExitRefused)
}
