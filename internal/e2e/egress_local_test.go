//go:build linux

package e2e

import (
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// An address of the host's loopback that was granted is reached as it stands, also
// by programs that keep their proxy out of it, and servers of the run's own beside
// it work as ever.
func TestLoopbackThatIsGranted(t *testing.T) {
	d, w := newDaemon(t), newWorld(t)
	d.ownWork()
	d.mustStart("PALYRA_EGRESS_ASK=off")
	_, port, _ := net.SplitHostPort(w.web)
	at := "127.0.0.1:" + port
	script := "curl -sS --max-time 20 http://" + at + "/ && python3 -c '" + `
import http.server, threading, urllib.request
s = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=s.serve_forever, daemon=True).start()
print(urllib.request.urlopen("http://127.0.0.1:%d/" % s.server_address[1]).status)'`
	raw, _ := json.Marshal(map[string]any{"script": script, "tier": "c", "egress": []string{at}})
	out, _ := d.allowed(client.CallRequest{Tool: "palyra.process.run", Arguments: raw, Workspace: d.work, Surface: palyra.SurfaceCLI})
	if out.ExitCode != 0 || !strings.Contains(out.Stdout, "hello from "+at) || !strings.HasSuffix(strings.TrimSpace(out.Stdout), "200") {
		t.Fatalf("%d %s\nstdout: %s\nstderr: %s", out.ExitCode, out.Reason, out.Stdout, out.Stderr)
	}
	if f := predicate(t, out).Egress; len(f) != 1 || f[0].Host != "127.0.0.1" || f[0].Verdict != "allow" || f[0].Door != "direct" ||
		f[0].In == 0 {
		t.Errorf("flows %+v", f)
	}
}

// localhost is refused before anybody is asked, and works where the operator lets
// names lead to loopback.
func TestLocalhostIsNotAskedFor(t *testing.T) {
	d, w := newDaemon(t), newWorld(t)
	d.ownWork()
	d.mustStart()
	_, port, _ := net.SplitHostPort(w.web)
	at := "localhost:" + port
	run, _ := json.Marshal(map[string]any{"script": "curl -sS --max-time 20 http://" + at + "/", "tier": "c", "egress": []string{at}})
	fetch, _ := json.Marshal(map[string]any{"url": "http://" + at + "/"})
	calls := []client.CallRequest{
		{Tool: "palyra.process.run", Arguments: run, Workspace: d.work, Surface: palyra.SurfaceCLI},
		{Tool: "palyra.http.fetch", Arguments: fetch, Surface: palyra.SurfaceCLI},
	}
	agent := d.client(client.AgentDoor)
	for _, c := range calls {
		out, err := agent.Call(t.Context(), c, nil)
		if err != nil || out.ReasonCode != palyra.ReasonEgressDenied || out.ApprovalID != "" || !strings.Contains(out.Remedy, "127.0.0.1:"+port) {
			t.Errorf("%s: %v %+v", c.Tool, err, out)
		}
	}
	open, w := newDaemon(t), newWorld(t)
	open.ownWork()
	open.mustStart("PALYRA_EGRESS_PRIVATE_RANGES=127.0.0.0/8,::1/128")
	_, port, _ = net.SplitHostPort(w.web)
	at = "localhost:" + port
	run, _ = json.Marshal(map[string]any{"script": "curl -sS --max-time 20 http://" + at + "/", "tier": "c", "egress": []string{at}})
	fetch, _ = json.Marshal(map[string]any{"url": "http://" + at + "/"})
	for tool, args := range map[string]json.RawMessage{"palyra.process.run": run, "palyra.http.fetch": fetch} {
		out, _ := open.allowed(client.CallRequest{Tool: palyra.ToolName(tool), Arguments: args, Workspace: open.work, Surface: palyra.SurfaceCLI})
		if out.ExitCode != 0 || !strings.Contains(out.Stdout+string(out.Output), "hello from "+at) {
			t.Errorf("%s: %+v", tool, out)
		}
	}
}

// When an operator says no to a host, the command, the record and the person who
// ran it are told so, and nobody is told to ask for it again.
func TestAHostIsAskedForAndDenied(t *testing.T) {
	d, w := newDaemon(t), newWorld(t)
	d.ownWork()
	d.guarded(w)
	person := d.client(client.OperatorDoor)
	// no URL: its words do not tell the host
	cmd := d.palyra("exec", "--no-stdin", "--tier", "c", "--workspace", d.work, "--", "/usr/bin/curl", "-sS", "--max-time", "60", w.web+"/")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := person.Decide(t.Context(), allow(d.pending(person), palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	host := d.pending(person)
	if !slices.Equal(host.Plan.Egress, []string{w.web}) {
		t.Fatalf("%+v", host.Plan.Egress)
	}
	no := client.DecideRequest{ID: host.ID, Answer: palyra.AnswerDeny, Reason: "not today", Digest: host.PlanDigest}
	if _, err := person.Decide(t.Context(), no); err != nil {
		t.Fatal(err)
	}
	<-ended
	told, said := stdout.String(), stderr.String()
	if !strings.Contains(told, "denied the call: not today") || strings.Contains(told, "egress list") {
		t.Errorf("the command was told %s", told)
	}
	if !strings.Contains(said, "palyra: network: "+w.web+" refused (") || !strings.Contains(said, "denied the call: not today)") ||
		strings.Contains(said, "--egress") {
		t.Errorf("the person was told %s", said)
	}
}
