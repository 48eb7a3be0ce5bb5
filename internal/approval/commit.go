package approval

import (
	"encoding/json"

	"palyra"
	"palyra/internal/gitobject"
	"palyra/internal/gitwire"
	"palyra/internal/show"
)

// oneUse reports whether a plan is one use of a key by the daemon's own tool, and reads what it is for.
func oneUse(p palyra.Plan, tool palyra.ToolName, hosts int, to any) bool {
	return p.Tool == tool && p.Source == palyra.SourceBuiltin && p.Tier == palyra.TierBuiltin && !p.Unshown && p.Workspace.Path != "" &&
		len(p.Egress) == hosts && len(p.Bindings) == 1 && json.Unmarshal(p.Arguments, to) == nil
}

// signsCommit says on which branch of the workspace a plan signs a commit, and by which key. False: it does not certainly.
func signsCommit(p palyra.Plan) (branch, signer string, ok bool) {
	var r gitobject.SignRequest
	if !oneUse(p, palyra.ToolSign, 0, &r) {
		return "", "", false
	}
	return r.Branch, r.Binding + "/" + r.Key, r.Branch != "" && r.Key != "" && r.Binding == p.Bindings[0]
}

// connects reads the connection of git that a plan is about. False: it is about none, or about one that loses something.
func connects(p palyra.Plan) (r gitwire.Request, signer string, ok bool) {
	if !oneUse(p, palyra.ToolGitRemote, 1, &r) {
		return r, "", false
	}
	return r, r.Binding + "/" + r.Key, r.Valid() && !r.Loses() && r.Key != "" && r.HostKey != "" &&
		r.Binding == p.Bindings[0] && r.At == p.Egress[0]
}

// keyOffer is the answer for more uses of a key: for all commits on a branch, all connections to a repository, or all
// pushes to a branch of one.
func keyOffer(c *palyra.Call) (o palyra.Widening, ok bool) {
	if branch, signer, is := signsCommit(c.Plan); is {
		o.Name, ok = palyra.WidenBranch, true
		o.Label = show.Controls("signatures of commits on " + branch + " of " + c.Plan.Workspace.Path + " by " + signer)
	} else if r, signer, is := connects(c.Plan); is {
		o.Name, ok = palyra.WidenRemote, true
		if branch := r.Branch(); branch != "" {
			o.Name, o.Label = palyra.WidenPush, "pushes to the branch "+branch+" of "
		} else {
			o.Label = "connections of git, to read and log in, to "
		}
		o.Label = show.Controls(o.Label + r.Remote() + " (" + r.HostKey + ") by " + signer)
	}
	return o, ok && !c.Verdict.Need.Fresh
}

// Exceptions of answers for more uses of a key, in words.
const (
	commitExceptions = "no tags, no commit that does not follow the branch's last one, no other branch, workspace or key"
	remoteExceptions = "no push, no other repository, user, server or key"
	pushExceptions   = "no force, nothing deleted, no tags, no other branch, repository, user, server or key"
)

// keyTerms fills in the terms of an answer for more uses of a key.
func keyTerms(t *palyra.Terms, p palyra.Plan, widen string) (ok bool) {
	if widen == palyra.WidenBranch {
		t.Branch, t.Signer, ok = signsCommit(p)
		return ok
	}
	r, signer, ok := connects(p)
	t.Branch, t.Signer, t.Remote, t.HostKey = r.Branch(), signer, r.Remote(), r.HostKey
	return ok && (t.Branch != "") == (widen == palyra.WidenPush)
}

// onlyUses reports whether terms that are for uses of a key permit a call, beyond what all terms say. Whoever may push to
// a repository may connect to it in order to.
func onlyUses(t palyra.Terms, c *palyra.Call) bool {
	if t.PathRoot != "" || t.ReadRoot != "" || t.Group != "" || t.Pages {
		return false
	}
	if t.Remote == "" {
		branch, signer, ok := signsCommit(c.Plan)
		return ok && t.Branch == branch && t.Signer == signer
	}
	r, signer, ok := connects(c.Plan)
	if !ok || t.Signer != signer || t.Remote != r.Remote() {
		return false
	}
	if len(r.Updates) > 0 || t.Branch == "" {
		return t.HostKey == r.HostKey && t.Branch == r.Branch()
	}
	return r.Service == gitwire.ServicePush && subset([]string{t.HostKey}, r.HostKeys())
}
