package gate

import (
	"context"

	"palyra"
)

// Check takes a proposal as far as an answer, for an agent that runs it by its own tools: admitted, resolved,
// judged and asked about as any call, as one that no sandbox holds. Its last line is call.checked. Nothing runs,
// nothing is granted and nothing is attested: Palyra does not know what the agent makes of a yes.
func (g *Gate) Check(ctx context.Context, id palyra.CallID, p palyra.Proposal, watch Watcher) (palyra.Outcome, error) {
	p.Check = true
	return g.Do(ctx, id, p, watch)
}

// Observe takes a proposal of an agent that runs the call whatever the answer would be: it is admitted, resolved and
// judged, as a check or as the call that Palyra would have run, nobody is asked, and its last line, call.observed, says
// what would have become of it. Nothing runs, nothing is granted and nothing is attested.
func (g *Gate) Observe(ctx context.Context, id palyra.CallID, p palyra.Proposal, watch Watcher) (palyra.Outcome, error) {
	p.Observe = true
	return g.Do(ctx, id, p, watch)
}

// pass goes on with a call that policy, and people where policy asks, allow.
func (w *walk) pass(ctx context.Context) (palyra.Outcome, error) {
	switch {
	case w.call.Proposal.Observe:
		return w.observe(ctx, palyra.Refusal{Text: "policy allows it"}, "")
	case w.call.Proposal.Check:
		return w.check(ctx)
	}
	return w.launch(ctx)
}

// check tells the caller that it may run the call. The line uses up the answer that allows it, as a grant
// does: an answer of scope once does not hold for the next check.
func (w *walk) check(ctx context.Context) (palyra.Outcome, error) {
	before := w.call.State
	if err := palyra.Permitted(w.call); err != nil {
		return w.refuse(ctx, palyra.LayerGrant, err)
	}
	told, err := w.foresee(ctx) // what it replaces is kept before anybody may replace it
	if err != nil {
		return w.refuse(ctx, palyra.LayerTier, err)
	}
	out := allowed(w.call)
	if told != nil {
		out.Reason += "; 'palyra undo' puts back what it replaces"
	}
	w.end(palyra.Checked, out)
	_, err = w.record(ctx, checked(w.call)) // barrier: no yes before this line
	if told != nil {
		told(err == nil)
	}
	switch {
	case palyra.CodeOf(err) == palyra.Conflict: // the lease was spent, revoked or expired meanwhile
		w.call.State = before
		return w.refuse(ctx, palyra.LayerGrant, err)
	case err != nil:
		return palyra.Outcome{}, err
	}
	return out, nil
}

func (w *walk) foresee(ctx context.Context) (told func(bool), err error) {
	if w.Foresee == nil {
		return nil, nil
	}
	defer recoverPanic(&err)
	return w.Foresee(ctx, w.call)
}

// observeAsk says that the call would have been asked about, or that an answer covers it.
func (w *walk) observeAsk(ctx context.Context) (palyra.Outcome, error) {
	d, ok, err := w.cover(ctx)
	switch {
	case err != nil:
		return w.refuse(ctx, palyra.LayerApproval, err)
	case ok:
		return w.observe(ctx, palyra.Refusal{Layer: palyra.LayerApproval, Text: "an answer of " + string(d.By) + " covers it"}, d.Lease)
	}
	r := palyra.RefusalOf(palyra.LayerApproval, notAwaited(w.call))
	r.Text, r.Remedy = "a person would have been asked", "see 'palyra observe report'"
	return w.observe(ctx, r, "")
}

// observe ends a call that nothing holds back with what would have become of it. An answer that would have covered it is not used.
func (w *walk) observe(ctx context.Context, r palyra.Refusal, lease palyra.LeaseID) (palyra.Outcome, error) {
	r = w.Mask.Refusal(r)
	out := blank(w.call)
	out.Outcome, out.Layer, out.ReasonCode, out.Reason, out.Remedy = palyra.OutcomeObserved, r.Layer, r.Reason, r.Text, r.Remedy
	out.Policies = policyIDs(w.call.Verdict)
	e := palyra.CallObserved{
		Call: w.call.ID, Plan: w.call.Digest, Effect: w.call.Verdict.Effect, Layer: r.Layer, Reason: r.Reason, Lease: lease,
	}
	w.end(palyra.Observed, out)
	if _, err := w.record(ctx, e); err != nil {
		return palyra.Outcome{}, err
	}
	return out, nil
}

func allowed(c *palyra.Call) palyra.Outcome {
	o := blank(c)
	o.Outcome, o.Policies = palyra.OutcomeAllowed, policyIDs(c.Verdict)
	o.Reason = "policy allows it"
	if c.Decision.Answer == palyra.AnswerAllow {
		o.Reason = "allowed by " + string(c.Decision.By)
	}
	o.Reason += "; the caller runs it itself, and Palyra neither runs nor sandboxes it"
	return o
}

func checked(c *palyra.Call) palyra.Event {
	return palyra.CallChecked{
		Call: c.ID, Plan: c.Digest, Effect: c.Verdict.Effect, Policies: policyIDs(c.Verdict), Approval: c.Decision.Approval,
		Lease: c.Decision.Lease, Tier: c.Plan.Tier,
	}
}
