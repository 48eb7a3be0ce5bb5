//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// A development server in the shape of Vite's: npm starts node, which listens at localhost.
const (
	devPackage = `{"name":"site","private":true,"type":"module","scripts":{"dev":"node server.mjs"}}`
	devServer  = `import http from "node:http";
http.createServer((q, a) => a.end("from node")).listen(5173, "localhost", () => console.log("ready"));
`
	pythonServer = `import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"from python")
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), H).serve_forever()
`
)

// rooted is the command of whoever runs the tests, on the test's own daemon.
func (d *daemon) rooted() user {
	return user{d, func(name string, args ...string) *exec.Cmd {
		if name != "palyra" {
			d.t.Fatal(name)
		}
		return d.palyra(args...)
	}}
}

// processStarted is what 'exec --background' prints.
type processStarted struct {
	Process palyra.CallID `json:"process_id"`
	Publish []string      `json:"publish"`
}

// background starts a program in the background; with asked one question is answered for the session.
func (u user) background(asked bool, args ...string) processStarted {
	u.t.Helper()
	cmd := u.as("palyra", append([]string{"exec", "--json", "--background"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if asked {
		a := u.answerFor(palyra.ScopeSession, func() {
			if len(ended) > 0 {
				u.t.Fatalf("it is not asked about: %s%s", stdout.String(), stderr.String())
			}
		})
		if !strings.Contains(a.Plan.Detail.Summary+a.Prompt.Summary, "in the background") {
			u.t.Errorf("people are asked %q", a.Prompt.Summary)
		}
	}
	var out processStarted
	if err := <-ended; err != nil || json.Unmarshal(stdout.Bytes(), &out) != nil || out.Process == "" {
		u.t.Fatalf("%v: %s%s\n%s", err, stdout.String(), stderr.String(), u.log)
	}
	return out
}

// answerFor allows the next question for a scope.
func (u user) answerFor(scope palyra.Scope, look func()) palyra.Approval {
	u.t.Helper()
	for end := time.Now().Add(waitMost); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		look()
		var page struct{ Approvals []palyra.Approval }
		u.palyra(&page, "approvals", "list", "--pending")
		if len(page.Approvals) == 0 {
			continue
		}
		a := page.Approvals[0]
		out, err := u.as("palyra", "approvals", "decide", string(a.ID), "allow", "--scope", string(scope), "--digest", string(a.PlanDigest)).
			CombinedOutput()
		if err != nil {
			u.t.Fatalf("decide: %v\n%s", err, out)
		}
		return a
	}
	u.t.Fatalf("nobody asks anything\n%s", u.log)
	return palyra.Approval{}
}

// aPort is a port of this machine that nobody has now.
func aPort(t testing.TB) int {
	t.Helper()
	for port := 15000 + int(time.Now().UnixNano()/1000%15000); port < 32000; port++ { // below those that clients are given
		if l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// fetched is what the host's own client gets at a port.
func fetched(port int) (string, error) {
	c := &http.Client{Timeout: waitMost, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	return string(b), err
}

// serves waits until the host gets a text at a port.
func (u user) serves(port int, want string) {
	u.t.Helper()
	for end := time.Now().Add(waitMost); ; {
		got, err := fetched(port)
		if err == nil && got == want {
			return
		}
		if time.Now().After(end) {
			u.t.Fatalf("port %d: %q, %v\n%s", port, got, err, u.log)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// over fails unless a process and its port are gone, at once: what ended it has waited for that.
func (u user) over(how string, port int, marker string, within time.Duration) {
	u.t.Helper()
	for end := time.Now().Add(within); ; {
		_, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
		left := survivors(marker)
		if err != nil && len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			u.t.Fatalf("%s: port closed: %v, left: %v", how, err, left)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// inRoomGets is what a call of a session gets at localhost, unasked.
func (u user) inRoomGets(session string, port int) string {
	u.t.Helper()
	args := []string{"exec", "--tier", "c", "--no-wait"}
	if session != "" {
		args = append(args, "--session", session)
	}
	args = append(args, "--", "/usr/bin/python3", "-c",
		fmt.Sprintf(`import urllib.request as u; print(u.urlopen("http://localhost:%d/", timeout=20).read().decode())`, port))
	out, err := u.as("palyra", args...).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "Connection refused") {
		u.t.Errorf("%v: %s", err, out)
	}
	return string(out)
}

func TestBackgroundProcesses(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(shipped...)
	d.rooted().backgroundStory()
	d.verify()
}

func TestBackgroundProcessesOfAnOrdinaryUser(t *testing.T) {
	d := newDaemon(t)
	user{d, d.ordinary(shipped...)}.backgroundStory()
}

// backgroundStory starts servers in the background, reaches them from the host and from another call of their session,
// and ends them in every way that there is.
func (u user) backgroundStory() {
	t := u.t
	u.palyra(new(any), "workspace", "add", u.work)
	marker := lasting()
	u.put("package.json", devPackage)
	u.put("server.mjs", devServer)
	u.put("server.py", pythonServer)

	port := aPort(t)
	node := u.background(true, "--publish", fmt.Sprintf("%d:5173", port), "--", "npm", "run", "dev", "--", marker)
	u.serves(port, "from node")
	if got := u.inRoomGets("", port); !strings.Contains(got, "from node") {
		t.Errorf("another call of the session: %s", got)
	}
	if got := u.inRoomGets("another", port); strings.Contains(got, "from node") || !strings.Contains(got, "Connection refused") {
		t.Errorf("a call of another session: %s", got)
	}
	u.listed(node, port)
	var stopped struct{ State string }
	u.palyra(&stopped, "processes", "stop", string(node.Process))
	if stopped.State != string(palyra.OutcomeCancelled) {
		t.Errorf("it was stopped: %+v", stopped)
	}
	u.over("stop", port, marker, 0)

	start := []string{"--publish", fmt.Sprintf("%d:8000", port), "--", "/usr/bin/python3", "server.py", "8000", marker}
	built := []string{"--publish", fmt.Sprintf("%d:8000", port), "--", "./server", "127.0.0.1:8000", marker}
	u.goServer("server")
	first := u.background(true, built...)
	u.serves(port, "from go")
	if got := u.inRoomGets("", port); !strings.Contains(got, "from go") {
		t.Errorf("another call of the session: %s", got)
	}
	var call palyra.Call
	u.palyra(&call, "calls", "show", string(first.Process))
	u.palyra(new(any), "sessions", "close", string(call.Proposal.Session))
	u.over("the session's end", port, marker, waitMost)

	second := u.background(true, start...)
	u.serves(port, "from python")
	u.palyra(&call, "calls", "show", string(second.Process))
	u.palyra(new(any), "leases", "revoke", string(call.Grant))
	u.over("a revoke", port, marker, waitMost)

	third := u.background(true, built...)
	u.serves(port, "from go")
	var status struct{ PID int }
	u.palyra(&status, "status")
	if err := syscall.Kill(status.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	u.over("kill -9 of the daemon", port, marker, 5*time.Second) // it is to be gone within one
	if u.cmd != nil {
		<-u.done
		u.mustStart(shipped...)
		u.palyra(&call, "calls", "show", string(third.Process))
		if call.State != palyra.Unknown {
			t.Errorf("after the daemon's end: %s", call.State)
		}
	}
}

// goServer builds a server of Go, as its author would, and puts it into the workspace.
func (u user) goServer(name string) {
	u.t.Helper()
	dir := u.t.TempDir()
	for file, text := range map[string]string{"go.mod": "module server\n\ngo 1.26\n", "main.go": goServer} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			u.t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, name), ".")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod")
	if out, err := build.CombinedOutput(); err != nil {
		u.t.Fatalf("%v: %s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		u.t.Fatal(err)
	}
	u.put(name, string(program))
	if err := os.Chmod(filepath.Join(u.work, name), 0o755); err != nil {
		u.t.Fatal(err)
	}
}

const goServer = `package main

import (
	"io"
	"net/http"
	"os"
)

func main() {
	_ = http.ListenAndServe(os.Args[1], http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "from go") }))
}
`

// listed looks at a process as the commands show it.
func (u user) listed(p processStarted, port int) {
	u.t.Helper()
	var list struct {
		Processes []struct {
			Process palyra.CallID `json:"process_id"`
			Publish []string      `json:"publish"`
		}
	}
	u.palyra(&list, "processes", "list")
	if want := fmt.Sprintf("%d:5173", port); len(list.Processes) != 1 || list.Processes[0].Process != p.Process ||
		len(list.Processes[0].Publish) != 1 || list.Processes[0].Publish[0] != want {
		u.t.Errorf("listed: %+v", list)
	}
	var calls struct{ Calls []palyra.Call }
	u.palyra(&calls, "calls", "list", "--state", "running")
	if len(calls.Calls) != 1 || calls.Calls[0].ID != p.Process {
		u.t.Errorf("calls: %+v", calls)
	}
	var printed struct {
		Content []byte `json:"content_b64"`
		Next    int64  `json:"next_offset"`
		State   string
	}
	u.palyra(&printed, "processes", "output", string(p.Process))
	if !strings.Contains(string(printed.Content), "ready") || printed.State != "running" || printed.Next == 0 {
		u.t.Errorf("printed: %+v", printed)
	}
	u.palyra(&printed, "processes", "output", string(p.Process), "--offset", fmt.Sprint(printed.Next))
	if len(printed.Content) != 0 {
		u.t.Errorf("printed after its end: %q", printed.Content)
	}
}

// A server and its client in one call need no question: in a network of its own localhost is the run itself.
func TestLocalhostInOneCall(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(shipped...)
	u := d.rooted()
	u.palyra(new(any), "workspace", "add", u.work)
	u.put("index.html", "from the room\n")
	out := u.execAnswered(u.work, nil, "--no-wait", "--", "sh", "-c",
		"/usr/bin/python3 -m http.server 8000 >/dev/null 2>&1 & "+
			"curl -s --retry 100 --retry-connrefused --retry-delay 1 http://localhost:8000/index.html")
	if out.Stdout != "from the room\n" {
		t.Errorf("%q, %q", out.Stdout, out.Stderr)
	}
}

// Ports that cannot be published are refused with a remedy, before anything runs: those that nobody may publish before
// anybody is asked, and those that are taken afterwards, so that nobody learns unasked which those are. And a daemon that stops in good
// order takes its background processes with it.
func TestPortsThatAreNotPublished(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	own := aPort(t)
	d.mustStart(append([]string{fmt.Sprintf("PALYRA_CONSOLE_LISTEN=127.0.0.1:%d", own)}, shipped...)...)
	u := d.rooted()
	u.palyra(new(any), "workspace", "add", u.work)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for name, port := range map[string]int{"low": 80, "taken": l.Addr().(*net.TCPAddr).Port, "Palyra's own": own} {
		cmd := u.as("palyra", "exec", "--background", "--publish", fmt.Sprint(port), "--", "sh", "-c", "echo > ran")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if name == "taken" {
			u.answerFor(palyra.ScopeOnce, func() {
				if len(ended) > 0 {
					t.Fatalf("who plans a call is told what is taken: %s", out.String())
				}
			})
		}
		err := <-ended
		var code *exec.ExitError
		if !asExit(err, &code) || code.ExitCode() != 126 || !strings.Contains(out.String(), string(palyra.ReasonPortDenied)) ||
			!strings.Contains(out.String(), "remedy: publish") {
			t.Errorf("%s: %v, %s", name, err, out.String())
		}
	}
	if _, err := os.Stat(filepath.Join(u.work, "ran")); err == nil {
		t.Error("the program ran")
	}
	marker, port := lasting(), aPort(t)
	u.put("server.py", pythonServer)
	p := u.background(true, "--publish", fmt.Sprintf("%d:8000", port), "--", "/usr/bin/python3", "server.py", "8000", marker)
	u.serves(port, "from python")
	d.stop()
	u.over("a stop of the daemon", port, marker, 0)
	d.mustStart(shipped...)
	var call palyra.Call
	u.palyra(&call, "calls", "show", string(p.Process))
	if call.Outcome == nil || call.Outcome.Outcome != palyra.OutcomeCancelled {
		t.Errorf("after a stop in good order: %s %+v", call.State, call.Outcome)
	}
	d.verify()
}

// A process whose server listens at the number of another's port listens there itself, and its own port leads to it.
func TestTwoServersOfOneNumber(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(shipped...)
	u, marker, one := d.rooted(), lasting(), aPort(t)
	u.palyra(new(any), "workspace", "add", u.work)
	u.put("one.py", pythonServer)
	u.put("two.py", strings.ReplaceAll(pythonServer, "from python", "from the second"))
	u.background(true, "--publish", fmt.Sprint(one), "--", "/usr/bin/python3", "one.py", fmt.Sprint(one), marker)
	u.serves(one, "from python")
	two := aPort(t)
	u.background(true, "--publish", fmt.Sprintf("%d:%d", two, one), "--", "/usr/bin/python3", "two.py", fmt.Sprint(one), marker)
	u.serves(two, "from the second")
	u.serves(one, "from python")
}

// The end of the credential behind a background process ends it.
func TestARemovedAgentsProcessEnds(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(shipped...)
	d.inWorkspace()
	u, agent, marker, port := d.rooted(), d.agentCalled("ci"), lasting(), aPort(t)
	u.put("server.py", pythonServer)
	args, err := json.Marshal(map[string]any{
		"command": "/usr/bin/python3", "args": []string{"server.py", "8000", marker}, "publish": []string{fmt.Sprintf("%d:8000", port)},
	})
	if err != nil {
		t.Fatal(err)
	}
	call := propose(t.Context(), agent, client.CallRequest{Tool: palyra.ToolProcessStart, Arguments: args, Workspace: d.work})
	u.answerFor(palyra.ScopeSession, func() {})
	u.serves(port, "from python")
	if err := d.client(client.OperatorDoor).RemoveAgent(t.Context(), "agent:ci"); err != nil {
		t.Fatal(err)
	}
	u.over("the agent's removal", port, marker, waitMost)
	<-call
}

// TestABackgroundProcessThatEndsAtOnce: what never got to work is not said to go on, and its exit code comes back.
func TestABackgroundProcessThatEndsAtOnce(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(shipped...)
	u := d.rooted()
	u.palyra(new(any), "workspace", "add", u.work)
	cmd := u.as("palyra", "exec", "--background", "--", "sh", "-c", "echo cannot begin >&2; exit 7")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	u.allow()
	var code *exec.ExitError
	if !asExit(cmd.Wait(), &code) || code.ExitCode() != 7 || !strings.Contains(out.String(), "cannot begin") ||
		strings.Contains(out.String(), "goes on") {
		t.Errorf("%v\n%s", code, out.String())
	}
}
