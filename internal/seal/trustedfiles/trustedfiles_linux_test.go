package trustedfiles

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
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

func at(dir string) palyra.WorkspaceRef { return palyra.WorkspaceRef{Path: dir} }

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
	got, why, err := g.Guarded(t.Context(), at(dir), paths)
	if err != nil || why != "" || !slices.Equal(got, paths[:6]) {
		t.Errorf("%q, %q, %v", got, why, err)
	}
	put(t, filepath.Join(dir, ".git", "config"), "[core]\n\thooksPath = src\n") // somebody changes it
	got, why, err = g.Guarded(t.Context(), at(dir), paths)
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
	for name, dir := range map[string]string{"two names": dir, "nothing there": filepath.Join(dir, "none")} {
		if got, why, err := g.Guarded(t.Context(), at(dir), []string{"a"}); err != nil || why == "" || !slices.Equal(got, []string{"a"}) {
			t.Errorf("%s: %q, %q, %v", name, got, why, err)
		}
	}
	for i := range 2 * maxKept {
		_, _, _ = g.Guarded(t.Context(), at(place(t, map[string]string{"a": "x"})), []string{"a"})
		if len(g.known) > maxKept {
			t.Fatalf("%d workspaces are remembered after %d more", len(g.known), i+1)
		}
	}
}

// One configuration holds in every work tree, so what it leads to is guarded in each: in those that lie in the workspace
// of the repository, in a workspace that is one itself, and in a submodule. A person's own configuration holds there too.
func TestWorkTreesAreGuarded(t *testing.T) {
	home := place(t, map[string]string{".gitconfig": "[core]\n\tattributesFile = mine/attributes\n"})
	t.Setenv("HOME", home)
	files := repository("[core]\n\thooksPath = hk\n[filter \"z\"]\n\tsmudge = ./tools/f %f\n")
	files["wt/x/.git"], files[".git/worktrees/x/HEAD"], files[".git/worktrees/x/commondir"] = "gitdir: ../../.git/worktrees/x\n", "x", "../.."
	files[".git/worktrees/y/HEAD"], files[".git/worktrees/y/commondir"] = "x", "../.."
	files[".git/worktrees/y/config.worktree"] = "[include]\n\tpath = extra\n"
	files[".git/worktrees/y/extra"] = "[diff]\n\texternal = bin/differ\n"
	main, outer := place(t, files), place(t, map[string]string{"a/y/src/main.go": "x"})
	y := filepath.Join(outer, "a", "y")
	put(t, filepath.Join(y, ".git"), "gitdir: "+main+"/.git/worktrees/y\n")
	put(t, filepath.Join(main, ".git/worktrees/x/gitdir"), "../../../wt/x/.git\n")
	put(t, filepath.Join(main, ".git/worktrees/y/gitdir"), y+"/.git\n")
	put(t, filepath.Join(main, ".git/worktrees/in/gitdir"), y+"/deep/in/.git\n") // made by git worktree add in y
	put(t, filepath.Join(main, ".git/modules/s/config"), "[core]\n\tworktree = ../../../s\n\thooksPath = sh\n")
	paths := []string{
		"hk/pre-commit", "tools/f", "mine/attributes", "wt/x/hk/pre-commit", "wt/x/tools/f", "deep/in/hk/pre-commit", "bin/differ",
		"sh/pre-push", "src/main.go", "wt/x/main.go", "wt/hk/x",
	}
	of := func(dir, name string) palyra.WorkspaceRef {
		return palyra.WorkspaceRef{Path: dir, Repository: palyra.Repository{Path: filepath.Join(main, ".git"), Dir: name}}
	}
	sub := of(y, "")
	sub.Repository.Path = filepath.Join(main, ".git/modules/s")
	g := new(TrustedFiles)
	for name, c := range map[string]struct {
		at   palyra.WorkspaceRef
		want []string
	}{
		"the repository's own": {at(main), append(slices.Clone(paths[:3]), paths[3], paths[4])},
		"a work tree outside":  {of(y, "worktrees/y"), []string{paths[0], paths[1], paths[2], paths[5], paths[6]}},
		"a submodule":          {sub, []string{paths[2], paths[7]}},
		"no repository known":  {at(y), nil},
	} {
		if got, why, err := g.Guarded(t.Context(), c.at, paths); err != nil || why != "" || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %q, %v; not %q", name, got, why, err, c.want)
		}
	}
	put(t, filepath.Join(main, ".git/config"), "[core]\n\thooksPath = src\n") // somebody changes it
	if got, why, err := g.Guarded(t.Context(), of(y, "worktrees/y"), paths); err != nil || why != "" || !slices.Contains(got, "src/main.go") {
		t.Errorf("after a change: %q, %q, %v", got, why, err)
	}
	put(t, filepath.Join(main, ".git/config"), strings.Repeat("# more\n", 1<<18))
	if got, why, err := g.Guarded(t.Context(), of(y, "worktrees/y"), paths); err != nil || why == "" || !slices.Equal(got, paths) {
		t.Errorf("too large: %q, %q, %v", got, why, err)
	}
}
