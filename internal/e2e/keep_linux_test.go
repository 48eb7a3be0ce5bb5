package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
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
		if a, err := d.decideNext(t.Context(), palyra.AnswerAllow); err != nil || a.Plan.Effects != nil {
			t.Fatalf("%+v, %v", a.Plan.Effects, err)
		}
		a := d.pending(d.client(client.OperatorDoor))
		if a.Plan.Effects == nil || a.Plan.Effects.Removed != 25 ||
			!strings.Contains(strings.Join(a.Prompt.Notes, "\n"), "removes or empties 25 files") {
			t.Fatalf("it asks %+v, %q", a.Plan.Effects, a.Prompt.Notes)
		}
		if n := d.old(); n != 25 {
			t.Fatalf("%d files are there while the question is open", n)
		}
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
	d.verify()
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
