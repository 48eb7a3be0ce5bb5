//go:build linux

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/mcp/install"
	"palyra/internal/trusted"
)

// A read outside is asked about by the path that it leads to, and how much is read makes
// no difference; what belongs to the daemon is never asked about, nor what is inside.
func TestHookReadsOutside(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	fatal(t, err)
	dir, out, state := filepath.Join(root, "w"), filepath.Join(root, "out"), filepath.Join(root, "state")
	for _, d := range []string{dir, out, state} {
		fatal(t, os.Mkdir(d, 0o700))
		fatal(t, os.WriteFile(filepath.Join(d, "f"), []byte("x"), 0o600))
	}
	fatal(t, os.Symlink(filepath.Join(out, "f"), filepath.Join(dir, "link")))
	fatal(t, os.Symlink(filepath.Join(state, "f"), filepath.Join(out, "key")))
	asked := `hook.read {"input":{"file_path":"` + filepath.Join(out, "f") + `"},"tool":"Read"}`
	for _, c := range []struct {
		tool  string
		input map[string]any
		want  string
	}{
		{"Read", map[string]any{"file_path": filepath.Join(out, "f")}, asked},
		{"Read", map[string]any{"file_path": filepath.Join(out, "f"), "offset": 10, "limit": 5}, asked},
		{"Read", map[string]any{"file_path": filepath.Join(dir, "link")}, asked},
		{"Read", map[string]any{"file_path": filepath.Join(dir, "f")}, "palyra.fs.read "},
		{"Read", map[string]any{"file_path": filepath.Join(state, "f")}, "palyra.fs.read "},
		{"Read", map[string]any{"file_path": filepath.Join(out, "key")}, "palyra.fs.read "},
		{"Grep", map[string]any{"pattern": "x", "path": root}, "palyra.fs.search "},
		{"Grep", map[string]any{"pattern": "x", "path": out}, "hook.grep "},
		{"LS", map[string]any{"path": root}, "hook.ls "},
		{"Write", map[string]any{"file_path": filepath.Join(out, "f"), "content": "y"}, "palyra.fs.write "},
	} {
		h, err := readHook(claude, []byte(hookJSON(t, dir, c.tool, c.input)), "")
		fatal(t, err)
		h.sealed = []string{state}
		r, err := h.request(hookOptions{shell: "/bin/sh"})
		if got := r.Tool + " " + string(r.Arguments); err != nil || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %v: %s (%v), want %s", c.tool, c.input, got, err, c.want)
		}
	}
}

// What Claude Code 2.1.325 gave to its hook, as it was recorded: what only talks gets no
// word, commands are rewritten, and the rest is judged under a name that policies have.
func TestHookOfRecordedInputs(t *testing.T) {
	want := map[string]string{
		"Bash": "rewritten", "Monitor": "rewritten", "Read": "palyra.fs.read", "Write": "palyra.fs.write", "Edit": "hook.edit", "Skill": "hook.skill",
		"ToolSearch": "", "Agent": "", "ListAgents": "", "CronList": "", "ReportFindings": "", "ScheduleWakeup": "",
	}
	raw, err := os.ReadFile("testdata/claude-code-2.1.325.jsonl")
	fatal(t, err)
	s := openStage(t, func(*played) palyra.Outcome { return palyra.Outcome{Outcome: palyra.OutcomeAllowed} })
	n := 0
	for line := range strings.Lines(string(raw)) {
		h, err := readHook(claude, []byte(line), "")
		fatal(t, err)
		code, out, errs := s.main(strings.NewReader(strings.ReplaceAll(line, `"/w`, `"`+s.work)), "hook", "claude-code")
		kind, known := want[h.tool]
		switch {
		case code != 0 || !known:
			t.Errorf("%s: %d %q", h.tool, code, errs)
		case kind == "":
			if out != "{}\n" {
				t.Errorf("%s: %s", h.tool, out)
			}
		case kind == "rewritten":
			if d := decodeAnswer(t, out); !strings.Contains(string(d.Input["command"]), " --no-stdin --workspace "+s.work) {
				t.Errorf("%s: %s", h.tool, out)
			}
		default:
			if x := s.running(); x.p.Tool != kind || decodeAnswer(t, out).Decision != "allow" {
				t.Errorf("%s is judged as %s: %s", h.tool, x.p.Tool, out)
			}
		}
		n++
	}
	if n < len(want) {
		t.Errorf("%d inputs", n)
	}
}

// Codex's shell and patches come to Palyra's own tools; a plain yes is no word, since
// Codex has none for it.
func TestHookForCodex(t *testing.T) {
	s := openStage(t, func(*played) palyra.Outcome { return palyra.Outcome{Outcome: palyra.OutcomeAllowed} })
	in := hookJSON(t, s.work, "Bash", map[string]any{"command": "ls"})
	code, out, errs := s.main(strings.NewReader(in), "hook", "codex")
	if d := decodeAnswer(t, out); code != 0 || !strings.Contains(string(d.Input["command"]), "--session codex-0c3e-51 -- ") {
		t.Errorf("%d %q %q", code, out, errs)
	}
	patch := "*** Begin Patch\n*** Add File: n.txt\n+x\n*** End Patch\n"
	code, out, errs = s.main(strings.NewReader(hookJSON(t, s.work, "apply_patch", map[string]any{"command": patch})), "hook", "codex")
	if code != 0 || out != "{}\n" {
		t.Errorf("%d %q %q", code, out, errs)
	}
	if x := s.running(); x.p.Tool != "palyra.fs.write" || !strings.Contains(string(x.p.Arguments), `"content":"x\n"`) || strings.Contains(string(x.p.Arguments), `"mode"`) {
		t.Errorf("%s %s: a patch that adds a file", x.p.Tool, x.p.Arguments)
	}
	code, out, errs = s.main(nil, "hook", "install", "codex", "--workspace", s.work)
	doc, err := os.ReadFile(filepath.Join(s.work, ".codex", "hooks.json"))
	if code != 0 || err != nil || !strings.Contains(string(doc), "hook codex") || !strings.Contains(string(doc), "|| exit 2") || strings.Contains(string(doc), "onFailure") || !strings.Contains(string(doc), install.HookStatus) || !strings.Contains(errs, "trust the hook") {
		t.Errorf("%d %q %q %v\n%s", code, out, errs, err, doc)
	}
	if code, out, errs = s.main(nil, "hook", "uninstall", "codex", "--workspace", s.work); code != 0 || !strings.Contains(out, "Codex does not ask") {
		t.Errorf("%d %q %q", code, out, errs)
	}
}

// A file that the agent keeps for the session is read without a word of ours; the hook's
// input says which session it is.
func TestHookLeavesTheAgentsOwnFiles(t *testing.T) {
	s := openStage(t, nil)
	const id = "0947c0b4-81d9-4f9e-93c3-3781eb2acc03"
	project := filepath.Join(t.TempDir(), ".claude", "projects", "-w")
	saved := filepath.Join(project, id, "tool-results", "b1.txt")
	fatal(t, os.MkdirAll(filepath.Dir(saved), 0o700))
	for _, path := range []string{saved, filepath.Join(project, id+".jsonl")} {
		fatal(t, os.WriteFile(path, []byte("x"), 0o600))
	}
	in := hookJSON(t, s.work, "Read", map[string]any{"file_path": saved, "offset": 1})
	in = strings.NewReplacer(`"0c3e-51"`, `"`+id+`"`, `"/x.jsonl"`, `"`+filepath.Join(project, id+".jsonl")+`"`).Replace(in)
	if code, out, errs := s.main(strings.NewReader(in), "hook", "claude-code"); code != 0 || out != "{}\n" {
		t.Errorf("%d %q %q\n%s", code, out, errs, in)
	}
}

// Whatever file of the project other programs obey, an agent's own writing tools are
// judged by what they write there, as the gate's own tool is: none goes another way.
func TestHookWritesToTrustedNames(t *testing.T) {
	dir := t.TempDir()
	for _, n := range trusted.Names() {
		if strings.HasPrefix(n.Name, trusted.Repository) {
			continue
		}
		own := strings.ReplaceAll(strings.ReplaceAll(strings.TrimSuffix(n.Name, "/"), "**", "m"), "*", "x")
		path := filepath.Join(dir, "sub", own)
		fatal(t, os.MkdirAll(filepath.Dir(path), 0o700))
		fatal(t, os.WriteFile(path, []byte("one"), 0o600))
		for tool, input := range map[string]map[string]any{
			"Write":     {"file_path": path, "content": "two"},
			"Edit":      {"file_path": path, "old_string": "one", "new_string": "two"},
			"MultiEdit": {"file_path": path, "edits": []any{map[string]any{"old_string": "one", "new_string": "two"}}},
		} {
			h, err := readHook(claude, []byte(hookJSON(t, dir, tool, input)), "")
			fatal(t, err)
			r, err := h.request(hookOptions{shell: "/bin/sh"})
			if err != nil || r.Tool != "palyra.fs.write" || !strings.Contains(string(r.Arguments), `"path":"`+path+`"`) || r.Surface != palyra.SurfaceHook {
				t.Errorf("%s: %s is %s %s (%v)", n.Name, tool, r.Tool, r.Arguments, err)
			}
		}
		fatal(t, os.RemoveAll(filepath.Join(dir, "sub")))
	}
}
