//go:build agents

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/agent/agenttest"
)

// step is a call that the model makes, in the words of each way.
type step struct {
	tool string
	args map[string]any
}

// scene is one thing that an agent does.
type scene struct {
	name   string
	mcp    step          // Palyra's tool
	own    step          // Claude Code's
	answer palyra.Answer // "": nobody is asked
	after  time.Duration // that the answer takes
	want   string        // is in what the model is given in the end
}

func scenes(work string) []scene {
	at := func(name string) string { return filepath.Join(work, name) }
	sh := func(line string) step { return step{"Bash", map[string]any{"command": line, "description": "x"}} }
	run := func(line string) step {
		return step{"palyra_process_run", map[string]any{"command": "/bin/sh", "args": []string{"-c", line}}}
	}
	return []scene{
		{"read", step{"palyra_fs_read", map[string]any{"path": "small.txt"}}, step{"Read", map[string]any{"file_path": at("small.txt")}}, "", 0, "hello world"},
		{"read 24390 bytes", step{"palyra_fs_read", map[string]any{"path": "big.go"}}, step{"Read", map[string]any{"file_path": at("big.go")}}, "", 0, "if err"},
		{"program", run("ls small.txt"), sh("ls small.txt"), "", 0, "small.txt"},
		{"asked, allowed after 3 s", run("touch made3 && echo made"), sh("touch made3 && echo made"), palyra.AnswerAllow, 3 * time.Second, "made"},
		{"asked, allowed after 80 s", run("touch made80 && echo made"), sh("touch made80 && echo made"), palyra.AnswerAllow, 80 * time.Second, "made"},
		{"denied", run("touch never"), sh("touch never"), palyra.AnswerDeny, time.Second, "approval_denied"},
	}
}

// model answers an agent's program: with the calls it was told, one after the other, and
// with what a call's result asks for: to wait, or to try again.
type model struct {
	t      *testing.T
	d      *daemon
	wrap   func(step) agenttest.Call
	ready  func(agenttest.Request) bool // the tools are there
	mu     sync.Mutex
	step   step
	done   int      // calls made
	before int      // of them before this scene
	given  []string // what the model was given for each call
}

var waitFor = regexp.MustCompile(`palyra_call_wait \{\\?"call_id\\?":\\?"([0-9A-Z]+)`) // as it stands in JSON

func (m *model) answer(r agenttest.Request) agenttest.Reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	results := given(r)
	if tools, _ := r.Body["tools"].([]any); len(tools) < 2 {
		return agenttest.Reply{Text: []string{"a title"}}
	}
	if len(results) == 0 && !m.ready(r) {
		return agenttest.Reply{ID: "w", Calls: []agenttest.Call{{Name: "exec_command", Args: []string{`{"cmd":"sleep 1"}`}}}}
	}
	for len(results) > 0 && strings.Contains(results[0], "Wall time") && strings.Contains(results[0], "Process exited") {
		results = results[1:] // of the wait for the tools
	}
	m.given = results
	if len(results) == 0 {
		return m.call(m.step)
	}
	last := results[len(results)-1]
	if w := waitFor.FindStringSubmatch(last); w != nil {
		return m.call(step{"palyra_call_wait", map[string]any{"call_id": w[1], "timeout_s": 40}})
	}
	if strings.Contains(last, "nobody has answered yet") && len(results) < 4 {
		m.settle()
		return m.call(m.step)
	}
	return agenttest.Reply{Text: []string{"done"}}
}

// settle waits until nothing is open.
func (m *model) settle() {
	person := m.d.client(client.OperatorDoor)
	for range 600 {
		page, err := person.Approvals(context.Background(), client.ApprovalFilter{Pending: true})
		if err == nil && len(page.Approvals) == 0 {
			return
		}
		<-time.After(200 * time.Millisecond)
	}
}

func (m *model) call(s step) agenttest.Reply {
	m.done++
	return agenttest.Reply{ID: fmt.Sprint(m.done), Calls: []agenttest.Call{m.wrap(s)}}
}

// given is what a model was given for its calls, as it was written on the wire.
func given(r agenttest.Request) (all []string) {
	list := func(v any) []any { l, _ := v.([]any); return l }
	for _, item := range list(r.Body["input"]) { // responses
		if it, _ := item.(map[string]any); it["type"] == "function_call_output" {
			raw, _ := json.Marshal(it["output"])
			all = append(all, string(raw))
		}
	}
	for _, item := range list(r.Body["messages"]) {
		msg, _ := item.(map[string]any)
		for _, block := range list(msg["content"]) {
			if b, _ := block.(map[string]any); b["type"] == "tool_result" {
				raw, _ := json.Marshal(b["content"])
				all = append(all, string(raw))
			}
		}
	}
	return all
}

// stage is a daemon, a workspace and a home for agents.
type stage struct {
	*daemon
	dir, home string
	record    string // what a client sent to the server
	inside    bool   // the agent itself is in the sandbox
}

func newAgentStage(t *testing.T) *stage {
	t.Helper()
	dir := os.Getenv("PALYRA_AGENTS")
	if dir == "" {
		t.Fatal("start it with scripts/agents.sh")
	}
	d := newDaemon(t)
	d.mustStart()
	d.inWorkspace()
	home, err := os.MkdirTemp(dir, "home-") // Codex wants none below /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	d.write(filepath.Join(d.work, "small.txt"), "hello world", 0o644)
	line := "\tif err != nil { return \"x\\t0\" } // ein Kommentar\n"
	d.write(filepath.Join(d.work, "big.go"), strings.Repeat(line, 24390/len(line)+1)[:24390], 0o644)
	if out, err := exec.Command("git", "-C", d.work, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	return &stage{daemon: d, dir: dir, home: home, record: filepath.Join(home, "sent.jsonl")}
}

func (s *stage) program(name string) string {
	return filepath.Join(s.dir, "node_modules", ".bin", name)
}

// palyraIn runs the command with the agents' home.
func (s *stage) palyraIn(args ...string) {
	s.t.Helper()
	cmd := s.palyra(args...)
	cmd.Env = append(cmd.Environ(), "HOME="+s.home, "PATH="+filepath.Join(s.dir, "node_modules", ".bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	s.t.Logf("palyra %s\n%s", strings.Join(args, " "), out)
}

// tap has what a client sends to the server kept in a file.
func (s *stage) tap(file string) {
	s.t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	tee := filepath.Join(s.home, "palyra-tapped")
	s.write(tee, fmt.Sprintf("#!/bin/sh\ntee -a %s | %s \"$@\"\n", s.record, bin(s.t, "palyra")), 0o755)
	s.write(file, strings.ReplaceAll(string(raw), bin(s.t, "palyra"), tee), 0o600)
}

// person answers the next question after a while.
func (s *stage) person(ctx context.Context, c scene) {
	if c.answer == "" {
		return
	}
	person := s.client(client.OperatorDoor)
	for {
		page, err := person.Approvals(ctx, client.ApprovalFilter{Pending: true})
		if err == nil && len(page.Approvals) > 0 {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(c.after):
	}
	if _, err := s.decideNext(ctx, c.answer); err != nil && ctx.Err() == nil {
		s.t.Errorf("%s: the answer: %v", c.name, err)
	}
}

// play runs an agent once for each scene and tells what its model was given.
func (s *stage) play(m *model, own bool, run func(ctx context.Context) ([]byte, error)) {
	for _, c := range scenes(s.work) {
		if s.inside && c.answer == "" { // the question is for the start of the agent
			c.answer, c.after = palyra.AnswerAllow, 0
		}
		m.mu.Lock()
		m.step, m.given, m.before = c.mcp, nil, m.done
		if own {
			m.step = c.own
		}
		m.mu.Unlock()
		ctx, done := context.WithTimeout(s.t.Context(), 5*time.Minute)
		var wg sync.WaitGroup
		wg.Go(func() { s.person(ctx, c) })
		began := time.Now()
		out, err := run(ctx)
		done()
		wg.Wait()
		m.mu.Lock()
		given := m.given
		m.mu.Unlock()
		fmt.Printf("\n== %s · %s · %.1f s\n", s.t.Name(), c.name, time.Since(began).Seconds())
		for _, g := range given {
			if len(g) > 1500 {
				g = g[:700] + fmt.Sprintf(" …%d bytes… ", len(g)-1400) + g[len(g)-700:]
			}
			fmt.Println("   model was given:", g)
		}
		if s.inside && c.answer == palyra.AnswerDeny {
			fmt.Printf("   the agent was not started: %s\n", tailOf(out, 300))
			if len(given) > 0 || !strings.Contains(string(out), c.want) {
				s.t.Errorf("%s: %s", c.name, out)
			}
			continue
		}
		if len(given) == 0 || !strings.Contains(given[len(given)-1], c.want) {
			s.t.Errorf("%s: %v: the model was not given %q\n%s", c.name, err, c.want, tailOf(out, 3000))
		}
		for _, g := range given {
			if strings.Contains(g, "approvals decide") {
				s.t.Errorf("%s: the model is told how its question is answered: %s", c.name, g)
			}
		}
	}
	for name, want := range map[string]bool{"made3": true, "made80": true, "never": false} {
		if exists(filepath.Join(s.work, name)) != want {
			s.t.Errorf("%s: made is %v", name, !want)
		}
	}
}

func tailOf(out []byte, n int) []byte { return out[max(0, len(out)-n):] }
