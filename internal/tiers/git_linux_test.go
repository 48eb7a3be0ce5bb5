package tiers

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"palyra"
	"palyra/internal/gitrepo"
	"palyra/internal/sandbox"
)

// What a run brings into git's index and commits is told although no file of that name is different; so is a repository
// that cannot be read any more.
func TestGitIsLookedThrough(t *testing.T) {
	const evil = `blob=$(echo evil | git hash-object -w --stdin); add() { git update-index --add --cacheinfo 100644,$blob,$1; }; `
	for _, c := range []struct{ name, run, trusted, unread string }{
		{"ordinary work", "echo x > a; git add .; git commit -q -m x; git gc -q", "[]", "[]"},
		{"index", evil + "add .github/workflows/x.yml; add ordinary", "[.github/workflows/x.yml]", "[]"},
		{"commit", evil + "add .envrc; git commit -q -m x; git rm -q --cached .envrc; git commit -q -m y", "[.envrc]", "[]"},
		{"another branch", evil + "git checkout -q -b b; add s/.vscode/x; git commit -q -m x; git checkout -q -f main", "[s/.vscode/x]", "[]"},
		{"a known commit in the index", "git read-tree other", "[.npmrc]", "[]"},
		{"a split index", "git update-index --split-index", "[]", "[.git]"},
		{"no head", "ln -sf refs/heads/none .git/HEAD", "[]", "[.git]"},
		{"not to be read", "echo x > .git/index", "[]", "[.git]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			was, is := t.TempDir(), t.TempDir()
			shell(t, was, "git init -q -b main; echo 1 > a; git add .; git commit -q -m 0; git checkout -q -b other")
			shell(t, was, "echo x > .npmrc; git add .; git commit -q -m 1; git checkout -q main; cp -a . "+is)
			shell(t, is, c.run)
			left := sandbox.Left{Before: rootOf(t, was), After: rootOf(t, is)}
			for _, name := range []string{".git/HEAD", ".git/index", ".git/refs/heads/main", "a"} {
				left.Changes = append(left.Changes, palyra.Change{Path: palyra.TextOfPath(name)})
			}
			tiers := &Tiers{Config: Config{Log: slog.New(slog.DiscardHandler)}}
			got := tiers.git(t.Context(), &palyra.Call{Plan: palyra.Plan{Workspace: palyra.WorkspaceRef{Path: is}}}, left)
			if fmt.Sprint(got.Trusted) != c.trusted || fmt.Sprint(got.Unread) != c.unread {
				t.Errorf("%q, %q", got.Trusted, got.Unread)
			}
		})
	}
}

// Edits that go in more repositories than are looked at are counted, and policy is told so.
func TestRepositoriesBeyondTheBoundAreOmitted(t *testing.T) {
	was, is := t.TempDir(), t.TempDir()
	shell(t, was, "git init -q one; cd one; echo 1 > a; git add a; git commit -q -m 0; echo 2 > a; cd ..; "+
		"for i in $(seq 66); do cp -a one repo$i; done; rm -rf one; cp -a . "+is)
	shell(t, is, "for i in $(seq 66); do echo 1 > repo$i/a; done")
	left := sandbox.Left{Before: rootOf(t, was), After: rootOf(t, is)}
	for i := range 66 {
		was, now := palyra.PathState{Kind: palyra.PathFile, Size: 2, Digest: "2"}, palyra.PathState{Kind: palyra.PathFile, Size: 2, Digest: "1"}
		c := palyra.Change{Path: palyra.TextOfPath(fmt.Sprintf("repo%d/a", i+1)), Was: &was, Now: &now}
		left.Changes = append(left.Changes, c)
	}
	tiers := &Tiers{Config: Config{Log: slog.New(slog.DiscardHandler)}}
	got := tiers.git(t.Context(), &palyra.Call{Plan: palyra.Plan{Workspace: palyra.WorkspaceRef{Path: is}}}, left)
	if len(got.Uncommitted) != 64 || got.More != 2 {
		t.Errorf("%d edits are told and %d changes counted, want 64 and 2", len(got.Uncommitted), got.More)
	}
}

func rootOf(t *testing.T, dir string) gitrepo.Files {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return gitrepo.Root(root)
}

func shell(t *testing.T, dir, script string) {
	t.Helper()
	c := exec.Command("/bin/sh", "-e", "-c", script)
	c.Dir = dir
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(dir), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
	}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
}
