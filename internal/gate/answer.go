package gate

import (
	"cmp"

	"palyra"
)

// What the agent is told, made from the call and what happened.

func blank(c *palyra.Call) palyra.Outcome {
	asked := c.Approval
	if asked != "" && c.Decision.Reused { // its own question was overtaken: the one that was answered permits it
		asked = c.Decision.Approval
	}
	return palyra.Outcome{
		Tool: palyra.Clip(c.Proposal.Tool, 512), SessionID: c.Proposal.Session, CallID: c.ID, ApprovalID: asked,
		GrantID: c.Grant, PlanDigest: c.Digest, JournalPosition: c.Granted.Seq,
		Quarantined: []palyra.PathText{},
	}
}

func refusal(c *palyra.Call, r palyra.Refusal) palyra.Outcome {
	o := blank(c)
	o.Outcome, o.Layer, o.ReasonCode, o.Reason, o.Remedy, o.Policies =
		palyra.OutcomeRefused, r.Layer, r.Reason, r.Text, r.Remedy, r.Policies
	o.ExitCode = palyra.ExitRefused
	return o
}

func outcome(c *palyra.Call, res palyra.Result) palyra.Outcome {
	o := blank(c)
	o.Outcome = palyra.OutcomeFinished
	if f := res.Failure; f != nil {
		o.Layer, o.ReasonCode, o.Reason, o.Remedy = f.Layer, f.Reason, palyra.Clip(f.Text, maxWords), palyra.Clip(f.Remedy, maxWords)
	}
	output, ok := readable(res.Output)
	if !ok && o.ReasonCode == "" {
		o.Layer, o.ReasonCode = palyra.LayerTier, palyra.ReasonInternal
		o.Reason, o.Remedy = "the tool ran, and its result is not JSON and is left out", "see what it did before you propose it again"
	}
	switch {
	case res.TimedOut:
		o.Outcome, o.ReasonCode = palyra.OutcomeTimedOut, palyra.ReasonTimedOut
	case res.Cancelled:
		o.Outcome, o.ReasonCode = palyra.OutcomeCancelled, palyra.ReasonCancelled
		if why := palyra.Reason(res.KillReason); why == palyra.ReasonGrantRevoked || why == palyra.ReasonStopping {
			o.ReasonCode = why
		}
		o.Remedy = cmp.Or(o.Remedy, "propose the call again if it is still wanted")
	}
	o.ExitCode, o.Signal, o.Truncated, o.Output = res.ExitCode, palyra.Clip(res.Signal, 64), res.Truncated, output
	o.Quarantined, o.Left = palyra.TextOfPaths(res.Quarantined, res.More), textOfRemnants(res.Left)
	o.Effects, o.Changes, o.InputChanged = res.Effects, res.Listed, palyra.TextOfPaths(res.Changed, 0)
	o.SetStreams(res.Stdout, res.Stderr)
	return o
}

func predicate(c *palyra.Call, res palyra.Result, out palyra.Outcome, id palyra.ID) (palyra.Predicate, error) {
	body, err := out.BodyDigest()
	if err != nil {
		return palyra.Predicate{}, err
	}
	p := palyra.Predicate{
		AttestationID: id, CallID: c.ID, RunID: c.Proposal.Run, SessionID: c.Proposal.Session,
		Principal: c.Proposal.Principal, Surface: c.Proposal.Surface, Tool: c.Plan.Tool, PlanDigest: c.Digest,
		InputDigest: c.Input, Verdict: c.Verdict.Effect, Policies: policyIDs(c.Verdict),
		BundleDigest: c.Verdict.Bundle, SnapshotDigest: c.Verdict.Snapshot, GrantID: c.Grant, LeaseID: c.Decision.Lease,
		Tier: c.Plan.Tier, Executor: res.Executor, Enforcement: res.Enforcement, Limits: c.Plan.Limits,
		Outcome: out.Outcome, ExitCode: res.ExitCode, Signal: out.Signal, TimedOut: res.TimedOut,
		KillReason: palyra.Stop(clip(string(res.KillReason))),
		Usage:      res.Usage, Runtime: res.Runtime, StdoutDigest: outputDigest(res.StdoutDigest, res.Stdout),
		StderrDigest: outputDigest(res.StderrDigest, res.Stderr), OutputDigest: outputDigest(res.OutputDigest, res.Output), OutcomeDigest: body,
		Egress: flows(res.Egress), EgressOmitted: res.Omitted,
		Quarantined: palyra.TextOfPaths(res.Quarantined, res.More), Left: textOfRemnants(res.Left), PostureDigest: res.Posture,
		Effects: out.Effects, Changes: out.Changes, InputChanged: out.InputChanged,
		StartedAt: palyra.Time(res.Started), FinishedAt: palyra.Time(res.Finished), Granted: c.Granted,
	}
	if c.Decision.Answer != palyra.AnswerPending {
		d := c.Decision
		p.Decision, p.Separation = &d, d.Separation
	}
	return p, nil // execution_sha256 is the attester's to fill in
}

// outputDigest is the digest of an output before any cut: the runner's, who saw it, or that of what there is.
func outputDigest(d palyra.Digest, kept []byte) palyra.Digest {
	if d != "" {
		return d
	}
	return palyra.SumBytes(kept)
}

// flows is never nil: a predicate says that there were none.
func flows(f []palyra.EgressFlow) []palyra.EgressFlow { return append([]palyra.EgressFlow{}, f...) }

func denied(v palyra.Verdict) error {
	e := palyra.Errorf(palyra.Denied, palyra.ReasonPolicyDenied, "policy denies this call")
	if len(v.Errors) > 0 {
		e = palyra.Errorf(palyra.Denied, palyra.ReasonPolicyError, "a policy could not be evaluated, so the call is denied")
	}
	if v.Reason != "" {
		e.Text = v.Reason
	}
	return e.WithRemedy("%s", v.Remedy)
}

func insufficient(v palyra.Verdict) error {
	e := palyra.AsError(denied(v))
	if v.Reason == "" {
		e.Text = "policy denies this call even with the answer given"
	}
	return e
}

func notAllowed(d palyra.Decision) error {
	by := "the approver"
	if d.By != "" {
		by = string(d.By)
	}
	switch d.Answer {
	case palyra.AnswerTimeout:
		return palyra.Errorf(palyra.Expired, palyra.ReasonApprovalExpired, "nobody answered the approval in time").
			WithRemedy("propose the call again and have it decided before it expires")
	case palyra.AnswerDeny:
		text := by + " denied the call"
		if d.Reason != "" {
			text += ": " + d.Reason
		}
		return palyra.Errorf(palyra.Denied, palyra.ReasonApprovalDenied, "%s", text).
			WithRemedy("talk to the approver; the same plan cannot be asked again for a while")
	}
	if d.Overtaken() {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonApprovalFailed,
			"lease %s, which took the place of an answer, does not cover the call any more", d.Lease).
			WithRemedy("propose the call again")
	}
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonApprovalFailed, "the approval ended without an answer").
		WithRemedy("propose the call again")
}

func stoppingWith(id palyra.CallID) error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping,
		"the daemon is stopping; the question of call %s stays open and can still be decided", id).
		WithRemedy("start the daemon again; the call goes on by itself").WithCause(ErrStopping)
}

func notAwaited(c *palyra.Call) error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonApprovalNotAwaited, "the call needs an approval and the caller does not wait").
		WithRemedy("have a person answer approval %s (palyra approvals watch), then call again; without --no-wait the call waits", c.Approval)
}

// notAwaitedFresh refuses a call for which nobody is asked: no later call could use the answer.
func notAwaitedFresh() error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonApprovalNotAwaited,
		"policy wants an answer for this very call, and the caller does not wait").
		WithRemedy("call without --no-wait, and have an operator decide while the call waits")
}

func promptDigest(a palyra.Approval) (palyra.Digest, error) { return a.Prompt.Digest() }
