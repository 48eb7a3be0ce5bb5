package tools

import (
	"testing"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc"
)

// Who proposes comes from the credential, whatever the request says.
func TestProposal(t *testing.T) {
	who := rpc.Caller{Principal: "agent:ci", Owner: "user:alice", PeerUID: 7, Role: palyra.RoleAgent}
	p, err := proposal(who, &v1.CallToolRequest{Tool: "x"})
	if err != nil || p.Principal != "agent:ci" || p.Owner != "user:alice" || p.PeerUID != 7 || p.Surface != palyra.SurfaceAPI ||
		string(p.Arguments) != "{}" {
		t.Errorf("%+v %v", p, err)
	}
	p, err = proposal(who, &v1.CallToolRequest{RawArguments: []byte("\xff"), Door: "mcp"})
	if err != nil || string(p.Arguments) != "\xff" || p.Surface != palyra.SurfaceMCP {
		t.Errorf("%+v %v", p, err)
	}
	room := rpc.Caller{
		Principal: "agent:ci", Role: palyra.RoleAgent, Credential: rpc.ByRoom, CredentialID: "room:R", Room: "R", Line: []palyra.CallID{"O", "R"},
		Origin: "agent:user.alice", Within: []string{"/w"}, Scopes: []palyra.Permission{"runs.start"},
	}
	p, err = proposal(room, &v1.CallToolRequest{Door: "cli"})
	if err != nil || p.Surface != palyra.SurfaceRoom || p.Parent != "R" || p.Room != "R" || p.Origin != "agent:user.alice" ||
		p.Credential != "room:R" ||
		len(p.Line) != 2 || len(p.Within) != 1 || len(p.Scopes) != 1 {
		t.Errorf("%+v %v", p, err)
	}
	for name, req := range map[string]*v1.CallToolRequest{
		"cron is not a client's": {Door: "cron"},
		"no such door":           {Door: "CLI"},
		"negative timeout":       {TimeoutMs: -1},
		"arguments twice":        {Arguments: "{}", RawArguments: []byte("{}")},
	} {
		if _, err := proposal(who, req); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
