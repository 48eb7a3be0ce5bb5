package question

import (
	"palyra"
	"palyra/client"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

// Reach says how far an answer reaches, in words for the line that takes it.
func Reach(r client.DecideRequest) string {
	if r.Answer == palyra.AnswerDeny {
		return "it"
	}
	text := "once"
	switch r.Scope {
	case palyra.ScopeSession:
		text = "for the session"
	case palyra.ScopeTimeboxed:
		text = "for " + screen.Span(r.TTL)
	}
	switch r.Widen {
	case "":
	case palyra.WidenWorkspace:
		text += ", any edit in the workspace"
	case palyra.WidenReadRoot:
		text += ", any read in the directory"
	case palyra.WidenHost:
		text += ", any page of the host"
	case palyra.WidenBranch:
		text += ", any commit on the branch"
	case palyra.WidenRemote:
		text += ", git at the same repository"
	case palyra.WidenPush:
		text += ", any push to the branch that loses nothing"
	case palyra.WidenGroup:
		text += ", any host of the group from this workspace"
	default:
		text += ", widened to " + show.Arg(r.Widen)
	}
	return text
}
