package audit

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"palyra"
)

// kept is a call as the table has it, and what its lines say.
type kept struct {
	doc palyra.Call
	out palyra.Outcome
	old bool // its lines have no digests of what is kept
	end func(palyra.Call, palyra.Digest, palyra.Kept) palyra.Event
}

func newKept(state palyra.State, word palyra.OutcomeKind) *kept {
	plan := palyra.Plan{
		Tool: "palyra.process.run", Arguments: json.RawMessage(`{"argv":["make","test"],"n":15e-1}`),
		Argv: []string{"make", "test"}, Tier: palyra.TierC,
	}
	digest, _ := plan.Digest()
	return &kept{
		doc: palyra.Call{
			ID: "C", State: state, Plan: plan, Digest: digest, Tool: palyra.Tool{Name: plan.Tool, InputSchema: json.RawMessage("null")},
			Proposal: palyra.Proposal{
				Proposer: palyra.Proposer{Principal: "agent:a", Session: "S"},
				Tool:     plan.Tool, Arguments: json.RawMessage(`{"n": 1.5, "argv": ["make","test"]}`),
			},
		},
		out: palyra.Outcome{
			Outcome: word, CallID: "C", Layer: palyra.LayerPolicy, ReasonCode: palyra.ReasonPolicyDenied, ExitCode: 126,
			Stdout: "said",
		},
		end: func(c palyra.Call, body palyra.Digest, k palyra.Kept) palyra.Event {
			switch c.State {
			case palyra.Refused:
				return &palyra.CallRefused{Call: c.ID, Layer: palyra.LayerPolicy, Reason: palyra.ReasonPolicyDenied, Body: body, Kept: k}
			case palyra.Cancelled:
				return &palyra.CallCancelled{Call: c.ID, Body: body, Kept: k}
			case palyra.Unknown:
				return &palyra.CallUnknown{Call: c.ID, Body: body, Kept: k}
			case palyra.Checked:
				return &palyra.CallChecked{Call: c.ID, Body: body, Kept: k}
			}
			return &palyra.CallFinished{Call: c.ID, Outcome: word, ExitCode: 126, Body: body, Kept: k}
		},
	}
}

// texts are what the table has.
func (k *kept) texts(t *testing.T) (doc, out []byte) {
	t.Helper()
	doc, err1 := json.Marshal(k.doc)
	out, err2 := k.out.Marshal()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return doc, out
}

// heard is the call as the lines say that were written with the texts.
func (k *kept) heard(t *testing.T) *callRecord {
	t.Helper()
	doc, out := k.texts(t)
	digests, body := palyra.Kept{Document: palyra.SumBytes(doc)}, palyra.Digest("")
	if text, ok := bodyOf(out); ok {
		body = palyra.SumBytes(text)
	}
	if k.old {
		if digests = (palyra.Kept{}); k.doc.State != palyra.Finished {
			body = ""
		}
	}
	a := New(time.Now())
	args := k.doc.Proposal.Arguments
	for _, e := range []palyra.Event{
		&palyra.CallProposed{Call: "C", Session: "S", Principal: "agent:a", InputBytes: int64(len(args)), Input: palyra.SumBytes(args)},
		&palyra.CallJudged{Call: "C", Plan: k.doc.Digest}, k.end(k.doc, body, digests),
	} {
		if f := a.Hear(1, time.Now(), e); f != nil {
			t.Fatal(f)
		}
	}
	return a.calls["C"]
}

// Whatever is changed in what is kept of a call is noticed; where the lines are
// older, what they let follow is.
func TestChangedRecordsOfCalls(t *testing.T) {
	null := json.RawMessage("null")
	changes := map[string]struct {
		change func(*kept)
		older  bool // noticed by older lines too, whatever the state
	}{
		"argv":                   {func(k *kept) { k.doc.Plan.Argv = []string{"make", "FORGED"} }, true},
		"plan without arguments": {func(k *kept) { k.doc.Plan.Arguments, k.doc.Plan.Argv = null, []string{"FORGED"} }, true},
		"no arguments":           {func(k *kept) { k.doc.Plan.Arguments, k.doc.Proposal.Arguments = null, null }, true},
		"proposed arguments":     {func(k *kept) { k.doc.Proposal.Arguments = json.RawMessage(`{"argv":["FORGED"]}`) }, true},
		"proposed none":          {func(k *kept) { k.doc.Proposal.Arguments = null }, true},
		"another's":              {func(k *kept) { k.doc.Proposal.Principal = "agent:b" }, true},
		"approver":               {func(k *kept) { k.doc.Decision.By = "user:forged" }, false},
		"purpose":                {func(k *kept) { k.doc.Proposal.Purpose = "FORGED" }, false},
		"diff":                   {func(k *kept) { k.doc.Detail.Diff = "FORGED" }, false},
		"word":                   {func(k *kept) { k.out.Outcome = palyra.OutcomeTimedOut }, true},
		"output":                 {func(k *kept) { k.out.Stdout = "FORGED" }, false},
		"reason":                 {func(k *kept) { k.out.Reason = "FORGED" }, false},
		"policies":               {func(k *kept) { k.out.Policies = []string{"FORGED"} }, false},
		"approval":               {func(k *kept) { k.out.ApprovalID = "FORGED" }, false},
		"attestation":            {func(k *kept) { k.out.Attestation = &palyra.Envelope{PayloadType: "FORGED"} }, false},
	}
	for state, word := range map[palyra.State]palyra.OutcomeKind{
		palyra.Finished: palyra.OutcomeFinished, palyra.Refused: palyra.OutcomeRefused, palyra.Cancelled: palyra.OutcomeCancelled,
		palyra.Unknown: palyra.OutcomeUnknown, palyra.Checked: palyra.OutcomeAllowed,
	} {
		for _, old := range []bool{false, true} {
			k := newKept(state, word)
			k.old = old
			c := k.heard(t)
			if less, f := c.check(k.texts(t)); f != nil || less != old {
				t.Errorf("%s, old %t: as it was: %t, %v", state, old, less, f)
			}
			for name, x := range changes {
				k := newKept(state, word)
				x.change(k)
				if _, f := c.check(k.texts(t)); f == nil && (!old || x.older) {
					t.Errorf("%s, old %t: %s is not noticed", state, old, name)
				}
			}
		}
	}
}

// Large arguments are not kept; the rest of the document is held all the same, and
// by older lines less of it.
func TestLargeArgumentsAreLeftOut(t *testing.T) {
	for _, old := range []bool{false, true} {
		k := newKept(palyra.Finished, palyra.OutcomeFinished)
		k.old = old
		k.doc.Proposal.Arguments, k.doc.Plan.Arguments = json.RawMessage("null"), json.RawMessage("null")
		c := k.heard(t)
		c.InputBytes, c.Input = large+1, palyra.SumBytes([]byte(strings.Repeat("x", large+1)))
		if less, f := c.check(k.texts(t)); f != nil || less != old {
			t.Errorf("old %t: %t, %v", old, less, f)
		}
		k.doc.Plan.Argv = []string{"FORGED"}
		if _, f := c.check(k.texts(t)); (f == nil) != old {
			t.Errorf("old %t: another argv: %v", old, f)
		}
		c.InputBytes = large
		if _, f := c.check(k.texts(t)); f == nil {
			t.Errorf("old %t: arguments that were small are left out", old)
		}
	}
}
