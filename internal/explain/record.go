package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/rpc/wire"
)

// Recorded explains a call on record: what refused it, in the words of that refusal, and what would turn it today.
func (p *Explainer) Recorded(ctx context.Context, c *palyra.Call) (wire.Explanation, error) {
	e := wire.Explanation{Call: c.ID, Plan: c.Plan, PlanDigest: c.Digest, Approval: c.Approval}
	var now policy.Explanation
	var ran *palyra.Runtime
	judged := c.Verdict.Bundle != ""
	if judged {
		now = p.Here.Policy.Why(ctx, palyra.RequestOf(c))
		var err error
		if e, err = explained(c, now); err != nil {
			return e, err
		}
	}
	e.Verdict = c.Verdict
	e.Layer, e.ReasonCode, e.Reason, e.Remedy = p.endOf(c)
	if att, err := p.Attester.Get(ctx, string(c.ID)); err == nil {
		e.Attestation = att.ID
		p.run(&e, att.Predicate)
		ran = att.Predicate.Runtime
	}
	if e.Layer != "" {
		e.Flips = p.recordChanges(ctx, c, &e, now)
	}
	e.Lines = slices.Concat([]string{e.Reason, e.Remedy}, describeHostCalls(ran), judgement(e.Reason, now), describeChanges(c),
		describeQuarantine(c), describeEnd(c), sinceThen(c, now, judged))
	return e, nil
}

// judgement is policy's own text about a call that it does not simply allow, where the call's end was worded
// by somebody else: policy's text also says what the command would do.
func judgement(said string, now policy.Explanation) []string {
	if now.Verdict == palyra.Allow || now.Reason == "" || now.Reason == said {
		return nil
	}
	return []string{"policy now: " + now.Reason}
}

// describeChanges says how it was judged what the run of a call had changed, and what became of it.
func describeChanges(c *palyra.Call) []string {
	k := c.Keep
	if k == nil {
		return nil
	}
	var ids []string
	for _, hit := range k.Verdict.Policies {
		ids = append(ids, hit.ID)
	}
	paths := fmt.Sprintf("%d paths", k.Effects.Total())
	if k.Effects.Total() == 1 {
		paths = "1 path"
	}
	out := []string{
		fmt.Sprintf("what it changed (%s) was judged as %s: %s, by %s", paths, policy.KeepAction, k.Verdict.Effect, fewNames(ids)),
		"policy saw of it: " + describeFacts(k.Facts),
	}
	if d := k.Decision; d.Answer != "" && d.By != "" {
		out = append(out, fmt.Sprintf("whether to keep it was answered %s by %s", d.Answer, d.By))
	}
	if o := c.Outcome; o != nil && o.Effects != "" {
		out = append(out, fmt.Sprintf("what it changed: %s", o.Effects))
	}
	return out
}

// describeFacts is what policy was told of changes, by the names that policies use, without what there was none of.
func describeFacts(f palyra.EffectFacts) string {
	var out []string
	for _, n := range []struct {
		name  string
		count int64
	}{
		{"created", f.Created},
		{"changed", f.Changed},
		{"removed", f.Removed},
		{"mode", f.Mode},
		{"link", f.Link},
		{"bytes", f.Bytes},
		{"removed_files", f.RemovedFiles},
		{"executables", f.Executables},
		{"never_kept", f.NeverKept},
		{"share", f.Share},
		{"omitted", f.Omitted},
		{"pushes_out", f.PushesOut},
	} {
		if n.count > 0 {
			out = append(out, fmt.Sprintf("%s %d", n.name, n.count))
		}
	}
	if f.NotUndoable {
		out = append(out, "not_undoable")
	}
	var rewound []palyra.PathText
	for _, ref := range f.Rewound {
		rewound = append(rewound, palyra.TextOfPath(ref))
	}
	for _, l := range []struct {
		name  string
		paths []palyra.PathText
	}{
		{"trusted", f.Trusted}, {"outward", f.Outward}, {"run_by_tools", f.RunByTools}, {"uncommitted", f.Uncommitted}, {"rewound", rewound},
	} {
		if len(l.paths) > 0 {
			out = append(out, l.name+" "+fewPaths(l.paths))
		}
	}
	return strings.Join(out, "; ")
}

// describeQuarantine names the sealed paths that a run made and that lie in quarantine.
func describeQuarantine(c *palyra.Call) []string {
	if c.Outcome == nil || len(c.Outcome.Quarantined) == 0 {
		return nil
	}
	return []string{"in quarantine, under this call's id ('palyra config path' says where): " + fewPaths(c.Outcome.Quarantined)}
}

func fewPaths(paths []palyra.PathText) string {
	var names []string
	for _, p := range paths {
		names = append(names, string(p))
	}
	return fewNames(names)
}

// describeEnd says how a call ended, and who answered where somebody was asked.
func describeEnd(c *palyra.Call) []string {
	var out []string
	switch d := c.Decision; {
	case d.Answer == "" || d.By == "":
	case d.Reused:
		asked := "nobody was asked"
		if c.Approval != "" {
			asked = fmt.Sprintf("it was made while approval %s was open and took its place", c.Approval)
		}
		out = append(out, fmt.Sprintf("lease %s by %s covered it; %s", d.Lease, d.By, asked))
	case d.At.IsZero():
		out = append(out, fmt.Sprintf("answered %s by %s", d.Answer, d.By))
	default:
		out = append(out, fmt.Sprintf("answered %s by %s at %s", d.Answer, d.By, d.At.UTC().Format(time.RFC3339)))
	}
	switch o := c.Outcome; {
	case o == nil:
		out = append(out, fmt.Sprintf("it has not ended: %s", c.State))
	case o.Signal != "":
		out = append(out, fmt.Sprintf("it ended: %s, by signal %s", o.Outcome, o.Signal))
	case o.Layer == "":
		out = append(out, fmt.Sprintf("it ended: %s, exit code %d", o.Outcome, o.ExitCode))
	default:
		out = append(out, fmt.Sprintf("it ended: %s", o.Outcome))
	}
	return out
}

// noteDenyHold adds to each flip that needs an answer that nobody can be asked yet, while a denied plan is on hold.
func (p *Explainer) noteDenyHold(c *palyra.Call, reason palyra.Reason, flips []wire.Flip) []wire.Flip {
	held := reason == palyra.ReasonRecentlyDenied || reason == palyra.ReasonApprovalDenied
	if !held || p.Now().After(c.Finished.Add(p.Settings.Approvals.DenyHold())) {
		return flips
	}
	for i, f := range flips {
		if f.Kind == flipAnswer {
			flips[i].Text += ", once the denied plan may be asked for again" // the refusal says when
		}
	}
	return flips
}

// endOf is how a call ended, in the words of its outcome.
func (*Explainer) endOf(c *palyra.Call) (palyra.Layer, palyra.Reason, string, string) {
	switch o := c.Outcome; {
	case o == nil && c.State == palyra.Pending:
		return palyra.LayerApproval, "", c.Verdict.Reason, c.Verdict.Remedy
	case o == nil && c.State == palyra.Settling && c.Keep != nil:
		return palyra.LayerApproval, "", c.Keep.Verdict.Reason, c.Keep.Verdict.Remedy
	case o == nil || o.Layer == "":
		return "", "", c.Verdict.Reason, ""
	default:
		return o.Layer, o.ReasonCode, o.Reason, o.Remedy
	}
}

// run adds what the outcome leaves out: hosts that a program was refused, though it ended by itself.
func (*Explainer) run(e *wire.Explanation, ran palyra.Predicate) {
	hosts := refusedHosts(ran.Egress)
	if len(hosts) == 0 || e.Layer != "" {
		return
	}
	e.Layer, e.ReasonCode = palyra.LayerEgress, palyra.ReasonEgressDenied
	e.Reason = fmt.Sprintf("it ran, and was refused %s", fewNames(hosts))
	e.Remedy = fmt.Sprintf("propose the call with %s in its egress list (--egress)", fewNames(hosts))
}

// sinceThen says that the same call would be answered differently today.
func sinceThen(c *palyra.Call, now policy.Explanation, judged bool) []string {
	if !judged || now.Bundle == c.Verdict.Bundle && now.Verdict == c.Verdict.Effect {
		return nil
	}
	if now.Verdict == c.Verdict.Effect {
		return []string{fmt.Sprintf("other policies are in force since; they too answer %s", now.Verdict)}
	}
	return []string{fmt.Sprintf("it was judged %s then; judged now, the answer is %s", c.Verdict.Effect, now.Verdict)}
}

// recordChanges are the changes that would turn the end of a call.
func (p *Explainer) recordChanges(ctx context.Context, c *palyra.Call, e *wire.Explanation, now policy.Explanation) []wire.Flip {
	again := *c
	again.Proposal.CallsUsed, again.Proposal.CallsMax = 0, 0
	if f, ok := ofSkill(e, now.Verdict); ok {
		return []wire.Flip{f}
	}
	switch e.Layer {
	case palyra.LayerPolicy:
		if now.Verdict == palyra.Allow {
			return []wire.Flip{{
				Kind: flipPolicy, Text: "propose it again: the policies in force allow it now", Becomes: palyra.Allow,
				Verified: true,
			}}
		}
		return p.flips(ctx, c, now)
	case palyra.LayerApproval:
		if now.Verdict == palyra.Ask {
			return append(p.noteDenyHold(c, e.ReasonCode, p.flips(ctx, c, now)), p.settings(ctx, &again, e.ReasonCode, "")...)
		}
	case palyra.LayerLimit:
		return p.raiseEndingLimit(ctx, &again, e.ReasonCode)
	case palyra.LayerCatalog, palyra.LayerPlan, palyra.LayerTier, palyra.LayerEgress:
		return p.runChanges(ctx, c, &again, e)
	}
	return p.proposeAgain(ctx, &again, e.ReasonCode) // a grant that was spent, a daemon that died, an answer that never came
}

// runChanges are the changes for a call that was refused before policy, or that policy let through and its
// tier stopped. A plan that succeeds says nothing about what only a run shows.
func (p *Explainer) runChanges(ctx context.Context, c, again *palyra.Call, e *wire.Explanation) []wire.Flip {
	switch reason := e.ReasonCode; {
	case reason == palyra.ReasonTimedOut || reason == palyra.ReasonQuotaExceeded:
		return p.raiseEndingLimit(ctx, again, reason)
	case reason == palyra.ReasonBudgetSpent:
		return append(p.proposeAgain(ctx, again, reason), p.settings(ctx, c, reason, "")...)
	case reason == palyra.ReasonEgressDenied && c.Granted.Seq != 0:
		return p.hosts(ctx, again, c)
	case reason == palyra.ReasonSealDenied:
		return p.openSeal(ctx, again, e.Reason)
	case reason == palyra.ReasonPortDenied && e.Layer == palyra.LayerTier: // a plan does not tell which ports are taken
		return p.tryEdits(ctx, again, []edit{editPublish()}, palyra.Deny)
	case reason == palyra.ReasonWeakEnforcement && e.Layer == palyra.LayerTier && len(showValues(c.Plan)) > 0:
		return p.settings(ctx, c, reason, "") // a plan does not tell whether there is anything to mask
	case e.Layer == palyra.LayerTier && !endsWithCall(reason) && p.imagine(ctx, ptr(*again)) == nil:
		return nil
	default:
		return append(p.proposeAgain(ctx, again, reason), p.tryChanges(ctx, again, reason)...)
	}
}

func ptr[T any](v T) *T { return &v }

// endsWithCall reports whether a reason concerned only the call that met it.
func endsWithCall(r palyra.Reason) bool {
	switch r {
	case palyra.ReasonPlanChanged, palyra.ReasonGrantRevoked, palyra.ReasonGrantSpent, palyra.ReasonSessionClosed,
		palyra.ReasonApprovalExpired,
		palyra.ReasonInterrupted, palyra.ReasonStopping, palyra.ReasonCancelled, palyra.ReasonQuarantined, palyra.ReasonPosture,
		palyra.ReasonInputChanged, palyra.ReasonEffectsConflict, palyra.ReasonEffectsLost, palyra.ReasonEffectsDropped:
		return true
	}
	return false
}

// tryChanges are the changes for a call that cannot be planned as it is.
func (p *Explainer) tryChanges(ctx context.Context, c *palyra.Call, reason palyra.Reason) []wire.Flip {
	if p.imagine(ctx, ptr(*c)) == nil {
		return nil // it can: propose it again
	}
	return slices.Concat(p.tryArguments(ctx, c, reason, palyra.Deny), p.settings(ctx, c, reason, ""), p.operatorCommands(ctx, c, reason))
}

// endingLimit is the limit that ended a run.
func (p *Explainer) endingLimit(ctx context.Context, c *palyra.Call) string {
	att, err := p.Attester.Get(ctx, string(c.ID))
	if err != nil {
		return ""
	}
	return string(att.Predicate.KillReason)
}

// proposeAgain plans and judges the same call again, without proposing it.
func (p *Explainer) proposeAgain(ctx context.Context, again *palyra.Call, reason palyra.Reason) []wire.Flip {
	c, text := *again, "propose it again"
	switch reason {
	case palyra.ReasonBudgetSpent:
		text = "propose it in a new run"
	case palyra.ReasonSessionClosed:
		text = "propose it again, in another session"
	}
	switch err := p.imagine(ctx, &c); {
	case err != nil && reason == palyra.ReasonBudgetSpent: // a call that was not admitted is on record without its arguments
		return []wire.Flip{untried(wire.Flip{Kind: flipArguments, Text: text, Becomes: palyra.Allow}, openArgs)}
	case err != nil:
		return nil
	}
	why := p.Here.Policy.Why(ctx, palyra.RequestOf(&c))
	switch why.Verdict {
	case palyra.Allow:
		return []wire.Flip{{Kind: flipArguments, Text: text, Change: string(c.Proposal.Arguments), Becomes: palyra.Allow, Verified: true}}
	case palyra.Ask:
		return []wire.Flip{{
			Kind: flipAnswer, Text: text + ", with an approval by " + policy.Describe(why.Need),
			Change: string(c.Proposal.Arguments), Becomes: palyra.Ask, Verified: true,
		}}
	}
	return p.flips(ctx, &c, why)
}
