package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/policy"
)

// shipped is the policy that people start with.
var shipped = append(slices.Clone(unlimited), "PALYRA_POLICY_PRESET=default")

// many makes more files than a run may remove unasked.
func (d *daemon) many() {
	d.t.Helper()
	for i := range 25 {
		d.put(fmt.Sprintf("old/%02d", i), "old")
	}
}

func (d *daemon) old() int {
	d.t.Helper()
	names, err := os.ReadDir(filepath.Join(d.work, "old"))
	if err != nil && !os.IsNotExist(err) {
		d.t.Fatal(err)
	}
	return len(names)
}

// What a run did is asked about before any of it is kept, where it is more than ordinary work. A no drops it, a yes
// keeps it, and a daemon that is killed meanwhile changes neither: the question, the stage and the output are there
// at the next start.
func TestChangesAreAskedAbout(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(shipped...)
	d.inWorkspace()
	d.many()
	removes := d.inRoom(nil, "sh", "-c", "rm old/*; echo gone")
	held := func() (palyra.Approval, <-chan answer) {
		t.Helper()
		ch := propose(t.Context(), d.client(client.AgentDoor), removes)
		a := d.pending(d.client(client.OperatorDoor))
		if a.Plan.Effects == nil || a.Plan.Effects.Removed != 25 ||
			!strings.Contains(strings.Join(a.Prompt.Notes, "\n"), "removes or empties 25 files") {
			t.Fatalf("it asks %+v, %q", a.Plan.Effects, a.Prompt.Notes)
		}
		if n := d.old(); n != 25 {
			t.Fatalf("%d files are there while the question is open", n)
		}
		d.shownWhileHeld(a.Call)
		return a, ch
	}

	a, ch := held()
	person := d.client(client.OperatorDoor)
	if _, err := person.Decide(t.Context(), client.DecideRequest{ID: a.ID, Answer: palyra.AnswerDeny, Digest: a.PlanDigest}); err != nil {
		t.Fatal(err)
	}
	out := (<-ch).out
	if out.Effects != palyra.EffectsDropped || out.ReasonCode != palyra.ReasonEffectsDropped ||
		out.ExitCode != palyra.ExitRefused || out.Stdout != "gone\n" || d.old() != 25 {
		t.Fatalf("denied: %+v, %d files", out, d.old())
	}

	d.put("new", "") // or it is the very thing that was denied
	removes = d.inRoom(nil, "sh", "-c", "rm old/*; echo gone again")
	a, _ = held()
	d.kill()
	d.mustStart(shipped...)
	if n := d.old(); n != 25 {
		t.Fatalf("%d files are there after the daemon was killed", n)
	}
	d.shownWhileHeld(a.Call)
	person = d.client(client.OperatorDoor)
	if _, err := person.Decide(t.Context(), allow(a, palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	out, err := d.client(client.AgentDoor).WatchCall(t.Context(), a.Call, nil)
	if err != nil || out.Effects != palyra.EffectsKept || out.Stdout != "gone again\n" || out.ExitCode != 0 || d.old() != 0 {
		t.Fatalf("allowed: %+v, %v, %d files", out, err, d.old())
	}
	if p := predicate(t, out); p.Effects != palyra.EffectsKept || p.Changes == nil || p.Changes.Removed != 25 {
		t.Errorf("attested is %s, %+v", p.Effects, p.Changes)
	}
	d.settledInOrder(a.Call)
	why, err := d.palyra("policy", "why", string(a.Call)).CombinedOutput()
	if err != nil || !strings.Contains(string(why), "(25 paths) was judged as effects.keep: ") ||
		!strings.Contains(string(why), "policy saw of it: removed 25; removed_files 25\n") {
		t.Errorf("why says %v:\n%s", err, why)
	}
	d.noWords()
	d.verify()
}

// shownWhileHeld looks at the content that an open question is about, whole and of one file.
func (d *daemon) shownWhileHeld(call palyra.CallID) {
	d.t.Helper()
	for path, files := range map[palyra.PathText]int{"": 25, "old": 25, "old/07": 1} {
		got, err := d.client(client.OperatorDoor).ChangesDiff(d.t.Context(), call, path)
		if err != nil || strings.Count(got.Diff, "\n+++ /dev/null\n") != files || !strings.Contains(got.Diff, "--- a/old/07\n") {
			d.t.Errorf("the diff of %q while the question is open: %v\n%+v", path, err, got)
		}
	}
}

// settledInOrder looks at the lines of a call whose changes were asked about.
func (d *daemon) settledInOrder(call palyra.CallID) {
	d.t.Helper()
	var kinds []string
	for _, e := range d.entries() {
		if e.Call == call {
			kinds = append(kinds, e.Kind)
		}
	}
	want := "call.granted call.settling call.settling approval.requested approval.decided call.settling call.finished"
	if got := strings.Join(kinds, " "); !strings.HasSuffix(got, want) {
		d.t.Errorf("the lines are %s", got)
	}
}

// A run that its caller wants to write to the workspace directly is asked about, also where it would run unasked on a
// stage: the wish is no way around the judgement of what it does.
func TestWritingDirectlyIsAskedAbout(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(shipped...)
	d.inWorkspace()
	d.put("Makefile", "all:\n\techo made > made\n")
	agent := d.client(client.AgentDoor)
	ch := propose(t.Context(), agent, d.inRoom(map[string]any{"live": true}, "make"))
	a := d.pending(d.client(client.OperatorDoor))
	if !a.Plan.Staging.LiveAsked() || !strings.Contains(strings.Join(a.Prompt.Notes, "\n"), "directly") {
		t.Errorf("%+v, %q", a.Plan.Staging, a.Prompt.Notes)
	}
	if _, err := d.decideNext(t.Context(), palyra.AnswerDeny); err != nil {
		t.Fatal(err)
	}
	if out := (<-ch).out; out.ExitCode != palyra.ExitRefused {
		t.Errorf("%+v", out)
	}
	if _, err := os.Stat(filepath.Join(d.work, "made")); !os.IsNotExist(err) {
		t.Errorf("it ran: %v", err)
	}
	out := (<-propose(t.Context(), agent, d.inRoom(nil, "make"))).out
	if out.Effects != palyra.EffectsKept || out.ExitCode != 0 {
		t.Errorf("on a stage: %+v", out)
	}
}

// A call that only looks may leave something all the same, as git does that refreshes its index. Nobody is asked about
// that and nothing of it is kept, under whichever policies; the agent is told nothing but what it wanted to see.
func TestLooksLeaveNothing(t *testing.T) {
	d := newDaemon(t)
	d.put("a.txt", "a")
	git := exec.Command("sh", "-c", "git init -q . && git add a.txt && git -c user.name=a -c user.email=a@example.invalid commit -qm a")
	git.Dir, git.Env = d.work, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
	if said, err := git.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	d.handOver()
	d.mustStart(shipped...)
	d.inWorkspace()
	index := filepath.Join(d.work, ".git/index")
	before, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	for i, preset := range policy.Presets() {
		files, err := policy.Preset(preset)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.client(client.OperatorDoor).ApplyPolicy(t.Context(), files, true); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-time.Duration(i+1) * time.Hour) // git finds the file as it was, and notes the time
		if err := os.Chtimes(filepath.Join(d.work, "a.txt"), then, then); err != nil {
			t.Fatal(err)
		}
		out, questions := d.agreed(d.program("/usr/bin/git", "status", "--short"))
		if out.Outcome != palyra.OutcomeFinished || out.ExitCode != 0 || out.ReasonCode != "" || out.Stdout != "" {
			t.Errorf("%s: %+v", preset, out)
		}
		if out.Effects != palyra.EffectsDropped || out.Changes == nil || out.Changes.Changed == 0 {
			t.Errorf("%s: effects are %s, %+v", preset, out.Effects, out.Changes)
		}
		if now, err := os.ReadFile(index); err != nil || !bytes.Equal(now, before) {
			t.Errorf("%s: the index is another, %v", preset, err)
		}
		if want := map[string]int{"strict": 1}[preset]; questions != want {
			t.Errorf("%s: %d questions", preset, questions)
		}
	}
	d.verify()
}

// agreed makes a call of an agent whose questions are all answered with yes, and counts them.
func (d *daemon) agreed(r client.CallRequest) (out palyra.Outcome, questions int) {
	d.t.Helper()
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	out, err := agent.Call(d.t.Context(), r, func(e client.CallEvent) {
		if e.ApprovalRequested == nil {
			return
		}
		questions++
		a, err := person.Approval(d.t.Context(), e.ApprovalRequested.ApprovalID)
		if err == nil {
			_, err = person.Decide(d.t.Context(), allow(a, palyra.ScopeOnce, 0))
		}
		if err != nil {
			d.t.Error(err)
		}
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return out, questions
}

// Changes that wait for an answer outlive the tier that made them: a daemon that finds no bubblewrap any more lists the
// question, takes the answer, and keeps or drops them.
func TestHeldChangesOutliveTheTier(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(shipped...)
	d.inWorkspace()
	for _, c := range []struct {
		answer palyra.Answer
		ends   palyra.Settlement
		files  int
	}{{palyra.AnswerDeny, palyra.EffectsDropped, 25}, {palyra.AnswerAllow, palyra.EffectsKept, 0}} {
		d.many()
		propose(t.Context(), d.client(client.AgentDoor), d.inRoom(nil, "sh", "-c", "rm old/*; echo "+string(c.answer)))
		asked := d.pending(d.client(client.OperatorDoor))
		d.kill()
		d.mustStart(append(slices.Clone(shipped), "PALYRA_PROCESS_BWRAP="+filepath.Join(t.TempDir(), "bwrap"))...)
		out := (<-propose(t.Context(), d.client(client.AgentDoor), d.inRoom(nil, "true"))).out
		if out.ReasonCode != palyra.ReasonTierUnavailable && out.ReasonCode != palyra.ReasonUnsupported {
			t.Fatalf("programs run: %+v", out)
		}
		person := d.client(client.OperatorDoor)
		a := d.pending(person)
		if a.ID != asked.ID || a.Plan.Effects == nil {
			t.Fatalf("%+v waits", a)
		}
		if _, err := person.Decide(t.Context(), client.DecideRequest{ID: a.ID, Answer: c.answer, Digest: a.PlanDigest}); err != nil {
			t.Fatal(err)
		}
		out, err := d.client(client.AgentDoor).WatchCall(t.Context(), a.Call, nil)
		if err != nil || out.Effects != c.ends || d.old() != c.files {
			t.Errorf("%s: %+v, %v, %d files", c.answer, out, err, d.old())
		}
		d.kill()
		d.mustStart(shipped...)
	}
	d.verify()
}

// An agent whose changes wait for answers has a share of what all runs may have: what more of its runs changed is dropped
// by the name of the limit, and another agent's runs are kept and asked about as ever, also by the next daemon.
func TestHeldChangesOfOneAgentStarveNobody(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	small := append(slices.Clone(shipped), "PALYRA_PROCESS_ALL_STAGES_BYTES=8388608")
	d.mustStart(small...)
	d.inWorkspace()
	d.many()
	greedy, other := d.agentCalled("greedy"), d.agentCalled("other")
	asks := func(c *client.Client, bytes int) <-chan answer {
		return propose(t.Context(), c, d.inRoom(nil, "sh", "-c", fmt.Sprintf("rm old/*; head -c %d /dev/urandom > big%d", bytes, bytes)))
	}
	asks(greedy, 1_500_000)
	first := d.pending(d.client(client.OperatorDoor))
	for range 2 {
		out := (<-asks(greedy, 1_600_000)).out
		if out.Effects != palyra.EffectsLost || !strings.Contains(out.Reason, "all_stages_bytes") || d.old() != 25 {
			t.Fatalf("more of one agent's is held: %+v", out)
		}
		out = (<-propose(t.Context(), other, d.inRoom(nil, "sh", "-c", "date > ordinary"))).out
		if out.Effects != palyra.EffectsKept {
			t.Errorf("another agent's work: %+v", out)
		}
		d.kill()
		d.mustStart(small...)
	}
	asks(other, 1_500_000)
	person := d.client(client.OperatorDoor)
	ctx, cancel := context.WithTimeout(t.Context(), waitMost)
	defer cancel()
	err := person.WatchApprovals(ctx, func(a palyra.Approval) error {
		if a.Pending() && a.ID != first.ID {
			return os.ErrExist
		}
		return nil
	})
	if !errors.Is(err, os.ErrExist) {
		t.Errorf("another agent's changes are not asked about: %v", err)
	}
	if _, err := person.Decide(t.Context(), allow(first, palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	if out, err := greedy.WatchCall(t.Context(), first.Call, nil); err != nil || out.Effects != palyra.EffectsKept {
		t.Errorf("%+v, %v", out, err)
	}
}
