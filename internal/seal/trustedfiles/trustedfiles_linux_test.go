package trustedfiles

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// place writes files into a workspace; a text that begins with an arrow is a link.
func place(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		put(t, filepath.Join(dir, name), text)
	}
	return dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil && len(text) > 2 && text[:2] == "->" {
		err = os.Symlink(text[2:], path)
	} else if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// repository are the files by which git takes a directory for one.
func repository(config string) map[string]string {
	return map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".git/config": config, ".git/objects/.keep": "", ".git/refs/.keep": "",
	}
}

// What seals follow is guarded as the names are: hooks and included files that git's
// configuration names, and where links in the place of sealed names lead.
func TestWhatSealsFollowIsGuarded(t *testing.T) {
	files := repository("[core]\n\thooksPath = scripts/hooks\n[include]\n\tpath = ../more.conf\n")
	files["src/main.go"], files[".cargo"], files["c/note.txt"], files["sub/.vscode"], files["ed/x"] = "x", "->c", "x", "->../ed", "x"
	dir := place(t, files)
	g := new(TrustedFiles)
	paths := []string{
		"scripts/hooks/pre-commit", "more.conf", "c/config.toml", "ed/tasks.json", ".git/hooks/post-merge", ".envrc",
		"src/main.go", "scripts/build.sh", "c/note.txt", "new.txt", "n\xff",
	}
	got, why, err := g.Guarded(t.Context(), dir, paths)
	if err != nil || why != "" || !slices.Equal(got, paths[:6]) {
		t.Errorf("%q, %q, %v", got, why, err)
	}
	put(t, filepath.Join(dir, ".git", "config"), "[core]\n\thooksPath = src\n") // somebody changes it
	got, why, err = g.Guarded(t.Context(), dir, paths)
	if want := []string{"c/config.toml", "ed/tasks.json", ".git/hooks/post-merge", ".envrc", "src/main.go"}; err != nil || why != "" ||
		!slices.Equal(got, want) {
		t.Errorf("after a change: %q, %q, %v", got, why, err)
	}
}

// Of a workspace that cannot be looked through nothing is let pass.
func TestWhatCannotBeToldIsGuarded(t *testing.T) {
	dir := place(t, map[string]string{".envrc": "x"})
	if err := os.Link(filepath.Join(dir, ".envrc"), filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	g := new(TrustedFiles)
	for name, at := range map[string]string{"two names": dir, "nothing there": filepath.Join(dir, "none")} {
		if got, why, err := g.Guarded(t.Context(), at, []string{"a"}); err != nil || why == "" || !slices.Equal(got, []string{"a"}) {
			t.Errorf("%s: %q, %q, %v", name, got, why, err)
		}
	}
	for i := range 2 * maxKept {
		_, _, _ = g.Guarded(t.Context(), place(t, map[string]string{"a": "x"}), []string{"a"})
		if len(g.known) > maxKept {
			t.Fatalf("%d workspaces are remembered after %d more", len(g.known), i+1)
		}
	}
}
