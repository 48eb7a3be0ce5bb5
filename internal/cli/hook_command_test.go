//go:build linux

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/hooktest"
	"palyra/internal/cli/stagetest"
	"palyra/internal/exetest"
	"palyra/internal/mcp/install"
)

// hookDecided is what an agent reads of the answer.
type hookDecided struct {
	Event    string                     `json:"hookEventName"`
	Decision string                     `json:"permissionDecision"`
	Reason   string                     `json:"permissionDecisionReason"`
	Input    map[string]json.RawMessage `json:"updatedInput"`
}

func decodeAnswer(t testing.TB, out string) hookDecided {
	t.Helper()
	var a struct {
		Specific hookDecided `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal([]byte(out), &a); err != nil || a.Specific.Event != "PreToolUse" || strings.Count(out, "\n") != 1 {
		t.Fatalf("%q: %v", out, err)
	}
	return a.Specific
}

func TestHookRewritesShellCommands(t *testing.T) {
	s := stagetest.Open(t, Main, func(*stagetest.Played) palyra.Outcome { t.Error("proposed"); return palyra.Outcome{} })
	self, _ := os.Executable()
	for _, command := range []string{"ls -la", "echo 'it''s' \"$HOME\"; rm -rf x\n# y", "cat <<'EOF'\n' EOF\nEOF\n"} {
		in := hooktest.JSON(t, s.Work, "Bash", map[string]any{"command": command, "description": "d", "timeout": 120000})
		code, out, errs := s.Main(strings.NewReader(in), "hook", "claude-code", "--shell", "/bin/sh")
		if code != 0 || errs != "" {
			t.Fatalf("%d %q", code, errs)
		}
		d := decodeAnswer(t, out)
		var line string
		if d.Decision != "allow" || json.Unmarshal(d.Input["command"], &line) != nil || string(d.Input["timeout"]) != "120000" ||
			string(d.Input["description"]) != `"d"` {
			t.Fatalf("%s", out)
		}
		// The shell's own words, with a program in palyra's place that prints them.
		rest, ok := strings.CutPrefix(line, self+" ")
		if !ok {
			t.Fatalf("%q does not begin with this program", line)
		}
		got, err := exec.Command("/bin/sh", "-c", `printf '%s\0' `+rest).Output()
		want := []string{
			"exec", "--as-agent", "--no-stdin", "--workspace", s.Work, "--session", "claude-code-0c3e-51", "--", "/bin/sh", "-c",
			command, "",
		}
		if err != nil || !slices.Equal(strings.Split(string(got), "\x00"), want) {
			t.Errorf("%q: %q, %v", line, got, err)
		}
	}
}

// Whatever is wrong is a no: exit code 2, the reason on stderr, nothing on stdout.
func TestHookFailsClosed(t *testing.T) {
	s := stagetest.Open(t, Main, func(*stagetest.Played) palyra.Outcome { t.Error("proposed"); return palyra.Outcome{} })
	good := hooktest.JSON(t, s.Work, "Bash", map[string]any{"command": "ls"})
	with := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	cases := map[string]struct {
		in   string
		args []string
	}{
		"nothing":          {"", nil},
		"not JSON":         {"ls", nil},
		"cut":              {good[:len(good)-5], nil},
		"two":              {good + good, nil},
		"a list":           {"[]", nil},
		"null":             {"null", nil},
		"not UTF-8":        {with("ls", "\xff"), nil},
		"another event":    {with("PreToolUse", "PostToolUse"), nil},
		"no tool":          {with(`"tool_name":"Bash"`, `"x":1`), nil},
		"an odd tool":      {with(`"Bash"`, `"Ba sh"`), nil},
		"tool is a number": {with(`"Bash"`, `1`), nil},
		"no cwd":           {with(s.Work, ""), nil},
		"a relative cwd":   {with(s.Work, "w"), nil},
		"no input":         {with(`{"command":"ls"}`, `null`), nil},
		"input is text":    {with(`{"command":"ls"}`, `"ls"`), nil},
		"no command":       {with(`{"command":"ls"}`, `{}`), nil},
		"command is none":  {with(`"ls"`, `["ls"]`), nil},
		"a NUL":            {with(`"ls"`, `"ls\u0000"`), nil},
		"half a character": {with(`"ls"`, `"\ud800"`), nil},
		"deep":             {strings.Repeat("[", 100_000), nil},
		"huge":             {with(`"ls"`, `"`+strings.Repeat("a", 8<<20)+`"`), nil},
		"a long command":   {with(`"ls"`, `"`+strings.Repeat("a", 96<<10)+`"`), nil},
		"a bad mode":       {good, []string{"--mode", "yes"}},
		"a bad flag":       {good, []string{"--nope"}},
		"a bad wait":       {good, []string{"--wait", "0s"}},
		"an argument":      {good, []string{"x"}},
		"json, and bad":    {"ls", []string{"--json"}},
		"no daemon":        {hooktest.JSON(t, s.Work, "WebSearch", map[string]any{}), []string{"--home", filepath.Join(s.Home, "other")}},
		"remote":           {good, []string{"--remote", "x"}},
	}
	for name, c := range cases {
		code, out, errs := s.Main(strings.NewReader(c.in), append([]string{"hook", "claude-code"}, c.args...)...)
		if code != 2 || out != "" || errs == "" || len(errs) > 2000 {
			t.Errorf("%s: %d %q %.300q", name, code, out, errs)
		}
	}
}

// An input that never ends gets its no in time.
func TestHookDoesNotWaitForItsInput(t *testing.T) {
	s := stagetest.Open(t, Main, nil)
	r, w, err := os.Pipe()
	stagetest.Fatal(t, err)
	defer r.Close()
	defer w.Close()
	if code, out, errs := s.Main(r, "hook", "claude-code", "--wait", "50ms"); code != 2 || out != "" ||
		!strings.Contains(errs, "did not end in time") {
		t.Errorf("%d %q %q", code, out, errs)
	}
}

func TestHookDecides(t *testing.T) {
	var outcome palyra.Outcome
	s := stagetest.Open(t, Main, func(*stagetest.Played) palyra.Outcome { return outcome })
	for _, c := range []struct {
		kind palyra.OutcomeKind
		want string
	}{
		{palyra.OutcomeAllowed, "allow"},
		{palyra.OutcomeRefused, "deny"},
		{palyra.OutcomeCancelled, "deny"},
		{palyra.OutcomeFinished, "deny"},
		{palyra.OutcomeUnknown, "deny"},
		{palyra.OutcomeTimedOut, "deny"},
		{"", "deny"},
		{"new", "deny"},
	} {
		outcome = palyra.Outcome{Outcome: c.kind, Reason: "because", ReasonCode: palyra.ReasonPolicyDenied, Remedy: "do this"}
		code, out, errs := s.Main(strings.NewReader(hooktest.JSON(t, s.Work, "Bash", map[string]any{"command": "ls"})), "hook", "claude-code",
			"--mode", "check")
		d := decodeAnswer(t, out)
		if code != 0 || errs != "" || d.Decision != c.want || d.Input != nil || !strings.Contains(d.Reason, "because") ||
			!strings.Contains(d.Reason, "C1") {
			t.Errorf("%s: %d %q %q", c.kind, code, out, errs)
		}
		x := s.Running()
		if !x.Proposal.Check || x.Proposal.Surface != palyra.SurfaceHook || x.Proposal.Workspace != s.Work ||
			x.Proposal.Session != "claude-code-0c3e-51" {
			t.Errorf("proposed %+v", x.Proposal)
		}
	}
	for _, tool := range []string{
		"TodoWrite", "ToolSearch", "TaskCreate", "Agent", "ListAgents", "ReportFindings", "ScheduleWakeup",
		"BashOutput", "TaskOutput",
	} {
		if code, out, errs := s.Main(strings.NewReader(hooktest.JSON(t, s.Work, tool, map[string]any{"todos": []any{}})), "hook",
			"claude-code"); code != 0 || out != "{}\n" || errs != "" {
			t.Errorf("%s is the agent's own talk: %d %q %q", tool, code, out, errs)
		}
	}
}

// The tools of Palyra's own server are left to the gate behind it, under the very name
// that was vouched for and under no other.
func TestHookLeavesTheOwnServer(t *testing.T) {
	s := stagetest.Open(t, Main, nil)
	code, out, errs := s.Main(nil, "hook", "install", "claude-code", "--print", "--own-server", "palyra", "--workspace", s.Work)
	if code != 0 || !strings.Contains(out, "--own-server palyra || exit 2") {
		t.Errorf("%d %q %q", code, out, errs)
	}
	for _, name := range []string{"a b", "__x", "x__", "$(x)", "a__b"} {
		if code, out, _ := s.Main(nil, "hook", "install", "claude-code", "--print", "--own-server", name, "--workspace",
			s.Work); code != exit.Usage {
			t.Errorf("%q: %d %s", name, code, out)
		}
	}
	in := `{"hook_event_name":"PreToolUse","tool_name":"mcp__palyra__palyra_echo","tool_input":{},"cwd":"/w","session_id":"s"}`
	if code, out, errs := s.Main(strings.NewReader(in), "hook", "claude-code", "--own-server", "palyra"); code != 0 ||
		strings.TrimSpace(out) != "{}" {
		t.Errorf("%d %q %q", code, out, errs)
	}
}

// A hook that is ended while it waits blocks the tool and says what happened.
func TestHookThatIsEnded(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	stdin, feed := io.Pipe()
	defer feed.Close()
	end()
	var out, errs bytes.Buffer
	code := Main(ctx, Process{
		Args: []string{"hook", "claude-code"}, Env: []string{"PALYRA_HOME=" + t.TempDir()}, Stdin: stdin, Stdout: &out,
		Stderr: &errs,
	})
	if said := errs.String(); code != exit.Usage || out.Len() > 0 || !strings.Contains(said,
		"the hook was ended before there was an answer") || strings.Contains(said, "context") {
		t.Errorf("%d %q %q", code, &out, said)
	}
}

func TestHookInstall(t *testing.T) {
	s := stagetest.Open(t, Main, nil)
	self, _ := os.Executable()
	code, out, errs := s.Main(nil, "hook", "install", "claude-code", "--print")
	// The agent may be started where PALYRA_HOME is not set, so the line has it.
	want := strings.Join([]string{self, "hook", "claude-code", "--home", s.Home}, " ") + " || exit 2"
	if code != 0 || !strings.Contains(out, fmt.Sprintf("%q", want)) || !strings.Contains(errs, "these lines go into ~/.claude/settings.json") {
		t.Fatalf("%d %q %q", code, out, errs)
	}
	code, out, errs = s.Main(nil, "hook", "install", "claude-code", "--workspace", s.Work, "--mode", "check", "--json")
	if code != 0 || !strings.Contains(out, `"changed":true`) {
		t.Fatalf("%d %q %q", code, out, errs)
	}
	doc, err := os.ReadFile(filepath.Join(s.Work, ".claude", "settings.json"))
	if err != nil || !bytes.Contains(doc, []byte("--mode check")) {
		t.Errorf("%s %v", doc, err)
	}
	if code, out, _ = s.Main(nil, "hook", "install", "claude-code", "--workspace", s.Work, "--mode", "check"); code != 0 ||
		!strings.Contains(out, "already") {
		t.Errorf("a second time: %d %q", code, out)
	}
	for _, args := range [][]string{{"hook", "install"}, {"hook", "install", "emacs"}, {"hook", "install", "claude-code", "--mode", "x"}} {
		if code, _, _ := s.Main(nil, args...); code != exit.Usage {
			t.Errorf("%v: %d", args, code)
		}
	}
	if code, _, errs = s.Main(nil, "hook", "install", "claude-code"); code == 0 { // no HOME here
		t.Errorf("%d %q", code, errs)
	}
}

// What Claude Code 2.1.325 gave to its hook, as it was recorded: what only talks gets no
// word, commands are rewritten, and the rest is judged under a name that policies have.
func TestHookOfRecordedInputs(t *testing.T) {
	want := map[string]string{
		"Bash": "rewritten", "Monitor": "rewritten", "Read": "palyra.fs.read", "Write": "palyra.fs.write", "Edit": "hook.edit",
		"Skill":      "hook.skill",
		"ToolSearch": "", "Agent": "", "ListAgents": "", "CronList": "", "ReportFindings": "", "ScheduleWakeup": "",
	}
	raw, err := os.ReadFile("testdata/claude-code-2.1.325.jsonl")
	stagetest.Fatal(t, err)
	s := stagetest.Open(t, Main, func(*stagetest.Played) palyra.Outcome { return palyra.Outcome{Outcome: palyra.OutcomeAllowed} })
	n := 0
	for line := range strings.Lines(string(raw)) {
		var h struct {
			Tool string `json:"tool_name"`
		}
		stagetest.Fatal(t, json.Unmarshal([]byte(line), &h))
		code, out, errs := s.Main(strings.NewReader(strings.ReplaceAll(line, `"/w`, `"`+s.Work)), "hook", "claude-code")
		kind, known := want[h.Tool]
		switch {
		case code != 0 || !known:
			t.Errorf("%s: %d %q", h.Tool, code, errs)
		case kind == "":
			if out != "{}\n" {
				t.Errorf("%s: %s", h.Tool, out)
			}
		case kind == "rewritten":
			d := decodeAnswer(t, out)
			if !strings.Contains(string(d.Input["command"]), " --no-stdin --workspace "+s.Work) {
				t.Errorf("%s: %s", h.Tool, out)
			}
			aside := h.Tool == "Monitor" || strings.Contains(line, `"run_in_background":true`)
			if strings.Contains(string(d.Input["command"]), " --live -- ") != aside {
				t.Errorf("%s sees others' files while it runs, or does not: %s", h.Tool, out)
			}
		default:
			if x := s.Running(); string(x.Proposal.Tool) != kind || decodeAnswer(t, out).Decision != "allow" {
				t.Errorf("%s is judged as %s: %s", h.Tool, x.Proposal.Tool, out)
			}
		}
		n++
	}
	if n < len(want) {
		t.Errorf("%d inputs", n)
	}
	for _, server := range []bool{false, true} {
		in := hooktest.JSON(t, s.Work, "Bash", map[string]any{"command": "npm run dev", "run_in_background": server})
		code, out, errs := s.Main(strings.NewReader(in), "hook", "claude-code")
		if d := decodeAnswer(t, out); code != 0 || strings.Contains(string(d.Input["command"]), " --live -- ") != server {
			t.Errorf("in the background %v: %d %q %q", server, code, out, errs)
		}
	}
}

// Codex's shell and patches come to Palyra's own tools; a plain yes is no word, since
// Codex has none for it.
func TestHookForCodex(t *testing.T) {
	s := stagetest.Open(t, Main, func(*stagetest.Played) palyra.Outcome { return palyra.Outcome{Outcome: palyra.OutcomeAllowed} })
	in := hooktest.JSON(t, s.Work, "Bash", map[string]any{"command": "ls"})
	code, out, errs := s.Main(strings.NewReader(in), "hook", "codex")
	if d := decodeAnswer(t, out); code != 0 || !strings.Contains(string(d.Input["command"]), "--session codex-0c3e-51 -- ") {
		t.Errorf("%d %q %q", code, out, errs)
	}
	patch := "*** Begin Patch\n*** Add File: n.txt\n+x\n*** End Patch\n"
	code, out, errs = s.Main(strings.NewReader(hooktest.JSON(t, s.Work, "apply_patch", map[string]any{"command": patch})), "hook", "codex")
	if code != 0 || out != "{}\n" {
		t.Errorf("%d %q %q", code, out, errs)
	}
	if x := s.Running(); x.Proposal.Tool != "palyra.fs.write" || !strings.Contains(string(x.Proposal.Arguments), `"content":"x\n"`) ||
		strings.Contains(string(x.Proposal.Arguments), `"mode"`) {
		t.Errorf("%s %s: a patch that adds a file", x.Proposal.Tool, x.Proposal.Arguments)
	}
	code, out, errs = s.Main(nil, "hook", "install", "codex", "--workspace", s.Work)
	doc, err := os.ReadFile(filepath.Join(s.Work, ".codex", "hooks.json"))
	if code != 0 || err != nil || !strings.Contains(string(doc), "hook codex") || !strings.Contains(string(doc), "blocked' >&2; exit 2; }") ||
		strings.Contains(string(doc), "onFailure") || !strings.Contains(string(doc), install.HookStatus) ||
		!strings.Contains(errs, "trust it there") {
		t.Errorf("%d %q %q %v\n%s", code, out, errs, err, doc)
	}
	if code, out, errs = s.Main(nil, "hook", "uninstall", "codex", "--workspace", s.Work); code != 0 ||
		!strings.Contains(out, "Codex does not ask") {
		t.Errorf("%d %q %q", code, out, errs)
	}
}

// A file that the agent keeps for the session is read without a word of ours; the hook's
// input says which session it is.
func TestHookLeavesTheAgentsOwnFiles(t *testing.T) {
	s := stagetest.Open(t, Main, nil)
	const id = "0947c0b4-81d9-4f9e-93c3-3781eb2acc03"
	project := filepath.Join(t.TempDir(), ".claude", "projects", "-w")
	saved := filepath.Join(project, id, "tool-results", "b1.txt")
	stagetest.Fatal(t, os.MkdirAll(filepath.Dir(saved), 0o700))
	for _, path := range []string{saved, filepath.Join(project, id+".jsonl")} {
		stagetest.Fatal(t, os.WriteFile(path, []byte("x"), 0o600))
	}
	in := hooktest.JSON(t, s.Work, "Read", map[string]any{"file_path": saved, "offset": 1})
	in = strings.NewReplacer(`"0c3e-51"`, `"`+id+`"`, `"/x.jsonl"`, `"`+filepath.Join(project, id+".jsonl")+`"`).Replace(in)
	if code, out, errs := s.Main(strings.NewReader(in), "hook", "claude-code"); code != 0 || out != "{}\n" {
		t.Errorf("%d %q %q\n%s", code, out, errs, in)
	}
}

// The entry depends on the Claude Code that is here: one that would run the original
// of a rewritten command gets no hook that rewrites, and only one that knows the
// word is told to block when the hook fails.
func TestHookInstallByVersion(t *testing.T) {
	for _, c := range []struct{ name, says, mode, want, wantErr string }{
		{"current", "echo '2.1.300 (Claude Code)'", "rewrite", `"onFailure": "block"`, ""},
		{"older", "echo '2.1.294 (Claude Code)'", "rewrite", "", "2.1.295"},
		{"cannot rewrite", "echo 2.0.9", "rewrite", "", "--mode check"},
		{"checks", "echo 2.0.9", "check", "", "2.1.295"},
		{"fails", "exit 3", "rewrite", "", "none here"},
		{"floods", "head -c 1000000 /dev/zero", "rewrite", "", "none here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stagetest.Open(t, Main, nil)
			bin := filepath.Join(s.Home, "bin")
			stagetest.Fatal(t, os.Mkdir(bin, 0o700))
			stagetest.Fatal(t, exetest.Write(filepath.Join(bin, "claude"), []byte("#!/bin/sh\n"+c.says+"\n")))
			s.Env = append(s.Env, "PATH="+bin+":/usr/bin:/bin")
			code, _, errs := s.Main(nil, "hook", "install", "claude-code", "--workspace", s.Work, "--mode", c.mode)
			doc, err := os.ReadFile(filepath.Join(s.Work, ".claude", "settings.json"))
			if refused := c.name == "cannot rewrite"; (code != 0) != refused || (err != nil) != refused {
				t.Fatalf("%d %q %v", code, errs, err)
			}
			if !strings.Contains(errs, c.wantErr) || !strings.Contains(string(doc), c.want) ||
				c.want == "" && strings.Contains(string(doc), "onFailure") {
				t.Errorf("%q\n%s", errs, doc)
			}
		})
	}
}
