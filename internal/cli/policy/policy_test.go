package policy

import (
	"bytes"
	"encoding/json"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/questiontest"
)

func sampleWhy() client.Explanation {
	return client.Explanation{
		PlanDigest: questiontest.SampleDigest, Lines: []string{"a person must agree", "ask one", "a grant for the session covers it"},
		Layer: palyra.LayerApproval, ReasonCode: palyra.ReasonApprovalNotAwaited, Reason: "a person must agree", Remedy: "ask one",
		Call: questiontest.SampleID, Approval: questiontest.SampleID,
		Detail: json.RawMessage(
			`{"context":{"tool":"palyra.fs.write","writes":["a.txt"],"reads":[],"command":{"class":"unknown"}},"entities":[],"rungs":[]}`),
		Flips: []client.Flip{
			{Kind: "answer", Text: "an approval by one operator", Change: "palyra approvals decide X allow", Becomes: palyra.Allow, Verified: true},
			{Kind: "limit", Text: "raise process.memory_bytes in the configuration", Change: "process.memory_bytes = 2", Becomes: palyra.Allow},
		},
		Verdict: palyra.Verdict{
			Effect: palyra.Ask, Reason: "a person must agree", Remedy: "ask one",
			Risk: palyra.Risk{Level: palyra.RiskHigh, Factors: []string{"filesystem_write"}}, Bundle: questiontest.SampleDigest,
			Policies: []palyra.PolicyHit{
				{ID: "ask-write", Effect: "permit", File: "approval.cedar", Line: 4, Reason: "writes ask"},
				{ID: "bare", Effect: "forbid"},
			},
			Errors: []string{"attribute x is missing"},
		},
	}
}

// Only a policy that permits what was approved says so.
func TestEffectOf(t *testing.T) {
	hit := palyra.PolicyHit{ID: "a", Effect: "permit"}
	pairs := func(e palyra.Effect, ids ...string) []palyra.PairResult {
		return []palyra.PairResult{{Effect: palyra.Allow, Policies: []string{"b"}}, {Effect: e, Policies: ids}}
	}
	for want, v := range map[string]palyra.Verdict{
		"permit, with approval": {Effect: palyra.Ask, Pairs: pairs(palyra.Ask, "a")},
		"permit":                {Effect: palyra.Ask, Pairs: pairs(palyra.Ask, "other")},
	} {
		if got := effectOf(v, hit); got != want {
			t.Errorf("%+v: %s", v, got)
		}
	}
	if got := effectOf(palyra.Verdict{Effect: palyra.Ask, Pairs: pairs(palyra.Ask, "a")},
		palyra.PolicyHit{ID: "a", Effect: "forbid"}); got != "forbid" {
		t.Error(got)
	}
}

func TestOfProject(t *testing.T) {
	for dir, want := range map[string]bool{
		"/w/.palyra/policy": true, ".palyra/policy": true, "/w/.palyra/policy/": true, "/w/.palyra": false, "/w/policy": false,
		"/w/x.palyra/policy": false, ".": false,
	} {
		if ofProject(dir) != want {
			t.Errorf("%s: %v", dir, !want)
		}
	}
}

// What why prints for people.
func TestWhyWords(t *testing.T) {
	for name, full := range map[string]bool{"why.txt": false, "why-full.txt": true} {
		var out bytes.Buffer
		printWhy(&out, whyOf(sampleWhy(), full))
		questiontest.Golden(t, name, out.String())
	}
}

// Whatever a daemon says of its policies is text on the terminal.
func TestPoliciesArePrintedSafely(t *testing.T) {
	var out, errs bytes.Buffer
	printWhy(&out, questiontest.Poisoned[whyAnswer]())
	questiontest.CheckSafe(t, "why", out.String())
	inv := &invocation.Invocation{Stdout: &out, Stderr: &errs}
	inv.Finish(printPolicyFile(inv, client.Policy{}, questiontest.Hostile))
	questiontest.CheckSafe(t, "policyFile", errs.String())
}
