package doctor

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/hook"
	"palyra/internal/standin"
)

// TestVerdicts: nothing is called good that was not seen.
func TestVerdicts(t *testing.T) {
	const allow, deny = hook.ProbeAllow, hook.ProbeDeny
	yes, no := seen{made: true, asked: true, took: true}, seen{made: true, asked: true}
	for name, c := range map[string]struct {
		by        map[string]seen
		rewritten bool
		want      row
	}{
		"nothing":         {nil, false, row{Verdict: Unseen, OnFailure: Unseen, OnCrash: Unseen}},
		"a no that holds": {map[string]seen{allow: yes, deny: no}, false, row{Verdict: Judged, OnFailure: Unseen, OnCrash: Unseen}},
		"rewritten":       {map[string]seen{allow: yes, deny: no}, true, row{Verdict: Rewritten, OnFailure: Unseen, OnCrash: Unseen}},
		"never asked": {
			map[string]seen{allow: {made: true, took: true}, deny: {made: true, took: true}},
			false,
			row{Verdict: Passes, OnFailure: Unseen, OnCrash: Unseen},
		},
		"a no is ignored": {map[string]seen{allow: yes, deny: yes}, true, row{Verdict: Passes, OnFailure: Unseen, OnCrash: Unseen}},
		"it never works":  {map[string]seen{allow: no, deny: no}, false, row{Verdict: Unseen, OnFailure: Unseen, OnCrash: Unseen}},
		"no answer at all": {
			map[string]seen{allow: yes, deny: {asked: true}}, false, row{Verdict: Unseen, OnFailure: Unseen, OnCrash: Unseen},
		},
		"failures pass": {
			map[string]seen{allow: yes, deny: no, hook.ProbeExit: no, hook.ProbeCrash: yes},
			false,
			row{Verdict: Judged, OnFailure: Blocked, OnCrash: Passed},
		},
		"a failure unseen": {
			map[string]seen{allow: yes, deny: no, hook.ProbeExit: {made: true}},
			false,
			row{Verdict: Judged, OnFailure: Unseen, OnCrash: Unseen},
		},
	} {
		got := rowOf(probe{}, c.by, c.rewritten)
		got.Note = ""
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if !(report{Tools: []row{{Verdict: Judged}, {Verdict: Passes}}}).passes() || (report{Tools: []row{{Verdict: Unseen}}}).passes() {
		t.Error("what passes")
	}
}

// Of a tool that was not tried nothing good is said, and of one that no hook is told of that is said.
func TestToolsThatWereNotTried(t *testing.T) {
	agent, _ := hook.Find(hook.Codex)
	r := report{Agent: hook.Codex}
	r.sort(agent, []string{"exec_command", "write_stdin", "update_plan", "apply_patch", "mcp__probe__mark"})
	var b bytes.Buffer
	r.sayOthers(&b)
	if text := b.String(); !strings.Contains(text, "no hook is told of: write_stdin (types into") ||
		!strings.Contains(text, "not tried: update_plan;") || strings.Count(text, "write_stdin") != 1 {
		t.Error(text)
	}
}

// TestServer: the probes' MCP server makes the marks it is told, and no other file.
func TestServer(t *testing.T) {
	dir := t.TempDir()
	in := strings.Join([]string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `nonsense`,
		`{"jsonrpc":"2.0","id":"a","method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"mark","arguments":{"name":"palyra-probe-allow-x"}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"mark","arguments":{"name":"../../etc/passwd"}}}`,
	}, "\n")
	var out bytes.Buffer
	if err := serve(strings.NewReader(in), &out, dir); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 4 || !strings.Contains(out.String(), `"protocolVersion":"2025-06-18"`) {
		t.Errorf("%s", out.String())
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 || files[0].Name() != "palyra-probe-allow-x" {
		t.Errorf("%v %v", files, err)
	}
}

// TestPlay: the model makes the calls one after the other, keeps what each came to, and ends; a subagent's model runs
// what its prompt names.
func TestPlay(t *testing.T) {
	a := arena{root: t.TempDir(), work: t.TempDir(), kept: t.TempDir(), model: "http://x"}
	w := ways[hook.OpenCode]
	p := &play{a: a, steps: w.steps(), sub: w.command, given: map[int]string{}}
	tools := `"tools":[{"function":{"name":"bash"}},{"function":{"name":"read"}}]`
	ask := func(body string) standin.Reply {
		r, _ := http.NewRequest(http.MethodPost, "http://x/v1/chat/completions", http.NoBody)
		return p.reply(standin.Read(r, []byte(body)))
	}
	if r := ask(`{"messages":[{"role":"user","content":"` + mainPrompt + `"}]}`); len(r.Calls) != 0 {
		t.Errorf("a title: %+v", r)
	}
	body := `{"role":"user","content":"` + mainPrompt + `"}`
	for i := range p.steps {
		r := ask(`{"messages":[` + body + `],` + tools + `}`)
		if len(r.Calls) != 1 || r.Calls[0].Name != p.steps[i].probe.tool {
			t.Fatalf("step %d: %+v", i, r)
		}
		body += `,{"role":"tool","content":"result"}`
	}
	if r := ask(`{"messages":[` + body + `],` + tools + `}`); len(r.Calls) != 0 || len(p.given) != len(p.steps) {
		t.Errorf("the end: %+v %d", r, len(p.given))
	}
	r := ask(`{"messages":[{"role":"user","content":"` + subPrompt + hook.ProbeMark(hook.ProbeDeny, "s") + `"}],` + tools + `}`)
	if len(r.Calls) != 1 || !strings.Contains(r.Calls[0].Args[0], "palyra-probe-deny-s") {
		t.Errorf("a subagent: %+v", r)
	}
	for _, row := range p.judge(w, map[string]bool{}) {
		if row.Verdict != Unseen {
			t.Errorf("nothing happened, and it says %+v", row)
		}
	}
	// what ran without being asked about is seen
	if err := os.WriteFile(filepath.Join(a.work, hook.ProbeMark(hook.ProbeDeny, "bash")), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := p.judge(w, map[string]bool{})[0]; got.Verdict != Passes {
		t.Errorf("%+v", got)
	}
}

// What is printed says what its words mean and what to do next, and its columns stand below each other.
func TestReportsSayWhatIsNext(t *testing.T) {
	const long = "a-tool-with-a-name-that-is-longer"
	var b strings.Builder
	say(&b, []report{{
		Agent: "codex", Title: "Codex", Program: "/usr/bin/codex", Version: "1.0", Hook: "none", MCP: "no entry",
		Tools: []row{{Tool: long, Verdict: Judged, OnFailure: Blocked, OnCrash: Passed}, {Tool: "x", Verdict: Passes, OnFailure: Unseen}},
	}, {Agent: "gemini", Title: "Gemini CLI", Hook: "none", MCP: "no entry", Note: "not there"}})
	lines := strings.Split(b.String(), "\n")
	var at []int
	for _, line := range lines {
		if strings.HasSuffix(line, " ") {
			t.Errorf("%q ends in nothing", line)
		}
		if i := strings.Index(line, "hook fails: "); i > 0 {
			at = append(at, i)
		}
	}
	if len(at) != 2 || at[0] != at[1] || !strings.Contains(b.String(), "only judged  a no holds") ||
		strings.Count(b.String(), "next: palyra hook install codex\n") != 1 || strings.Contains(b.String(), "install gemini") {
		t.Errorf("%s", b.String())
	}
	b.Reset()
	say(&b, []report{{Title: "Codex"}, {Title: "Gemini CLI"}})
	if !strings.Contains(b.String(), "none of these agents is on your path") || strings.Contains(b.String(), "rewritten") {
		t.Errorf("%s", b.String())
	}
}
