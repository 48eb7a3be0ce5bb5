// Package scripted is a provider that follows a script in place of a model: the turns of a run, written down in
// YAML. It is for work that needs no model, and for trying out policies and approvals.
//
//	title: Tidy up
//	workspace: /home/me/project   # for its calls; left out: the run's
//	turns:
//	  - say: Looking around.
//	    calls:
//	      - tool: palyra.fs.read
//	        with: {path: README.md}
//	        expect: finished      # any other outcome fails the run
//	      - tool: palyra.fs.write
//	        with: {path: notes.txt, content: hello}
//	        stop_on: refused      # this outcome fails the run, others do not
//
// A script is data from outside: it is read strictly. Unknown or repeated keys, other types, anchors, aliases,
// tags, a second document and anything too large are refused with the line they stand on. It has no loops and no
// conditions, so that the same script always proposes the same calls.
package scripted

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"palyra"
	"palyra/internal/agent"
)

// script is a script that was understood.
type script struct {
	title     string
	workspace string
	turns     []turn
}

type turn struct {
	say   string
	calls []scriptCall
}

type scriptCall struct {
	tool   string
	with   json.RawMessage
	expect palyra.OutcomeKind // empty: any
	stopOn palyra.OutcomeKind // empty: none
}

// New reads a script.
func New(input []byte) (agent.Provider, error) {
	s, err := parse(input)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Title implements agent.Titled.
func (s *script) Title() string { return s.title }

// Next implements agent.Provider: the turns in their order, whatever happened.
func (s *script) Next(_ context.Context, t agent.Transcript) (agent.Turn, error) {
	if t.Turn < 1 || t.Turn > int64(len(s.turns)) {
		return agent.Turn{Done: true}, nil
	}
	now := s.turns[t.Turn-1]
	next := agent.Turn{Text: now.say, Done: t.Turn == int64(len(s.turns))}
	for i, c := range now.calls {
		next.Calls = append(next.Calls, agent.ToolCall{
			Tool: palyra.ToolName(c.tool), Arguments: c.with, Workspace: s.workspace,
			Check: func(out palyra.Outcome) error {
				return c.check(out, fmt.Sprintf("turn %d, call %d (%s)", t.Turn, i+1, c.tool))
			},
		})
	}
	return next, nil
}

// check holds an outcome against what the script says of it.
func (c scriptCall) check(out palyra.Outcome, where string) error {
	why := string(out.Outcome)
	if out.Reason != "" {
		why += ": " + out.Reason
	}
	if c.expect != "" && out.Outcome != c.expect {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonVerifyFailed, "%s: expected %s, got %s", where, c.expect, why).
			WithRemedy("%s", out.Remedy)
	}
	if c.stopOn == "" || out.Outcome != c.stopOn {
		return nil
	}
	reason := out.ReasonCode
	reason = cmp.Or(reason, palyra.ReasonVerifyFailed)
	return palyra.Errorf(palyra.Conflict, reason, "%s: the script stops on %s", where, why).WithRemedy("%s", out.Remedy)
}
