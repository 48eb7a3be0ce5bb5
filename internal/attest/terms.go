package attest

import (
	"slices"

	"palyra"
	"palyra/internal/hostgroup"
)

// terms checks that the lease covers what ran. Terms that name no plan must name a directory instead, and each vote
// must have asked for that (see vote); else the plan that ran is the one that was decided, whether or not the
// answer was given earlier.
func (v *verifier) terms() error {
	p, d := v.predicate, v.predicate.Decision
	t := d.Terms
	switch {
	case t == nil:
		return fail("the decision does not say what its grant covers")
	case t.Principal != p.Principal:
		return fail("the grant is another principal's")
	case !t.For(p.Tool):
		return fail("the grant is for another tool")
	case t.Session != "" && t.Session != p.SessionID:
		return fail("the grant is for another session")
	case t.PlanDigest != "" && t.PlanDigest != p.PlanDigest:
		return fail("the grant is for another plan")
	case t.PlanDigest == "" && (t.PathRoot == "" && t.ReadRoot == "" && t.Group == "" && !t.Pages && t.Branch == "" ||
		!coversManyPlans(d.Scope)):
		return fail("the grant names neither a plan nor what else it covers")
	case t.Group != "" && (!slices.IsSorted(t.Hosts) || hostgroup.Digest(t.Group, t.Hosts) != string(t.GroupDigest)):
		return fail("the hosts of the grant are not those of its group")
	case d.Digest != p.PlanDigest && (t.PlanDigest != "" || !d.Reused || !d.Digest.Valid()):
		return fail("the decision is about another plan")
	}
	v.checked("grant terms")
	return nil
}

// coversManyPlans reports whether an answer of that scope may cover more than one plan.
func coversManyPlans(s palyra.Scope) bool {
	return s == palyra.ScopeSession || s == palyra.ScopeTimeboxed
}

// covers reports whether terms that name no plan may have come of a generalisation.
func covers(t *palyra.Terms, widen string) bool {
	switch widen {
	case palyra.WidenPathRoot, palyra.WidenWorkspace:
		return t.PathRoot != "" && t.ReadRoot == ""
	case palyra.WidenReadRoot:
		return t.ReadRoot != "" && t.PathRoot == ""
	case palyra.WidenHost:
		return t.Pages && t.PathRoot == "" && t.ReadRoot == "" && t.Group == "" && t.Branch == ""
	case palyra.WidenBranch:
		return t.Branch != "" && t.Signer != "" && t.Remote == "" && t.PathRoot == "" && t.ReadRoot == "" && t.Group == "" && !t.Pages
	}
	if widen == palyra.WidenRemote || widen == palyra.WidenPush {
		return t.Remote != "" && t.HostKey != "" && t.Signer != "" && (t.Branch != "") == (widen == palyra.WidenPush) && t.PathRoot == "" &&
			t.ReadRoot == "" && t.Group == "" && !t.Pages
	}
	return t.Group != "" && t.Remote == "" && t.PathRoot == "" && t.ReadRoot == "" &&
		widen == palyra.WidenGroup+":"+t.Group+":"+string(t.GroupDigest)
}
