package execute

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/questiontest"
)

func TestApprovalEvent(t *testing.T) {
	var errs bytes.Buffer
	w := &Asker{inv: &invocation.Invocation{Stderr: &errs, Now: func() time.Time { return questiontest.SampleNow }, JSON: true}}
	r := client.ApprovalRequested{
		ApprovalID: questiontest.SampleID, PlanDigest: questiontest.SampleDigest,
		ExpiresAt: questiontest.SampleNow, Summary: "write",
	}
	w.requested(t.Context(), r)
	want := `{"event":"approval_requested","approval_id":"` + string(questiontest.SampleID) + `","plan_digest":"` +
		string(questiontest.SampleDigest) + `","expires_at":"2026-11-15T12:00:00Z","summary":"write"}` + "\n"
	if errs.String() != want {
		t.Errorf("got  %s\nwant %s", errs.String(), want)
	}
	errs.Reset()
	w.inv.JSON = false
	w.requested(t.Context(), r)
	if got := errs.String(); !strings.Contains(got, string(questiontest.SampleID)) || strings.Contains(got, "approvals decide") {
		t.Errorf("whoever reads this may be an agent:\n%s", got)
	}
}

// What a program prints waits while a question is on the screen.
func TestOutputWaitsForTheQuestion(t *testing.T) {
	var w Asker
	w.unasked() // without one it does not
	ctx, answered := context.WithCancel(t.Context())
	w.silent = make(chan struct{})
	printed := make(chan bool)
	go func() {
		w.unasked()
		printed <- ctx.Err() != nil
	}()
	answered()
	close(w.silent)
	if !<-printed {
		t.Error("printed before the answer")
	}
}

// What is safe on a terminal is said while a call waits and when it ends.
func TestEveryWordOfACallIsSafe(t *testing.T) {
	var errs bytes.Buffer
	w := &Asker{inv: &invocation.Invocation{Stderr: &errs, Stdout: &errs, Now: func() time.Time { return questiontest.SampleNow }}}
	w.news(t.Context(), client.CallEvent{Accepted: &client.CallAccepted{CallID: questiontest.Hostile}}, func(client.CallEvent) {})
	w.cancelling(questiontest.Hostile)
	r, s := questiontest.Poisoned[client.ApprovalRequested](), questiontest.Poisoned[client.ApprovalResolved]()
	w.news(t.Context(), client.CallEvent{ApprovalRequested: &r}, func(client.CallEvent) {})
	w.news(t.Context(), client.CallEvent{ApprovalResolved: &s}, func(client.CallEvent) {})
	o := questiontest.Poisoned[palyra.Outcome]()
	o.Outcome = palyra.OutcomeRefused
	printEnding(w.inv, o)
	o = palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: questiontest.Hostile}
	printEnding(w.inv, o)
	questiontest.CheckSafe(t, "waiting", errs.String())
}

// Another machine has no uid here, and the command that shows more reaches the
// daemon that asks.
func TestAnApprovalFromAnotherMachine(t *testing.T) {
	a := questiontest.WriteApproval()
	a.PeerUID, a.Prompt.Diff = -1, strings.Repeat("+line\n", 20)
	inv := &invocation.Invocation{
		Now:    func() time.Time { return questiontest.SampleNow },
		Remote: invocation.RemoteFlag{Name: "work", Given: true},
	}
	var b bytes.Buffer
	v := ViewOf(inv, &b, a, palyra.SeparationDevice)
	v.Short = true
	v.Print()
	for _, want := range []string{"(from another machine) through", "palyra --remote work changes "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "uid -1") {
		t.Error(b.String())
	}
}
