package palyra

import (
	"slices"
	"testing"
)

func TestEffects(t *testing.T) {
	flow := func(in, out int64, address string, verdict FlowVerdict) Result {
		return Result{Egress: []EgressFlow{{Host: "a", Port: 1, Address: address, In: in, Out: out, Verdict: verdict}}}
	}
	builtin := Tool{Source: SourceBuiltin}
	netted := Plan{Tier: TierBuiltin, Egress: []string{"a:1"}}
	sandboxed := func(mode NetworkMode) Plan { return Plan{Tier: TierC, Enforcement: Enforcement{Mode: mode}} }
	all := []string{LabelSent, LabelUntrusted}
	for name, c := range map[string]struct {
		call     Call
		res      Result
		did, may []string
	}{
		"nothing":            {Call{Tool: builtin, Plan: sandboxed("strict")}, Result{}, nil, nil},
		"connected":          {Call{Tool: builtin, Plan: netted}, flow(5, 5, "1.1.1.1", "allow"), all, all},
		"only heard":         {Call{Tool: builtin, Plan: netted}, flow(5, 0, "1.1.1.1", "allow"), []string{LabelUntrusted}, all},
		"did not come about": {Call{Tool: builtin, Plan: netted}, flow(0, 0, "", "allow"), nil, all},
		"added up":           {Call{Tool: builtin, Plan: netted}, flow(5, 5, "", "allow"), all, all},
		"refused":            {Call{Tool: builtin, Plan: sandboxed("strict")}, flow(0, 0, "", "deny"), nil, nil},
		"beyond the plan":    {Call{Tool: builtin, Plan: sandboxed("strict")}, flow(1, 1, "1.1.1.1", "allow"), all, nil},
		"beyond it, in part": {Call{Tool: builtin, Plan: sandboxed("strict")}, Result{Egress: flow(1, 1, "1.1.1.1", "allow").Egress, Omitted: 1}, all, nil},
		"not all was seen":   {Call{Tool: builtin, Plan: netted}, Result{Omitted: 1}, all, all},
		"a tool's panic":     {Call{Tool: builtin, Plan: netted}, Result{KillReason: "panic"}, all, all},
		"any host":           {Call{Tool: builtin, Plan: sandboxed("none")}, Result{}, nil, all},
		"preflight":          {Call{Tool: builtin, Plan: Plan{Tier: TierB, Enforcement: Enforcement{Mode: "preflight"}}}, Result{}, nil, all},
		"a host is opened":   {Call{Tool: builtin, Plan: netted, Proposal: Proposal{Proposer: Proposer{Parent: "P", Purpose: "npm"}}}, Result{}, all, all},
		"binding":            {Call{Tool: builtin, Plan: Plan{Bindings: []string{"npm"}}}, Result{}, []string{LabelSecret}, []string{LabelSecret}},
		"secret variable":    {Call{Tool: builtin, Plan: Plan{Env: []EnvVar{{Name: "T", Secret: true}}}}, Result{}, []string{LabelSecret}, []string{LabelSecret}},
		"skill":              {Call{Tool: Tool{Source: SourceSkill}}, Result{}, []string{LabelUntrusted}, []string{LabelUntrusted}},
		"another server":     {Call{Tool: Tool{Source: SourceMCP}}, Result{}, all, all},
		"message":            {Call{Tool: Tool{Source: SourceBuiltin, Capabilities: []Capability{ChannelSend}}}, Result{}, []string{LabelSent}, []string{LabelSent}},
		"browser":            {Call{Tool: builtin, Plan: Plan{Capabilities: []Capability{Browser}}}, Result{}, all, all},
		"node":               {Call{Tool: builtin, Plan: Plan{Tier: TierNode}}, Result{}, all, all},
		"refused early":      {Call{}, Result{}, nil, nil},
	} {
		if got := Effects(&c.call, c.res); !slices.Equal(got, c.did) {
			t.Errorf("%s: did %v, want %v", name, got, c.did)
		}
		if got := MayEffect(&c.call); !slices.Equal(got, c.may) {
			t.Errorf("%s: may %v, want %v", name, got, c.may)
		}
	}
}

func TestJoinLabels(t *testing.T) {
	if got := JoinLabels([]string{"b", "a"}, []string{"a", "c"}); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Error(got)
	}
	if JoinLabels(nil, nil) != nil {
		t.Error("no labels are some")
	}
}
