package bubble

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"palyra"
	"palyra/internal/gitlink"
	"palyra/internal/sandbox"
)

// gitEnv is what git needs to commit.
var gitEnv = []string{
	"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_CONFIG_NOSYSTEM=1",
}

// person runs a script with the machine's own git, as the workspace's owner, above the workspace.
func (s *site) person(script string) string {
	s.t.Helper()
	c := exec.Command("/bin/sh", "-ec", script)
	c.Dir = filepath.Dir(s.workspace)
	c.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent"}, gitEnv...)
	if os.Geteuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.who.UID), Gid: uint32(s.who.GID)}}
	}
	out, err := c.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// trees makes the site a repository's work tree, with n of them beside the repository: t0, t1, …
func (s *site) trees(n int) (all []*site) {
	s.t.Helper()
	top := filepath.Dir(s.workspace)
	s.own(top)
	s.person("git init -q -b main main && cd main && echo one > f && git add f && git commit -q -m first && mkdir -p .git/hooks .git/info")
	for i := range n {
		s.person(fmt.Sprintf("cd main && git worktree add -q ../t%d -b b%d", i, i))
		t := *s
		t.workspace = filepath.Join(top, fmt.Sprintf("t%d", i))
		all = append(all, &t)
	}
	return all
}

// inTree is a job in a work tree whose repository was registered.
func (s *site) inTree(call, script string) sandbox.Job {
	s.t.Helper()
	j := s.job("/bin/sh", "-c", script)
	l, found, err := gitlink.Find(s.workspace, s.who.UID)
	if err != nil || !found {
		s.t.Fatalf("%v %v", found, err)
	}
	j.Call, j.Env = palyra.CallID(call), append(j.Env, gitEnv...)
	j.Repository = palyra.Repository{Path: l.Path, Dir: l.Dir, Ino: int64(l.Ino)}
	return j
}

// TestBackendWorkTrees: in two work trees of one repository outside, runs commit at once, and both commits are in it.
func TestBackendWorkTrees(t *testing.T) {
	staged(t, 1, func(t *testing.T, b *Backend, s *site) {
		all := s.trees(2)
		for round := range 3 {
			var work sync.WaitGroup
			for i, w := range all {
				work.Go(func() {
					who := fmt.Sprintf("%d-%d", round, i)
					x := runJob(t, b, w.inTree("c"+who, "echo "+who+" >> f && git status --short && git add f && git commit -q -m 'by "+who+
						"' && git log --oneline && git branch -a"))
					if x.Code != 0 || x.Effects.Kept == 0 || len(x.Effects.Conflicts) > 0 || x.Effects.Lost != "" {
						t.Errorf("%d: exit %d, %+v\n%s", i, x.Code, x.Effects, w.printed())
					}
				})
			}
			work.Wait()
		}
		for i := range all {
			log := s.person(fmt.Sprintf("git -C main log --format=%%s b%d && git -C t%d status --short && git -C main fsck --strict", i, i))
			if want := fmt.Sprintf("by 2-%d\nby 1-%d\nby 0-%d\nfirst", i, i, i); log != want {
				t.Errorf("%q", log)
			}
		}
	})
}

// TestBackendRepositoryIsHeld: what other programs obey in the repository cannot be changed from the room, and what is
// made there that was not there is not kept, with all that came with it.
func TestBackendRepositoryIsHeld(t *testing.T) {
	staged(t, 0, func(t *testing.T, b *Backend, s *site) {
		w := s.trees(2)[0]
		const all = "cd main/.git && find . -type f -not -path './objects/*' | sort | xargs sha256sum"
		before, repository := s.person(all), filepath.Dir(s.workspace)+"/main/.git"
		for i, try := range []string{
			"echo x >> REPO/config", "git config a.b c", "echo x > REPO/hooks/pre-commit", "rm -rf REPO/hooks && mkdir REPO/hooks",
			"mv REPO/hooks REPO/h2", "echo x > REPO/info/attributes", "echo x > REPO/HEAD", "rm REPO/config", "mv REPO/config REPO/c2",
			"ln -sf /tmp/x REPO/config", "echo x > REPO/worktrees/t0/commondir", "echo x > REPO/worktrees/t0/gitdir", "umount REPO/config",
		} {
			x := runJob(t, b, w.inTree(fmt.Sprintf("held%d", i), strings.ReplaceAll(try, "REPO", repository)))
			if x.Code == 0 {
				t.Errorf("%s: it worked: %+v", try, x.Effects)
			}
		}
		for i, try := range []string{
			"echo x > REPO/config.worktree", "echo x > REPO/commondir", "mkdir -p REPO/modules/x/hooks",
			"echo x > REPO/worktrees/t0/config.worktree", "echo x > REPO/worktrees/t1/HEAD", "echo /tmp > REPO/objects/info/alternates",
			"mkdir -p REPO/worktrees/new && echo x > REPO/worktrees/new/HEAD", "touch $(printf 'REPO/raw\\377')",
		} {
			x := runJob(t, b, w.inTree(fmt.Sprintf("lost%d", i), "echo two > g; "+strings.ReplaceAll(try, "REPO", repository)))
			lost := x.Code == 0 && x.Effects.Kept == 0 && strings.Contains(x.Effects.Lost, "stay as they are")
			if !lost || exists(filepath.Join(w.workspace, "g")) {
				t.Errorf("%s: exit %d, %+v\n%s", try, x.Code, x.Effects, w.printed())
			}
		}
		if after := s.person(all); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
	})
}

// waiting starts a job that says "ready" and then reads a line, which goOn gives it.
func (s *site) waiting(b *Backend, j sandbox.Job) (p sandbox.Process, goOn func()) {
	s.t.Helper()
	printed := s.printed
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	_ = j.Stdin.Close()
	j.Stdin = r
	if p, err = b.Start(s.t.Context(), j); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "ready", func() bool { return strings.Contains(printed(), "ready") })
	return p, func() { _ = errors.Join(func() error { _, err := w.WriteString("go\n"); return err }(), w.Close()) }
}

// TestBackendDirectoriesOfTwo: two runs that make the same directory, each with files of its own, keep both; where one
// removed a directory that was there, and somebody put something into it meanwhile, nothing of it is kept.
func TestBackendDirectoriesOfTwo(t *testing.T) {
	staged(t, 0, func(t *testing.T, b *Backend, s *site) {
		s.dir("old")
		s.file("old/x", "x")
		first, goOn := s.waiting(b, s.job("/bin/sh", "-c", "mkdir d && echo 1 > d/one && rm -r old && mkdir old && echo ready && read x"))
		other := *s
		if code, said := other.script(b, "mkdir d && echo 2 > d/two"); code != 0 || !exists(filepath.Join(s.workspace, "d/two")) {
			t.Fatal(code, said)
		}
		goOn()
		x, err := first.Wait()
		if err != nil || x.Effects.Kept == 0 || len(x.Effects.Conflicts) > 0 || !exists(filepath.Join(s.workspace, "d/one")) ||
			!exists(filepath.Join(s.workspace, "d/two")) {
			t.Errorf("%v %+v", err, x.Effects)
		}
		s.file("old/x", "x")
		first, goOn = s.waiting(b, s.job("/bin/sh", "-c", "rm -r old && mkdir old && echo ready && read x"))
		s.file("old/new", "somebody's")
		goOn()
		if x, err = first.Wait(); err != nil || len(x.Effects.Conflicts) == 0 || !exists(filepath.Join(s.workspace, "old/new")) {
			t.Errorf("%v %+v", err, x.Effects)
		}
	})
}

// TestBackendCollect: 'git gc --prune=now' in one work tree while another one commits loses nothing: it is not kept where
// somebody commits meanwhile, and a commit that follows it finds what it needs.
func TestBackendCollect(t *testing.T) {
	staged(t, 0, func(t *testing.T, b *Backend, s *site) {
		all := s.trees(2)
		s.person("cd main && for i in 1 2 3 4; do echo $i > f; git commit -q -a -m $i; done; echo lost | git hash-object -w --stdin")
		p, goOn := all[0].waiting(b, all[0].inTree("gc", "git gc -q --prune=now && echo ready && read x"))
		x := runJob(t, b, all[1].inTree("commit", "echo lost > lost; git add lost; git commit -q -m uses-it"))
		if x.Code != 0 || x.Effects.Kept == 0 || x.Effects.Lost != "" {
			t.Errorf("%+v\n%s", x.Effects, all[1].printed())
		}
		goOn()
		x, err := p.Wait()
		t.Logf("%v %d %+v", err, x.Code, x.Effects.Conflicts)
		if said := s.person("git -C main fsck --strict --full && git -C main show b1:lost"); said != "lost" {
			t.Errorf("%s", said)
		}
		x = runJob(t, b, all[0].inTree("gc2", "git gc -q --prune=now"))
		if x.Code != 0 || x.Effects.Kept == 0 || len(x.Effects.Conflicts) > 0 || x.Effects.Lost != "" {
			t.Errorf("alone: %d %q %q\n%s", x.Code, x.Effects.Lost, x.Effects.Conflicts, all[0].printed())
		}
		if said := s.person("git -C main fsck --strict --full && git -C main show b1:lost"); said != "lost" {
			t.Errorf("%s", said)
		}
	})
}
