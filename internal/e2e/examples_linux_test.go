package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/client"
)

// indented are the command lines of a page.
func indented(t testing.TB, file string) (lines []string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			lines = append(lines, strings.TrimSpace(command))
		}
	}
	return lines
}

// keepCaches lets builds of readers, who have homes of their own, use Go's caches.
func keepCaches(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE", "GOMODCACHE").Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) != 2 {
		t.Fatal(err, words)
	}
	t.Setenv("GOCACHE", words[0])
	t.Setenv("GOMODCACHE", words[1])
}

// yes answers every question until the test ends.
func (d *daemon) yes() {
	d.t.Helper()
	ctx, stop := context.WithCancel(d.t.Context())
	done := make(chan struct{})
	person := d.client(client.OperatorDoor)
	go func() {
		defer close(done)
		_ = person.WatchApprovals(ctx, func(a palyra.Approval) error {
			if a.Pending() {
				_, _ = person.Decide(ctx, allow(a, palyra.ScopeOnce, 0))
			}
			return nil
		})
	}()
	d.t.Cleanup(func() {
		stop()
		<-done
	})
}

// finished is what a line that calls a tool prints with --json: its output, and what is attested of it.
func (r reader) finished(line string, into any) palyra.Predicate {
	r.t.Helper()
	cmd := r.typedLine(r.home, line+" --json")
	cmd.Stderr = os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("%s: %v: %s", line, err, raw)
	}
	o, p := attestedIn(r.t, raw)
	if err := json.Unmarshal(o.Output, into); err != nil {
		r.t.Fatalf("%s: %v: %s", line, err, o.Output)
	}
	return p
}

// The examples become tools by the lines of their page, from their source to a call, and do what they say.
func TestExamples(t *testing.T) {
	keepCaches(t)
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PALYRA", top)
	d, w := newDaemon(t), newWorld(t)
	d.guarded(w)
	d.inWorkspace()
	r := reader{d, t.TempDir(), d.client(client.OperatorDoor)}
	lines := indented(t, top+"/examples/README.md")
	if len(lines) != 13 {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	agent := newSkillAgent(t, d)
	r.textStat(lines[:9])
	r.watch(slices.Concat(lines[:5], lines[6:9]))
	r.todos(lines[9:])
	agent.uses(r)
}

// textStat is the example that computes.
func (r reader) textStat(lines []string) {
	r.t.Helper()
	for _, line := range lines[:8] {
		r.unasked(line)
	}
	out, code := r.asks(lines[8], palyra.AnswerAllow, func(palyra.Approval, string) {})
	if code != 0 || !strings.Contains(out, `"words": 1`) {
		r.t.Fatal(code, out)
	}
	r.yes()
	call := func(text string) (got struct{ Bytes, Characters, Words, Lines, Entropy float64 }) {
		raw, err := json.Marshal(map[string]string{"text": text})
		if err != nil {
			r.t.Fatal(err)
		}
		p := r.finished("palyra tools call skill.text-stat.measure --input '"+string(raw)+"'", &got)
		something := slices.ContainsFunc(p.Runtime.Granted, func(g string) bool { return strings.Contains(g, ":") })
		if p.Runtime.Fuel == 0 || len(p.Runtime.Used) != 0 || something {
			r.t.Errorf("%+v", p.Runtime)
		}
		return got
	}
	if got := call("a \"b\" \\\n\u00e9\u20ac \U0001f600\tx"); got.Bytes != 20 || got.Characters != 14 || got.Words != 6 || got.Lines != 2 {
		r.t.Errorf("%+v", got)
	}
	if got := call("aaaa"); got.Entropy != 0 {
		r.t.Errorf("%+v", got)
	}
	if got := call("abcdefgh"); got.Entropy != 3 {
		r.t.Errorf("%+v", got)
	}
}

// watch is the example that makes a request and keeps something.
func (r reader) watch(lines []string) {
	r.t.Helper()
	var looks atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "page %d", looks.Add(1)/2) // the second and third look see the same
	}))
	r.t.Cleanup(srv.Close)
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	at := "granted.example:" + port
	for i, line := range lines[:7] {
		r.unasked(strings.ReplaceAll(line, "text-stat", "watch"))
		if i == 0 {
			r.unasked("sed -i 's/example.com:443/" + at + "/' watch/skill.toml")
		}
	}
	for i, want := range []struct{ first, changed bool }{{true, false}, {false, true}, {false, false}} {
		var got struct {
			Status         int
			First, Changed bool
		}
		p := r.finished(`palyra tools call skill.watch.look --input '{"url":"http://`+at+`/x"}'`, &got)
		if got.Status != http.StatusOK || got.First != want.first || got.Changed != want.changed {
			r.t.Errorf("look %d: %+v", i, got)
		}
		if used := p.Runtime.Used; !slices.Equal(used, []string{"clock", "hosts:" + at, "random", "storage:seen/"}) { // two are Go's own
			r.t.Errorf("%+v", p.Runtime)
		}
	}
	before := looks.Load()
	out, err := r.typedLine(r.home, `palyra tools call skill.watch.look --input '{"url":"http://other.example:`+port+`/"}'`).CombinedOutput()
	if err == nil || looks.Load() != before || !strings.Contains(string(out), "was not granted to this skill") {
		r.t.Errorf("a host that was not granted: %v %s", err, out)
	}
	all, err := r.person.Approvals(r.t.Context(), client.ApprovalFilter{})
	if err != nil || !slices.ContainsFunc(all.Approvals, func(a palyra.Approval) bool {
		return a.Plan.Tool == palyra.ToolFetch && strings.Contains(strings.Join(a.Prompt.Notes, "\n"), "/watch asks for it while it runs")
	}) {
		r.t.Errorf("no question about a request says which skill asks: %v", err)
	}
	if said := r.unasked("palyra skills shrink watch"); !strings.Contains(said, "everything that was granted was needed") {
		r.t.Error(said)
	}
}

// todos is the example that is a folder.
func (r reader) todos(lines []string) {
	r.t.Helper()
	for _, line := range lines[:3] {
		out := r.unasked(line)
		if strings.Contains(line, "import") && !strings.Contains(out, "scripts/todos.py") {
			r.t.Error(out)
		}
	}
	var got struct{ Text string }
	p := r.finished(lines[2]+` --input '{"path":"scripts/todos.py"}'`, &got)
	if !strings.HasPrefix(got.Text, "#!/usr/bin/env python3") || p.Runtime.Skill != "todos@0.0.1" {
		r.t.Errorf("%s %+v", got.Text, p.Runtime)
	}
	if err := os.WriteFile(filepath.Join(r.work, "later.txt"), []byte("one\n# TODO: two\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
	out, err := r.typedLine(r.home, lines[3]).Output()
	if err != nil || !strings.Contains(string(out), "later.txt:2: TODO: two") {
		r.t.Errorf("%v %s", err, out)
	}
}

// skillAgent is an MCP client that hears of changes.
type skillAgent struct {
	*mcp.ClientSession
	tools, resources chan struct{}
}

func newSkillAgent(t *testing.T, d *daemon) *skillAgent {
	t.Helper()
	a := &skillAgent{tools: make(chan struct{}, 64), resources: make(chan struct{}, 64)}
	c := mcp.NewClient(&mcp.Implementation{Name: "palyra-go", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { a.tools <- struct{}{} },
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { a.resources <- struct{}{} },
	})
	var err error
	at := &mcp.CommandTransport{Command: exec.Command(bin(t, "palyra"), d.mcpArgs()...)}
	if a.ClientSession, err = c.Connect(t.Context(), at, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	tools, texts := a.lists(t)
	if slices.ContainsFunc(tools, func(n string) bool { return strings.HasPrefix(n, "skill_") }) || len(texts) != 0 {
		t.Errorf("before anything is installed: %q %q", tools, texts)
	}
	return a
}

// lists are the names of tools and the URIs of resources.
func (a *skillAgent) lists(t testing.TB) (tools, texts []string) {
	t.Helper()
	list, err := a.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		tools = append(tools, tool.Name)
		if schema, _ := json.Marshal(tool.InputSchema); tool.Name == "skill_text-stat_measure" && !strings.Contains(string(schema), "200000") {
			t.Errorf("its schema is %s", schema)
		}
	}
	all, err := a.ListResources(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all.Resources {
		texts = append(texts, r.URI)
	}
	return tools, texts
}

// uses finds the skills that were enabled, calls one, reads one, and sees them go.
func (a *skillAgent) uses(r reader) {
	r.t.Helper()
	hear := func(ch chan struct{}, what string) {
		select {
		case <-ch:
		case <-time.After(waitMost):
			r.t.Fatal("not heard: " + what)
		}
	}
	hear(a.tools, "tools that came")
	hear(a.resources, "resources that came")
	const text = "skill://todos/SKILL.md"
	tools, texts := a.lists(r.t)
	for _, want := range []string{"skill_text-stat_measure", "skill_watch_look", "skill_todos_read"} {
		if !slices.Contains(tools, want) {
			r.t.Errorf("%s is not among %q", want, tools)
		}
	}
	if !slices.Equal(texts, []string{text}) {
		r.t.Errorf("%q", texts)
	}
	got, err := a.CallTool(r.t.Context(), &mcp.CallToolParams{Name: "skill_text-stat_measure", Arguments: map[string]any{"text": "one two"}})
	if err != nil || got.IsError || !strings.Contains(got.Content[len(got.Content)-1].(*mcp.TextContent).Text, `"words":2`) {
		r.t.Fatalf("%v %+v", err, got)
	}
	read, err := a.ReadResource(r.t.Context(), &mcp.ReadResourceParams{URI: text})
	if err != nil || len(read.Contents) != 2 || !strings.Contains(read.Contents[0].Text, "data from outside") ||
		!strings.Contains(read.Contents[1].Text, "# What is left to do") {
		r.t.Fatalf("%v %+v", err, read)
	}
	if _, err := a.ReadResource(r.t.Context(), &mcp.ReadResourceParams{URI: "skill://todos/../skill.toml"}); err == nil {
		r.t.Error("what is not in the folder was read")
	}
	r.unasked("palyra skills quarantine todos")
	r.unasked("palyra skills quarantine text-stat")
	for len(a.tools)+len(a.resources) > 0 { // of before
		select {
		case <-a.tools:
		case <-a.resources:
		}
	}
	tools, texts = a.lists(r.t)
	if slices.Contains(tools, "skill_text-stat_measure") || slices.Contains(tools, "skill_todos_read") || len(texts) != 0 {
		r.t.Errorf("in quarantine: %q %q", tools, texts)
	}
	hear(a.tools, "tools that went")
	hear(a.resources, "resources that went")
	if _, err := a.ReadResource(r.t.Context(), &mcp.ReadResourceParams{URI: text}); err == nil {
		r.t.Error("a skill in quarantine was read")
	}
	got, err = a.CallTool(r.t.Context(), &mcp.CallToolParams{Name: "skill_text-stat_measure", Arguments: map[string]any{"text": "x"}})
	if err == nil && !got.IsError {
		r.t.Errorf("a skill in quarantine was called: %+v", got)
	}
}
