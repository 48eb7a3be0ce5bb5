package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"palyra"
)

// walk is one call on its way. Events gather in pending until a barrier makes them durable together.
type walk struct {
	*Gate
	call    *palyra.Call
	pending []palyra.Event
	watch   Watcher
	unkept  error // why the changes of the run are dropped
	broken  error // why what the run changed is not on record
}

// defaultWall bounds a run whose plan names no limit of its own.
const defaultWall = 2 * time.Minute

// recordTimeout bounds a write that must happen though the caller is gone.
const recordTimeout = 30 * time.Second

func (w *walk) note(e palyra.Event) { w.pending = append(w.pending, e) }

// record is a durable barrier: everything noted so far and e, with the call as it stands. It does not stop when the
// caller goes away. The watcher hears of events only after they are durable.
func (w *walk) record(ctx context.Context, e palyra.Event) (palyra.Position, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	events := append(w.pending[:len(w.pending):len(w.pending)], e)
	pos, err := w.Ledger.Record(ctx, w.call, events...)
	if err != nil {
		return palyra.Position{}, fmt.Errorf("gate: record %s: %w", e.Kind(), err)
	}
	w.pending = nil
	if w.watch.Events != nil {
		w.watch.Events(w.call, events...)
	}
	return pos, nil
}

// moveTo moves the call along its state table. A move the table does not know is a defect of this package,
// and stops the call by panic before it can run.
func (w *walk) moveTo(s palyra.State) {
	if !w.call.State.MayBecome(s) {
		panic(fmt.Sprintf("gate: %s may not become %s", w.call.State, s))
	}
	w.call.State = s
}

func (w *walk) admit(ctx context.Context) (err error) {
	defer recoverPanic(&err)
	w.call.Tool, err = w.Catalog.Admit(ctx, w.call.Proposal)
	return err
}

func (w *walk) resolve(ctx context.Context) (err error) {
	defer recoverPanic(&err)
	plan, err := w.Planner.Resolve(ctx, w.call)
	if err != nil {
		return err
	}
	if w.call.Proposal.Check {
		plan = plan.Unsandboxed()
	}
	digest, err := plan.Digest()
	if err != nil { // a plan without a digest is not kept
		return err
	}
	w.call.Plan, w.call.Detail, w.call.Digest = plan, plan.Detail, digest
	return nil
}

func (w *walk) cover(ctx context.Context) (d palyra.Decision, ok bool, err error) {
	defer recoverPanic(&err)
	if w.call.Verdict.Need.Fresh { // only an answer of its own will do
		return palyra.Decision{}, false, nil
	}
	return w.Desk.Cover(ctx, w.call)
}

// overtaken returns the decision behind the lease that closed the call's question. That was asked when other calls of
// the session had not done yet what they did since (used a secret): the lease must cover the call as it is judged now.
// When it does not, or has ended meanwhile, overtaken returns d, which says that nobody answered.
func (w *walk) overtaken(ctx context.Context, d palyra.Decision) (palyra.Decision, error) {
	asked, now := w.call.Verdict, w.verdict(ctx, nil, nil)
	if len(now.Errors) > 0 {
		return palyra.Decision{}, denied(now)
	}
	if now.Effect == palyra.Ask { // else the judgement that is to come, with the answer, says so on record
		w.call.Verdict = now
	}
	if by, ok, err := w.cover(ctx); ok || err != nil {
		return by, err
	}
	w.call.Verdict = asked // as it is on record
	return d, nil
}

func (w *walk) prepare(ctx context.Context, about *palyra.Call) (a palyra.Approval, joined bool, err error) {
	defer recoverPanic(&err)
	return w.Desk.Prepare(ctx, about)
}

func (w *walk) wait(ctx context.Context, question palyra.ApprovalID) (d palyra.Decision, err error) {
	defer recoverPanic(&err)
	return w.Desk.Wait(ctx, question)
}

// facts puts the decision into policy's terms. They are empty when the desk fails, and policy then denies.
func (w *walk) facts(d palyra.Decision) (f palyra.ApprovalFacts) {
	var err error
	defer recoverPanic(&err)
	return w.Desk.Facts(w.call.Proposal.Owner, d)
}

// recoverPanic turns a panic over hostile input into a refusal that is on record.
func recoverPanic(err *error) {
	if r := recover(); r != nil {
		*err = palyra.AsError(fmt.Errorf("gate: panic: %v", r))
	}
}

// judge asks policy. With facts it is the second time, after an answer.
func (w *walk) judge(ctx context.Context, facts *palyra.ApprovalFacts) {
	w.call.Verdict = w.verdict(ctx, facts, nil)
	if facts == nil {
		w.moveTo(palyra.Judged)
	}
	w.note(judged(w.call, facts != nil))
}

// verdict asks policy about the call, or about what it changed. The session's labels
// are read each time: other calls may have set some meanwhile.
func (w *walk) verdict(ctx context.Context, facts *palyra.ApprovalFacts, changed *palyra.EffectFacts) palyra.Verdict {
	labels, err := w.labels(ctx)
	w.call.Proposal.Labels = labels
	v := palyra.Verdict{Reason: "what the session did before cannot be read, so the call is denied", Remedy: "see 'palyra doctor'"}
	if err != nil {
		v.Errors = []string{palyra.Clip(err.Error(), 256)}
	} else {
		r := palyra.RequestOf(w.call)
		r.At, r.Approval, r.Effects = w.Now(), facts, changed
		v = w.judgeSafely(ctx, r)
	}
	if len(v.Errors) > 0 {
		v.Effect = palyra.Deny
	}
	return v
}

// labels returns the session's labels, also when the caller has left.
func (w *walk) labels(ctx context.Context) (list []string, err error) {
	defer recoverPanic(&err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	return w.Ledger.Labels(ctx, w.call)
}

func (w *walk) judgeSafely(ctx context.Context, r palyra.Request) (v palyra.Verdict) {
	defer func() {
		if p := recover(); p != nil {
			v = palyra.Verdict{Effect: palyra.Deny, Errors: []string{"policy: panic"}}
		}
	}()
	return w.Judge.Judge(ctx, r)
}

// questionTries bounds how often a question is prepared that others settle while we
// join it, or that a lease comes to cover before it is open.
const questionTries = 3

// question makes the pending approval durable, together with proposed and judged. kept false means that the ledger
// failed and nobody knows what it holds; any other error is the desk's no, and the ledger holds nothing. Conflict
// means that the question we wanted to join was settled first, or need not be asked.
func (w *walk) question(ctx context.Context) (kept bool, err error) {
	before := w.call.State
	a, joined, err := w.prepare(ctx, w.call)
	if err != nil {
		return true, err
	}
	w.call.Approval = a.ID
	w.moveTo(palyra.Pending)
	if _, err = w.record(ctx, requested(w.call, a, joined)); err == nil {
		return true, nil
	}
	w.call.State, w.call.Approval = before, ""
	return recorded(err), err
}

// recorded reports whether an error says that the world moved, and not that the ledger failed.
func recorded(err error) bool {
	code := palyra.CodeOf(err)
	return code != palyra.Unavailable && code != palyra.Internal
}

// wallOf is how long a plan may run.
func wallOf(p palyra.Plan) time.Duration {
	if wall := time.Duration(p.Limits.WallMS) * time.Millisecond; wall > 0 {
		return wall
	}
	return defaultWall
}

// confirm resolves the call again, and makes the launch if the plan is still the one that was judged.
func (w *walk) confirm(ctx context.Context, c *palyra.Call, g palyra.Grant) (l palyra.Launch, err error) {
	defer recoverPanic(&err)
	now, err := w.Planner.Resolve(ctx, c)
	if err != nil {
		return palyra.Launch{}, g.Plan().Unresolved(ctx, err)
	}
	return g.Confirm(now)
}

// run runs the launch while the clock goes, and keeps apart why it ended.
func (w *walk) run(ctx context.Context, c *clock, l palyra.Launch) (res palyra.Result) {
	started := w.Now()
	defer func() {
		if r := recover(); r != nil { // it may have done something: finished, failed, attested
			f := palyra.RefusalOf(palyra.LayerTier, fmt.Errorf("gate: panic in a tool: %v", r))
			res = palyra.Result{ExitCode: 1, Failure: &f, Executor: string(l.Plan().Tier), KillReason: palyra.StopPanic}
		}
		if res.Started.IsZero() {
			res.Started, res.Finished = started, w.Now()
		}
	}()
	if w.watch.Running != nil {
		defer w.watch.Running(w.call, c.pause)()
	}
	res = w.Runner.Run(c, l, w.call)
	switch {
	case ctx.Err() != nil:
		res.Cancelled = res.Cancelled || (res.Refusal == nil && res.Failure != nil)
		if res.Cancelled {
			res.KillReason = palyra.Stop(endedBy(context.Cause(ctx)))
		}
	case c.Err() != nil && res.Failure != nil:
		res.TimedOut = true
	}
	return res
}

// endedBy names why a run was ended from outside.
func endedBy(cause error) palyra.Reason {
	if errors.Is(cause, ErrStopping) {
		return palyra.ReasonStopping
	}
	if e := (*palyra.Error)(nil); errors.As(cause, &e) && e.Reason != "" {
		return e.Reason
	}
	return palyra.ReasonCancelled
}

// refuse ends the call with a refusal of the layer. When even that cannot be recorded the error says so.
func (w *walk) refuse(ctx context.Context, layer palyra.Layer, err error) (palyra.Outcome, error) {
	r := palyra.RefusalOf(layer, err)
	if ctx.Err() != nil && r.Reason == palyra.ReasonInternal && errors.Is(err, ctx.Err()) { // the caller left; nothing is broken
		r.Code, r.Reason, r.Text, r.Remedy = palyra.Expired, palyra.ReasonCancelled, "the caller left before the call was granted", ""
	}
	if layer == palyra.LayerPolicy {
		r.Policies = policyIDs(w.call.Verdict)
	}
	if w.call.Proposal.Observe {
		return w.observe(ctx, r, "")
	}
	return w.refused(ctx, r)
}

func (w *walk) refused(ctx context.Context, r palyra.Refusal) (palyra.Outcome, error) {
	r = w.Mask.Refusal(r)
	out := refusal(w.call, r)
	w.end(palyra.Refused, out)
	if _, err := w.record(ctx, refusedEvent(w.call, r)); err != nil {
		return palyra.Outcome{}, err
	}
	return out, nil
}

// cancel withdraws the question of a caller who gave up.
func (w *walk) cancel(ctx context.Context) (palyra.Outcome, error) {
	from := w.call.State
	out := refusal(w.call, palyra.Refusal{
		Layer: palyra.LayerApproval, Code: palyra.Expired, Reason: palyra.ReasonCancelled,
		Text: "the caller cancelled while the approval was open",
	})
	out.Outcome, out.ExitCode = palyra.OutcomeCancelled, palyra.ExitCancelled
	w.end(palyra.Cancelled, out)
	w.note(palyra.ApprovalWithdrawn{Approval: w.call.Approval, Call: w.call.ID})
	if _, err := w.record(ctx, palyra.CallCancelled{Call: w.call.ID, State: from, By: string(w.call.Proposal.Principal)}); err != nil {
		return palyra.Outcome{}, err
	}
	return out, nil
}

func (w *walk) end(s palyra.State, out palyra.Outcome) {
	w.moveTo(s)
	w.call.Finished = w.Now()
	w.call.Outcome = &out
}
