package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"palyra"
)

// Policies see the command, and the prompt its risk.
func TestCommandInContext(t *testing.T) {
	c := palyra.Command{
		Class: palyra.CommandDestructive, Understood: true, Subcommand: "push", RunsCode: true, Programs: []string{"env", "git"},
		Outside: []string{"/etc"}, Why: []string{"git push"},
	}
	e := engineOf(t, DefaultPreset, c)
	why := e.Why(t.Context(), program("git", "push"))
	var got struct {
		Command    map[string]any `json:"command"`
		Subcommand string         `json:"subcommand"`
	}
	if err := json.Unmarshal(why.Context, &got); err != nil {
		t.Fatal(err)
	}
	if got.Subcommand != "push" || got.Command["class"] != "destructive" || got.Command["runs_code"] != true ||
		got.Command["understood"] != true || got.Command["shell"] != false {
		t.Errorf("%+v", got)
	}
	if why.Risk.Level != palyra.RiskCritical || !slices.Contains(why.Risk.Factors, "destructive_command: git push") {
		t.Errorf("%+v", why.Risk)
	}
	if why.Verdict != palyra.Ask || !why.Need.Fresh {
		t.Errorf("%s %+v", why.Verdict, why.Need)
	}
}

// Nothing that an analysis says, or fails to say, makes a plan better than it is.
func TestCommandIsNeverTrustedTooFar(t *testing.T) {
	for name, f := range map[string]func(palyra.Plan) palyra.Command{
		"nobody":         nil,
		"a panic":        func(palyra.Plan) palyra.Command { panic("defect") },
		"nothing":        func(palyra.Plan) palyra.Command { return palyra.Command{} },
		"not understood": func(palyra.Plan) palyra.Command { return palyra.Command{Class: palyra.CommandReadOnly} },
		"another class":  func(palyra.Plan) palyra.Command { return palyra.Command{Class: "harmless", Understood: true} },
		"looks, runs code": func(palyra.Plan) palyra.Command {
			return palyra.Command{Class: palyra.CommandReadOnly, Understood: true, RunsCode: true}
		},
		"a shell that writes": func(palyra.Plan) palyra.Command {
			return palyra.Command{Class: palyra.CommandWrite, Understood: true, Shell: true}
		},
		"a shell that makes, not understood": func(palyra.Plan) palyra.Command {
			return palyra.Command{Class: palyra.CommandBuild, Shell: true}
		},
		"outside": func(palyra.Plan) palyra.Command {
			return palyra.Command{Class: palyra.CommandReadOnly, Understood: true, Outside: []string{"/etc/passwd"}}
		},
	} {
		e, err := New(Config{Bundle: defaults(t), Snapshot: open(), Analyse: f})
		if err != nil {
			t.Fatal(err)
		}
		if v := e.Judge(t.Context(), program("ls")); v.Effect != palyra.Ask || len(v.Errors) > 0 {
			t.Errorf("%s: %s by %q %v", name, v.Effect, ids(v), v.Errors)
		}
	}
}

// What only looks, in the full sandbox, is a low risk; what builds or writes there is
// not, nor what looks anywhere else.
func TestLooksAreALowRisk(t *testing.T) {
	for _, c := range []struct {
		class palyra.CommandClass
		tier  palyra.Tier
		want  palyra.RiskLevel
	}{
		{palyra.CommandReadOnly, palyra.TierC, palyra.RiskLow},
		{palyra.CommandBuild, palyra.TierC, palyra.RiskMedium},
		{palyra.CommandWrite, palyra.TierC, palyra.RiskMedium},
		{palyra.CommandReadOnly, palyra.TierB, palyra.RiskHigh},
		{palyra.CommandReadOnly, palyra.TierUnsandboxed, palyra.RiskHigh},
	} {
		r := program("ls")
		r.Plan.Tier = c.tier
		if v := engineOf(t, DefaultPreset, understood(c.class)).Judge(t.Context(), r); v.Risk.Level != c.want {
			t.Errorf("%s in tier %s: %+v", c.class, c.tier, v.Risk)
		}
	}
}

// A command without a question is one in a registered workspace, in tier C,
// without a way out and without anything else that is worth a question.
func TestUnderstoodCommandsNeedTheirPlace(t *testing.T) {
	e := engineOf(t, DefaultPreset, understood(palyra.CommandReadOnly))
	if v := e.Judge(t.Context(), program("ls")); v.Effect != palyra.Allow || ids(v) != "understood-commands" {
		t.Fatalf("%s by %q", v.Effect, ids(v))
	}
	for name, change := range map[string]func(*palyra.Request){
		"a new workspace":     func(r *palyra.Request) { r.Plan.Workspace.Known = false },
		"tier B":              func(r *palyra.Request) { r.Plan.Tier = palyra.TierB },
		"preflight":           func(r *palyra.Request) { r.Plan.Enforcement.Mode = "preflight" },
		"no guard":            func(r *palyra.Request) { r.Plan.Enforcement.Mode = "none" },
		"a host":              func(r *palyra.Request) { r.Plan.Egress = []string{"example.com:443"} },
		"a secret":            func(r *palyra.Request) { useSecrets(r, "github") },
		"network":             func(r *palyra.Request) { r.Plan.Capabilities = []palyra.Capability{palyra.Network} },
		"outside":             func(r *palyra.Request) { r.Plan.Writes = []string{"../x"} },
		"a guarded path":      func(r *palyra.Request) { r.Plan.Writes = []string{".git/config"} },
		"a profile that asks": func(r *palyra.Request) { r.Plan.Asks = true },
		"live input":          func(r *palyra.Request) { r.Plan.Stdin = palyra.StdinLive },
		"unix sockets":        func(r *palyra.Request) { r.Plan.UnixSockets = true },
		"an agent inside":     func(r *palyra.Request) { r.Plan.AgentSocket = true },
		"another's tool":      func(r *palyra.Request) { r.Tool.Source = palyra.SourceMCP },
		"no program":          func(r *palyra.Request) { r.Plan.Executable, r.Plan.Argv = palyra.Executable{}, nil },
	} {
		r := program("ls")
		change(&r)
		if v := e.Judge(t.Context(), r); v.Effect != palyra.Ask {
			t.Errorf("%s: %s by %q", name, v.Effect, ids(v))
		}
	}
}

// Under the default policies a worse class never gets a better answer, whatever
// the plan.
func TestWorseCommandsGetNoBetterAnswer(t *testing.T) {
	b, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	engines := make([]*Engine, len(classes))
	for i, class := range classes {
		c := understood(class)
		c.Understood = class != palyra.CommandUnknown
		if engines[i], err = New(Config{Bundle: b, Snapshot: open(), Analyse: func(palyra.Plan) palyra.Command { return c }}); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		r := anyRequest(t)
		r.Plan.Executable.Path = rapid.SampledFrom([]string{"", "/usr/bin/x"}).Draw(t, "path")
		r.Plan.Enforcement.Mode = rapid.SampledFrom([]palyra.NetworkMode{palyra.NetworkStrict, palyra.NetworkOpen}).Draw(t, "mode")
		last := palyra.Allow
		var fresh bool
		for i, e := range engines[:4] { // unknown stands beside them, not above
			v := e.Judge(t.Context(), r)
			if v.Effect > last || last == palyra.Ask && v.Effect == palyra.Ask && fresh && !v.Need.Fresh {
				t.Fatalf("%s gets %s", classes[i], v.Effect)
			}
			last, fresh = v.Effect, v.Need.Fresh
		}
		if v := engines[4].Judge(t.Context(), r); v.Effect > engines[2].Judge(t.Context(), r).Effect {
			t.Fatalf("unknown gets %s", v.Effect)
		}
	})
}

func TestSchemaIsVersioned(t *testing.T) {
	if !strings.HasPrefix(SchemaText(), "// Version 4.") || !strings.Contains(SchemaText(), "command: Command") {
		t.Error(SchemaText()[:80])
	}
}
