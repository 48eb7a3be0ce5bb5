//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// script is a run in which one call is allowed, one asks and one is refused.
const script = `
title: e2e
turns:
  - say: looking
    calls:
      - {tool: palyra.fs.list, with: {path: .}, expect: finished}
      - {tool: palyra.echo, with: {text: hello}, expect: finished}
  - say: running
    calls:
      - {tool: palyra.process.run, with: {command: /bin/sh, args: [-c, "echo x >> started; for i in 1 2 3 4 5; do echo line $i; done"]}, expect: finished}
  - say: overreaching
    calls:
      - {tool: palyra.fs.read, with: {path: ../../etc/shadow}, expect: refused}
  - say: done
`

func (d *daemon) startRun(text string) palyra.Run {
	d.t.Helper()
	if _, err := d.client(client.OperatorDoor).AddWorkspace(d.t.Context(), d.work, ""); err != nil &&
		palyra.AsError(err).Reason != palyra.ReasonExists {
		d.t.Fatal(err)
	}
	r, err := d.client(client.AgentDoor).StartRun(d.t.Context(), client.RunRequest{
		Provider: "scripted", Input: text, Workspace: d.work,
		Surface: palyra.SurfaceCLI,
	})
	if err != nil {
		d.t.Fatalf("%v\n%s", err, d.log)
	}
	return r
}

// attach reads a tape to its end.
func attach(ctx context.Context, c *client.Client, id palyra.RunID, after int64) ([]palyra.TapeEntry, error) {
	var tape []palyra.TapeEntry
	err := c.AttachRun(ctx, id, after, func(e palyra.TapeEntry) error {
		tape = append(tape, e)
		return nil
	})
	return tape, err
}

func kinds(tape []palyra.TapeEntry) string {
	var all []string
	for _, e := range tape {
		switch {
		case e.RunAccepted != nil:
			all = append(all, "accepted")
		case e.ModelText != nil:
			all = append(all, "text")
		case e.ToolProposed != nil:
			all = append(all, "proposed")
		case e.ToolJudged != nil:
			all = append(all, "judged:"+e.ToolJudged.Effect.String())
		case e.ApprovalRequested != nil:
			all = append(all, "requested")
		case e.ApprovalResolved != nil:
			all = append(all, "resolved:"+string(e.ApprovalResolved.Answer))
		case e.ToolGranted != nil:
			all = append(all, "granted")
		case e.ToolOutput != nil:
			all = append(all, "output")
		case e.ToolAttested != nil:
			all = append(all, "attested")
		case e.ToolFinished != nil:
			all = append(all, "finished:"+string(e.ToolFinished.Outcome))
		case e.RunFinished != nil:
			all = append(all, "run:"+string(e.RunFinished.State))
		default:
			all = append(all, "?")
		}
	}
	return strings.Join(all, " ")
}

// Two clients follow a run from its start, one dawdles, a third comes and goes
// at every entry: all read the same tape.
func TestRunIsFollowedByMany(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	person := d.client(client.OperatorDoor)
	r := d.startRun(script)
	tapes := make([][]palyra.TapeEntry, 3)
	var wg sync.WaitGroup
	for i := range tapes {
		wg.Go(func() {
			after := int64(0)
			for {
				err := d.client(client.AgentDoor).AttachRun(t.Context(), r.ID, after, func(e palyra.TapeEntry) error {
					tapes[i] = append(tapes[i], e)
					after = e.Seq
					switch i {
					case 1: // slow
						<-time.After(20 * time.Millisecond)
					case 2: // leaves after every entry and comes back
						if e.RunFinished == nil {
							return os.ErrClosed
						}
					}
					return nil
				})
				if !errors.Is(err, os.ErrClosed) {
					if err != nil {
						t.Error(i, err)
					}
					return
				}
			}
		})
	}
	if _, err := person.Decide(t.Context(), allow(d.pending(person), palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	first := kinds(tapes[0])
	for i, tape := range tapes {
		if kinds(tape) != first {
			t.Errorf("client %d read %s\nthe first   %s", i, kinds(tape), first)
		}
		for n, e := range tape {
			if e.Seq != int64(n+1) || e.Run != r.ID {
				t.Fatalf("client %d: entry %d has sequence %d", i, n, e.Seq)
			}
		}
	}
	for _, want := range []string{
		"accepted text", "requested resolved:allow", "granted", "output", "attested finished:finished", "finished:refused", "run:done",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("the tape has no %q: %s", want, first)
		}
	}
	var printed strings.Builder
	for _, e := range tapes[0] {
		if e.ToolOutput != nil {
			printed.Write(e.ToolOutput.Data)
		}
	}
	if printed.String() != "line 1\nline 2\nline 3\nline 4\nline 5\n" {
		t.Errorf("the tape's output: %q", printed.String())
	}
	for after := range int64(len(tapes[0])) { // every suffix can be read again
		tail, err := attach(t.Context(), person, r.ID, after)
		if err != nil || kinds(tail) != kinds(tapes[0][after:]) {
			t.Fatalf("from %d: %s, %v", after, kinds(tail), err)
		}
	}
	d.verify()
}

// A run whose question is open when the daemon dies goes on after the restart;
// nothing is done twice.
func TestARunSurvivesItsDaemon(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart()
	r := d.startRun(script)
	a := d.pending(d.client(client.OperatorDoor))
	before, _ := d.client(client.OperatorDoor).GetRun(t.Context(), r.ID)
	d.kill()
	d.mustStart()
	ctx, cancel := context.WithTimeout(t.Context(), waitMost)
	defer cancel()
	if _, err := d.client(client.OperatorDoor).Decide(ctx, allow(a, palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	tape, err := attach(ctx, d.client(client.OperatorDoor), r.ID, 0)
	if err != nil {
		t.Fatalf("%v\n%s", err, d.log)
	}
	if !strings.HasSuffix(kinds(tape), "run:done") || int64(len(tape)) <= before.LastSeq {
		t.Errorf("the tape: %s", kinds(tape))
	}
	if n := strings.Count(kinds(tape), "text"); n != 4 {
		t.Errorf("%d texts on the tape of 4 turns: %s", n, kinds(tape))
	}
	if b, err := os.ReadFile(filepath.Join(d.work, "started")); err != nil || string(b) != "x\n" {
		t.Errorf("it ran %q, %v", b, err)
	}
	d.verify()
}

// Cancelling a run ends what it runs.
func TestCancelRun(t *testing.T) {
	d := newDaemon(t)
	d.ownWork()
	d.mustStart("PALYRA_PROCESS_GRACE_MS=100")
	person := d.client(client.OperatorDoor)
	marker := lasting()
	r := d.startRun(fmt.Sprintf(
		"turns: [{say: go, calls: [{tool: palyra.process.run, with: {command: /bin/sh, args: [-c, %q], live: true}}]}]", tree(marker)))
	if _, err := person.Decide(t.Context(), allow(d.pending(person), palyra.ScopeOnce, 0)); err != nil {
		t.Fatal(err)
	}
	d.started("started", 2)
	if err := person.CancelRun(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	gone(t, marker)
	ctx, cancel := context.WithTimeout(t.Context(), waitMost)
	defer cancel()
	tape, err := attach(ctx, person, r.ID, 0)
	if err != nil || !strings.HasSuffix(kinds(tape), "finished:cancelled run:cancelled") {
		t.Errorf("%s, %v", kinds(tape), err)
	}
	d.verify()
}

// A run makes no more calls than its budget.
func TestRunBudget(t *testing.T) {
	d := newDaemon(t)
	d.mustStart("PALYRA_TOOL_CALL_MAX_CALLS_PER_RUN=3")
	var turns []string
	for range 6 {
		turns = append(turns, "{say: x, calls: [{tool: palyra.echo, with: {text: a}}]}")
	}
	r := d.startRun("turns: [" + strings.Join(turns, ", ") + "]")
	tape, err := attach(t.Context(), d.client(client.AgentDoor), r.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	finished := strings.Count(kinds(tape), "finished:finished")
	spent := slices.ContainsFunc(tape, func(e palyra.TapeEntry) bool {
		return e.ToolFinished != nil && e.ToolFinished.ReasonCode == palyra.ReasonBudgetSpent
	})
	last := tape[len(tape)-1].RunFinished
	if finished != 3 || !spent || last == nil || last.State != palyra.RunFailed || last.ReasonCode != palyra.ReasonBudgetSpent {
		t.Errorf("%d finished, refused for it %v: %s, %+v", finished, spent, kinds(tape), last)
	}
}
