package daemon

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/rpc/wire"
)

func explain(t *testing.T, d *Daemon, id palyra.ID, p palyra.Proposal) wire.Explanation {
	t.Helper()
	e, err := policyPart{d}.Explain(t.Context(), id, p)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func proposal(tool, args string) palyra.Proposal {
	return palyra.Proposal{Principal: "agent:local", Owner: "user:me", Door: palyra.DoorCLI, Tool: tool, Arguments: json.RawMessage(args), NoWait: true}
}

// A call on record is explained in the words it was refused with, whatever refused
// it.
func TestWhyUsesTheRefusalsWords(t *testing.T) {
	d := testDaemon(t)
	spent := proposal("palyra.echo", `{"text":"x"}`)
	spent.CallsUsed = 64
	file := proposal("palyra.fs.write", `{"path":"a","content":"b"}`)
	file.Workspace = t.TempDir()
	for name, c := range map[string]struct {
		p      palyra.Proposal
		layer  palyra.Layer
		reason palyra.Reason
		flips  []string
	}{
		"unknown tool": {proposal("palyra.none", `{}`), palyra.LayerCatalog, palyra.ReasonUnknownTool, nil},
		"bad schema":   {proposal("palyra.echo", `{"text":1}`), palyra.LayerCatalog, palyra.ReasonSchemaMismatch, nil},
		"no calls":     {spent, palyra.LayerCatalog, palyra.ReasonBudgetSpent, []string{"arguments false", "limit false"}},
		"outside": {func() palyra.Proposal {
			p := file
			p.Arguments = json.RawMessage(`{"path":"../a","content":"b"}`)
			return p
		}(), palyra.LayerPlan, palyra.ReasonPathOutside, nil},
		"not awaited": {file, palyra.LayerApproval, palyra.ReasonApprovalNotAwaited, []string{"answer true"}},
	} {
		out, err := d.path.calls.Call(t.Context(), c.p, palyra.Watch{})
		if err != nil || out.Layer != c.layer || out.ReasonCode != c.reason {
			t.Fatalf("%s: %+v, %v", name, out, err)
		}
		e := explain(t, d, out.CallID, palyra.Proposal{})
		if e.Layer != out.Layer || e.ReasonCode != out.ReasonCode || e.Reason != out.Reason || e.Remedy != out.Remedy || e.Call != out.CallID {
			t.Errorf("%s: %+v\nfor %+v", name, e, out)
		}
		var got []string
		for _, f := range e.Flips {
			got = append(got, f.Kind+map[bool]string{true: " true", false: " false"}[f.Verified])
		}
		if !slices.Equal(got, c.flips) {
			t.Errorf("%s: %v", name, e.Flips)
		}
		if imagined := explain(t, d, "", c.p); c.layer != palyra.LayerApproval && (imagined.Reason != out.Reason || imagined.Remedy != out.Remedy || imagined.Layer != out.Layer) {
			t.Errorf("%s, imagined: %+v", name, imagined)
		}
	}
}

// An open question is answered by the command that why gives.
func TestWhyNamesTheQuestion(t *testing.T) {
	d := testDaemon(t)
	p := proposal("palyra.fs.write", `{"path":"a","content":"b"}`)
	p.Workspace = t.TempDir()
	out, err := d.path.calls.Call(t.Context(), p, palyra.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	e := explain(t, d, out.ApprovalID, palyra.Proposal{})
	want := "palyra approvals decide " + string(out.ApprovalID) + " allow --digest " + string(out.PlanDigest)
	if len(e.Flips) == 0 || e.Flips[0].Change != want || e.Flips[0].Becomes != palyra.Allow {
		t.Errorf("%+v", e.Flips)
	}
}

// What an agent is told, what is on record and what is explained is one text.
func TestWhyOfADenial(t *testing.T) {
	d := testDaemon(t)
	if err := d.policy.Swap(d.judging(bundleOf(t, "ci"))); err != nil {
		t.Fatal(err)
	}
	p := proposal("palyra.fs.write", `{"path":"a","content":"b"}`)
	p.Workspace = t.TempDir()
	out, err := d.path.calls.Call(t.Context(), p, palyra.Watch{})
	if err != nil || out.Layer != palyra.LayerPolicy {
		t.Fatalf("%+v, %v", out, err)
	}
	e, imagined := explain(t, d, out.CallID, palyra.Proposal{}), explain(t, d, "", p)
	for _, one := range []wire.Explanation{e, imagined} {
		if one.Reason != out.Reason || one.Remedy != out.Remedy || one.Layer != palyra.LayerPolicy || one.ReasonCode != palyra.ReasonPolicyDenied || !strings.Contains(one.Remedy, "@id(") {
			t.Errorf("%+v\nfor %+v", one, out)
		}
	}
	if err := d.policy.Swap(d.judging(bundleOf(t, "default"))); err != nil {
		t.Fatal(err)
	}
	if e = explain(t, d, out.CallID, palyra.Proposal{}); e.Verdict.Effect != palyra.Deny || !strings.Contains(strings.Join(e.Lines, "\n"), "judged now, the answer is ask") || len(e.Flips) == 0 {
		t.Errorf("after a change: %+v", e)
	}
}

func TestWhyEnds(t *testing.T) {
	d := testDaemon(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (policyPart{d}).Explain(ctx, "", proposal("palyra.echo", `{"text":"x"}`)); err == nil {
		t.Error("explained for nobody")
	}
	if _, err := (policyPart{d}).Explain(t.Context(), "01ARZ3NDEKTSV4RRFFQ69G5FAV", palyra.Proposal{}); !strings.Contains(palyra.AsError(err).Text, "no call, approval or attestation") {
		t.Error(err)
	}
}

func TestEdits(t *testing.T) {
	plan := palyra.Plan{Tier: palyra.TierB, Argv: []string{"x"}, Asks: true}
	for _, c := range []struct{ args, kind, want string }{
		{`{"command":"sh","args":["-c","git status -s"]}`, "the program itself", `{"args":["status","-s"],"command":"git"}`},
		{`{"script":"ls -la\n"}`, "the program itself", `{"args":["-la"],"command":"ls"}`},
		{`{"script":"ls | wc"}`, "the program itself", ""},
		{`{"script":"A=b ls"}`, "the program itself", ""},
		{`{"script":"#!/bin/sh\nls"}`, "the program itself", ""},
		{`{"script":"ls 'a b'"}`, "the program itself", ""},
		{`{"command":"bash","args":["-c","ls","x"]}`, "the program itself", ""},
		{`{"command":"x","tier":"b"}`, "--tier c", `{"command":"x","tier":"c"}`},
		{`{"command":"x","tier":"c"}`, "--tier c", ""},
		{`{"command":"x","egress":["a:1"]}`, "leave out --egress", `{"command":"x"}`},
		{`{"command":"x"}`, "leave out --egress", ""},
		{`{"command":"x","limits":{"cpu_ms":12345678901234567890}}`, "leave out --env", ""},
		{`{"command":"x","limits":{"cpu_ms":12345678901234567890},"env":{"A":"<b>"}}`, "leave out --env", `{"command":"x","limits":{"cpu_ms":12345678901234567890}}`},
		{`{"command":"x"}`, "--profile none", `{"command":"x","profile":"none"}`},
	} {
		args, ok := object(json.RawMessage(c.args))
		all := edits(&palyra.Call{Plan: plan}, "")
		i := slices.IndexFunc(all, func(e edit) bool { return strings.Contains(e.text, c.kind) })
		if !ok || i < 0 {
			t.Fatal(c.args)
		}
		got := ""
		if all[i].apply(args) {
			raw, err := plainJSON(args)
			if err != nil {
				t.Fatal(err)
			}
			got = string(raw)
		}
		if got != c.want {
			t.Errorf("%s %s: %s", c.args, c.kind, got)
		}
	}
}

// Limits are raised where they stand, and nobody says that this was tried.
func TestSettings(t *testing.T) {
	d := testDaemon(t)
	own := palyra.Call{
		Plan:     palyra.Plan{Limits: palyra.Limits{WallMS: 10, MemoryBytes: 1 << 50}},
		Proposal: proposal("palyra.process.run", `{"command":"x","limits":{"memory_bytes":5},"timeout_ms":10}`),
	}
	for _, c := range []struct {
		reason palyra.Reason
		killed string
		want   []string
	}{
		{palyra.ReasonQuotaExceeded, "memory", []string{`{"command":"x","timeout_ms":10}`, "process.memory_bytes = 2251799813685248"}},
		{palyra.ReasonQuotaExceeded, "cpu", []string{"process.cpu_ms = "}},
		{palyra.ReasonQuotaExceeded, "moon", nil},
		{palyra.ReasonTimedOut, "", []string{`{"command":"x","limits":{"memory_bytes":5}}`, "tool_call.execution_timeout_ms = 240000"}},
		{palyra.ReasonPosture, "", []string{"palyra sandbox doctor", `process.posture = "off"`}},
		{palyra.ReasonTooManyPending, "", []string{"approvals.max_pending = "}},
		{palyra.ReasonApprovalExpired, "", []string{"approvals.wait_ms = "}},
		{palyra.ReasonRecentlyDenied, "", []string{"approvals.deny_hold_ms = 0"}},
		{palyra.ReasonEgressDenied, "", nil},
		{palyra.ReasonUnknownTool, "", nil},
	} {
		got := policyPart{d}.settings(&own, c.reason, c.killed)
		if len(got) != len(c.want) {
			t.Errorf("%s %s: %+v", c.reason, c.killed, got)
			continue
		}
		for i, f := range got {
			if !strings.HasPrefix(f.Change, c.want[i]) || f.Verified || f.Becomes != palyra.Allow {
				t.Errorf("%s %s: %+v", c.reason, c.killed, f)
			}
		}
	}
}

func TestRefusedHosts(t *testing.T) {
	got := refusedHosts([]palyra.EgressFlow{
		{Host: "a", Port: 1, Verdict: "deny"},
		{Host: "a", Port: 1, Verdict: "deny"},
		{Host: "b", Port: 2, Verdict: "allow"},
		{Host: "c", Verdict: "deny"},
		{Host: "::1", Port: 3, Verdict: "deny"},
	})
	if !slices.Equal(got, []string{"a:1", "[::1]:3"}) {
		t.Error(got)
	}
}

func bundleOf(t *testing.T, preset string) *policy.Bundle {
	t.Helper()
	files, err := policy.Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	b, report := policy.Check(files)
	if b == nil {
		t.Fatal(report.Problems)
	}
	return b
}
