package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
)

// TestRepositoryOutside: what a workspace is a work tree of is registered with it, listed, and part of what it resolves to
// for as long as it is the same; a protected repository is refused.
func TestRepositoryOutside(t *testing.T) {
	d := newDesk(t)
	r, top := d.Registry, d.top
	git := func(script string) {
		t.Helper()
		c := exec.Command("/bin/sh", "-ec", script)
		c.Dir = top
		c.Env = []string{
			"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + top, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
		}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	git("git init -q main && git -C main commit -q --allow-empty -m first && git -C main worktree add -q ../tree && mkdir tree/sub")
	tree := filepath.Join(top, "tree")
	w, err := r.Add(t.Context(), tree, "", "user:me", palyra.Signature{})
	if err != nil || w.Repository.Path != filepath.Join(top, "main/.git") || w.Repository.Dir != "worktrees/tree" || w.Repository.Ino == 0 {
		t.Fatalf("%+v %v", w, err)
	}
	all, err := r.List(t.Context())
	if err != nil || len(all) != 1 || all[0].Repository != w.Repository {
		t.Errorf("%+v %v", all, err)
	}
	resolved := func(dir string) palyra.Repository {
		t.Helper()
		ref, err := r.Resolve(t.Context(), dir, int64(os.Geteuid()))
		if err != nil {
			t.Fatal(err)
		}
		return ref.Repository
	}
	if got := resolved(tree); got != w.Repository {
		t.Errorf("%+v", got)
	}
	if got := resolved(filepath.Join(tree, "sub")); got != (palyra.Repository{}) {
		t.Errorf("below it: %+v", got)
	}
	git("echo gitdir: $PWD/main/.git > tree/.git")
	if got := resolved(tree); got != (palyra.Repository{}) {
		t.Errorf("planted: %+v", got)
	}
	if _, err := r.Add(t.Context(), tree, "", "user:me", palyra.Signature{}); palyra.AsError(err).Reason != palyra.ReasonWorkspaceDenied ||
		palyra.AsError(err).Remedy == "" {
		t.Errorf("planted, and %v", err)
	}
	git("rm tree/.git && git -C main worktree prune && git init -q tree")
	if w, err = r.Add(t.Context(), tree, "", "user:me", palyra.Signature{}); err != nil || w.Repository != (palyra.Repository{}) {
		t.Errorf("registered once more: %+v %v", w, err)
	}
	own := r.Own[0]
	git("cd " + own + " && git init -q inside && cd inside && git commit -q --allow-empty -m x && git worktree add -q " + top + "/t2")
	_, err = r.Add(t.Context(), filepath.Join(top, "t2"), "", "user:me", palyra.Signature{})
	if err == nil || !strings.Contains(palyra.AsError(err).Text, "no work is done") {
		t.Errorf("in Palyra's own directory: %v", err)
	}
}
