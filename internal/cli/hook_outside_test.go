package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
