package gate

import (
	"palyra"
)

// The journal lines of a call, each made from the call as it stands.

func proposed(c *palyra.Call, m Mask) palyra.Event {
	p := c.Proposal
	return palyra.CallProposed{
		Parent: c.Proposal.Parent, Origin: c.Proposal.Origin,
		Call: c.ID, Session: p.Session, Run: p.Run, Principal: p.Principal, Surface: p.Surface, Tool: clip(p.Tool),
		Workspace: clip(m.String(p.Workspace)), InputBytes: int64(len(p.Arguments)), Input: c.Input, Key: clip(p.Key),
	}
}

func judged(c *palyra.Call, again bool) palyra.Event {
	v := c.Verdict
	var pairs []palyra.Pair
	for _, p := range v.Pairs {
		pairs = append(pairs, p.Pair)
	}
	return palyra.CallJudged{
		Call: c.ID, Plan: c.Digest, Effect: v.Effect, Policies: policyIDs(v), Pairs: pairs, Errors: len(v.Errors),
		Risk: v.Risk.Level, Bundle: v.Bundle, Snapshot: v.Snapshot, Again: again, Approval: c.Approval,
		Labels: c.Proposal.Labels, Roles: v.Standing.Roles, Owner: v.Standing.Owner, Device: v.Standing.Device,
	}
}

func requested(c *palyra.Call, a palyra.Approval, joined bool) palyra.Event {
	if joined {
		return palyra.ApprovalJoined{Approval: a.ID, Call: c.ID}
	}
	prompt, _ := promptDigest(a)
	var shown palyra.Digest
	if a.Plan.Masked {
		shown, _ = a.Plan.Digest()
	}
	return palyra.ApprovalRequested{
		Shown:    shown,
		Approval: a.ID, Call: c.ID, Principal: a.Principal, SubjectType: a.SubjectType, SubjectID: a.SubjectID,
		Plan: a.PlanDigest, Prompt: prompt, Need: a.Need, ExpiresAt: a.ExpiresAt, Record: a,
	}
}

func granted(c *palyra.Call) palyra.Event {
	return palyra.CallGranted{
		Call: c.ID, Grant: c.Grant, Plan: c.Digest, Approval: c.Decision.Approval, Lease: c.Decision.Lease, Tier: c.Plan.Tier,
		WallMS: wallOf(c.Plan).Milliseconds(),
	}
}

func settling(c *palyra.Call, again bool) palyra.Event {
	k := c.Keep
	return palyra.CallSettling{
		Call: c.ID, Plan: k.Digest, Changes: k.Effects, Effect: k.Verdict.Effect, Policies: policyIDs(k.Verdict), Errors: len(k.Verdict.Errors),
		Bundle: k.Verdict.Bundle, Snapshot: k.Verdict.Snapshot, Again: again, Approval: k.Approval, Lease: k.Decision.Lease,
	}
}

func finished(c *palyra.Call, res palyra.Result, out palyra.Outcome, att palyra.Attestation) palyra.Event {
	return palyra.CallFinished{
		Call: c.ID, Outcome: out.Outcome, ExitCode: out.ExitCode, Attestation: att.Digest, AttestedAs: att.ID,
		Body: att.Predicate.OutcomeDigest, Labels: labelsOf(c, res), Reduced: att.Predicate.Reduced, Changes: out.Changes, Signed: att,
	}
}

func refusedEvent(c *palyra.Call, r palyra.Refusal) palyra.Event {
	return palyra.CallRefused{Call: c.ID, Layer: r.Layer, Code: r.Code, Reason: r.Reason, Plan: c.Digest}
}

func policyIDs(v palyra.Verdict) []string {
	ids := make([]string, 0, len(v.Policies))
	for _, p := range v.Policies {
		ids = append(ids, p.ID)
	}
	return ids
}

// clip bounds outside text in a journal line and keeps it valid UTF-8.
func clip[S ~string](s S) S {
	const most = 512
	return palyra.Clip(s, most)
}
