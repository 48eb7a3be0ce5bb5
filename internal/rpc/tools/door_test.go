package tools

import (
	"testing"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc"
)

// The door comes from the credential, whatever the client says of itself; it has a
// word only between api and mcp.
func TestDoorsAreNotClaimed(t *testing.T) {
	agent := func(credential string) rpc.Caller {
		return rpc.Caller{Principal: "agent:x", Role: palyra.RoleAgent, Credential: credential}
	}
	for _, c := range []struct {
		who  rpc.Caller
		says string
		want palyra.Door
	}{
		{agent(rpc.ByAgentSocket), "", palyra.DoorAPI},
		{agent(rpc.ByAgentSocket), "cli", palyra.DoorAPI},
		{agent(rpc.ByAgentSocket), "hook", palyra.DoorAPI},
		{agent(rpc.ByAgentSocket), "mcp", palyra.DoorMCP}, // its word
		{agent(rpc.ByToken), "cli", palyra.DoorAPI},
		{agent(rpc.ByDevice), "cli", palyra.DoorAPI},
		{agent(rpc.ByDevice), "mcp", palyra.DoorMCP},
		{agent(rpc.ByRoom), "cli", palyra.DoorRoom},
		{agent(rpc.ByRoom), "mcp", palyra.DoorRoom},
		{agent(rpc.ByCommand), "", palyra.DoorCLI},
		{agent(rpc.ByCommand), "mcp", palyra.DoorCLI},
		{agent(""), "cli", palyra.DoorAPI},
	} {
		p, err := proposal(c.who, &v1.CallToolRequest{Tool: "t", Door: c.says})
		if err != nil || p.Door != c.want {
			t.Errorf("%s says %q: %s, want %s (%v)", c.who.Credential, c.says, p.Door, c.want, err)
		}
	}
}
