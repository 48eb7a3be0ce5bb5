package gate

import (
	"context"
	"slices"
	"testing"

	"palyra"
)

func TestLabels(t *testing.T) {
	flow := func(in, out int64, address string, verdict palyra.FlowVerdict) palyra.Result {
		return palyra.Result{Egress: []palyra.EgressFlow{{Host: "a", Port: 1, Address: address, In: in, Out: out, Verdict: verdict}}}
	}
	builtin := palyra.Tool{Source: palyra.SourceBuiltin}
	netted := palyra.Plan{Tier: palyra.TierBuiltin, Egress: []string{"a:1"}}
	sandboxed := func(mode palyra.NetworkMode) palyra.Plan {
		return palyra.Plan{Tier: palyra.TierC, Enforcement: palyra.Enforcement{Mode: mode}}
	}
	all := []string{palyra.LabelSent, palyra.LabelUntrusted}
	secret, untrusted, sent := []string{palyra.LabelSecret}, []string{palyra.LabelUntrusted}, []string{palyra.LabelSent}
	strict := palyra.Call{Tool: builtin, Plan: sandboxed("strict")}
	for name, c := range map[string]struct {
		call     palyra.Call
		res      palyra.Result
		did, may []string
	}{
		"nothing":            {strict, palyra.Result{}, nil, nil},
		"connected":          {palyra.Call{Tool: builtin, Plan: netted}, flow(5, 5, "1.1.1.1", "allow"), all, all},
		"only heard":         {palyra.Call{Tool: builtin, Plan: netted}, flow(5, 0, "1.1.1.1", "allow"), untrusted, all},
		"did not come about": {palyra.Call{Tool: builtin, Plan: netted}, flow(0, 0, "", "allow"), nil, all},
		"added up":           {palyra.Call{Tool: builtin, Plan: netted}, flow(5, 5, "", "allow"), all, all},
		"refused":            {strict, flow(0, 0, "", "deny"), nil, nil},
		"beyond the plan":    {strict, flow(1, 1, "1.1.1.1", "allow"), all, nil},
		"beyond it, in part": {strict, palyra.Result{Egress: flow(1, 1, "1.1.1.1", "allow").Egress, Omitted: 1}, all, nil},
		"not all was seen":   {palyra.Call{Tool: builtin, Plan: netted}, palyra.Result{Omitted: 1}, all, all},
		"a tool's panic":     {palyra.Call{Tool: builtin, Plan: netted}, palyra.Result{KillReason: "panic"}, all, all},
		"any host":           {palyra.Call{Tool: builtin, Plan: sandboxed("none")}, palyra.Result{}, nil, all},
		"preflight": {palyra.Call{
			Tool: builtin, Plan: palyra.Plan{Tier: palyra.TierB, Enforcement: palyra.Enforcement{Mode: "preflight"}},
		}, palyra.Result{}, nil, all},
		"a host is opened": {palyra.Call{
			Tool: builtin, Plan: netted,
			Proposal: palyra.Proposal{Proposer: palyra.Proposer{Parent: "P", Purpose: "npm"}},
		}, palyra.Result{}, all, all},
		"binding": {palyra.Call{Tool: builtin, Plan: palyra.Plan{Bindings: []string{"npm"}}}, palyra.Result{}, secret, secret},
		"secret variable": {
			palyra.Call{Tool: builtin, Plan: palyra.Plan{Env: []palyra.EnvVar{{Name: "T", Secret: true}}}},
			palyra.Result{},
			secret, secret,
		},
		"skill":          {palyra.Call{Tool: palyra.Tool{Source: palyra.SourceSkill}}, palyra.Result{}, untrusted, untrusted},
		"another server": {palyra.Call{Tool: palyra.Tool{Source: palyra.SourceMCP}}, palyra.Result{}, all, all},
		"message": {
			palyra.Call{Tool: palyra.Tool{Source: palyra.SourceBuiltin, Capabilities: []palyra.Capability{palyra.ChannelSend}}},
			palyra.Result{},
			sent, sent,
		},
		"browser": {
			palyra.Call{Tool: builtin, Plan: palyra.Plan{Capabilities: []palyra.Capability{palyra.Browser}}},
			palyra.Result{},
			all, all,
		},
		"node":          {palyra.Call{Tool: builtin, Plan: palyra.Plan{Tier: palyra.TierNode}}, palyra.Result{}, all, all},
		"refused early": {palyra.Call{}, palyra.Result{}, nil, nil},
	} {
		if got := labelsOf(&c.call, c.res); !slices.Equal(got, c.did) {
			t.Errorf("%s: did %v, want %v", name, got, c.did)
		}
		if got := MayLabels(&c.call); !slices.Equal(got, c.may) {
			t.Errorf("%s: may %v, want %v", name, got, c.may)
		}
	}
}

// The session's labels are read each time that policy is asked, and are on record
// with what was judged; what a run did is on the line that ends it.
func TestLabelsAreReadForEveryJudgement(t *testing.T) {
	w := newWorld(t)
	w.verdict, w.desk = asking(palyra.Allow), answers(palyra.AnswerAllow)
	var seen [][]string
	verdict := w.verdict
	w.verdict = func(r palyra.Request) palyra.Verdict {
		seen = append(seen, r.Labels)
		if r.At != noon {
			t.Errorf("judged at %v", r.At)
		}
		v := verdict(r)
		v.Standing = palyra.Standing{Roles: []palyra.Role{palyra.RoleAgent}, Owner: []palyra.Role{palyra.RoleOwner}}
		return v
	}
	n := 0
	w.labels = func() ([]string, error) { n++; return []string{"a", "b"}[:n], nil }
	w.execute = func(context.Context, palyra.Launch) palyra.Result {
		return palyra.Result{Executor: "builtin", Egress: []palyra.EgressFlow{{Verdict: "allow", Address: "192.0.2.1", In: 1}}}
	}
	if _, err := w.do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || len(seen[0]) != 1 || len(seen[1]) != 2 {
		t.Errorf("judged with %v", seen)
	}
	if j := w.journal[3].(palyra.CallJudged); len(j.Labels) != 2 || len(j.Roles) != 1 || len(j.Owner) != 1 {
		t.Errorf("the line says %+v", j)
	}
	if f := w.journal[len(w.journal)-1].(palyra.CallFinished); len(f.Labels) != 1 || f.Labels[0] != palyra.LabelUntrusted {
		t.Errorf("the last line says %+v", f)
	}
}

// What the session did is not known: policy cannot be asked, and nothing runs.
func TestLabelsThatCannotBeReadDeny(t *testing.T) {
	for name, read := range map[string]func() ([]string, error){
		"error": func() ([]string, error) { return nil, errDisk },
		"panic": func() ([]string, error) { panic("labels") },
	} {
		w := newWorld(t)
		w.labels = read
		out, err := w.do(t.Context())
		if err != nil || out.Outcome != palyra.OutcomeRefused || out.ReasonCode != palyra.ReasonPolicyError || w.runs > 0 {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
}
