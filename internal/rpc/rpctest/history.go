package rpctest

import (
	"context"
	"fmt"
	"time"

	"palyra"
	"palyra/internal/rpc/wire"
)

type historyPart struct{ *Parts }

// Replayed is the one report of a replay.
var Replayed = wire.ReplayReport{
	Bundle: "sha256:44", Snapshot: "sha256:55", Records: 3, Same: 1, Failing: 1, Transitions: []wire.ReplayTransition{{
		From: palyra.Ask, To: palyra.Allow, Count: 1, Calls: []wire.ReplayChange{{
			Call: "C1", Principal: "agent:local", Tool: "palyra.process.run", Command: "git push", Need: palyra.Need{Votes: 1, Fresh: true},
			Policies: []string{"new"}, Before: []string{"old"}, Reason: "said <so>", Errors: []string{"e"},
		}},
	}},
	Short:        wire.ReplayTransition{From: palyra.Ask, To: palyra.Ask, Calls: []wire.ReplayChange{}},
	Prompts:      wire.ReplayPrompts{Before: 2, After: 1, Saved: 1},
	Unreplayable: 1, Gaps: []wire.ReplayGap{{Reason: "no plan is on record", Count: 1, Calls: []palyra.CallID{"C2"}}},
}

// Suggested is the one suggestion.
var Suggested = wire.PolicySuggestion{
	Files: map[string]string{"a.cedar": "x", "suggested.cedar": "permit(principal, action, resource);"}, File: "suggested.cedar",
	Rules: []wire.SuggestedRule{{
		ID: "suggested-1", Text: "permit(principal, action, resource);", Reason: "asked twice", Saves: 2,
		Calls: []palyra.CallID{"C1", "C3"},
	}},
	Report: Replayed,
}

func (h historyPart) Replay(ctx context.Context, q wire.ReplayQuery, progress func(int64)) (wire.ReplayReport, error) {
	h.note(ctx, fmt.Sprintf("replay %d %d %d", len(q.Files), unix(q.Since), unix(q.Until)))
	progress(1)
	progress(3)
	return Replayed, nil
}

func (h historyPart) Suggest(ctx context.Context, q wire.ReplayQuery, rules int, progress func(int64)) (wire.PolicySuggestion, error) {
	h.note(ctx, fmt.Sprintf("suggest %d %d %d", rules, unix(q.Since), unix(q.Until)))
	progress(3)
	return Suggested, nil
}

// unix is a time in seconds; 0 for none.
func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}
