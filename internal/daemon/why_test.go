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

func explained[I ~string](t *testing.T, d *Daemon, id I, p palyra.Proposal) wire.Explanation {
	t.Helper()
	e, err := d.explainer().Explain(t.Context(), palyra.ID(id), p)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func proposal(tool, args string) palyra.Proposal {
	return palyra.Proposal{
		Proposer: palyra.Proposer{Principal: "agent:local", Owner: "user:me", Surface: palyra.SurfaceCLI},
		Tool:     palyra.ToolName(tool), Arguments: json.RawMessage(args), NoWait: true,
	}
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
		// its arguments are not kept
		"no calls": {spent, palyra.LayerCatalog, palyra.ReasonBudgetSpent, []string{"arguments false", "limit false"}},
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
		e := explained(t, d, out.CallID, palyra.Proposal{})
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
		if imagined := explained(t, d, "", c.p); c.layer != palyra.LayerApproval &&
			(imagined.Reason != out.Reason || imagined.Remedy != out.Remedy || imagined.Layer != out.Layer) {
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
	e := explained(t, d, out.ApprovalID, palyra.Proposal{})
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
	e, imagined := explained(t, d, out.CallID, palyra.Proposal{}), explained(t, d, "", p)
	for _, one := range []wire.Explanation{e, imagined} {
		if one.Reason != out.Reason || one.Remedy != out.Remedy || one.Layer != palyra.LayerPolicy ||
			one.ReasonCode != palyra.ReasonPolicyDenied || !strings.Contains(one.Remedy, "@id(") {
			t.Errorf("%+v\nfor %+v", one, out)
		}
	}
	if err := d.policy.Swap(d.judging(bundleOf(t, "default"))); err != nil {
		t.Fatal(err)
	}
	if e = explained(t, d, out.CallID, palyra.Proposal{}); e.Verdict.Effect != palyra.Deny ||
		!strings.Contains(strings.Join(e.Lines, "\n"), "judged now, the answer is ask") || len(e.Flips) == 0 {
		t.Errorf("after a change: %+v", e)
	}
}

func TestWhyEnds(t *testing.T) {
	d := testDaemon(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.explainer().Explain(ctx, "", proposal("palyra.echo", `{"text":"x"}`)); err == nil {
		t.Error("explained for nobody")
	}
	if _, err := d.explainer().Explain(t.Context(), "01ARZ3NDEKTSV4RRFFQ69G5FAV",
		palyra.Proposal{}); !strings.Contains(palyra.AsError(err).Text, "no call, approval or attestation") {
		t.Error(err)
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
			palyra.ReasonGrantSpent, palyra.ReasonGrantRevoked, palyra.ReasonApprovalExpired, palyra.ReasonSessionClosed, palyra.ReasonPlanChanged,
			palyra.ReasonAlreadyDecided,
		}},
		{palyra.LayerTier, []palyra.Reason{
			palyra.ReasonPlanChanged, palyra.ReasonGrantRevoked, palyra.ReasonInterrupted, palyra.ReasonStopping,
			palyra.ReasonCancelled,
		}},
		{palyra.LayerJournal, []palyra.Reason{palyra.ReasonInterrupted}},
		{palyra.LayerApproval, []palyra.Reason{
			palyra.ReasonSessionClosed, palyra.ReasonApprovalFailed, palyra.ReasonApprovalExpired,
			palyra.ReasonCancelled,
		}},
	} {
		for _, reason := range c.reasons {
			call.Outcome.Layer, call.Outcome.ReasonCode = c.layer, reason
			e, err := d.explainer().Recorded(t.Context(), call)
			if err != nil || len(e.Flips) == 0 || !e.Flips[0].Verified || e.Flips[0].Becomes == palyra.Deny {
				t.Errorf("%s %s: %+v, %v", c.layer, reason, e.Flips, err)
			}
		}
	}
	for _, reason := range []palyra.Reason{palyra.ReasonFileNotFound, palyra.ReasonPathOutside, palyra.ReasonInternal, palyra.ReasonDiskFull} {
		call.Outcome.Layer, call.Outcome.ReasonCode = palyra.LayerTier, reason
		if e, err := d.explainer().Recorded(t.Context(), call); err != nil || len(e.Flips) > 0 {
			t.Errorf("%s would be turned by %+v, %v", reason, e.Flips, err)
		}
	}
}

// Where too many questions are open, the setting that lets one more be asked is named.
func TestWhyOfTooManyPending(t *testing.T) {
	d, err := start(t, home(t), "approvals.max_pending=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	p := proposal("palyra.fs.write", `{"path":"a","content":"b"}`)
	p.Workspace = t.TempDir()
	var last palyra.Outcome
	for _, name := range []string{"a", "b"} {
		p.Arguments = json.RawMessage(`{"path":"` + name + `","content":"b"}`)
		if last, err = d.path.calls.Call(t.Context(), p, palyra.Watch{}); err != nil {
			t.Fatal(err)
		}
	}
	if last.ReasonCode != palyra.ReasonTooManyPending {
		t.Fatalf("%+v", last)
	}
	e := explained(t, d, last.CallID, palyra.Proposal{})
	if !slices.ContainsFunc(e.Flips, func(f wire.Flip) bool { return f.Change == "approvals.max_pending = 2" && f.Verified }) {
		t.Errorf("%+v", e.Flips)
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
