//go:build linux

package hook

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/cli/hooktest"
	"palyra/internal/trusted"
)

// A read outside is asked about by the path that it leads to, and how much is read makes
// no difference; what belongs to the daemon is never asked about, nor what is inside.
func TestHookReadsOutside(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	noError(t, err)
	dir, out, state := filepath.Join(root, "w"), filepath.Join(root, "out"), filepath.Join(root, "state")
	for _, d := range []string{dir, out, state} {
		noError(t, os.Mkdir(d, 0o700))
		noError(t, os.WriteFile(filepath.Join(d, "f"), []byte("x"), 0o600))
	}
	noError(t, os.Symlink(filepath.Join(out, "f"), filepath.Join(dir, "link")))
	noError(t, os.Symlink(filepath.Join(state, "f"), filepath.Join(out, "key")))
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
		h, err := readHook(claude, []byte(hooktest.JSON(t, dir, c.tool, c.input)), "")
		noError(t, err)
		h.sealed = []string{state}
		r, err := h.request(hookOptions{shell: "/bin/sh"})
		if got := string(r.Tool) + " " + string(r.Arguments); err != nil || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %v: %s (%v), want %s", c.tool, c.input, got, err, c.want)
		}
	}
}

// Whatever file of the project other programs obey, an agent's own writing tools are
// judged by what they write there, as the gate's own tool is: none goes another way.
func TestHookWritesToTrustedNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range slices.Concat(trusted.With(trusted.Held), trusted.With(trusted.Noted), trusted.With(trusted.Asked)) {
		if strings.HasPrefix(name, trusted.Repository) {
			continue
		}
		own := strings.ReplaceAll(strings.ReplaceAll(strings.TrimSuffix(name, "/"), "**", "m"), "*", "x")
		path := filepath.Join(dir, "sub", own)
		noError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		noError(t, os.WriteFile(path, []byte("one"), 0o600))
		for tool, input := range map[string]map[string]any{
			"Write":     {"file_path": path, "content": "two"},
			"Edit":      {"file_path": path, "old_string": "one", "new_string": "two"},
			"MultiEdit": {"file_path": path, "edits": []any{map[string]any{"old_string": "one", "new_string": "two"}}},
		} {
			h, err := readHook(claude, []byte(hooktest.JSON(t, dir, tool, input)), "")
			noError(t, err)
			r, err := h.request(hookOptions{shell: "/bin/sh"})
			if err != nil || r.Tool != "palyra.fs.write" || !strings.Contains(string(r.Arguments), `"path":"`+path+`"`) ||
				r.Surface != palyra.SurfaceHook {
				t.Errorf("%s: %s is %s %s (%v)", name, tool, r.Tool, r.Arguments, err)
			}
		}
		noError(t, os.RemoveAll(filepath.Join(dir, "sub")))
	}
}
