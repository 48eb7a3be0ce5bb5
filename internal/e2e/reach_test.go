//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// insider is what an agent in a room has: a socket, and whatever it knows. It says
// what became of each try, a line each.
const insider = `
import http.client, json, os, socket, struct, sys
class Door(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["PALYRA_HOME"] + "/run/agent.sock")
def ask(service, method, body):
    c = Door("palyra", timeout=60)
    c.request("POST", "/palyra.v1.%s/%s" % (service, method), json.dumps(body), {"Content-Type": "application/json"})
    r = c.getresponse()
    return r.status, r.read().decode()
def call(tool, args, workspace="", session="", **more):
    c = Door("palyra", timeout=60)
    raw = json.dumps(dict(more, tool=tool, arguments=args, workspace=workspace, session=session, no_wait=True)).encode()
    c.request("POST", "/palyra.v1.ToolService/CallTool", b"\0" + struct.pack(">I", len(raw)) + raw, {"Content-Type": "application/connect+json"})
    out, rest = {}, c.getresponse().read()
    while rest:
        flag, n = rest[0], struct.unpack(">I", rest[1:5])[0]
        m, rest = json.loads(rest[5:5+n]), rest[5+n:]
        if flag & 2:
            return m.get("error", {}).get("message", "") or out
        out = m.get("outcome", out)
    return out
def say(what, got):
    print(what + ":", got if isinstance(got, str) else json.dumps(got), flush=True)
`

// neighbour is a workspace beside the daemon's own, with a secret in it.
func (d *daemon) neighbour() string {
	d.t.Helper()
	dir := filepath.Join(filepath.Dir(d.work), "neighbour")
	if err := os.MkdirAll(filepath.Join(dir, "src"), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "secret.txt"), []byte("secret of B\n"), 0o644); err != nil {
		d.t.Fatal(err)
	}
	for _, p := range []string{dir, filepath.Join(dir, "src"), filepath.Join(dir, "secret.txt")} {
		d.give(p)
	}
	for _, w := range []string{dir, d.work} {
		if _, err := d.client(client.OperatorDoor).AddWorkspace(d.t.Context(), w, ""); err != nil {
			d.t.Fatal(err)
		}
	}
	return dir
}

// byHand is a client as the palyra command of a person is one.
func (d *daemon) byHand() *client.Client {
	d.t.Helper()
	c, err := client.Open(client.Config{Home: d.home, Command: true})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() })
	return c
}

// runningCall is a call that was approved and goes on.
type runningCall struct {
	id      palyra.CallID
	session palyra.SessionID
	end     <-chan answer
}

// fedLive proposes what is fed while it runs, has it approved, and returns when it
// prints.
func (d *daemon) fedLive(by *client.Client, r client.CallRequest, scope palyra.Scope) runningCall {
	d.t.Helper()
	r.StreamOutput = true
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	d.t.Cleanup(cancel)
	news, ch := make(chan client.CallEvent, 1024), make(chan answer, 1)
	go func() {
		out, err := by.Call(ctx, r, func(e client.CallEvent) { news <- e })
		ch <- answer{out, err}
		close(news)
	}()
	out := runningCall{end: ch}
	person := d.client(client.OperatorDoor)
	for e := range news {
		switch {
		case e.Accepted != nil:
			out.id, out.session = e.Accepted.CallID, e.Accepted.SessionID
		case e.ApprovalRequested != nil:
			a, err := person.Approval(ctx, e.ApprovalRequested.ApprovalID)
			if err == nil {
				_, err = person.Decide(ctx, allow(a, scope, 0))
			}
			if err != nil {
				d.t.Fatal(err)
			}
		case e.Output != nil:
			return out
		}
	}
	end := <-ch
	d.t.Fatalf("it never printed anything: %+v %v\n%s", end.out, end.err, d.log)
	return out
}

func processRun(workspace string, args map[string]any) client.CallRequest {
	raw, _ := json.Marshal(args)
	return client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: workspace, Surface: palyra.SurfaceCLI}
}

// An agent in a room knows the ids of everything beside it, and reaches none of it:
// not a terminal in another room, not a lease, not a session, not a call, not a file
// of another workspace, whoever of them goes by its own name.
func TestARoomReachesItsOwnOnly(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	b := d.neighbour()
	person := d.client(client.OperatorDoor)
	for name, by := range map[string]*client.Client{"person": d.byHand(), "agent": d.client(client.AgentDoor)} {
		t.Run(name, func(t *testing.T) { d.besideARoom(t, person, by, b) })
	}
	d.verify()
}

func (d *daemon) besideARoom(t *testing.T, person, by *client.Client, b string) {
	victim := d.fedLive(by, processRun(b, map[string]any{
		"command": "sh", "agent_socket": true, "stdin_live": true, "terminal": map[string]int{"rows": 24, "cols": 80}, "tier": "c",
	}), palyra.ScopeOnce)
	read, err := by.Call(t.Context(), client.CallRequest{
		Tool: "palyra.fs.read", Arguments: json.RawMessage(`{"path":"secret.txt"}`),
		Workspace: b, Surface: palyra.SurfaceCLI,
	}, nil)
	if err != nil || read.Outcome != palyra.OutcomeFinished {
		t.Fatal(read, err)
	}
	write := client.CallRequest{
		Tool: "palyra.fs.write", Arguments: json.RawMessage(`{"path":"src/ok.txt","content":"x"}`), Workspace: b,
		Surface: palyra.SurfaceCLI,
	}
	a, _, ch, err := question(t.Context(), by, person, write)
	if err != nil {
		t.Fatal(err)
	}
	grant := allow(a, palyra.ScopeSession, 0)
	grant.Widen = "path_root"
	if _, err := person.Decide(t.Context(), grant); err != nil {
		t.Fatal(err)
	}
	if end := <-ch; end.err != nil || end.out.Outcome != palyra.OutcomeFinished {
		t.Fatal(end)
	}

	attack := "#!/usr/bin/env python3\n" + insider + fmt.Sprintf(`
victim, session, read, B, A = %q, %q, %q, %q, os.getcwd()
say("own echo", call("palyra.echo", {"text": "from inside"}, A)["outcome"])
say("own read", call("palyra.fs.list", {}, A)["outcome"])
say("listed", ask("ToolService", "ListCalls", {}))
say("input", ask("ToolService", "SendInput", {"call_id": victim, "data": "aWQgPiBQV05FRAo="}))
for m in ["GetCall", "CancelCall"]:
    for c in [victim, read]:
        say(m, ask("ToolService", m, {"call_id": c}))
say("joined", call("palyra.fs.write", {"path": "src/build.sh", "content": "echo evil", "executable": True}, B, session))
say("joined at home", call("palyra.echo", {"text": "x"}, A, session))
say("leased", call("palyra.fs.write", {"path": "src/build.sh", "content": "echo evil", "executable": True}, B, door="cli"))
say("read B", call("palyra.fs.read", {"path": "secret.txt"}, B))
say("ls B", call("palyra.process.run", {"command": "ls", "tier": "c"}, B))
say("me", ask("AccessService", "WhoAmI", {}))
`, victim.id, victim.session, read.CallID, b)
	r := processRun(d.work, map[string]any{"agent_socket": true, "tier": "c", "script": attack})
	a, call, ch, err := question(t.Context(), by, person, r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	end := <-ch
	said := end.out.Stdout
	if end.err != nil || end.out.ExitCode != 0 || !strings.Contains(said, `own echo: finished`) ||
		!strings.Contains(said, `own read: finished`) {
		t.Fatalf("%v %+v\n%s\n%s", end.err, end.out, said, end.out.Stderr)
	}
	t.Log(said)
	for line := range strings.Lines(said) {
		what, got, _ := strings.Cut(line, ": ")
		switch what {
		case "listed":
			if !strings.Contains(got, "from inside") || strings.Contains(got, string(victim.id)) || strings.Contains(got, string(read.CallID)) ||
				strings.Contains(got, "secret of B") {
				t.Errorf("it lists others' calls, or not its own: %s", got)
			}
		case "input", "GetCall", "CancelCall", "joined", "joined at home":
			if !strings.Contains(got, "no such call") && !strings.Contains(got, "no session") {
				t.Errorf("%s: %s", what, got)
			}
		case "leased", "read B", "ls B":
			if !strings.Contains(got, "scope_denied") {
				t.Errorf("%s: %s", what, got)
			}
		}
	}
	for _, bad := range []string{"PWNED", "src/build.sh"} {
		if _, err := os.Stat(filepath.Join(b, bad)); err == nil {
			t.Errorf("%s is there", bad)
		}
	}
	d.afterTheRoom(t, person, by, victim, call)
}

// afterTheRoom looks at what is left: whoever started a room sees what came out of
// it, feeds their own terminal, each input with a line, and cancels it.
func (d *daemon) afterTheRoom(t *testing.T, person, by *client.Client, victim runningCall, room palyra.CallID) {
	t.Helper()
	if err := by.SendInput(t.Context(), victim.id, palyra.Feed{Data: []byte("exit 3\n")}); err != nil {
		t.Fatal(err)
	}
	if end := <-victim.end; end.err != nil || end.out.ExitCode != 3 {
		t.Errorf("%+v", end)
	}
	fed := 0
	for _, line := range d.lines("call.fed") {
		if line["call_id"] == string(victim.id) && line["bytes"] == json.Number("7") &&
			line["input_digest"] == string(palyra.SumBytes([]byte("exit 3\n"))) {
			fed++
		}
	}
	if fed != 1 {
		t.Errorf("%d lines about input: %v", fed, d.lines("call.fed"))
	}
	seen := func(c *client.Client) bool {
		page, err := c.Calls(t.Context(), client.CallFilter{})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(page.Calls, func(c palyra.Call) bool {
			return c.Proposal.Room == room &&
				c.Proposal.Principal == "agent:local"
		})
	}
	if !seen(by) || !seen(person) {
		t.Error("who started the room does not see what came out of it")
	}
	sessions, err := person.Sessions(t.Context(), client.SessionFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sessions.Sessions {
		if s.Room == room {
			t.Errorf("a session of a room that is over is open: %+v", s)
		}
	}
}
