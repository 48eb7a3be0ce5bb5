package approval

import (
	"encoding/json"

	"palyra"
	"palyra/internal/gitobject"
)

// signsCommit says on which branch of the workspace a plan signs a commit, and by which key. False: it does not certainly.
func signsCommit(p palyra.Plan) (branch, signer string, ok bool) {
	var r gitobject.SignRequest
	if p.Tool != palyra.ToolSign || p.Source != palyra.SourceBuiltin || p.Tier != palyra.TierBuiltin || p.Unshown || p.Workspace.Path == "" ||
		len(p.Egress) > 0 || len(p.Bindings) != 1 || json.Unmarshal(p.Arguments, &r) != nil {
		return "", "", false
	}
	return r.Branch, r.Binding + "/" + r.Key, r.Branch != "" && r.Key != "" && r.Binding == p.Bindings[0]
}

// branchOffer is the answer for all commits on a branch.
func branchOffer(c *palyra.Call) (palyra.Widening, bool) {
	branch, signer, ok := signsCommit(c.Plan)
	label := "signatures of commits on " + oneLine(branch) + " of " + oneLine(c.Plan.Workspace.Path) + " by " + oneLine(signer)
	return palyra.Widening{Name: palyra.WidenBranch, Label: label}, ok && !c.Verdict.Need.Fresh
}

// onlyCommits reports whether terms that are for commits permit a call, beyond what all terms say.
func onlyCommits(t palyra.Terms, c *palyra.Call) bool {
	branch, signer, ok := signsCommit(c.Plan)
	return ok && t.PathRoot == "" && t.ReadRoot == "" && t.Group == "" && t.Branch == branch && t.Signer == signer
}
