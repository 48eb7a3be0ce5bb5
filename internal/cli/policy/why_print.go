package policy

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/question"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

// whyAnswer is an explanation in JSON: one object that begins with the answer.
type whyAnswer struct {
	Line        int64               `json:"line,omitempty"` // of a batch, from 1
	Verdict     palyra.Effect       `json:"verdict"`
	Then        string              `json:"then,omitempty"` // the action judged after the run
	Need        palyra.Need         `json:"need"`
	Layer       palyra.Layer        `json:"layer"` // the one that refused or asked; empty: none did
	ReasonCode  palyra.Reason       `json:"reason_code"`
	Reason      string              `json:"reason"`
	Remedy      string              `json:"remedy"`
	Policies    []palyra.PolicyHit  `json:"policies"`
	Flips       []client.Flip       `json:"flips"`
	Context     json.RawMessage     `json:"context"`
	Errors      []string            `json:"errors"`
	Pairs       []palyra.PairResult `json:"pairs"`
	Risk        palyra.Risk         `json:"risk"`
	Notes       []string            `json:"notes"`
	Call        palyra.CallID       `json:"call_id"`
	Approval    palyra.ApprovalID   `json:"approval_id"`
	Attestation palyra.ID           `json:"attestation_id"`
	PlanDigest  palyra.Digest       `json:"plan_digest"`
	Bundle      palyra.Digest       `json:"bundle_digest"`
	Snapshot    palyra.Digest       `json:"snapshot_digest"`
	Staging     *palyra.Staging     `json:"staging,omitempty"`  // of a program
	Plan        *palyra.Plan        `json:"plan,omitempty"`     // with --full
	Entities    json.RawMessage     `json:"entities,omitempty"` // with --full
	Rungs       json.RawMessage     `json:"rungs,omitempty"`    // with --full: every evaluation
}

// whyOf makes an answer of an explanation.
func whyOf(e client.Explanation, full bool) whyAnswer {
	var detail struct {
		Context, Entities, Rungs json.RawMessage
		Then                     string
	}
	if json.Unmarshal(e.Detail, &detail) != nil || len(detail.Context) == 0 {
		detail.Context = json.RawMessage("{}") // policy did not judge it
	}
	v := e.Verdict
	out := whyAnswer{
		Verdict: v.Effect, Then: detail.Then, Need: v.Need, Layer: e.Layer, ReasonCode: e.ReasonCode, Reason: e.Reason, Remedy: e.Remedy,
		Policies: screen.Some(v.Policies), Flips: screen.Some(e.Flips), Context: detail.Context, Errors: screen.Some(v.Errors),
		Pairs: screen.Some(v.Pairs), Risk: v.Risk, Notes: []string{},
		Call: e.Call, Approval: e.Approval, Attestation: e.Attestation, PlanDigest: e.PlanDigest, Bundle: v.Bundle, Snapshot: v.Snapshot,
	}
	for _, line := range e.Lines {
		if line != e.Reason && line != e.Remedy && line != "" {
			out.Notes = append(out.Notes, line)
		}
	}
	if e.Plan.Staging.Writes != "" {
		out.Staging = &e.Plan.Staging
	}
	if full {
		out.Plan, out.Entities, out.Rungs = &e.Plan, detail.Entities, detail.Rungs
	}
	return out
}

// printWhy prints an answer for people.
func printWhy(w io.Writer, v whyAnswer) {
	layer := string(v.Layer)
	if v.ReasonCode != "" {
		layer += " (" + string(v.ReasonCode) + ")"
	}
	needs := ""
	if v.Verdict == palyra.Ask {
		needs = question.Need(v.Need)
	}
	screen.Fields(w, screen.Pair{"Verdict", v.Verdict.String()}, screen.Pair{"Then", v.Then}, screen.Pair{"Layer", layer},
		screen.Pair{"Reason", v.Reason}, screen.Pair{"Remedy", v.Remedy}, screen.Pair{"Needs", needs}, screen.Pair{"Writes", writes(v.Staging)},
		screen.Pair{"Risk", string(v.Risk.Level)}, screen.Pair{"Factors", screen.Joined(v.Risk.Factors)},
		screen.Pair{"Call", string(v.Call)}, screen.Pair{"Approval", string(v.Approval)},
		screen.Pair{"Attestation", string(v.Attestation)}, screen.Pair{"Plan digest", string(v.PlanDigest)},
		screen.Pair{"Bundle", string(v.Bundle)})
	for _, line := range v.Notes {
		fmt.Fprintf(w, "  %s\n", show.Line(line))
	}
	printHits(w, palyra.Verdict{Effect: v.Verdict, Reason: v.Reason, Pairs: v.Pairs, Policies: v.Policies})
	for _, text := range v.Errors {
		fmt.Fprintf(w, "  error: %s\n", show.Line(text))
	}
	printContext(w, v)
	printFlips(w, v.Flips)
}

// writes says where a program writes, and why it is not on a stage.
func writes(s *palyra.Staging) string {
	switch {
	case s == nil:
		return ""
	case s.Staged():
		return "to a stage: what it changed is judged before it is kept"
	}
	return "to the workspace directly, not to a stage: " + s.Why
}

// usualContext are the parts of the context that people look for first.
var usualContext = []string{
	"tool", "command_line", "subcommand", "tier", "network", "workspace", "workspace_known", "reads", "writes", "hosts", "secrets", "labels",
	"destructive", "surface",
}

// printContext prints the context of the policies: the usual parts in short, or all of it.
func printContext(w io.Writer, v whyAnswer) {
	if v.Plan != nil {
		for _, part := range []struct {
			name string
			raw  json.RawMessage
		}{{"Context", v.Context}, {"Entities", v.Entities}, {"Evaluations", v.Rungs}} {
			if len(part.raw) > 0 {
				screen.Block(w, "\n"+part.name, screen.Indented(part.raw))
			}
		}
		return
	}
	var context map[string]json.RawMessage
	if json.Unmarshal(v.Context, &context) != nil || len(context) == 0 {
		return
	}
	fmt.Fprintln(w, "\nContext")
	var lines []screen.Pair
	for _, name := range usualContext {
		if raw := string(context[name]); !slices.Contains([]string{"", "[]", `""`, "false"}, raw) {
			lines = append(lines, screen.Pair{"  " + name, show.Middle(string(screen.PlainJSON([]byte(raw))), screen.CellWidth)})
		}
	}
	var command struct{ Class string }
	if json.Unmarshal(context["command"], &command) == nil && command.Class != "" {
		lines = append(lines, screen.Pair{"  command.class", command.Class})
	}
	screen.Fields(w, lines...)
}

// printFlips prints the changes that would turn the answer.
func printFlips(w io.Writer, flips []client.Flip) {
	if len(flips) == 0 {
		return
	}
	fmt.Fprintln(w, "\nWhat would turn it")
	for i, f := range flips {
		tried := "tried: "
		if !f.Verified {
			tried = "perhaps " // the text says why it was not tried
		}
		fmt.Fprintf(w, "%d. %s (%s%s)\n", i+1, show.Line(f.Text), tried, f.Becomes)
		if f.Change != "" {
			fmt.Fprint(w, show.Frame{Prefix: "   ", Width: screen.Width(w)}.Block(strings.TrimSuffix(f.Change, "\n")))
		}
	}
}
