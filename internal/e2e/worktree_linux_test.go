package e2e

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
	"palyra/client"
)

// yard is a repository of the person's, with work trees beside it.
type yard struct {
	*daemon
	top string
	uid uint32
}

// newYard has a repository main with a commit, and the daemon not yet started.
func newYard(t *testing.T) *yard {
	t.Helper()
	d := newDaemon(t)
	y := &yard{daemon: d, uid: uint32(d.ownWork())}
	y.top = filepath.Join(filepath.Dir(d.work), "yard")
	if err := os.Mkdir(y.top, 0o755); err != nil {
		t.Fatal(err)
	}
	d.give(y.top)
	y.person("git init -q -b main main && cd main && echo one > f && git add f && git commit -q -m first")
	return y
}

// person runs a script with the machine's own tools, as the owner.
func (y *yard) person(script string) string {
	y.t.Helper()
	c := exec.Command("/bin/sh", "-ec", script)
	c.Dir = y.top
	c.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + y.top, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
	}
	if os.Geteuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: y.uid, Gid: y.uid}}
	}
	out, err := c.CombinedOutput()
	if err != nil {
		y.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// asAuthor lets scripts commit.
const asAuthor = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; "

// in proposes a script in a directory of the yard.
func (y *yard) in(dir, script string) client.CallRequest {
	r := y.scripted(asAuthor + script)
	r.Workspace = filepath.Join(y.top, dir)
	return r
}

// register registers a directory of the yard.
func (y *yard) register(dir string) (palyra.Workspace, error) {
	return y.client(client.OperatorDoor).AddWorkspace(y.t.Context(), filepath.Join(y.top, dir), "")
}

func (y *yard) mustRegister(dir string) palyra.Workspace {
	y.t.Helper()
	w, err := y.register(dir)
	if err != nil {
		y.t.Fatalf("%v: %s", err, palyra.AsError(err).Remedy)
	}
	return w
}

// unasked runs a call about which nobody may be asked.
func (y *yard) unasked(r client.CallRequest) palyra.Outcome {
	y.t.Helper()
	out, questions := y.agreed(r)
	if questions > 0 {
		y.t.Errorf("%d questions: %s", questions, r.Arguments)
	}
	return out
}

// TestWorkTreesOfTwoAgents: two agents commit at once in linked work trees of one repository, which lies in no workspace,
// and nobody is asked; both commits are in it.
func TestWorkTreesOfTwoAgents(t *testing.T) {
	y := newYard(t)
	y.person("cd main && git worktree add -q ../a && git worktree add -q ../b")
	y.mustStart("PALYRA_POLICY_PRESET=default")
	for _, dir := range []string{"a", "b"} {
		w := y.mustRegister(dir)
		if r := w.Repository; r.Path != filepath.Join(y.top, "main/.git") || r.Dir != "worktrees/"+dir {
			t.Errorf("%+v", w)
		}
	}
	for round := range 2 {
		var both sync.WaitGroup
		for _, dir := range []string{"a", "b"} {
			both.Go(func() {
				who := fmt.Sprintf("%d by %s", round, dir)
				out := y.unasked(y.in(dir, "git status --short; echo "+who+" >> f; git add f; git commit -q -m '"+who+"'; git log; git branch"))
				if out.ExitCode != 0 || out.Effects != palyra.EffectsKept {
					t.Errorf("%s: %d %s %s %s\n%s%s", dir, out.ExitCode, out.Effects, out.Reason, out.Remedy, out.Stdout, out.Stderr)
				}
			})
		}
		both.Wait()
	}
	for _, dir := range []string{"a", "b"} {
		got := y.person("git -C main log --format=%s " + dir + "; git -C " + dir + " status --short; git -C main fsck --strict")
		if want := "1 by " + dir + "\n0 by " + dir + "\nfirst"; got != want {
			t.Errorf("%q", got)
		}
	}
	said, err := y.palyra("undo", "--last", "--workspace", filepath.Join(y.top, "a")).CombinedOutput()
	if err != nil || !strings.Contains(string(said), "commits, branches and the index are in") {
		t.Errorf("%v %s", err, said)
	}
	y.verify()
}

// TestPlantedPointers: a pointer that a run wrote, or that changed since the workspace was registered, leads nowhere: git
// finds no repository, and what is said names the remedy. Registering such a directory is refused.
func TestPlantedPointers(t *testing.T) {
	y := newYard(t)
	y.person("git init -q secret && cd secret && echo hidden > key && git add key && git commit -q -m secret && git tag treasure")
	y.person("cd main && git worktree add -q ../a && git worktree add -q ../b")
	y.mustStart("PALYRA_POLICY_PRESET=default")
	y.mustRegister("a")
	lost := func(what string) {
		t.Helper()
		out, _ := y.agreed(y.in("a", "git tag; git log --oneline --all; git show treasure:key; cat "+y.top+"/secret/.git/HEAD"))
		if said := out.Stdout + out.Stderr; out.ExitCode == 0 || strings.Contains(said, "treasure\n") || strings.Contains(said, "refs/heads") {
			t.Errorf("%s: %d\n%s", what, out.ExitCode, said)
		}
		if out.ReasonCode != palyra.ReasonPathOutside || !strings.Contains(out.Remedy, "palyra workspace add") {
			t.Errorf("%s: %s %q %q\n%s", what, out.ReasonCode, out.Reason, out.Remedy, out.Stderr)
		}
	}
	good := y.person("cat a/.git")
	for _, planted := range []string{
		"printf 'gitdir: %s/secret/.git\\n' " + y.top + " > .git", "printf 'gitdir: ../secret/.git\\n' > .git",
		"printf 'gitdir: %s/main/.git/worktrees/b\\n' " + y.top + " > .git",
	} {
		out, questions := y.agreed(y.in("a", planted)) // a person who says yes to it is not asked again, and protected all the same
		if questions != 1 || out.Effects != palyra.EffectsKept || y.person("cat a/.git") == good {
			t.Fatalf("%s: %d questions, %+v", planted, questions, out)
		}
		lost(planted)
		if _, err := y.register("a"); palyra.AsError(err).Reason != palyra.ReasonWorkspaceDenied || palyra.AsError(err).Remedy == "" {
			t.Errorf("%s: registered: %v", planted, err)
		}
	}
	y.person("echo '" + good + "' > a/.git")
	for _, changed := range []struct{ do, back string }{
		{"echo ../../../secret/.git > main/.git/worktrees/a/commondir", "echo ../.. > main/.git/worktrees/a/commondir"},
		{"mv main/.git/worktrees/a/gitdir g", "mv g main/.git/worktrees/a/gitdir"},
		{"mv main/.git m && cp -r m main/.git", "rm -rf main/.git && mv m main/.git"}, // another directory of that name
		{"mv main/.git m && ln -s ../m main/.git", "rm main/.git && mv m main/.git"},
	} {
		y.person(changed.do)
		out := y.unasked(y.in("a", "git log --oneline"))
		if out.ExitCode == 0 {
			t.Errorf("%s: %s", changed.do, out.Stdout)
		}
		y.person(changed.back)
	}
	if out := y.unasked(y.in("a", "git log --oneline")); out.ExitCode != 0 || !strings.Contains(out.Stdout, "first") {
		t.Errorf("all is as it was, and %d\n%s", out.ExitCode, out.Stderr)
	}
	if _, err := y.register("a"); palyra.AsError(err).Reason != palyra.ReasonExists {
		t.Errorf("nothing changed, and %v", err)
	}
	y.person("cp -r main/.git elsewhere && git -C a status >/dev/null && mv main main2 && git -C main2 worktree repair ../a")
	if out := y.unasked(y.in("a", "git log --oneline")); out.ExitCode == 0 {
		t.Errorf("the repository moved, and nobody registered it: %s", out.Stdout)
	}
	if w := y.mustRegister("a"); w.Repository.Path != filepath.Join(y.top, "main2/.git") {
		t.Errorf("%+v", w)
	}
	if out := y.unasked(y.in("a", "git log --oneline")); out.ExitCode != 0 {
		t.Errorf("registered once more, and %s", out.Stderr)
	}
	y.verify()
}

// answered makes a call whose question about what it did gets an answer, and returns what that question says. Others,
// which come before the run, are answered with yes.
func (y *yard) answered(r client.CallRequest, is palyra.Answer) (out palyra.Outcome, asked string) {
	y.t.Helper()
	person := y.client(client.OperatorDoor)
	out, err := y.client(client.AgentDoor).Call(y.t.Context(), r, func(e client.CallEvent) {
		if e.ApprovalRequested == nil {
			return
		}
		a, err := person.Approval(y.t.Context(), e.ApprovalRequested.ApprovalID)
		if err != nil {
			y.t.Error(err)
			return
		}
		answer := allow(a, palyra.ScopeOnce, 0)
		if a.Plan.Effects != nil {
			answer.Answer, asked = is, fmt.Sprintf("%+v", a.Prompt)
		}
		if _, err := person.Decide(y.t.Context(), answer); err != nil {
			y.t.Error(err)
		}
	})
	if err != nil {
		y.t.Fatal(err)
	}
	return out, asked
}

// TestRepositoryOutsideIsJudged: what a run does to a repository outside is judged as what it does to its own: a commit is
// kept unasked; a ref that loses commits, a workflow that comes in by a commit, and objects that go are asked about, and
// what waits for the answer is kept or dropped whole, after a restart too.
func TestRepositoryOutsideIsJudged(t *testing.T) {
	y := newYard(t)
	y.person("cd main && git checkout -q -b other && echo two > f && git commit -q -a -m second && git checkout -q main && " +
		"git worktree add -q ../a -b a && cd ../a && echo three > f && echo g > g && git add g && git commit -q -a -m third && " +
		"echo edit > g && git config core.hooksPath hk && git tag -a -m v v1 main")
	y.mustStart("PALYRA_POLICY_PRESET=default")
	y.mustRegister("a")
	const state = "git -C main rev-parse other a v1 && git -C main fsck --strict && git -C a status --short"
	head := y.person(state)
	for _, c := range []struct{ script, names string }{
		{"git branch -D other", "refs/heads/other"},
		{"git update-ref refs/heads/other main; : > $(git rev-parse --git-common-dir)/logs/refs/heads/other", "refs/heads/other"},
		{"git reset -q --hard HEAD~1; git reflog expire --expire=now --all", "HEAD"},
		{"git checkout -q g", "g"},
		{"git tag -d v1", "cannot be undone"},
		{"mkdir hk; echo 'echo mine' > hk/pre-commit; chmod +x hk/pre-commit", "hk/pre-commit"}, // the configuration leads there
		{"mkdir -p .github/workflows; echo x > .github/workflows/ci.yml; git add .github; git commit -q -m ci; rm -r .github", "ci.yml"},
		{"rm -f $(git rev-parse --git-common-dir)/objects/*/*", "objects"},
	} {
		out, asked := y.answered(y.in("a", c.script), palyra.AnswerDeny)
		if !strings.Contains(asked, c.names) || out.Effects != palyra.EffectsDropped {
			t.Errorf("%s: %s, and the question does not name %s: %s", c.script, out.Effects, c.names, asked)
		}
		if now := y.person(state); now != head {
			t.Fatalf("%s: dropped, and %s", c.script, now)
		}
	}
	for _, c := range []struct {
		answer palyra.Answer
		ends   palyra.Settlement
		kept   bool
	}{{palyra.AnswerDeny, palyra.EffectsDropped, false}, {palyra.AnswerAllow, palyra.EffectsKept, true}} {
		propose(t.Context(), y.client(client.AgentDoor), y.in("a", "mkdir -p .github/workflows; echo x > .github/workflows/ci.yml; "+
			"git add .github; echo four > f; git commit -q f .github -m fourth; echo "+string(c.answer)))
		asked := y.pending(y.client(client.OperatorDoor))
		if asked.Plan.Effects == nil || y.person(state) != head {
			t.Fatalf("%+v", asked)
		}
		y.kill()
		y.mustStart("PALYRA_POLICY_PRESET=default")
		person := y.client(client.OperatorDoor)
		if _, err := person.Decide(t.Context(), client.DecideRequest{ID: asked.ID, Answer: c.answer, Digest: asked.PlanDigest}); err != nil {
			t.Fatal(err)
		}
		out, err := y.client(client.AgentDoor).WatchCall(t.Context(), asked.Call, nil)
		said := y.person("cd a; git log -1 --format=%s; cat f; git fsck --strict; git status --short; git ls-tree -r --name-only HEAD")
		whole := said == "fourth\nfour\n M g\n.github/workflows/ci.yml\nf\ng"
		if err != nil || out.Effects != c.ends || whole != c.kept || strings.Contains(said, "ci.yml") != c.kept {
			t.Errorf("%s: %v %+v\n%s", c.answer, err, out, said)
		}
	}
	list, err := y.palyra("undo", "--list").CombinedOutput() // of the workspace alone
	if err != nil || strings.Count(string(list), "\n") != 2 || !strings.Contains(string(list), "echo allow") {
		t.Errorf("%v: %s", err, list)
	}
	y.verify()
}

// TestWorkTreesInside: a run makes a work tree inside its workspace and later ones commit in it; a submodule in the
// workspace is committed to, and so is one that is a workspace itself, whose repository lies in the project around it.
func TestWorkTreesInside(t *testing.T) {
	y := newYard(t)
	y.person("git init -q lib && cd lib && echo l > l && git add l && git commit -q -m lib && " +
		"cd ../main && git submodule add -q ../lib sub/lib && git commit -q -m sub")
	y.mustStart("PALYRA_POLICY_PRESET=default")
	y.mustRegister("main")
	out, questions := y.agreed(y.in("main", "git worktree add -q wt/x"))
	if out.ExitCode != 0 || out.Effects != palyra.EffectsKept || questions > 1 {
		t.Errorf("%d questions, %d %s %s\n%s", questions, out.ExitCode, out.Effects, out.Reason, out.Stderr)
	}
	t.Logf("git worktree add inside: %d questions", questions)
	for _, c := range []struct{ script, host, want string }{
		{"cd wt/x && echo w > w && git add w && git commit -q -m inner && git log --oneline", "git -C main log -1 --format=%s x", "inner"},
		{"cd sub/lib && echo m > m && git add m && git commit -q -m module && git status", "git -C main/sub/lib log -1 --format=%s", "module"},
		{"git add sub/lib && git commit -q -m bump && git submodule status", "git -C main log -1 --format=%s", "bump"},
	} {
		out := y.unasked(y.in("main", c.script))
		if got := y.person(c.host); out.ExitCode != 0 || got != c.want {
			t.Errorf("%s: %d %s %q\n%s%s", c.script, out.ExitCode, out.Effects, got, out.Stdout, out.Stderr)
		}
	}
	if w := y.mustRegister("main/sub/lib"); w.Repository.Path != filepath.Join(y.top, "main/.git/modules/sub/lib") || w.Repository.Dir != "" {
		t.Errorf("%+v", w)
	}
	out = y.unasked(y.in("main/sub/lib", "echo n > n && git add n && git commit -q -m alone && git log --oneline"))
	if got := y.person("git -C main/sub/lib log -1 --format=%s && git -C main/sub/lib fsck --strict"); out.ExitCode != 0 || got != "alone" {
		t.Errorf("%d %s %q\n%s%s", out.ExitCode, out.Effects, got, out.Stdout, out.Stderr)
	}
	y.verify()
}

// TestWorkTreeOfAnOrdinaryUser: the same under a daemon that is not root, at the terminal.
func TestWorkTreeOfAnOrdinaryUser(t *testing.T) {
	y := newYard(t)
	y.person("cd main && git worktree add -q ../a")
	as := y.ordinary("PALYRA_POLICY_PRESET=default")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"workspace", "add", filepath.Join(y.top, "a")}, "it is a work tree of " + filepath.Join(y.top, "main/.git")},
		{[]string{"exec", "--tier", "c", "--workspace", filepath.Join(y.top, "a"), "--", "/bin/sh", "-c", asAuthor +
			"echo n > n && git add n && git commit -q -m ordinary && git log --oneline"}, "ordinary"},
		{[]string{
			"exec", "--tier", "c", "--workspace", filepath.Join(y.top, "a"), "--", "/bin/sh", "-c",
			"echo x > $(git rev-parse --git-common-dir)/hooks/x || echo held",
		}, "held"},
	} {
		cmd := as("palyra", c.args...)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: %v\n%s", c.args, err, out)
		}
	}
	if got := y.person("git -C main log -1 --format=%s a && git -C main fsck --strict"); got != "ordinary" {
		t.Error(got)
	}
}
