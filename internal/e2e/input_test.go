//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// Every bad input gets a typed refusal that is on record, and leaves nothing.
func TestBadInput(t *testing.T) {
	d := newDaemon(t)
	d.mustStart()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	if err := os.Symlink("loop", filepath.Join(d.work, "loop")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(d.work, "out")); err != nil {
		t.Fatal(err)
	}
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	big := raw(`{"path":"big.txt","content":"` + strings.Repeat("a", 10<<20) + `"}`)
	for _, c := range []struct {
		name, tool string
		args       json.RawMessage
		work       string
		want       palyra.Reason
	}{
		{"malformed JSON", "palyra.fs.write", raw(`{"path":`), d.work, palyra.ReasonMalformedInput},
		{"repeated key", "palyra.echo", raw(`{"text":"a","text":"b"}`), d.work, palyra.ReasonMalformedInput},
		{"10 MB", "palyra.fs.write", big, d.work, palyra.ReasonInputTooLarge},
		{"unknown tool", "palyra.nothing", raw(`{}`), d.work, palyra.ReasonUnknownTool},
		{"unknown field", "palyra.echo", raw(`{"text":"a","more":1}`), d.work, palyra.ReasonSchemaMismatch},
		{"wrong type", "palyra.echo", raw(`{"text":1}`), d.work, palyra.ReasonSchemaMismatch},
		{"NUL in a path", "palyra.fs.read", raw(`{"path":"a\u0000b"}`), d.work, ""},
		{"invalid UTF-8", "palyra.echo", raw("{\"text\":\"\xff\"}"), d.work, palyra.ReasonMalformedInput},
		{"lone surrogate", "palyra.echo", raw(`{"text":"\ud800"}`), d.work, palyra.ReasonMalformedInput},
		{"out of the workspace", "palyra.fs.write", raw(`{"path":"../x","content":"x"}`), d.work, palyra.ReasonPathOutside},
		{"absolute path", "palyra.fs.read", raw(`{"path":"/etc/passwd"}`), d.work, palyra.ReasonPathOutside},
		{"link out", "palyra.fs.read", raw(`{"path":"out/passwd"}`), d.work, palyra.ReasonPathOutside},
		{"write through a link", "palyra.fs.write", raw(`{"path":"out/x","content":"x"}`), d.work, ""},
		{"link loop", "palyra.fs.read", raw(`{"path":"loop"}`), d.work, ""},
		{"the root as workspace", "palyra.fs.list", raw(`{}`), "/", palyra.ReasonWorkspaceDenied},
		{"our own state as workspace", "palyra.fs.list", raw(`{}`), d.home, palyra.ReasonWorkspaceDenied},
		{"no such workspace", "palyra.fs.list", raw(`{}`), filepath.Join(d.work, "none"), palyra.ReasonWorkspaceDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			ask := client.CallRequest{Tool: palyra.ToolName(c.tool), Arguments: c.args, Workspace: c.work, NoWait: true}
			out, err := agent.Call(t.Context(), ask, nil)
			if err != nil {
				t.Fatalf("an error and no refusal: %v", err)
			}
			if out.Outcome != palyra.OutcomeRefused || out.Reason == "" || (c.want != "" && out.ReasonCode != c.want) {
				t.Fatalf("%+v, want %s", out, c.want)
			}
			if out.ReasonCode == palyra.ReasonApprovalNotAwaited || out.ReasonCode == palyra.ReasonInternal {
				t.Fatalf("not a typed refusal: %+v", out)
			}
			call, err := person.GetCall(t.Context(), out.CallID)
			if err != nil || call.State != palyra.Refused {
				t.Errorf("on record: %+v, %v", call.State, err)
			}
		})
	}
	left, err := os.ReadDir(d.work)
	if err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	d.verify()
}
