package execute

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/questiontest"
)

func anOutcome() palyra.Outcome {
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

// The outcome is printed as its own bytes: a verifier reads them.
func TestOutcomeIsPrintedExactly(t *testing.T) {
	o := anOutcome()
	want, err := o.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	inv := &invocation.Invocation{Stdout: &out, Stderr: &out, JSON: true}
	if err := printOutcome(inv, o); err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want)+"\n" {
		t.Errorf("got  %s\nwant %s", out.String(), want)
	}
}

func TestOutcomeInWords(t *testing.T) {
	o := anOutcome()
	o.Stdout, o.Truncated = "line\n", true
	var out, errs bytes.Buffer
	inv := &invocation.Invocation{Stdout: &out, Stderr: &errs}
	if err := printOutcome(inv, o); err != nil {
		t.Fatal(err)
	}
	if out.String() != "line\n{\n  \"text\": \"<hi> & \\u202e\"\n}\n" || !strings.Contains(errs.String(), "not whole") ||
		!strings.Contains(errs.String(), "journal position 7") {
		t.Errorf("stdout %q\nstderr %q", out.String(), errs.String())
	}
	out.Reset()
	errs.Reset()
	o = palyra.Outcome{
		Outcome: palyra.OutcomeRefused, CallID: questiontest.SampleID, ReasonCode: palyra.ReasonPolicyDenied,
		Reason: "no\x1b", Remedy: "ask", StdoutB64: "//8=",
	}
	if err := printOutcome(inv, o); err != nil {
		t.Fatal(err)
	}
	want := "palyra: the output is not text; --json has it as base64\npalyra: call " + string(questiontest.SampleID) +
		" refused: no\\x1b (policy_denied)\n  remedy: ask\n"
	if out.Len() != 0 || errs.String() != want {
		t.Errorf("stdout %q\nstderr %q", out.String(), errs.String())
	}
}
