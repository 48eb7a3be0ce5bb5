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
		want palyra.Surface
	}{
		{agent(rpc.ByAgentSocket), "", palyra.SurfaceAPI},
		{agent(rpc.ByAgentSocket), "cli", palyra.SurfaceAPI},
		{agent(rpc.ByAgentSocket), "hook", palyra.SurfaceAPI},
		{agent(rpc.ByAgentSocket), "mcp", palyra.SurfaceMCP}, // its word
		{agent(rpc.ByToken), "cli", palyra.SurfaceAPI},
		{agent(rpc.ByDevice), "cli", palyra.SurfaceAPI},
		{agent(rpc.ByDevice), "mcp", palyra.SurfaceMCP},
		{agent(rpc.ByRoom), "cli", palyra.SurfaceRoom},
		{agent(rpc.ByRoom), "mcp", palyra.SurfaceRoom},
		{agent(rpc.ByCommand), "", palyra.SurfaceCLI},
		{agent(rpc.ByCommand), "mcp", palyra.SurfaceCLI},
		{agent(""), "cli", palyra.SurfaceAPI},
	} {
		p, err := proposal(c.who, &v1.CallToolRequest{Tool: "t", Door: c.says})
		if err != nil || p.Surface != c.want {
			t.Errorf("%s says %q: %s, want %s (%v)", c.who.Credential, c.says, p.Surface, c.want, err)
		}
	}
}
