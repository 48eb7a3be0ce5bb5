//go:build unix

package gitlink

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// yard has a repository, and a work tree of it beside it.
type yard struct {
	t                *testing.T
	dir, main, other string
}

func newYard(t *testing.T) *yard {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{t, dir, filepath.Join(dir, "main"), filepath.Join(dir, "other")}
	y.sh("git init -q main && cd main && git commit -q --allow-empty -m first && git worktree add -q ../other")
	return y
}

// sh runs a script with git, above both.
func (y *yard) sh(script string) {
	y.t.Helper()
	c := exec.Command("/bin/sh", "-ec", script)
	c.Dir = y.dir
	c.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + y.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
	}
	if out, err := c.CombinedOutput(); err != nil {
		y.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

func uid() int64 { return int64(os.Geteuid()) }

// TestWorkTree: git's own work trees and submodules are found, and what has its repository itself is not looked for.
func TestWorkTree(t *testing.T) {
	y := newYard(t)
	l, found, err := Find(y.other, uid())
	if err != nil || !found || l.Path != filepath.Join(y.main, ".git") || l.Dir != "worktrees/other" || l.Ino == 0 {
		t.Errorf("%+v %v %v", l, found, err)
	}
	y.sh("git init -q lib && git -C lib commit -q --allow-empty -m lib && git -C main submodule add -q ../lib sub/lib")
	l, found, err = Find(filepath.Join(y.main, "sub/lib"), uid())
	if err != nil || !found || l.Path != filepath.Join(y.main, ".git/modules/sub/lib") || l.Dir != "" {
		t.Errorf("a submodule: %+v %v %v", l, found, err)
	}
	y.sh("git -C main worktree add -q inner/x; mkdir plain linked; mv lib/.git linked/store; ln -s store linked/.git")
	for _, dir := range []string{y.main, filepath.Join(y.dir, "plain"), filepath.Join(y.dir, "linked")} {
		if l, found, err := Find(dir, uid()); err != nil || found {
			t.Errorf("%s: %+v %v %v", dir, l, found, err)
		}
	}
}

// TestPlanted: what a run could have written into .git, or somebody into the repository, is refused with a remedy.
func TestPlanted(t *testing.T) {
	for name, c := range map[string]struct{ script, why string }{
		"another repository": {"git init -q secret && echo gitdir: $PWD/secret/.git > other/.git", "core.worktree"},
		"another's work tree": {
			"git -C main worktree add -q ../third && echo gitdir: $PWD/main/.git/worktrees/third > other/.git", "does not know",
		},
		"relative and up":           {"git init -q secret && echo gitdir: ../secret/.git > other/.git", "core.worktree"},
		"not there":                 {"echo gitdir: /nowhere/at/all > other/.git", "not there"},
		"a link in its place":       {"rm other/.git && ln -s ../main/.git other/.git", "symbolic link"},
		"a link on the way":         {"ln -s main link && echo gitdir: $PWD/link/.git/worktrees/other > other/.git", "a link"},
		"a link to the work tree":   {"mv main/.git/worktrees/other store && ln -s $PWD/store main/.git/worktrees/other", "a link"},
		"raw bytes":                 {`printf 'gitdir: /tmp/\377\n' > other/.git`, "printable"},
		"a control character":       {`printf 'gitdir: /tmp/a\033[2Jb\n' > other/.git`, "printable"},
		"two lines":                 {`printf 'gitdir: /a\ngitdir: /b\n' > other/.git`, "one line"},
		"a NUL":                     {`printf 'gitdir: /a\000b\n' > other/.git`, "one line"},
		"nothing":                   {": > other/.git", "one line"},
		"something else":            {"echo hello > other/.git", "does not say"},
		"too long":                  {"head -c 5000 /dev/zero | tr '\\0' a > other/.git", "small"},
		"a pipe":                    {"rm other/.git && mkfifo other/.git", "small"},
		"commondir elsewhere":       {"git init -q secret && echo $PWD/secret/.git > main/.git/worktrees/other/commondir", "not in the list"},
		"commondir that climbs":     {"echo ../../.. > main/.git/worktrees/other/commondir", "not in the list"},
		"commondir a link":          {"cd main/.git/worktrees/other && mv commondir c && ln -s c commondir", "small file"},
		"no way back":               {"echo /elsewhere/.git > main/.git/worktrees/other/gitdir", "does not know"},
		"the way back is not there": {"rm main/.git/worktrees/other/gitdir", "does not know"},
		"the objects are a link":    {"cd main/.git && mv objects o && ln -s o objects", "not a repository"},
		"no HEAD":                   {"rm main/.git/HEAD", "not a repository"},
		"moved": {
			"mkdir elsewhere && mv other/.git elsewhere && cp elsewhere/.git other && cd elsewhere && git worktree repair", "does not know",
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			y.sh(c.script)
			l, found, err := Find(y.other, uid())
			e := (*Error)(nil)
			if !found || !errors.As(err, &e) || !strings.Contains(e.Why, c.why) || e.Remedy == "" {
				t.Errorf("%+v %v %v", l, found, err)
			}
		})
	}
}

// TestForeign: a repository of another user is refused.
func TestForeign(t *testing.T) {
	y := newYard(t)
	if _, _, err := Find(y.other, uid()+1); err == nil || !strings.Contains(err.Error(), "does not belong") {
		t.Error(err)
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(filepath.Join(y.main, ".git/objects"), 4711, 4711); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Find(y.other, 0); err == nil || !strings.Contains(err.Error(), "does not belong") {
		t.Error(err)
	}
}

// TestWrites: ordinary work writes what it must, and nothing that other programs obey.
func TestWrites(t *testing.T) {
	const dir = "worktrees/x"
	for p := range strings.FieldsSeq(`
		objects/ab/cdef objects/pack/p.pack objects/info/commit-graph refs/heads/a/b logs/refs/heads/a packed-refs
		worktrees/x/HEAD worktrees/x/index worktrees/x/index.lock worktrees/x/logs/HEAD worktrees/x/ORIG_HEAD
		worktrees/x/COMMIT_EDITMSG worktrees/x/rebase-merge/done worktrees/y/logs/HEAD`) {
		if !Writes(dir, p) {
			t.Errorf("%s is ordinary", p)
		}
	}
	for p := range strings.FieldsSeq(`
		config config.worktree hooks hooks/pre-commit info/attributes HEAD index commondir CONFIG Hooks/x objects/info/alternates
		objects/INFO/Alternates worktrees/x worktrees/x/commondir worktrees/x/gitdir worktrees/x/config.worktree worktrees/x/CONFIG
		worktrees/x/hooks/x worktrees/x/modules/a/config worktrees/x/COMMONDIR worktrees/y/HEAD worktrees worktrees/xx/HEAD
		modules/a/config packed-refs.lock new worktrees/x/config.lock ` + "config\u200c") {
		if Writes(dir, p) {
			t.Errorf("%s is not ordinary", p)
		}
	}
	for p, want := range map[string]bool{
		"objects/ab/c": true, "worktrees/y/logs/HEAD": true, "worktrees/x/logs/HEAD": false, "refs/heads/a": false, "worktrees/x/index": false,
	} {
		if Lasts(dir, p) != want {
			t.Errorf("%s lasts: %v", p, !want)
		}
	}
	for p, want := range map[string]bool{
		"HEAD": true, "index": true, "refs/heads/a": true, "config": false, "worktrees/a/HEAD": false, "hooks/x": false,
	} {
		if Writes("", p) != want {
			t.Errorf("of a submodule: %s", p)
		}
	}
}
