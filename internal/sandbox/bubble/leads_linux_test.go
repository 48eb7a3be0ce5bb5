package bubble

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/internal/sandbox/celltest"
	"palyra/internal/seal"
)

// git runs git on the host as the site's owner, with nobody's configuration.
func (s *site) git(args ...string) string {
	s.t.Helper()
	c := exec.Command("git", args...)
	c.Dir = s.workspace
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(s.workspace), "GIT_EDITOR=true", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a",
		"GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
	}
	if os.Geteuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.who.UID), Gid: uint32(s.who.GID)}}
	}
	out, err := c.CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return string(out)
}

// conflict makes a repository in which a rebase waits for somebody.
func (s *site) conflict() {
	for _, step := range []string{"init -q -b main", "commit -q --allow-empty -m 0", "checkout -q -b side"} {
		s.git(strings.Fields(step)...)
	}
	s.file("f", "side\n")
	s.git("add", "f")
	s.git("commit", "-q", "-m", "side")
	s.git("checkout", "-q", "main")
	s.file("f", "main\n")
	s.git("add", "f")
	s.git("commit", "-q", "-m", "main")
	s.git("checkout", "-q", "side")
	if out := s.git("rebase", "main"); !exists(s.workspace + "/.git/rebase-merge") {
		s.t.Fatalf("no conflict: %s", out)
	}
}

// TestBackendRebase: an agent resolves a conflict in the room; the person goes on,
// and nothing runs that the agent put there. What a run begins and ends itself
// works.
func TestBackendRebase(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		s := newSite(t, who)
		s.conflict()
		pwned := s.workspace + "/pwned"
		x := runJob(t, b, s.job("/bin/sh", "-c", "echo both > f; git add f; echo 'exec touch "+pwned+"' >> .git/rebase-merge/git-rebase-todo"))
		if !slices.Equal(x.Quarantined, []string{".git/rebase-merge/git-rebase-todo"}) {
			t.Errorf("quarantined %q: %s", x.Quarantined, s.printed())
		}
		out := s.git("rebase", "--continue")
		if exists(pwned) || exists(s.workspace+"/.git/rebase-merge") {
			t.Errorf("the person's rebase: %s", out)
		}
		if got, _ := os.ReadFile(s.workspace + "/f"); string(got) != "both\n" {
			t.Errorf("resolved: %q: %s", got, out)
		}

		planted := newSite(t, who)
		planted.conflict()
		planted.git("rebase", "--abort")
		x = runJob(t, b, planted.job("/bin/sh", "-c", `export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; git rebase main; echo ours > f; git add f; GIT_EDITOR=true git rebase --continue && git log --oneline | wc -l
			mkdir .git/rebase-merge; cd .git/rebase-merge; echo refs/heads/side > head-name; git rev-parse main > onto; git rev-parse HEAD > orig-head; echo > interactive
			echo 'exec touch `+planted.workspace+`/pwned' > git-rebase-todo`))
		if !slices.Equal(x.Quarantined, []string{".git/rebase-merge"}) || !strings.HasSuffix(planted.printed(), "3") {
			t.Errorf("quarantined %q: %s", x.Quarantined, planted.printed())
		}
		if out := planted.git("rebase", "--continue"); exists(planted.workspace + "/pwned") {
			t.Errorf("planted: %s", out)
		}
	})
}

// TestBackendCaches: a repository that waits in a cache is not reached through the
// workspace, and files that are shared with other places are told.
func TestBackendCaches(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		c := configOf(t)
		caches := newSite(t, who) // of the run's user, like a cache
		caches.dir("r/.git/objects")
		caches.dir("r/.git/refs")
		caches.file("r/.git/HEAD", "ref: refs/heads/main\n")
		caches.file("r/.git/config", "[core]\n\tfsmonitor = \"touch "+caches.workspace+"/pwned; false\"\n")
		c.Closed = []string{caches.workspace}
		b := openBackend(t, c)
		s := newSite(t, who)
		s.dir("docs")
		s.dir("node_modules/pkg")
		s.file("node_modules/pkg/index.js", "1\n")
		if err := os.Link(s.workspace+"/node_modules/pkg/index.js", caches.workspace+"/store"); err != nil {
			t.Fatal(err)
		}
		x := runJob(t, b, s.job("/bin/sh", "-c", "rm -rf docs; ln -s "+caches.workspace+"/r docs; ln -s /usr/bin bin"))
		if !slices.Equal(x.Quarantined, []string{"docs"}) || exists(s.workspace+"/docs") {
			t.Errorf("quarantined %q", x.Quarantined)
		}
		want := []palyra.Remnant{{Kind: palyra.RemnantLink, Path: "bin"}, {Kind: palyra.RemnantLinked, Path: "node_modules/pkg/index.js"}}
		if !slices.Equal(x.Remnants, want) {
			t.Errorf("left %+v", x.Remnants)
		}
		if out := s.git("-C", "docs", "status"); exists(caches.workspace + "/pwned") {
			t.Errorf("the host obeyed: %s", out)
		}
	})
}

// TestBackendClosed: a repository that a run leaves in the daemon's own directories is
// not reached by the next one's links, whatever the way: by the person's git as the
// judge.
func TestBackendClosed(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		c := configOf(t)
		cache := newSite(t, who)
		c.Closed = []string{cache.workspace}
		b := openBackend(t, c)
		s := newSite(t, who)
		s.dir("keep")
		pwned := s.workspace + "/pwned"
		const plant = `plant() { mkdir -p "$1/objects" "$1/refs/heads"; echo 'ref: refs/heads/main' > "$1/HEAD"; printf '[core]\n\tbare=false\n\tworktree=.\n\tfsmonitor="touch %s;false"\n' "$P" > "$1/config"; }; `
		x := runJob(t, b, s.job("/bin/sh", "-c", "P="+pwned+"; "+plant+`plant r; plant "$(printf 'r\377')"`))
		if len(x.Quarantined) != 2 {
			t.Fatalf("quarantined %q: %s", x.Quarantined, s.printed())
		}
		item := c.Quarantine + "/call/000001"
		ways := map[string]string{
			"plain": item, "proc": "/proc/self/root" + item, "later": cache.workspace + "/r1",
			"later\xff": "/proc/self/root" + cache.workspace + "/r1",
			"near":      "/proc/self/cwd/../" + filepath.Base(filepath.Dir(cache.workspace)) + "/" + filepath.Base(cache.workspace) + "/r1",
		}
		script := ""
		for name, to := range ways {
			script += "ln -s '" + to + "' '" + name + "'; "
		}
		x = runJob(t, b, s.job("/bin/sh", "-c", script))
		if len(x.Quarantined) != len(ways) {
			t.Errorf("quarantined %q", x.Quarantined)
		}
		cache.dir("r1/objects")
		cache.dir("r1/refs/heads")
		cache.file("r1/HEAD", "ref: refs/heads/main\n")
		cache.file("r1/config", "[core]\n\tbare=false\n\tworktree=.\n\tfsmonitor=\"touch "+pwned+";false\"\n")
		for name := range ways {
			if out := s.git("-C", name, "status"); exists(pwned) {
				t.Fatalf("%q: the host obeyed: %s", name, out)
			}
		}
	})
}

// TestBackendConfigured: what git's configuration names is held like the
// configuration itself.
func TestBackendConfigured(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		s := newSite(t, who)
		s.git("init", "-q", "-b", "main")
		s.git("config", "core.hooksPath", "scripts/hooks")
		s.git("config", "include.path", "../.inc")
		s.dir("scripts")
		s.file("scripts/plain", "")
		x := runJob(t, b, s.job("/bin/sh", "-c", `mkdir -p scripts/hooks; printf '#!/bin/sh\ntouch pwned-hook\n' > scripts/hooks/pre-commit; chmod +x scripts/hooks/pre-commit
			printf '[core]\n\tfsmonitor = "touch pwned-include; false"\n' > .inc; echo x > scripts/plain`))
		got := slices.Sorted(slices.Values(x.Quarantined))
		if !slices.Equal(got, []string{".inc", "scripts/hooks"}) {
			t.Errorf("quarantined %q: %s", got, s.printed())
		}
		out := s.git("status") + s.git("commit", "-q", "--allow-empty", "-m", "x")
		if exists(s.workspace+"/pwned-hook") || exists(s.workspace+"/pwned-include") {
			t.Errorf("the host obeyed: %s", out)
		}
	})
}

// TestBackendLinks: repositories that ship a sealed name as a link work, and
// neither the link nor what it leads to can be changed for the person.
func TestBackendLinks(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		s := newSite(t, who)
		s.dir("conf/vscode")
		s.file("conf/vscode/tasks.json", "person's\n")
		for link, to := range map[string]string{".vscode": "conf/vscode", ".cargo": "conf/cargo", "app": "node_modules/app"} {
			if err := os.Symlink(to, filepath.Join(s.workspace, link)); err != nil {
				t.Fatal(err)
			}
			s.own(filepath.Join(s.workspace, link))
		}
		s.dir("node_modules/app")
		x := runJob(t, b, s.job("/bin/sh", "-c", `(echo evil > conf/vscode/tasks.json) 2>/dev/null && echo written
			rm .vscode; mkdir -p evil .vscode; echo evil > .vscode/tasks.json; mkdir -p conf/cargo; echo evil > conf/cargo/config.toml; echo evil > node_modules/app/.envrc; echo plain > conf/plain`))
		got := slices.Sorted(slices.Values(x.Quarantined))
		if !slices.Equal(got, []string{".vscode", "conf/cargo/config.toml", "node_modules/app/.envrc"}) || s.printed() != "" {
			t.Errorf("quarantined %q: %s", got, s.printed())
		}
		if text, err := os.ReadFile(s.workspace + "/.vscode/tasks.json"); string(text) != "person's\n" || !exists(s.workspace+"/conf/plain") {
			t.Errorf("tasks: %q, %v", text, err)
		}
	})
}

// TestBackendCommitted: sealed names that a run brings in by git's index and commits
// are told, for a live run and a staged one with seals, while the files that would be them are
// in no directory.
func TestBackendCommitted(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		b := openBackend(t, configOf(t))
		for _, staged := range []bool{false, true} {
			s := newSite(t, who)
			s.staged = staged
			s.git("init", "-q", "-b", "main")
			s.git("commit", "-q", "--allow-empty", "-m", "0")
			j := s.job("/bin/sh", "-c", `export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
				blob=$(echo evil | git hash-object -w --stdin)
				git update-index --add --cacheinfo 100644,$blob,.github/workflows/ci2.yml && git commit -qm tidy &&
				git update-index --add --cacheinfo 100644,$blob,.vscode/tasks.json`)
			j.Seals = seal.Default
			x := runJob(t, b, j)
			want := []palyra.Remnant{
				{Kind: palyra.RemnantCommitted, Path: ".github/workflows/ci2.yml"}, {Kind: palyra.RemnantCommitted, Path: ".vscode/tasks.json"},
			}
			if !slices.Equal(x.Remnants, want) || s.printed() != "" {
				t.Errorf("staged %v: left %+v: %s", staged, x.Remnants, s.printed())
			}
			if x = runJob(t, b, s.job("/bin/sh", "-c", "git status --short > /tmp/x; echo a > plain; git add plain")); len(x.Remnants) > 0 {
				t.Errorf("staged %v: the next run left %+v", staged, x.Remnants)
			}
		}
	})
}

// TestBackendPatrol: what a room that lives for long makes of sealed paths is taken
// away while it lives, and told when it has ended; a short run is left alone until
// then.
func TestBackendPatrol(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, who celltest.Resident) {
		c := configOf(t)
		c.Patrol = 50 * time.Millisecond
		b := openBackend(t, c)
		s := newSite(t, who)
		const script = "echo evil > .envrc; mkdir -p sub/.vscode; ln -s /etc out; echo ready; while [ ! -e go ]; do sleep 0.05; done; " +
			"test ! -e sub/.vscode; echo $?; echo evil > later.code-workspace"
		j := s.job("/bin/sh", "-c", script)
		j.Lives = true
		p := celltest.Start(t, b, j)
		eventually(t, "taken away", func() bool {
			return strings.Contains(s.printed(), "ready") && !exists(s.workspace+"/.envrc") && !exists(s.workspace+"/sub/.vscode")
		})
		s.file("go", "")
		x := waitFor(t, p)
		got := slices.Sorted(slices.Values(x.Quarantined))
		if !slices.Equal(got, []string{".envrc", "later.code-workspace", "sub/.vscode"}) || !strings.HasSuffix(s.printed(), "0") {
			t.Errorf("quarantined %q: %s", got, s.printed())
		}
		if want := []palyra.Remnant{{Kind: palyra.RemnantLink, Path: "out"}}; !slices.Equal(x.Remnants, want) {
			t.Errorf("left %+v", x.Remnants)
		}
		short := newSite(t, who)
		if code, out := short.script(b,
			"mkdir -p t/.git; i=0; while [ $i -lt 10 ]; do sleep 0.05; i=$((i+1)); done; test -d t/.git; echo $?; rm -rf t"); code != 0 ||
			!strings.HasSuffix(out, "0") {
			t.Errorf("a short run: %d, %s", code, out)
		}
	})
}
