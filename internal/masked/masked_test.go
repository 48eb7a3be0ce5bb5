package masked

import (
	"encoding/json"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/mask"
)

const value = `s3cr&t "value" of it`

func words() Words {
	m := new(mask.Masker)
	m.Set(func(yield func(string, []byte) bool) { yield("token", []byte(value)) })
	return Words{m}
}

func call(t *testing.T) palyra.Call {
	t.Helper()
	args, _ := json.Marshal(map[string]string{"text": value})
	c := palyra.Call{
		ID: "C1", State: palyra.Pending, Stored: palyra.Judged, Input: "sha256:x", Proposal: palyra.Proposal{Tool: "t", Arguments: args},
		Plan: palyra.Plan{
			Tool: "t", Arguments: args, Argv: []string{"printf", value}, Tier: palyra.TierB, Detail: palyra.Detail{Diff: "+" + value},
		},
	}
	c.Proposal.Inside = true
	var err error
	if c.Digest, err = c.Plan.Digest(); err != nil {
		t.Fatal(err)
	}
	return c
}

func has(v any) bool {
	b, _ := json.Marshal(v)
	return strings.Contains(string(b), "s3cr") || !strings.Contains(string(b), "[secret token]")
}

// What is shown of a call is a copy: the call runs as it was proposed.
func TestCall(t *testing.T) {
	c := call(t)
	got := words().Call(c)
	if has(got.Proposal) || has(got.Plan) || has(got.Plan.Detail) || !got.Plan.Masked {
		t.Errorf("%+v", got)
	}
	if got.ID != c.ID || got.State != c.State || got.Stored != c.Stored || got.Input != c.Input || got.Digest != c.Digest ||
		!got.Proposal.Inside {
		t.Errorf("%+v", got)
	}
	if d, err := c.Plan.Digest(); err != nil || d != c.Digest || c.Plan.Masked || c.Plan.Argv[1] != value ||
		!json.Valid(c.Proposal.Arguments) {
		t.Errorf("the call itself was changed: %+v", c)
	}
	if err := palyra.Permitted(&got); err == nil {
		t.Error("what is shown of a call may run")
	}
	other := palyra.Call{ID: "C2", Proposal: palyra.Proposal{Arguments: json.RawMessage(`{"a":1}`)}}
	if got := words().Call(other); got.Plan.Masked || &got.Proposal.Arguments[0] != &other.Proposal.Arguments[0] {
		t.Errorf("a call without values: %+v", got)
	}
}

func TestApproval(t *testing.T) {
	c := call(t)
	a := palyra.Approval{
		ID: "A", Plan: c.Plan, PlanDigest: c.Digest, Payer: "p", SubjectID: "tool:" + value,
		Prompt: palyra.Prompt{Summary: value, Diff: c.Plan.Detail.Diff, Notes: []string{"one"}},
	}
	got := words().Approval(a)
	if has(got.Plan) || has(got.Prompt) || has(got.SubjectID) || !got.Plan.Masked || got.PlanDigest != c.Digest || got.Payer != "p" {
		t.Errorf("%+v", got)
	}
	if len(got.Prompt.Notes) != 2 || got.Prompt.Notes[0] != Note {
		t.Errorf("nobody is told: %q", got.Prompt.Notes)
	}
	if a.Plan.Argv[1] != value || a.Prompt.Notes[0] != "one" {
		t.Error("the question itself was changed")
	}
}

func TestResultAndRefusal(t *testing.T) {
	out, _ := json.Marshal(map[string]string{"text": value})
	r := palyra.Result{
		Output: out, Stdout: []byte("\xff" + value), Stderr: []byte(value), ExitCode: 3,
		Failure: &palyra.Refusal{Text: "no " + value, Remedy: value}, Egress: []palyra.EgressFlow{{Host: "x.example"}},
	}
	got := words().Result(r)
	if has(got.Output) || has(string(got.Stdout)) || has(string(got.Stderr)) || has(got.Failure) || got.ExitCode != 3 || len(got.Egress) != 1 {
		t.Errorf("%+v", got)
	}
	if r.Failure.Text != "no "+value {
		t.Error("the result itself was changed")
	}
	if f := words().Refusal(palyra.Refusal{Text: value, Reason: palyra.ReasonInternal}); has(f) || f.Reason != palyra.ReasonInternal {
		t.Errorf("%+v", f)
	}
}
