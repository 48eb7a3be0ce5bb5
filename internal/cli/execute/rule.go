package execute

import (
	"context"
	"fmt"
	"slices"
	"time"

	"palyra"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/question"
	"palyra/internal/show"
)

const (
	// rulePatience is how long looking up a rule's place may take.
	rulePatience = 2 * time.Second
	// shownRules is how many rules of a refusal are named.
	shownRules = 5
)

// ruled names the rules that refused a call, with their places, and the command that explains more.
// The outcome has their names only, so it reads the call on record.
func ruled(ctx context.Context, inv *invocation.Invocation, c caller, o palyra.Outcome) {
	if inv.JSON || o.Outcome != palyra.OutcomeRefused || o.Layer != palyra.LayerPolicy {
		return
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), rulePatience)
	defer done()
	var hits []palyra.PolicyHit
	if call, err := c.GetCall(ctx, o.CallID); err == nil {
		hits = call.Verdict.Policies
	}
	for _, id := range o.Policies[:min(len(o.Policies), shownRules)] {
		fmt.Fprintf(inv.Stderr, "  rule: %s\n", show.Line(ruleAt(id, hits)))
	}
	if n := len(o.Policies) - shownRules; n > 0 {
		fmt.Fprintf(inv.Stderr, "  and %d more\n", n)
	}
	if o.CallID != "" && !inv.Inside() {
		fmt.Fprintf(inv.Stderr, "  more: %s policy why %s\n", inv.Own(), show.Arg(string(o.CallID)))
	}
}

// ruleAt is a rule's name with its place, where that is known.
func ruleAt(id string, hits []palyra.PolicyHit) string {
	i := slices.IndexFunc(hits, func(h palyra.PolicyHit) bool { return h.ID == id && h.File != "" })
	if i < 0 {
		return id
	}
	return fmt.Sprintf("%s (%s, %s)", id, question.RulePlace(hits[i]), hits[i].Effect)
}
