package cli

import (
	"encoding/json"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/invocationtest"
	"palyra/internal/cli/questiontest"
)

func sampleOutcome() palyra.Outcome {
	return palyra.Outcome{
		Outcome: palyra.OutcomeFinished, Tool: "palyra.echo", Policies: []string{"allow-echo"},
		Output:    json.RawMessage(`{"text":"<hi> & \u202e"}`),
		SessionID: questiontest.SampleID, CallID: questiontest.SampleID, GrantID: questiontest.SampleID, PlanDigest: questiontest.SampleDigest,
		JournalPosition: 7,
		Attestation: &palyra.Envelope{
			PayloadType: palyra.PayloadType, Payload: "e30=",
			Signatures: []palyra.EnvelopeSignature{{KeyID: "k", Sig: "s"}},
		},
	}
}

func TestShapes(t *testing.T) {
	page := client.ApprovalPage{Approvals: []palyra.Approval{questiontest.WriteApproval(), questiontest.DecidedApproval()}, Next: "next"}
	for name, f := range map[string]func(*invocation.Invocation) error{
		"approvals-list": func(inv *invocation.Invocation) error { return printApprovals(inv, page) },
		"approvals-none": func(inv *invocation.Invocation) error { return printApprovals(inv, client.ApprovalPage{}) },
	} {
		questiontest.Golden(t, name+".json", invocationtest.Shown(t, true, f))
		questiontest.Golden(t, name+".txt", invocationtest.Shown(t, false, f))
	}
}

func TestSettled(t *testing.T) {
	a := questiontest.WriteApproval()
	a.Need.Votes, a.Votes = 2, make([]palyra.Vote, 1)
	if got := settled(a); got != string(questiontest.SampleID)+": your answer is recorded; 1 of 2 so far" {
		t.Error(got)
	}
	a.Decision = palyra.Decision{Answer: palyra.AnswerAllow, Scope: palyra.ScopeOnce, Lease: "L"}
	if got := settled(a); got != string(questiontest.SampleID)+": allow, scope once, lease L" {
		t.Error(got)
	}
}
