package approval

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"palyra"
)

// exactTerms cover the approved plan and no other, for the one who asked, in
// the session in which it was asked.
func exactTerms(a palyra.Approval) palyra.Terms {
	return palyra.Terms{
		Principal: a.Principal, Session: a.Session, Tool: a.Plan.Tool, PlanDigest: a.PlanDigest,
		Workspace: a.Plan.Workspace.Path, Program: a.Plan.Executable.Path, TierFloor: a.Plan.Tier,
		Hosts: slices.Clone(a.Plan.Egress), Room: a.Room,
	}
}

// termsFor returns the terms of a generalisation that was offered.
func termsFor(a palyra.Approval, widen string) (palyra.Terms, bool) {
	t := exactTerms(a)
	switch widen {
	case "", widenExact:
		return t, true
	case widenPathRoot:
		root, ok := pathRoot(a.Plan)
		t.PlanDigest, t.PathRoot = "", root
		return t, ok
	}
	return palyra.Terms{}, false
}

// covers reports whether terms permit the call: the proposer reaches the lease, which
// names its session always, and the session's bounds are the proposer's. Terms that
// name no plan must be widened ones.
func covers(t palyra.Terms, risk palyra.RiskLevel, c *palyra.Call) bool {
	p := c.Plan
	switch {
	case !c.Proposal.Reach().May(palyra.ActUse, t.Reached(c.Proposal.Within)),
		t.Session == "" || t.Session != c.Proposal.Session,
		t.Tool == "" || t.Tool != p.Tool,
		t.Workspace != p.Workspace.Path,
		t.Program != p.Executable.Path,
		!tierAtLeast(p.Tier, t.TierFloor),
		!subset(p.Egress, t.Hosts):
		return false
	case t.PlanDigest != "":
		return t.PlanDigest.Valid() && t.PlanDigest == c.Digest
	}
	return t.PathRoot != "" && plainWrite(p) && allUnder(t.PathRoot, p) &&
		riskRank(riskOf(c.Verdict.Risk).Level) <= riskRank(risk)
}

// tierAtLeast reports whether a tier holds at least what the floor holds. Only
// the two native tiers can be compared; every other must be the same.
func tierAtLeast(t, floor palyra.Tier) bool {
	return t == floor || floor == palyra.TierB && t == palyra.TierC
}

func subset(some, of []string) bool {
	for _, s := range some {
		if !slices.Contains(of, s) {
			return false
		}
	}
	return true
}

func riskRank(l palyra.RiskLevel) int {
	return slices.Index([]palyra.RiskLevel{palyra.RiskLow, palyra.RiskMedium, palyra.RiskHigh, palyra.RiskCritical}, l)
}

// plainWrite reports whether a plan does nothing but write files with a tool of
// our own: only then does a directory say all about it.
func plainWrite(p palyra.Plan) bool {
	return !p.Unshown && p.Source == palyra.SourceBuiltin && p.Tier == palyra.TierBuiltin && p.Workspace.Path != "" &&
		len(p.Writes) > 0 && slices.Contains(p.Capabilities, palyra.FilesystemWrite) &&
		!slices.ContainsFunc(p.Capabilities, func(c palyra.Capability) bool {
			return c != palyra.FilesystemWrite && c != palyra.FilesystemRead
		}) &&
		p.Executable.Path == "" && p.Stdin == "" && p.Profile == "" &&
		len(p.Argv)+len(p.Env)+len(p.Mounts)+len(p.Egress)+len(p.Bindings) == 0
}

// pathRoot returns the directory that holds all writes of a plain write. The
// whole workspace and hidden directories (.git, .github, …) are never offered:
// what is written there runs later.
func pathRoot(p palyra.Plan) (string, bool) {
	if !plainWrite(p) {
		return "", false
	}
	root := path.Dir(p.Writes[0])
	for _, w := range p.Writes[1:] {
		for root != "." && root != "/" && !strings.HasPrefix(w, root+"/") {
			root = path.Dir(root)
		}
	}
	return root, root != "." && local(root) && !hidden(root) && allUnder(root, p)
}

// allUnder reports whether everything the plan touches lies under root.
func allUnder(root string, p palyra.Plan) bool {
	for _, f := range slices.Concat(p.Writes, p.Reads) {
		below, ok := strings.CutPrefix(f, root+"/")
		if !ok || !local(f) || below == "" || hidden(below) {
			return false
		}
	}
	return true
}

// local reports whether p is a clean path inside the workspace.
func local(p string) bool {
	return filepath.IsLocal(p) && path.Clean(p) == p && !strings.ContainsAny(p, "\x00\\")
}

func hidden(p string) bool { return strings.HasPrefix(p, ".") || strings.Contains(p, "/.") }
