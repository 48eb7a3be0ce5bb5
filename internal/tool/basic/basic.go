// Package basic has the two tools that touch nothing: palyra.echo, which returns its input, and
// palyra.sleep, which waits. They are for health checks, first steps and tests: a call of either
// goes the whole path, from proposal to attestation, without any risk of its own.
package basic

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"palyra"
	"palyra/internal/show"
	"palyra/internal/tool"
)

// All returns the package's tools.
func All() []tool.Tool { return []tool.Tool{echo{}, sleep{}} }

const smallInput = 64 << 10

type echo struct{}

const echoSchema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["text"],
  "properties": {
    "text": {"type": "string", "maxLength": 65536, "description": "Text to give back unchanged."}
  }
}`

// Spec implements tool.Tool.
func (echo) Spec() palyra.Tool {
	return palyra.Tool{
		Name: palyra.ToolEcho, Title: "Echo", Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin, ReadOnly: true,
		Description:  "Gives back the text it is given. Touches nothing; use it to check that tool calls get through.",
		Capabilities: []palyra.Capability{}, InputSchema: json.RawMessage(echoSchema), MaxInput: smallInput,
	}
}

type echoArgs struct {
	Text string `json:"text"`
}

// Plan implements tool.Tool.
func (echo) Plan(_ context.Context, _ tool.Env, p *palyra.Plan) error {
	var a echoArgs
	if err := tool.Arguments(*p, &a); err != nil {
		return err
	}
	p.Detail.Summary = "echo " + show.Bytes(len(a.Text))
	return nil
}

// Run implements tool.Tool.
func (echo) Run(_ context.Context, _ tool.Env, p palyra.Plan) (json.RawMessage, error) {
	var a echoArgs
	if err := tool.Arguments(p, &a); err != nil {
		return nil, err
	}
	return tool.Encode(a)
}

type sleep struct{}

const sleepSchema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["duration_ms"],
  "properties": {
    "duration_ms": {"type": "integer", "minimum": 0, "maximum": 600000, "description": "How long to wait, in milliseconds. The call's own time limit ends it earlier."}
  }
}`

// Spec implements tool.Tool.
func (sleep) Spec() palyra.Tool {
	return palyra.Tool{
		Name: palyra.ToolSleep, Title: "Sleep", Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin, ReadOnly: true,
		Description:  "Waits for the given time and returns. Touches nothing.",
		Capabilities: []palyra.Capability{}, InputSchema: json.RawMessage(sleepSchema), MaxInput: smallInput,
	}
}

type sleepArgs struct {
	DurationMS int64 `json:"duration_ms"`
}

// Plan implements tool.Tool.
func (sleep) Plan(_ context.Context, _ tool.Env, p *palyra.Plan) error {
	var a sleepArgs
	if err := tool.Arguments(*p, &a); err != nil {
		return err
	}
	p.Detail.Summary = fmt.Sprintf("sleep %d ms", a.DurationMS)
	return nil
}

// Run implements tool.Tool.
func (sleep) Run(ctx context.Context, _ tool.Env, p palyra.Plan) (json.RawMessage, error) {
	var a sleepArgs
	if err := tool.Arguments(p, &a); err != nil {
		return nil, err
	}
	timer := time.NewTimer(time.Duration(a.DurationMS) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return tool.Encode(map[string]int64{"slept_ms": a.DurationMS})
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
