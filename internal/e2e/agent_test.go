//go:build linux

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// An agent inside the full sandbox: it calls tools by a door of its own, as
// itself, and reaches nothing else of Palyra.
func TestAnAgentInsideARoom(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	raw, _ := json.Marshal(map[string]any{"agent_socket": true, "tier": "c", "script": `
palyra tools call palyra.echo --input '{"text":"from inside"}' --json
palyra approvals list && echo LISTED
palyra approvals decide 01ABCDEFGHJKMNPQRSTVWXYZ00 allow --digest x && echo DECIDED
find / -xdev -name '*.sock' 2>/dev/null
ls /run/palyra /run/palyra/run
palyra tools call palyra.egress.allow --no-wait --json --input '{"host":"evil.example","port":443}'
palyra exec --json --no-wait -- true
`})
	out, settled := d.allowed(client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI})
	if s := settled.Plan.Staging; s.Writes != palyra.WritesLive || !strings.Contains(s.Why, "agent") {
		t.Errorf("an agent's work is seen when it has ended: %+v", s)
	}
	if out.Outcome != palyra.OutcomeFinished || !strings.Contains(out.Stdout, "from inside") {
		t.Fatalf("%s %d %s %s\n%s\n%s\n%s", out.Outcome, out.ExitCode, out.ReasonCode, out.Reason, out.Stdout, out.Stderr, d.log)
	}
	for _, bad := range []string{"LISTED", "DECIDED", "operator.sock"} {
		if strings.Contains(out.Stdout, bad) {
			t.Errorf("inside: %s", out.Stdout)
		}
	}
	if !strings.Contains(out.Stdout, "approval_not_awaited") && !strings.Contains(out.Stderr, "approval_not_awaited") {
		t.Errorf("a program of the inner agent does not ask: %s\n%s", out.Stdout, out.Stderr)
	}
	if !strings.Contains(out.Stdout, "permission_denied") {
		t.Errorf("an agent inside can have a host answered for later: %s", out.Stdout)
	}
	calls, err := d.client(client.OperatorDoor).Calls(t.Context(), client.CallFilter{})
	if err != nil {
		t.Fatal(err)
	}
	echoes := 0
	for _, c := range calls.Calls {
		if c.Proposal.Tool == "palyra.echo" && c.Proposal.Principal == "agent:local" && c.State == palyra.Finished {
			echoes++
		}
	}
	if echoes != 1 {
		t.Errorf("%d echoes on record", echoes)
	}
	d.verify()
}
