package daemon

import (
	"strings"
	"testing"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/explain"
)

// In a world where no setting is another every call fares as it does here, so that
// whatever is different in another one is the setting's doing.
func TestTheSameWorld(t *testing.T) {
	d := testDaemon(t)
	w, err := d.imaginedWorld(d.Settings)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, c := range []struct{ tool, args string }{
		{"palyra.echo", `{"text":"x"}`},
		{"palyra.fs.write", `{"path":"a","content":"b"}`},
		{"palyra.fs.read", `{"path":"../a"}`},
		{"palyra.http.fetch", `{"url":"https://a.example/"}`},
		{"palyra.http.fetch", `{"url":"http://localhost:1/"}`},
		{"palyra.process.run", `{"command":"ls","tier":"b"}`},
		{"palyra.process.run", `{"command":"ls","limits":{"memory_bytes":1}}`},
		{"palyra.none", `{}`},
		{"palyra.echo", `{"text":1}`},
	} {
		p := proposal(c.tool, c.args)
		p.Workspace = dir
		same(t, d, w, p)
	}
}

// same fails unless a call fares alike in two worlds.
func same(t *testing.T, d *Daemon, w explain.World, p palyra.Proposal) {
	t.Helper()
	one, other := palyra.Call{Proposal: p}, palyra.Call{Proposal: p}
	was, is := d.explainer().Here.PlanCall(t.Context(), &one), w.PlanCall(t.Context(), &other)
	if (was == nil) != (is == nil) || was != nil && palyra.AsError(was).Text != palyra.AsError(is).Text || one.Digest != other.Digest {
		t.Fatalf("%s %s: %v and %v, %s and %s", p.Tool, p.Arguments, was, is, one.Digest, other.Digest)
	}
	if was != nil {
		return
	}
	if a, b := d.policy.Judge(t.Context(), palyra.RequestOf(&one)), w.Policy.Judge(t.Context(),
		palyra.RequestOf(&other)); a.Effect != b.Effect || a.Snapshot != b.Snapshot || a.Bundle != b.Bundle {
		t.Errorf("%s %s: %+v and %+v", p.Tool, p.Arguments, a, b)
	}
}

// A setting is looked at by itself: what it would let through gets through in
// thought, and here nothing is another.
func TestAnotherWorld(t *testing.T) {
	d := testDaemon(t)
	p := proposal("palyra.echo", `{"text":"x"}`)
	p.CallsUsed = 64
	fetched := proposal("palyra.http.fetch", `{"url":"http://localhost:1/"}`)
	for name, c := range map[string]struct {
		p   palyra.Proposal
		set func(*config.Config)
	}{
		"more calls":   {p, func(c *config.Config) { c.ToolCall.MaxCallsPerRun = 65 }},
		"this machine": {fetched, func(c *config.Config) { c.Egress.PrivateRanges = []string{"127.0.0.0/8"} }},
	} {
		conf := d.Settings
		c.set(&conf)
		w, err := d.imaginedWorld(conf)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.PlanCall(t.Context(), &palyra.Call{Proposal: c.p}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := d.explainer().Here.PlanCall(t.Context(), &palyra.Call{Proposal: c.p}); err == nil {
			t.Errorf("%s: the world itself is another", name)
		}
	}
	conf := d.Settings
	conf.Egress.PrivateRanges = []string{"x"}
	if _, err := d.imaginedWorld(conf); err == nil {
		t.Error("a world with settings that are none")
	}
}

// A call that was only thought of keeps its arguments, so its budget is tried.
func TestBudgetIsTried(t *testing.T) {
	d := testDaemon(t)
	p := proposal("palyra.echo", `{"text":"x"}`)
	p.CallsUsed = 64
	e := explained(t, d, "", p)
	if len(e.Flips) != 1 || e.Flips[0].Change != "tool_call.max_calls_per_run = 128" || !e.Flips[0].Verified ||
		e.Flips[0].Becomes != palyra.Allow {
		t.Errorf("%+v", e.Flips)
	}
	p.Tool = "palyra.fs.write" // asks
	p.Workspace, p.Arguments = t.TempDir(), []byte(`{"path":"a","content":"b"}`)
	if e = explained(t, d, "", p); len(e.Flips) != 1 || e.Flips[0].Becomes != palyra.Ask {
		t.Errorf("%+v", e.Flips)
	}
	p.Arguments = []byte(`{"path":"../a","content":"b"}`) // refused all the same
	if e = explained(t, d, "", p); len(e.Flips) != 0 {
		t.Errorf("%+v", e.Flips)
	}
}

// Who is bound to other workspaces is let in by whoever may: a wider token, or a
// wider person.
func TestWhyOfAReach(t *testing.T) {
	d := testDaemon(t)
	here := t.TempDir()
	p := proposal("palyra.fs.list", `{"path":"."}`)
	p.Workspace, p.Within = here, []string{"/elsewhere"}
	me, err := d.access.Operators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.Owner = me[0].Principal
	out, err := d.path.calls.Call(t.Context(), p, palyra.Watch{})
	if err != nil {
		t.Fatal(err)
	}
	e := explained(t, d, out.CallID, palyra.Proposal{})
	if e.ReasonCode != palyra.ReasonScopeDenied || len(e.Flips) != 1 || !e.Flips[0].Verified || e.Flips[0].Kind != "access" ||
		!strings.Contains(e.Flips[0].Change, "palyra workspace add "+here) || !strings.Contains(e.Flips[0].Change, "palyra access token add") {
		t.Errorf("%s %+v", e.ReasonCode, e.Flips)
	}
}

// No setting is named with which no daemon would start.
func TestWhyNamesSettingsThatFit(t *testing.T) {
	d := testDaemon(t)
	if !d.Settings.Fits() {
		t.Fatal("the settings of this daemon do not fit")
	}
	for timeout, want := range map[int64]int{3600_000: 1, 48 * 3600_000: 0} {
		p := proposal("palyra.echo", `{"text":"x"}`)
		p.TimeoutMS = timeout
		if e := explained(t, d, "", p); e.ReasonCode != palyra.ReasonMalformedInput || len(e.Flips) != want {
			t.Errorf("%d: %s %+v", timeout, e.ReasonCode, e.Flips)
		}
	}
}
