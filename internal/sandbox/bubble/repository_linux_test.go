package bubble

import (
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
