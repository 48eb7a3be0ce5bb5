package daemon

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/config"
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
		"no calls":     {spent, palyra.LayerCatalog, palyra.ReasonBudgetSpent, []string{"arguments false", "limit false"}}, // its arguments are not kept
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

// Settings are proposed in words that the configuration takes, and what only a run
// shows is not said to be tried.
func TestSettings(t *testing.T) {
	d := testDaemon(t)
	own := palyra.Call{
		Plan:     palyra.Plan{Limits: palyra.Limits{WallMS: 10, MemoryBytes: 1 << 40}},
		Proposal: proposal("palyra.process.run", `{"command":"x","limits":{"memory_bytes":8589934592,"cpu_ms":5},"timeout_ms":600000}`),
	}
	for _, c := range []struct {
		reason palyra.Reason
		killed string
		want   string
		open   string
	}{
		{palyra.ReasonQuotaExceeded, "memory", "process.memory_bytes = 2199023255552", openRun},
		{palyra.ReasonQuotaExceeded, "cpu", "process.cpu_ms = 1200000", openRun},
		{palyra.ReasonQuotaExceeded, "moon", "", ""},
		{palyra.ReasonQuotaExceeded, "", "", ""},
		{palyra.ReasonTimedOut, "", "tool_call.execution_timeout_ms = 240000", openRun},
		{palyra.ReasonPosture, "", `process.posture = "off"`, ""},
		{palyra.ReasonDisabled, "", `process.tier = "c"`, ""},
		{palyra.ReasonTooManyPending, "", "approvals.max_pending = 64", ""},
		{palyra.ReasonBudgetSpent, "", "tool_call.max_calls_per_run = 128", ""},
		{palyra.ReasonApprovalExpired, "", "approvals.wait_ms = 600000", openTime},
		{palyra.ReasonMalformedInput, "", "process.memory_bytes = 8589934592\ntool_call.execution_timeout_ms = 600000", ""},
		{palyra.ReasonWeakEnforcement, "", "", ""},
		{palyra.ReasonRecentlyDenied, "", "", ""}, // a hold that is on stays on
		{palyra.ReasonEgressDenied, "", "", ""},
		{palyra.ReasonUnknownTool, "", "", ""},
	} {
		got := policyPart{d}.thinkable(t.Context(), &own, c.reason, c.killed)
		if c.want == "" {
			if len(got) > 0 {
				t.Errorf("%s %s: %+v", c.reason, c.killed, got)
			}
			continue
		}
		if len(got) != 1 || strings.Join(got[0].uses, "\n") != c.want || got[0].open != c.open {
			t.Errorf("%s %s: %+v", c.reason, c.killed, got)
			continue
		}
		flags := map[string]string{}
		for _, use := range got[0].uses {
			key, value, _ := strings.Cut(use, " = ")
			flags[key] = strings.Trim(value, `"`)
		}
		want, err := config.Load(config.Options{Home: home(t), Env: []string{}, Flags: flags})
		if err != nil {
			t.Fatalf("%v: %v", got[0].uses, err)
		}
		conf := d.Config.Config
		got[0].set(&conf)
		conf.Process.Dir = ""
		if !reflect.DeepEqual([]any{conf.Process, conf.ToolCall, conf.Approvals}, []any{want.Process, want.ToolCall, want.Approvals}) {
			t.Errorf("%v is tried as %+v", got[0].uses, conf)
		}
	}
}

// A run that has fewer calls of its own is not told to raise everybody's.
func TestSettingsOfARunsOwnBudget(t *testing.T) {
	d := testDaemon(t)
	c := palyra.Call{Proposal: palyra.Proposal{CallsMax: 3, CallsUsed: 3}}
	if got := (policyPart{d}).thinkable(t.Context(), &c, palyra.ReasonBudgetSpent, ""); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

// What a grant lost to, a dead daemon and an answer that never came are over when
// the call is proposed again, and why says so whatever the reason was.
func TestWhyOfWhatIsOver(t *testing.T) {
	d := testDaemon(t)
	p := proposal("palyra.fs.write", `{"path":"a","content":"b"}`)
	p.Workspace = t.TempDir()
	out, err := d.path.calls.Call(t.Context(), p, palyra.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	call, err := d.path.ledger.Get(t.Context(), out.CallID)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		layer   palyra.Layer
		reasons []palyra.Reason
	}{
		{palyra.LayerGrant, []palyra.Reason{
			palyra.ReasonGrantSpent, palyra.ReasonGrantRevoked, palyra.ReasonApprovalExpired, palyra.ReasonSessionClosed, palyra.ReasonPlanChanged, palyra.ReasonAlreadyDecided,
		}},
		{palyra.LayerTier, []palyra.Reason{palyra.ReasonPlanChanged, palyra.ReasonGrantRevoked, palyra.ReasonInterrupted, palyra.ReasonStopping, palyra.ReasonCancelled}},
		{palyra.LayerJournal, []palyra.Reason{palyra.ReasonInterrupted}},
		{palyra.LayerApproval, []palyra.Reason{palyra.ReasonSessionClosed, palyra.ReasonApprovalFailed, palyra.ReasonApprovalExpired, palyra.ReasonCancelled}},
	} {
		for _, reason := range c.reasons {
			call.Outcome.Layer, call.Outcome.ReasonCode = c.layer, reason
			e, err := policyPart{d}.recorded(t.Context(), call)
			if err != nil || len(e.Flips) == 0 || !e.Flips[0].Verified || e.Flips[0].Becomes == palyra.Deny {
				t.Errorf("%s %s: %+v, %v", c.layer, reason, e.Flips, err)
			}
		}
	}
	for _, reason := range []palyra.Reason{palyra.ReasonFileNotFound, palyra.ReasonPathOutside, palyra.ReasonInternal, palyra.ReasonDiskFull} {
		call.Outcome.Layer, call.Outcome.ReasonCode = palyra.LayerTier, reason
		if e, err := (policyPart{d}).recorded(t.Context(), call); err != nil || len(e.Flips) > 0 {
			t.Errorf("%s would be turned by %+v, %v", reason, e.Flips, err)
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
