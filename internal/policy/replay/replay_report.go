package replay

import (
	"cmp"
	"slices"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/policy/risk"
)

// Report is how a candidate's answers differ from those on record. Lists name the first calls of their kind;
// counts are of all calls.
type Report struct {
	Bundle       palyra.Digest `json:"bundle_digest"` // of the candidate
	Snapshot     palyra.Digest `json:"snapshot_digest"`
	Records      int64         `json:"records"`
	Same         int64         `json:"same"`    // the same verdict
	Failing      int64         `json:"failing"` // a policy of the candidate could not be evaluated: denied
	Transitions  []Transition  `json:"transitions"`
	Short        Transition    `json:"short"` // asked then and now, and the answer that was given would be too weak
	Prompts      Prompts       `json:"prompts"`
	Unreplayable int64         `json:"unreplayable"`
	Gaps         []Gap         `json:"gaps"`
}

// Transition is every call whose verdict changes from one to another.
type Transition struct {
	From  palyra.Effect `json:"from"`
	To    palyra.Effect `json:"to"`
	Count int64         `json:"count"`
	Calls []Change      `json:"calls"`
}

// Change is one call that would be judged differently, and why.
type Change struct {
	Call      palyra.CallID    `json:"call_id"`
	Principal palyra.Principal `json:"principal"`
	Tool      palyra.ToolName  `json:"tool"`
	Command   string           `json:"command,omitempty"`
	Need      palyra.Need      `json:"need,omitzero"`      // of an ask
	Policies  []string         `json:"policies,omitempty"` // that decide now
	Before    []string         `json:"before,omitempty"`   // that decided then
	Reason    string           `json:"reason,omitempty"`
	Errors    []string         `json:"errors,omitempty"`
}

// Prompts is how often people were asked, and would be.
type Prompts struct {
	Before int64 `json:"before"`
	After  int64 `json:"after"`
	Saved  int64 `json:"saved"` // would run without a question
	Added  int64 `json:"added"`
}

// Gap is a reason why records cannot be judged again, with the first of them.
type Gap struct {
	Reason string          `json:"reason"`
	Count  int64           `json:"count"`
	Calls  []palyra.CallID `json:"calls"`
}

// move is a change of verdict.
type move struct{ from, to palyra.Effect }

// moves is the order in which changes are told: first the calls that would be taken away, then those that
// would be let through.
var moves = []move{
	{palyra.Allow, palyra.Deny},
	{palyra.Deny, palyra.Allow},
	{palyra.Ask, palyra.Allow},
	{palyra.Ask, palyra.Deny},
	{palyra.Allow, palyra.Ask},
	{palyra.Deny, palyra.Ask},
}

// otherGaps stands for reasons beyond those that are told apart.
const otherGaps = "other reasons"

func (t *Transition) add(one Record, now palyra.Verdict) {
	t.Count++
	if len(t.Calls) >= replayListed {
		return
	}
	p := one.Request.Plan
	t.Calls = append(t.Calls, Change{
		Call: one.Call, Principal: one.Request.Principal, Tool: p.Tool, Command: palyra.Clip(risk.CommandLine(p.Argv), 256),
		Need: now.Need, Policies: hitIDs(now), Before: hitIDs(one.Was), Reason: palyra.Clip(now.Reason, policy.MaxNote), Errors: now.Errors,
	})
}

func hitIDs(v palyra.Verdict) []string {
	var out []string
	for _, p := range v.Policies {
		out = append(out, p.ID)
	}
	return out
}

// gap keeps a record that cannot be judged again.
func (r *replay) gap(call palyra.CallID, why string) {
	r.report.Unreplayable++
	why = palyra.Clip(why, 256)
	g := r.gaps[why]
	if g == nil && len(r.gaps) >= replayReasons {
		why = otherGaps
		g = r.gaps[why]
	}
	if g == nil {
		g = &Gap{Reason: why}
		r.gaps[why] = g
	}
	g.Count++
	if len(g.Calls) < replayListed/10 {
		g.Calls = append(g.Calls, call)
	}
}

// finish puts the reasons in order, the most frequent first.
func (r *replay) finish() Report {
	out := r.report
	out.Short.From, out.Short.To = palyra.Ask, palyra.Ask
	if out.Short.Calls == nil {
		out.Short.Calls = []Change{}
	}
	out.Gaps = []Gap{}
	for _, g := range r.gaps {
		out.Gaps = append(out.Gaps, *g)
	}
	slices.SortFunc(out.Gaps, func(a, b Gap) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}
