package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/invocationtest"
	"palyra/internal/cli/question"
	"palyra/internal/cli/questiontest"
)

func sampleCall() palyra.Call {
	o := sampleOutcome()
	return palyra.Call{
		ID: questiontest.SampleID, State: palyra.Finished, Digest: questiontest.SampleDigest, Grant: questiontest.SampleID,
		Approval: questiontest.SampleID, Proposed: questiontest.SampleNow, Finished: questiontest.SampleNow.Add(time.Second),
		Proposal: palyra.Proposal{
			Proposer: palyra.Proposer{Principal: "agent:local", Owner: "user:ann", Surface: palyra.SurfaceCLI, Session: questiontest.SampleID},
			Tool:     "palyra.fs.write", Workspace: "/home/ann/shop",
		},
		Detail: palyra.Detail{Summary: "write a.txt"}, Verdict: palyra.Verdict{Effect: palyra.Ask, Bundle: questiontest.SampleDigest},
		Decision: palyra.Decision{Answer: palyra.AnswerAllow}, Outcome: &o,
	}
}

// What commands print of a call.
func TestCallInWords(t *testing.T) {
	process := sampleCall()
	process.Plan = questiontest.ProcessApproval().Plan
	for name, x := range map[string]palyra.Call{
		"call": sampleCall(), "call-process": process, "call-process-full": process,
		"call-early": {ID: questiontest.SampleID, State: palyra.Proposed},
	} {
		attestation := palyra.ID(questiontest.SampleID)
		if name == "call-early" {
			attestation = ""
		}
		questiontest.Golden(t, name+".txt", invocationtest.Shown(t, false, func(inv *invocation.Invocation) error {
			printCall(inv.Stdout, x, attestation, strings.HasSuffix(name, "-full"))
			return nil
		}))
	}
}

func TestReachText(t *testing.T) {
	for want, r := range map[string]client.DecideRequest{
		"it":                          {Answer: palyra.AnswerDeny},
		"once":                        {Answer: palyra.AnswerAllow},
		"for the session":             {Answer: palyra.AnswerAllow, Scope: palyra.ScopeSession},
		"for 30m0s":                   {Answer: palyra.AnswerAllow, Scope: palyra.ScopeTimeboxed, TTL: 30 * time.Minute},
		"once, widened to path_root":  {Answer: palyra.AnswerAllow, Widen: "path_root"},
		`once, widened to "\x1b\x1b"`: {Answer: palyra.AnswerAllow, Widen: "\x1b\x1b"},
	} {
		if got := question.Reach(r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestApprovalFilter(t *testing.T) {
	f := approvalFilter{subject: "tool", principal: "agent:local", answer: "deny", since: "1h", until: "2026-11-15T11:30:00Z"}
	f.Limit, f.OldestFirst, f.SubjectID = 5, true, "x"
	got, err := f.filter(questiontest.SampleNow)
	want := client.ApprovalFilter{
		SubjectType: palyra.SubjectTool, SubjectID: "x", Principal: "agent:local", Answer: palyra.AnswerDeny,
		Since: questiontest.SampleNow.Add(-time.Hour),
		Until: questiontest.SampleNow.Add(-30 * time.Minute), OldestFirst: true, Limit: 5,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, bad := range []approvalFilter{{answer: "x"}, {since: "x"}, {until: "x"}} {
		if _, err := bad.filter(questiontest.SampleNow); exit.Of(err) != exit.Usage {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestFirstSentence(t *testing.T) {
	for in, want := range map[string]string{"One. Two.": "One.", "One.\nTwo": "One.", "One": "One", "": "", "v1.2 of it": "v1.2 of it"} {
		if got := firstSentence(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// The outcome of a call is shown as it was signed: its lists are lists, also where they are empty.
func TestOutcomeIsShownAsSigned(t *testing.T) {
	text, err := json.Marshal(fillLists(palyra.Call{Outcome: &palyra.Outcome{}}).Outcome)
	if err != nil {
		t.Fatal(string(text), err)
	}
	for _, name := range []string{"policies", "sealed_path_created"} {
		if !bytes.Contains(text, []byte(`"`+name+`":[]`)) {
			t.Errorf("%s is not an empty list: %s", name, text)
		}
	}
}
