package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// loops swaps a script for another one as fast as it can, until somebody says that it is enough.
const loops = `
import os
print("ready", flush=True)
n = 0
while not os.path.exists("enough"):
    for text in ("EVIL", "good"):
        with open("loop.new", "w") as f:
            f.write("#!/bin/sh\necho %s\n" % text)
        os.rename("loop.new", "s.sh")
        n += 1
`

// TestTheApprovedScriptIsTheOneThatRuns: a person allows a script by its content, while runs beside it swap the file in
// a loop: one that writes to the workspace directly, and staged ones, one after the other, whose changes are kept. What
// runs is what was allowed, or nothing: 100 tries, or 1,000 with PALYRA_FAULTS=full.
func TestTheApprovedScriptIsTheOneThatRuns(t *testing.T) {
	t.Parallel()
	const tries = 100
	rounds := 1
	if os.Getenv("PALYRA_FAULTS") == "full" {
		rounds = 10
	}
	d := newDaemon(t)
	d.ownWork()
	d.put("evil", swappedFiles()[0].Evil)
	d.mustStart(shipped...)
	d.inWorkspace()
	ran, refused, kept := 0, 0, 0
	for range rounds {
		stop := d.swapsInALoop()
		n, no := d.allowsByContent(t, tries/2)
		stop()
		stopStaged := d.swapsOnStages(t)
		more, noMore := d.allowsByContent(t, tries/2)
		ran, refused, kept = ran+n+more, refused+no+noMore, kept+stopStaged()
	}
	t.Logf("%d ran as allowed, %d were refused; %d staged runs swapped it", ran, refused, kept)
	if ran+refused < rounds*tries || ran == 0 || kept == 0 {
		t.Error("nothing is shown")
	}
	d.verify()
}

// swapsInALoop has a run swap the script directly until stop is called.
func (d *daemon) swapsInALoop() (stop func()) {
	f := swappedFiles()[0]
	d.put(f.File, f.Good)
	_ = os.Remove(filepath.Join(d.work, "enough"))
	swaps := processRun(d.work, map[string]any{"script": "#!/usr/bin/env python3\n" + loops, "tier": "c", "live": true})
	live := d.fedLive(d.client(client.AgentDoor), swaps, palyra.ScopeOnce)
	return func() {
		d.put("enough", "")
		<-live.end
	}
}

// swapsOnStages has staged runs, one after the other, swap the script until stop is called, which says how many did.
func (d *daemon) swapsOnStages(t *testing.T) (stop func() int) {
	f := swappedFiles()[0]
	d.put("fine", f.Good)
	agent := d.client(client.AgentDoor)
	ctx, cancel := context.WithCancel(t.Context())
	staged := make(chan int)
	go func() {
		kept := 0
		for ctx.Err() == nil {
			for _, from := range []string{"evil", "fine"} {
				out, err := agent.Call(ctx, d.inRoom(nil, "sh", "-c", "cp "+from+" n && mv n s.sh"), nil)
				if err == nil && out.Effects == palyra.EffectsKept {
					kept++
				}
			}
		}
		staged <- kept
	}()
	return func() int {
		cancel()
		return <-staged
	}
}

// allowsByContent has the script run by a person's yes, given to its good content only.
func (d *daemon) allowsByContent(t *testing.T, tries int) (ran, refused int) {
	f := swappedFiles()[0]
	good := palyra.SumBytes([]byte(f.Good))
	run := d.inRoom(map[string]any{"egress": []string{"example.org:443"}}, "sh", f.File)
	agent, person := d.client(client.AgentDoor), d.client(client.OperatorDoor)
	for end := time.Now().Add(waitMost + time.Duration(tries)*time.Second); ran+refused < tries && time.Now().Before(end); {
		allowed := false
		out, err := agent.Call(t.Context(), run, func(e client.CallEvent) {
			if e.ApprovalRequested == nil {
				return
			}
			a, err := person.Approval(t.Context(), e.ApprovalRequested.ApprovalID)
			if err != nil {
				t.Error(err)
				return
			}
			said := client.DecideRequest{ID: a.ID, Digest: a.PlanDigest, Answer: palyra.AnswerDeny}
			allowed = slices.ContainsFunc(a.Plan.Inputs, func(i palyra.Input) bool { return i.Path == f.File && i.Digest == good })
			if allowed {
				said = allow(a, palyra.ScopeOnce, 0)
			}
			if _, err = person.Decide(t.Context(), said); err != nil {
				t.Error(err)
			}
		})
		switch {
		case err != nil:
			t.Fatal(err)
		case strings.TrimSpace(out.Stdout) == "good" && allowed:
			ran++
		case out.Stdout == "" && allowed && out.ReasonCode == palyra.ReasonPlanChanged:
			refused++
		case out.Stdout != "" || allowed:
			t.Errorf("allowed %v: %s %s %s: %q %s", allowed, out.Outcome, out.ReasonCode, out.Reason, out.Stdout, out.Stderr)
		}
	}
	return ran, refused
}
