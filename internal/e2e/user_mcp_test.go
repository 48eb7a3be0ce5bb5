//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/internal/agent/agenttest"
)

// user is an ordinary user with a daemon of their own, who has nothing but the
// commands.
type user struct {
	*daemon
	as func(name string, args ...string) *exec.Cmd
}

// palyra runs a command that must succeed, and reads the JSON that it prints.
func (u user) palyra(into any, args ...string) {
	u.t.Helper()
	cmd := u.as("palyra", append([]string{"--json"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		u.t.Fatalf("palyra %s: %v\n%s%s\n%s", strings.Join(args, " "), err, out.String(), errs.String(), u.log)
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		u.t.Fatalf("palyra %s: %v\n%s", strings.Join(args, " "), err, out.String())
	}
}

// allow waits for the next question and answers it with yes.
func (u user) allow() palyra.Approval {
	u.t.Helper()
	return u.answer(palyra.AnswerAllow)
}

// answer answers the next question.
func (u user) answer(yes palyra.Answer) palyra.Approval {
	u.t.Helper()
	for end := time.Now().Add(waitMost); ; {
		var page struct{ Approvals []palyra.Approval }
		u.palyra(&page, "approvals", "list", "--pending")
		if len(page.Approvals) > 0 {
			a := page.Approvals[0]
			out, err := u.as("palyra", "approvals", "decide", string(a.ID), string(yes), "--digest", string(a.PlanDigest)).CombinedOutput()
			if err != nil {
				u.t.Fatalf("decide: %v\n%s", err, out)
			}
			return a
		}
		if time.Now().After(end) {
			u.t.Fatalf("nobody asks anything\n%s", u.log)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// owned fails unless a file of the workspace is there, and the user's.
func (u user) owned(name string) {
	u.t.Helper()
	info, err := os.Lstat(filepath.Join(u.work, name))
	if err != nil {
		u.t.Error(err)
		return
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != u.ownWork() {
		u.t.Errorf("%s is not the user's: %+v", name, info.Sys())
	}
}

// client is a program on the Go SDK that the user runs on 'mcp serve'.
func (u user) client() *goClient {
	u.t.Helper()
	g := &goClient{t: u.t.(*testing.T), progress: make(chan string, 1024)}
	c := mcp.NewClient(&mcp.Implementation{Name: "palyra-go", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { g.progress <- r.Params.Message },
	})
	var err error
	if g.ClientSession, err = c.Connect(u.t.Context(), &mcp.CommandTransport{Command: u.as("palyra", u.mcpArgs()...)}, nil); err != nil {
		u.t.Fatalf("%v\n%s", err, u.log)
	}
	u.t.Cleanup(func() { _ = g.Close() })
	return g
}

// call calls a tool that asks.
func (u user) call(g *goClient, tool string, args map[string]any) (map[string]any, palyra.Approval) {
	u.t.Helper()
	ch := g.call(u.t.Context(), tool, args)
	a := u.allow()
	return g.outcome(ch), a
}

// What agents reach Palyra by, with nobody but an ordinary user on the machine: an
// MCP client, MCP servers in tier C, the hook, a model.
func TestAnOrdinaryUsersAgents(t *testing.T) {
	s := agenttest.New(t,
		agenttest.Reply{Text: []string{"Let me run it.\n"}, Calls: []agenttest.ToolCall{touch}},
		agenttest.Reply{Text: []string{"It printed: made."}},
	)
	d := newDaemon(t)
	d.withModel("openai", s)
	d.give(filepath.Join(filepath.Dir(d.home), "model.key"))
	profile, node, modules := d.nodeProfile()
	u := user{d, d.ordinary()}
	d.put("server.py", serverScript)
	d.put("a.txt", "hay\n")
	u.palyra(new(any), "workspace", "add", d.work)
	u.served(t)
	u.upstreams(t, profile, node, modules)
	u.reached(t)
	u.hooked(t)
	u.modelled(t, s)
	var verified struct{ OK bool }
	if u.palyra(&verified, "journal", "verify"); !verified.OK {
		t.Error("the journal is not whole")
	}
}

// served is a client of 'mcp serve'.
func (u user) served(t *testing.T) {
	g := u.client()
	if f := g.outcome(g.call(t.Context(), "palyra_echo", map[string]any{"text": "hello"})); f["outcome"] != "finished" {
		t.Errorf("%v", f)
	}
	if f, _ := u.call(g, "palyra_fs_write", map[string]any{"path": "written", "content": "x"}); f["outcome"] != "finished" {
		t.Errorf("%v", f)
	}
	u.owned("written")
}

// upstreams puts two servers behind the gate: one is looked at and approved tool by
// tool, the other as it is.
func (u user) upstreams(t *testing.T, profile, node, modules string) {
	var small palyra.Upstream
	u.palyra(&small, "mcp", "add", "small", "--workspace", u.work, "--", "python3", filepath.Join(u.work, "server.py"))
	if got := stateOf(small, "add"); got.State != palyra.UpstreamToolQuarantined {
		t.Fatalf("%+v", small)
	}
	u.palyra(&small, "mcp", "approve", "small", "add", "--digest", string(stateOf(small, "add").Digest), "--read-only", "add")
	var tool palyra.Tool
	// which spares nobody the question
	if u.palyra(&tool, "tools", "show", "mcp.small.add"); !tool.ReadOnly || !stateOf(small, "add").ReadOnly {
		t.Errorf("%+v", tool)
	}
	if stateOf(small, "add").State != palyra.UpstreamToolActive || stateOf(small, "write").State != palyra.UpstreamToolQuarantined {
		t.Fatalf("%+v", small)
	}
	for name, argument := range map[string]string{"server-filesystem": u.work, "server-everything": "stdio"} {
		server := filepath.Join(modules, "node_modules", "@modelcontextprotocol", name, "dist", "index.js")
		var up palyra.Upstream
		u.palyra(&up, "mcp", "add", name, "--workspace", u.work, "--profile", profile, "--approve", "--", node, server, argument)
		if up.State != palyra.UpstreamReady || len(up.Tools) < 5 {
			t.Errorf("%+v", up)
		}
	}
	g := u.client() // one that sees them at once
	f, a := u.call(g, "mcp_small_add", map[string]any{"a": 2, "b": 40})
	if raw, _ := json.Marshal(f); f["outcome"] != "finished" || !strings.Contains(string(raw), "42") || a.Plan.Tier != palyra.TierC {
		t.Errorf("%s, %s", raw, a.Plan.Tier)
	}
	if len(serversOf(t, u.work)) == 0 {
		t.Error("no server runs")
	}
	if f, _ = u.call(g, "mcp_server-filesystem_write_file", map[string]any{
		"path":    "by-a-server",
		"content": "x",
	}); f["outcome"] != "finished" {
		t.Errorf("%v", f)
	}
	u.owned("by-a-server")
	f, _ = u.call(g, "mcp_server-everything_echo", map[string]any{"message": "straw"})
	if raw, _ := json.Marshal(f); f["outcome"] != "finished" || !strings.Contains(string(raw), "straw") {
		t.Errorf("%s", raw)
	}
}

// goer is an MCP server that goes where it is told to.
const goer = `import json, sys, urllib.request
def go(url):
    try: return urllib.request.urlopen(url, timeout=20).read().decode()
    except Exception as e: return "no: " + type(e).__name__
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    r = {}
    if m["method"] == "initialize": r = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "goer", "version": "1"}}
    elif m["method"] == "tools/list": r = {"tools": [{"name": "go", "inputSchema": {"type": "object", "properties": {"url": {"type": "string"}}}}]}
    elif m["method"] == "tools/call": r = {"content": [{"type": "text", "text": go(m["params"]["arguments"]["url"])}]}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
`

// reached: what a server in tier C reaches is on record, with its name and the call
// that was under way, in the attestation of that call and in the journal.
func (u user) reached(t *testing.T) {
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "from afar") }))
	defer far.Close()
	at := strings.TrimPrefix(far.URL, "http://")
	u.palyra(new(palyra.Upstream), "mcp", "add", "goer", "--workspace", u.work, "--egress", at, "--approve", "--", "python3",
		u.put("goer.py", goer))
	g := u.client()
	f, _ := u.call(g, "mcp_goer_go", map[string]any{"url": far.URL})
	id, _ := f["call_id"].(string)
	if raw, _ := json.Marshal(f); f["outcome"] != "finished" || !strings.Contains(string(raw), "from afar") {
		t.Fatalf("%s", raw)
	}
	var shown palyra.Attestation
	if u.palyra(&shown, "attest", "show", id); len(shown.Predicate.Egress) != 1 || shown.Predicate.Egress[0].In == 0 ||
		net.JoinHostPort(shown.Predicate.Egress[0].Host, strconv.Itoa(shown.Predicate.Egress[0].Port)) != at {
		t.Errorf("attested %+v", shown.Predicate.Egress)
	}
	u.palyra(new(any), "mcp", "remove", "goer")
	for end := time.Now().Add(waitMost); ; {
		out, err := u.as("palyra", "journal", "tail", "--json", "--kind", "upstream.reached").Output()
		if strings.Contains(string(out), `"name":"goer"`) {
			if !strings.Contains(string(out), `"call_ids":["`+id+`"]`) || !strings.Contains(string(out), `"host":"127.0.0.1"`) {
				t.Errorf("%s", out)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v: %s", err, out)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// hooked has the hook rewrite a shell command, and a shell run what came of it.
func (u user) hooked(t *testing.T) {
	hook := u.as("palyra", "hook", "claude-code", "--shell", "/bin/sh")
	hook.Stdin = strings.NewReader(u.preToolUse("Bash", map[string]any{"command": "test -r '" + filepath.Join(u.home, "operator.key") +
		"' && echo ESCAPED; touch hooked; echo \"it's $((6*7))\"; exit 3"}))
	out, err := hook.Output()
	var says hookSays
	if err == nil {
		err = json.Unmarshal(out, &says)
	}
	line, _ := says.Specific.Input["command"].(string)
	if err != nil || says.Specific.Decision != "allow" || !strings.Contains(line, "exec") {
		t.Fatalf("%v: %s", err, out)
	}
	shell := u.as("/bin/sh", "-c", line)
	stdout, err := shell.StdoutPipe()
	if err == nil {
		err = shell.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	u.allow()
	printed, _ := io.ReadAll(stdout)
	_ = shell.Wait()
	if shell.ProcessState.ExitCode() != 3 || string(printed) != "it's 42\n" {
		t.Errorf("%d %q", shell.ProcessState.ExitCode(), printed)
	}
	u.owned("hooked")
}

// modelled runs a model that runs a program.
func (u user) modelled(t *testing.T, s *agenttest.Server) {
	run := u.as("palyra", "run", "run the program", "-w", u.work)
	var out bytes.Buffer
	run.Stdout, run.Stderr = &out, &out
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	u.allow()
	if err := run.Wait(); err != nil || !strings.Contains(out.String(), "It printed: made.") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if seen := s.Seen(); len(seen) != 2 || !strings.Contains(seen[1].Raw, `made\\n`) ||
		seen[1].Header.Get("Authorization") != "Bearer "+modelKey {
		t.Errorf("the model was asked %d times", len(seen))
	}
	u.owned("started")
}
