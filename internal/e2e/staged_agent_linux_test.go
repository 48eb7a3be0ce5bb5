package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// staging is a daemon with a person at the command line, who runs agents whose work is staged.
type staging struct {
	*daemon
	as func(name string, args ...string) *exec.Cmd
}

// stagings are a root's daemon in an ordinary user's workspace, and an ordinary user's own.
func stagings(t *testing.T, f func(t *testing.T, s *staging)) {
	t.Run("root", func(t *testing.T) {
		s := &staging{daemon: newDaemon(t)}
		s.ownWork()
		s.mustStart(shipped...)
		s.as = func(_ string, args ...string) *exec.Cmd { return s.palyra(args...) }
		f(t, s)
	})
	t.Run("ordinary user", func(t *testing.T) {
		s := &staging{daemon: newDaemon(t)}
		s.as = s.ordinary(shipped...)
		f(t, s)
	})
}

// must runs the command and returns what it printed.
func (s *staging) must(args ...string) string {
	s.t.Helper()
	out, err := s.as("palyra", args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("palyra %v: %v\n%s\n%s", args, err, out, s.log)
	}
	return string(out)
}

// fails runs a command that must fail, and returns what it said.
func (s *staging) fails(args ...string) string {
	s.t.Helper()
	out, err := s.as("palyra", args...).CombinedOutput()
	if err == nil {
		s.t.Fatalf("palyra %v works:\n%s", args, out)
	}
	return string(out)
}

// fifty are the files of the workspace.
func (s *staging) fifty() {
	s.t.Helper()
	s.must("workspace", "add", s.work)
	for i := 1; i <= 50; i++ {
		s.put(fmt.Sprintf("f%02d", i), fmt.Sprintf("old %d\n", i))
	}
	s.put("gone", "to be removed\n")
}

// editor is an agent: it edits fifty files, itself, by programs and by file tools, and each of them sees what the others did.
const editor = `set -e
for i in $(seq -w 1 20); do echo "own $i" > f$i; done
mkdir made; echo one > made/one; echo two > made/two
palyra exec --no-stdin -- sh -c 'test "$(cat f07)" = "own 07"; for i in $(seq -w 21 40); do echo "run $i" > f$i; done; rm gone' >&2
test ! -e gone; test "$(cat f21)" = "run 21"
for i in $(seq -w 41 50); do
	palyra tools call palyra.fs.write --input "{\"path\":\"f$i\",\"content\":\"tool $i\\n\"}" >&2
done
test "$(cat f50)" = "tool 50"
palyra tools call palyra.fs.read --input '{"path":"f21"}' | grep -q 'run 21'
palyra exec --no-stdin -- sh -c 'test "$(cat f50)" = "tool 50"' >&2
printf '#!/bin/sh\ncat one\n' > made/tool; chmod +x made/tool
test "$(palyra exec --no-stdin --cwd made -- ./tool)" = one
rm made/tool
for i in $(seq 11 18); do palyra exec --no-stdin -- sh -c "echo at once > f$i" >&2 & done
wait
test "$(cat f11 f18)" = "$(printf 'at once\nat once')"
echo all done
`

// agent starts a staged agent that runs a script, answers the question about it, and returns its call and the outcome to come.
func (s *staging) agent(script string) (palyra.CallID, <-chan palyra.Outcome) {
	s.t.Helper()
	cmd := s.as("palyra", "agent", "run", "--staged", "--no-stdin", "--json", "--", "sh", "-c", script)
	var out bytes.Buffer
	cmd.Stdout = &out
	stderr, err := cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	line, _ := bufio.NewReader(stderr).ReadString('\n')
	var event struct {
		Approval palyra.ApprovalID `json:"approval_id"`
		Plan     palyra.Digest     `json:"plan_digest"`
	}
	if err := json.Unmarshal([]byte(line), &event); err != nil {
		_ = cmd.Wait()
		s.t.Fatalf("%q: %v\n%s\n%s", line, err, out.String(), s.log)
	}
	var asked struct {
		Call palyra.CallID `json:"call_id"`
	}
	if err := json.Unmarshal([]byte(s.must("approvals", "show", string(event.Approval), "--json")), &asked); err != nil || asked.Call == "" {
		s.t.Fatal(err)
	}
	s.must("approvals", "decide", string(event.Approval), "allow", "--digest", string(event.Plan))
	ended := make(chan palyra.Outcome, 1)
	go func() {
		_ = cmd.Wait()
		var o palyra.Outcome
		_ = json.Unmarshal(out.Bytes(), &o)
		ended <- o
	}()
	return asked.Call, ended
}

// staged lists what waits of an agent.
func (s *staging) staged(id palyra.CallID) (x client.CallChanges) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.must("changes", string(id), "--json")), &x); err != nil {
		s.t.Fatal(err)
	}
	return x
}

// until waits until an agent, whose stage may not be there yet, has changed so many files.
func (s *staging) until(id palyra.CallID, changed int64) {
	s.t.Helper()
	for end := time.Now().Add(waitMost); ; <-time.After(20 * time.Millisecond) {
		var x client.CallChanges
		out, err := s.as("palyra", "changes", string(id), "--json").Output()
		if err == nil && json.Unmarshal(out, &x) == nil && x.Counts.Changed == changed {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%+v, %v\n%s", x, err, s.log)
		}
	}
}

func (s *staging) has(name, want string) {
	s.t.Helper()
	if got, err := os.ReadFile(filepath.Join(s.work, name)); err != nil || string(got) != want {
		s.t.Errorf("%s: %q, %v, want %q", name, got, err, want)
	}
}

// A staged agent edits fifty files, by itself and by its calls, and nothing of it is in the workspace: neither a call of
// another session nor the person sees it. It is reviewed, kept in parts, the rest is dropped, what was kept is undone; what
// the person changed meanwhile is not lost.
func TestStagedAgent(t *testing.T) {
	t.Parallel()
	stagings(t, func(t *testing.T, s *staging) {
		s.fifty()
		before := treeOf(t, s.work)
		agent, ended := s.agent(editor)
		out := <-ended
		if out.Outcome != palyra.OutcomeFinished || out.ExitCode != 0 || out.Effects != palyra.EffectsStaged || out.Stdout != "all done\n" {
			t.Fatalf("%+v\n%s", out, s.log)
		}
		if got := treeOf(t, s.work); got != before {
			t.Fatalf("the workspace is another one:\n%s", got)
		}
		if beside := s.must("exec", "--no-stdin", "--", "cat", "f07", "f50"); beside != "old 7\nold 50\n" {
			t.Errorf("a call of another session sees %q", beside)
		}
		x := s.staged(agent)
		if x.Effects != palyra.EffectsStaged || x.Counts.Changed != 50 || x.Counts.Created != 3 || x.Counts.Removed != 1 ||
			x.Running || x.Expires.IsZero() {
			t.Fatalf("%+v", x)
		}
		if diff := s.must("changes", string(agent), "--diff=f21"); !strings.Contains(diff, "-old 21\n+run 21\n") {
			t.Errorf("the diff is %s", diff)
		}

		s.put("f05", "mine\n")
		if x := s.staged(agent); len(x.Conflicts) != 1 || x.Conflicts[0] != "f05" || x.Counts.Changed != 49 {
			t.Errorf("with an edit of the person's: %+v", x)
		}
		if told := s.fails("keep", string(agent), "f99"); !strings.Contains(told, "changed nothing at f99") {
			t.Errorf("a path that is not changed: %s", told)
		}
		if told := s.fails("keep", "01J9Z8Q2V5T6Y7W8X9A0B1C2D3"); !strings.Contains(told, "palyra changes --staged") {
			t.Errorf("an unknown agent: %s", told)
		}
		if told := s.fails("keep", string(agent), "--digest", string(x.Counts.Digest)); !strings.Contains(told, "no more what was shown") {
			t.Errorf("another list than was shown: %s", told)
		}
		told := s.must("keep", string(agent), "--digest", string(s.staged(agent).Counts.Digest), "f0*", "made/one")
		if !strings.Contains(told, "kept 9 paths") && !strings.Contains(told, "kept 10 paths") || !strings.Contains(told, "f05") {
			t.Errorf("kept: %s", told)
		}
		s.has("f07", "own 07\n")
		s.has("f05", "mine\n")
		s.has("made/one", "one\n")
		s.has("f10", "old 10\n")
		if _, err := os.Lstat(filepath.Join(s.work, "made/two")); err == nil {
			t.Error("what is beside a part is kept too")
		}
		if x := s.staged(agent); x.Counts.Changed != 41 || len(x.Conflicts) != 1 || x.Counts.Removed != 1 {
			t.Errorf("the rest is %+v", x)
		}
		if told := s.fails("keep", string(agent), "f07"); !strings.Contains(told, "kept or dropped already") {
			t.Errorf("kept twice: %s", told)
		}
		s.must("keep", string(agent), "made", "f5?")
		s.has("made/one", "one\n")
		s.has("made/two", "two\n")
		s.has("f50", "tool 50\n")
		s.must("undo", "--last")
		s.has("f50", "old 50\n")
		s.has("f07", "own 07\n")
		if told := s.must("drop", string(agent), "f05"); !strings.Contains(told, "dropped 1 path") {
			t.Errorf("dropped: %s", told)
		}
		s.must("drop", string(agent))
		s.has("f05", "mine\n")
		s.has("f10", "old 10\n")
		s.has("gone", "to be removed\n")
		if told := s.fails("changes", string(agent)); !strings.Contains(told, "nothing is staged") {
			t.Errorf("after all: %s", told)
		}
		if list := s.must("changes", "--staged", "--json"); !strings.Contains(list, `"staged":[]`) {
			t.Errorf("still listed: %s", list)
		}
		s.must("journal", "verify")
	})
}

// The stage of an agent is there after the daemon was killed, with what it had by then, and can be kept.
func TestStagedAgentOutlivesTheDaemon(t *testing.T) {
	s := &staging{daemon: newDaemon(t)}
	s.ownWork()
	s.mustStart(shipped...)
	s.as = func(_ string, args ...string) *exec.Cmd { return s.palyra(args...) }
	s.fifty()
	agent, _ := s.agent("echo half > f01; palyra exec --no-stdin -- sh -c 'echo run > f02'; echo ready > f03; sleep 600")
	s.until(agent, 3)
	if told := s.fails("keep", string(agent)); !strings.Contains(told, "still runs") {
		t.Errorf("kept while it runs: %s", told)
	}
	if told := s.fails("drop", string(agent)); !strings.Contains(told, "still runs") {
		t.Errorf("dropped while it runs: %s", told)
	}
	s.kill()
	s.mustStart(shipped...)
	if x := s.staged(agent); x.Counts.Changed != 3 || x.Running {
		t.Fatalf("after the daemon was killed: %+v", x)
	}
	s.has("f01", "old 1\n")
	s.must("keep", string(agent))
	s.has("f01", "half\n")
	s.has("f02", "run\n")
	s.verify()
}

// handful is an agent that tries to keep its own work, and leaves what is not ordinary: a name that others trust, a
// directory in the place of another, and a name that is no text.
const handful = `set -e
if palyra tools call palyra.stage.keep --input "{\"agent\":\"01J9Z8Q2V5T6Y7W8X9A0B1C2D3\"}" >&2; then exit 1; fi
echo 'export A=1' > .envrc
rm -r d; mkdir d; echo new > d/new
printf raw > "$(printf 'r\377w')"
mkdir -p deep/er; echo x > deep/er/x
echo done
`

// What is not ordinary is asked about when it is kept, and waits where nobody allows it; what was replaced as a whole is not
// divided; names are bytes. An agent cannot keep its own work, and what is cancelled waits too.
func TestStagedAgentsWorkIsJudged(t *testing.T) {
	s := &staging{daemon: newDaemon(t)}
	s.ownWork()
	s.mustStart(shipped...)
	s.as = func(_ string, args ...string) *exec.Cmd { return s.palyra(args...) }
	s.must("workspace", "add", s.work)
	if err := os.Mkdir(filepath.Join(s.work, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.put("d/old", "old\n")
	if os.Geteuid() == 0 {
		if err := os.Chown(filepath.Join(s.work, "d"), someone, someone); err != nil {
			t.Fatal(err)
		}
	}
	agent, ended := s.agent(handful)
	if out := <-ended; out.ExitCode != 0 || out.Stdout != "done\n" || !strings.Contains(out.Stderr, "an agent does not decide") {
		t.Fatalf("%+v\n%s", out, s.log)
	}
	if told := s.fails("keep", string(agent), "d/new"); !strings.Contains(told, "as a whole") {
		t.Errorf("a part of what was replaced: %s", told)
	}
	s.must("keep", string(agent), "d", "deep/er/x", "r\xffw")
	s.has("d/new", "new\n")
	s.has("deep/er/x", "x\n")
	s.has("r\xffw", "raw")
	if _, err := os.Lstat(filepath.Join(s.work, "d/old")); err == nil {
		t.Error("what was in the directory before is still there")
	}

	person := s.client(client.OperatorDoor)
	keep := func(answer palyra.Answer) string {
		t.Helper()
		cmd := s.as("palyra", "keep", string(agent))
		var told bytes.Buffer
		cmd.Stdout, cmd.Stderr = &told, &told
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		a := s.pending(person)
		if a.Plan.Effects == nil || a.Plan.Effects.Created != 1 {
			t.Errorf("it asks about %+v", a.Plan.Effects)
		}
		r := client.DecideRequest{ID: a.ID, Answer: answer, Digest: a.PlanDigest}
		if answer == palyra.AnswerAllow {
			r = allow(a, palyra.ScopeOnce, 0)
		}
		if _, err := person.Decide(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		return told.String()
	}
	told := keep(palyra.AnswerDeny)
	if x := s.staged(agent); len(x.Changes) != 1 || x.Changes[0].Path != ".envrc" {
		t.Errorf("after a no: %+v\n%s", x.Changes, told)
	}
	if _, err := os.Lstat(filepath.Join(s.work, ".envrc")); err == nil {
		t.Error("it is kept against the answer")
	}
	s.put("other", "") // or it is the very thing that was denied
	told = keep(palyra.AnswerAllow)
	s.has(".envrc", "export A=1\n")
	if left := s.must("changes", "--staged", "--json"); !strings.Contains(left, `"staged":[]`) {
		t.Errorf("after a yes: %s\n%s", left, told)
	}

	agent, ended = s.agent("echo begun > d/new; sleep 600")
	s.until(agent, 1)
	s.must("calls", "cancel", string(agent))
	if out := <-ended; out.Effects != palyra.EffectsStaged {
		t.Errorf("cancelled: %+v", out)
	}
	s.must("keep", string(agent))
	s.has("d/new", "begun\n")
	s.verify()
}

// Where nothing can be staged, an agent whose work is to be staged is refused with the reason: it never writes directly.
func TestStagedAgentIsRefusedWhereNothingCanBeStaged(t *testing.T) {
	s := &staging{daemon: newDaemon(t)}
	s.ownWork()
	s.mustStart(shipped...)
	s.as = func(_ string, args ...string) *exec.Cmd { return s.palyra(args...) }
	s.must("workspace", "add", s.work)
	s.put("f", "old\n")
	told := s.fails("agent", "run", "--staged", "--reach", "*", "--no-stdin", "--no-wait", "--", "true")
	if !strings.Contains(told, "one workspace") {
		t.Errorf("with other workspaces: %s", told)
	}
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: files of others are made by root only")
	}
	if err := os.Chown(filepath.Join(s.work, "f"), someone+1, someone+1); err != nil {
		t.Fatal(err)
	}
	told = s.fails("agent", "run", "--staged", "--no-stdin", "--no-wait", "--", "true")
	if !strings.Contains(told, "cannot be staged: files of another owner or group are in it") || !strings.Contains(told, "without --staged") {
		t.Errorf("it says %s", told)
	}
}

// A staged agent starts nothing in the background, which would write to the workspace directly: by the command, by the
// tool and in whatever tier it is refused, unasked, with the reason and what to do.
func TestStagedAgentStartsNothingInTheBackground(t *testing.T) {
	s := &staging{daemon: newDaemon(t)}
	s.ownWork()
	s.mustStart(shipped...)
	s.as = func(_ string, args ...string) *exec.Cmd { return s.palyra(args...) }
	s.must("workspace", "add", s.work)
	before := treeOf(t, s.work)
	ways := []string{
		"exec --no-stdin --no-wait --background -- sh -c 'echo > ran'",
		"exec --no-stdin --no-wait --background --tier b -- sh -c 'echo > ran'",
		fmt.Sprintf("exec --no-stdin --no-wait --background --publish %d:80 -- sh -c 'echo > ran'", aPort(t)),
		`tools call palyra.process.start --no-wait --input '{"command":"touch","args":["ran"]}'`,
	}
	for _, way := range ways {
		agent, ended := s.agent("palyra " + way + " >told 2>&1; echo \"ended with $?\"; cat told; rm told; test ! -e ran")
		out := <-ended
		if out.Outcome != palyra.OutcomeFinished || out.ExitCode != 0 || !strings.Contains(out.Stdout, "ended with 126") ||
			!strings.Contains(out.Stdout, "a staged agent starts no background processes") || !strings.Contains(out.Stdout, "without --staged") {
			t.Errorf("%s: %+v", way, out)
		}
		if out.Effects == palyra.EffectsStaged {
			s.must("drop", string(agent))
		}
	}
	if got := treeOf(t, s.work); got != before {
		t.Errorf("the workspace is another one:\n%s", got)
	}
	s.verify()
}

// What an agent wrote on its stage that git obeys runs with no network that somebody allowed for 'git push': neither a hook,
// nor a setting; offline it runs. Without them it is asked about.
func TestStagedAgentPlantsNothingForARunThatReachesOut(t *testing.T) {
	s := &staging{daemon: newDaemon(t)}
	s.ownWork()
	s.mustStart(shipped...)
	s.as = func(_ string, args ...string) *exec.Cmd { return s.palyra(args...) }
	s.must("workspace", "add", s.work)
	s.put(".git/config", "[core]\n\trepositoryformatversion = 0\n")
	s.put(".git/HEAD", "ref: refs/heads/main\n")
	const push = "palyra exec --no-stdin --no-wait --egress git.example:443 -- git ls-remote https://git.example/x"
	agent, ended := s.agent(`cp .git/config before
` + push + ` 2>asked; cat asked
mkdir .git/hooks; printf '#!/bin/sh\n' > .git/hooks/pre-push
` + push + ` 2>hook; cat hook; rm -r .git/hooks
echo "[alias]" >> .git/config
` + push + ` 2>config; cat config
palyra exec --no-stdin -- git --version
cat before > .git/config
` + push + ` 2>again; cat again`)
	out := <-ended
	for _, name := range []string{".git/hooks, .git/hooks/pre-push", ".git/config"} {
		if !strings.Contains(out.Stdout, "settings that the agent wrote on its stage, and reaches beyond that: "+name) {
			t.Errorf("with %s: %s", name, out.Stdout)
		}
	}
	if n := strings.Count(out.Stdout, "settings that the agent wrote"); n != 2 || !strings.Contains(out.Stdout, "git version") {
		t.Errorf("%d refused: %s\n%s", n, out.Stdout, out.Stderr)
	}
	s.must("drop", string(agent))
}
