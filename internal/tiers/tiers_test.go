package tiers

import (
	"encoding/json"
	"testing"
	"time"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/tool/process"
)

// Only a program that is an agent itself may ask for as much time as a run has.
func TestAgentWall(t *testing.T) {
	limits := config.ToolCall{RunTimeoutMS: 7000}
	for _, c := range []struct {
		tool palyra.ToolName
		args string
		want time.Duration
	}{
		{process.Name, `{"agent_socket":true}`, 7 * time.Second},
		{process.Name, `{"agent_socket":false}`, 0},
		{process.Name, `{}`, 0},
		{process.Name, `[`, 0},
		{"palyra.echo", `{"agent_socket":true}`, 0},
	} {
		got, setting := AgentWall(limits)(palyra.Proposal{Tool: c.tool, Arguments: json.RawMessage(c.args)})
		if got != c.want || (setting != "") != (c.want > 0) {
			t.Errorf("%s %s: %v, %q", c.tool, c.args, got, setting)
		}
	}
}
