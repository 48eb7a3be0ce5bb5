package question

import (
	"palyra"
	"palyra/internal/cli/screen"
)

// Covers says in a few words what a lease permits.
func Covers(t palyra.Terms) string {
	text := string(t.Tool)
	if t.Program != "" {
		text += " " + t.Program
	}
	switch {
	case t.PlanDigest != "":
		text += ", exactly one plan"
	case t.PathRoot != "" && len(t.Tools) == 0: // from before one answer covered all editing tools
		text += ", writes under " + t.PathRoot
	case t.PathRoot != "":
		text = "edits of files under " + t.PathRoot
		if t.PathRoot == "." {
			text = "edits of any file"
		}
	case t.ReadRoot != "":
		text = "reads under " + t.ReadRoot
	case t.Pages:
		text = "pages of " + screen.Joined(t.Hosts)
	case t.Branch != "":
		text = "signatures of commits on " + t.Branch + " by " + t.Signer
	case t.Group != "":
		text = "hosts of " + t.Group + ": " + screen.Joined(t.Hosts)
	}
	if t.Workspace != "" {
		text += ", in " + t.Workspace
	}
	return text
}
