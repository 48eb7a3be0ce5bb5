package approval

import (
	"slices"

	"palyra"
)

// exactTerms cover the approved plan and no other, for the one who asked, in the session in which it was asked.
func exactTerms(a palyra.Approval) palyra.Terms {
	return palyra.Terms{
		Principal: a.Principal, Session: a.Session, Tool: a.Plan.Tool, PlanDigest: a.PlanDigest,
		Workspace: a.Plan.Workspace.Path, Program: a.Plan.Executable.Path, TierFloor: a.Plan.Tier,
		Hosts: slices.Clone(a.Plan.Egress), Room: a.Room,
	}
}

// covers reports whether terms permit the call: the proposer reaches the lease, which names its session always, and
// the session's bounds are the proposer's. Terms that name no plan must be widened ones.
func covers(t palyra.Terms, risk palyra.RiskLevel, c *palyra.Call) bool {
	p := c.Plan
	switch {
	case !c.Proposal.Reach().May(palyra.ActUse, t.Reached(c.Proposal.Within)),
		t.Session == "" || t.Session != c.Proposal.Session,
		!t.For(p.Tool),
		t.Workspace != p.Workspace.Path,
		t.Program != p.Executable.Path,
		!tierAtLeast(p.Tier, t.TierFloor),
		!subset(p.Egress, t.Hosts):
		return false
	case t.PlanDigest != "":
		return t.PlanDigest.Valid() && t.PlanDigest == c.Digest
	case t.Pages:
		return onlyPages(t, c)
	case t.Branch != "" || t.Remote != "":
		return onlyUses(t, c)
	}
	return inRoot(t, p) && riskOf(c.Verdict.Risk).Level.Rank() <= risk.Rank()
}

// tierAtLeast reports whether a tier holds at least what the floor holds. Only
// the two native tiers can be compared; every other must be the same.
func tierAtLeast(t, floor palyra.Tier) bool {
	return t == floor || floor == palyra.TierB && t == palyra.TierC
}

func subset(some, of []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(of, s) })
}
