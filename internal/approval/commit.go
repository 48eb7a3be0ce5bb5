package approval

import (
	"encoding/json"

	"palyra"
)

// signsCommit reports whether a plan is for the signature of a commit that certainly goes on a branch of the workspace:
// on which, and by which key.
func signsCommit(p palyra.Plan) (branch, signer string, ok bool) {
	var a struct {
		Binding string `json:"binding"`
		Key     string `json:"key"`
		Branch  string `json:"branch"` // of commits only
	}
	if p.Tool != palyra.ToolSign || p.Source != palyra.SourceBuiltin || p.Tier != palyra.TierBuiltin || p.Unshown || p.Workspace.Path == "" ||
		len(p.Egress) > 0 || len(p.Bindings) != 1 || json.Unmarshal(p.Arguments, &a) != nil {
		return "", "", false
	}
	return a.Branch, a.Binding + "/" + a.Key, a.Branch != "" && a.Key != "" && a.Binding == p.Bindings[0]
}

// branchOffer is the answer for all commits on a branch.
func branchOffer(c *palyra.Call) (palyra.Widening, bool) {
	branch, signer, ok := signsCommit(c.Plan)
	if !ok || c.Verdict.Need.Fresh {
		return palyra.Widening{}, false
	}
	return palyra.Widening{
		Name:  palyra.WidenBranch,
		Label: "signatures of commits on " + oneLine(branch) + " of " + oneLine(c.Plan.Workspace.Path) + " by " + oneLine(signer),
	}, true
}

// commitExceptions are what an answer for the commits of a branch never covers, in words.
const commitExceptions = "no tags, no commit that does not follow the branch's last one, no other branch, workspace or key"

// onlyCommits reports whether terms that are for commits permit a call, beyond what all terms say.
func onlyCommits(t palyra.Terms, c *palyra.Call) bool {
	branch, signer, ok := signsCommit(c.Plan)
	return ok && t.PathRoot == "" && t.ReadRoot == "" && t.Group == "" && t.Branch == branch && t.Signer == signer
}
