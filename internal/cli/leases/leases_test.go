package leases

import (
	"io"
	"testing"
	"time"

	"palyra"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/invocationtest"
	"palyra/internal/cli/question"
	"palyra/internal/cli/questiontest"
)

func sampleLease() leaseJSON {
	return leaseJSON{LeaseID: questiontest.SampleID, Lease: palyra.Lease{
		ID: questiontest.SampleID, Approval: questiontest.SampleID, Scope: palyra.ScopeTimeboxed, By: "user:ann",
		CreatedAt: questiontest.SampleNow, ExpiresAt: questiontest.SampleNow.Add(30 * time.Minute), UsesLeft: -1,
		Terms: palyra.Terms{Principal: "agent:local", Tool: "palyra.fs.write", Workspace: "/home/ann/shop", PathRoot: "src"},
	}}
}

func TestShapes(t *testing.T) {
	print := func(inv *invocation.Invocation) error { return printLease(inv, sampleLease()) }
	questiontest.Golden(t, "grant.json", invocationtest.Shown(t, true, print))
	questiontest.Golden(t, "grant.txt", invocationtest.Shown(t, false, print))
}

// Whatever the daemon puts into a lease: what reaches the terminal is text.
func TestLeasesAreShownSafely(t *testing.T) {
	invocationtest.CheckSafe(t, map[string]invocationtest.Printer{
		"lease": func(inv *invocation.Invocation, _ io.Writer) error {
			return printLease(inv, questiontest.Poisoned[leaseJSON]())
		},
	})
}

func TestCovers(t *testing.T) {
	for want, terms := range map[string]palyra.Terms{
		"palyra.fs.write, exactly one plan":        {Tool: "palyra.fs.write", PlanDigest: questiontest.SampleDigest},
		"palyra.fs.write, writes under src, in /w": {Tool: "palyra.fs.write", PathRoot: "src", Workspace: "/w"},
		"edits of files under src, in /w": {
			Tool:  "palyra.fs.write",
			Tools: []palyra.ToolName{"palyra.fs.edit", "palyra.fs.write"}, PathRoot: "src", Workspace: "/w",
		},
		"palyra.process.run /usr/bin/git, exactly one plan": {
			Tool: "palyra.process.run", Program: "/usr/bin/git",
			PlanDigest: questiontest.SampleDigest,
		},
	} {
		if got := question.Covers(terms); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestLeaseState(t *testing.T) {
	inv := &invocation.Invocation{Now: func() time.Time { return questiontest.SampleNow }}
	for want, l := range map[string]palyra.Lease{
		"live":      {},
		"live 2m0s": {ExpiresAt: questiontest.SampleNow.Add(2 * time.Minute)},
		"live now":  {ExpiresAt: questiontest.SampleNow},
		"revoked":   {Ended: "revoked", ExpiresAt: questiontest.SampleNow.Add(time.Hour)},
	} {
		if got := leaseState(inv, l); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if uses(-1) != "no count" || uses(0) != "0" {
		t.Error("uses")
	}
}
