package policy

import (
	"slices"
	"strings"
	"testing"

	"palyra"
)

const unnecessary = "would make an approval unnecessary"

// A permit is advised only where one helps.
func TestRemedyAdvisesPermitsThatHelp(t *testing.T) {
	own := write(".palyra/policy/a.cedar")
	own.Plan.Workspace = palyra.WorkspaceRef{Path: "/w", Known: true}
	own.Tool.Source = palyra.SourceBuiltin
	secret := program("curl", "x")
	secret.Labels, secret.Plan.Egress = []string{"secret-read"}, []string{"a.example:443"}
	for name, c := range map[string]struct {
		e    *Engine
		r    palyra.Request
		want bool
	}{
		"a write": {engineOf(t, "default", understood(palyra.CommandWrite)), program("touch", "a"), true},
		"a push": {
			engineOf(t, "default", palyra.Command{Class: palyra.CommandDestructive, Understood: true}), program("git", "push"),
			false,
		},
		"strict":         {engineOf(t, "strict", understood(palyra.CommandWrite)), program("touch", "a"), false},
		"a guarded path": {engineOf(t, "default", palyra.Command{}), own, false},
		"after a secret": {engineOf(t, "default", understood(palyra.CommandWrite)), secret, false},
		"live input": {
			engineOf(t, "default", understood(palyra.CommandWrite)),
			func() palyra.Request { r := program("cat"); r.Plan.Stdin = palyra.StdinLive; return r }(), false,
		},
		"nothing special": {engineOf(t, "default", palyra.Command{Class: palyra.CommandUnknown}), program("python3", "x.py"), true},
	} {
		v := c.e.Judge(t.Context(), c.r)
		if v.Effect != palyra.Ask || strings.Contains(v.Remedy, unnecessary) != c.want ||
			!strings.HasPrefix(v.Remedy, "have an operator answer the approval") {
			t.Errorf("%s: %s %s", name, v.Effect, v.Remedy)
		}
		if c.want != slices.ContainsFunc(c.e.Why(t.Context(), c.r).Flips, func(f Flip) bool { return f.Kind == flipPolicy }) {
			t.Errorf("%s: the flips say otherwise", name)
		}
	}
}

// A permit that turns a denial into a question is not said to allow.
func TestRemedyOfADenialThatWouldBeAQuestion(t *testing.T) {
	e := engineOf(t, "ci", palyra.Command{Class: palyra.CommandDestructive, Understood: true})
	x := e.Why(t.Context(), program("git", "push"))
	if x.Verdict != palyra.Deny || !strings.HasPrefix(x.Remedy, "an operator can make it a question: add to the policy bundle: @id(") ||
		!strings.HasSuffix(x.Remedy, "; Then the answer must be for this call only (scope once)") || len(x.Flips) != 1 ||
		x.Flips[0].Becomes != palyra.Ask {
		t.Errorf("%s %s %+v", x.Verdict, x.Remedy, x.Flips)
	}
	x = engineOf(t, "ci", palyra.Command{}).Why(t.Context(), program("x"))
	if !strings.HasPrefix(x.Remedy, "an operator can add to the policy bundle: @id(") || len(x.Flips) != 1 ||
		x.Flips[0].Becomes != palyra.Allow {
		t.Errorf("%s %+v", x.Remedy, x.Flips)
	}
	x = engineOf(t, "ci", palyra.Command{Class: palyra.CommandDestructive}).Why(t.Context(), program("x", strings.Repeat("y", 4000)))
	if !strings.Contains(x.Remedy, "make it a question: add a permit for it") || !strings.Contains(x.Remedy, "policy why") {
		t.Error(x.Remedy)
	}
}

// The presets in which nobody is asked say so themselves.
func TestDenialsNameThePreset(t *testing.T) {
	for preset, want := range map[string]string{
		"readonly": "the preset readonly runs only what looks",
		"ci":       "under the preset ci nobody is asked",
	} {
		if v := engineOf(t, preset, palyra.Command{}).Judge(t.Context(), program("x")); v.Effect != palyra.Deny ||
			!strings.Contains(v.Reason, want) {
			t.Errorf("%s: %s", v.Effect, v.Reason)
		}
	}
	if v := engine(t, load(t, `@id("a") permit (principal, action == Action::"tool.execute", resource) when { context.tier == "x" };`)).
		Judge(t.Context(), program("x")); strings.Contains(v.Reason, "preset") {
		t.Error(v.Reason)
	}
}

// Why a command is asked about stands in the reason, for whatever policies.
func TestReasonTellsOfTheCommand(t *testing.T) {
	for name, c := range map[string]struct {
		command palyra.Command
		change  func(*palyra.Plan)
		want    string
	}{
		"outside": {
			palyra.Command{Class: palyra.CommandReadOnly, Understood: true, Outside: []string{"~/.bashrc", "/etc"}},
			nil,
			"it names a path outside the workspace: ~/.bashrc and 1 more",
		},
		"why": {
			palyra.Command{Why: []string{"python3: its words do not tell what it does"}},
			nil,
			"python3: its words do not tell what it does",
		},
		"not understood": {palyra.Command{}, nil, "its words do not tell what it does"},
		"writes":         {understood(palyra.CommandWrite), nil, "it changes files"},
		"destructive":    {palyra.Command{Class: palyra.CommandDestructive}, nil, "it cannot be taken back, or reaches beyond this machine"},
		"code":           {palyra.Command{Class: palyra.CommandReadOnly, Understood: true, RunsCode: true}, nil, "it can run other code"},
		"a host": {
			understood(palyra.CommandReadOnly), func(p *palyra.Plan) { p.Egress = []string{"a.example:1"} },
			"it may connect to hosts",
		},
		"another tier": {
			understood(palyra.CommandReadOnly), func(p *palyra.Plan) { p.Tier = palyra.TierB },
			"it does not run in the full sandbox (tier C)",
		},
	} {
		r := program("x")
		if c.change != nil {
			c.change(&r.Plan)
		}
		v := engineOf(t, "default", c.command).Judge(t.Context(), r)
		if v.Effect != palyra.Ask || !strings.HasSuffix(v.Reason, "; about this command: "+c.want) {
			t.Errorf("%s: %s %s", name, v.Effect, v.Reason)
		}
	}
	if v := engineOf(t, "default", understood(palyra.CommandReadOnly)).Judge(t.Context(), program("ls")); v.Effect != palyra.Allow ||
		strings.Contains(v.Reason, "about this") {
		t.Errorf("%s %s", v.Effect, v.Reason)
	}
	if v := engineOf(t, "default", palyra.Command{}).Judge(t.Context(), write("a.txt")); strings.Contains(v.Reason, "about this") {
		t.Error(v.Reason)
	}
}

// Hostile words neither draw on a screen nor fill it.
func TestTraitsAreSafe(t *testing.T) {
	long := strings.Repeat("y", 5000)
	v := engineOf(t, "default", palyra.Command{
		Outside: []string{"/a\x1b[2J\n\u202eb", long}, Why: []string{long, "\x1b[2J\nx", "c", "d", "e", "f"},
	}).Judge(t.Context(), program("x"))
	if strings.ContainsFunc(v.Reason, unprintable) || len(v.Reason) > 1024 ||
		!strings.Contains(v.Reason, "4 more") && !strings.Contains(v.Reason, "3 more") {
		t.Errorf("%q", v.Reason)
	}
}

// Of several policies in the way only those are named that must give way.
func TestFlipsAreTheSmallest(t *testing.T) {
	k := palyra.Command{Class: palyra.CommandReadOnly, Understood: true, Shell: true, Programs: []string{"bash", "ls"}}
	x := engineOf(t, "strict", k).Why(t.Context(), program("bash", "-c", "ls"))
	if x.Verdict != palyra.Deny || len(x.Flips) != 1 || x.Flips[0].Becomes != palyra.Ask ||
		strings.Contains(x.Flips[0].Text, "strict-always-fresh") ||
		!strings.Contains(x.Flips[0].Text, "strict-no-shells") || !strings.Contains(x.Flips[0].Text, "strict-no-shell-programs") {
		t.Errorf("%s %+v", x.Verdict, x.Flips)
	}
}

// Policies that are more than can be tried one by one are exempted from together.
func TestFlipsOfManyPolicies(t *testing.T) {
	text := permitAll
	for _, name := range strings.Split("abcdefghijklmnopqrst", "") {
		text += "\n@id(\"no-" + name + "\") forbid (principal, action in Action::\"call\", resource);"
	}
	x := engine(t, load(t, text)).Why(t.Context(), write("a.txt"))
	if len(x.Flips) != 1 || x.Flips[0].Becomes != palyra.Allow || strings.Count(x.Flips[0].Text, "exempt this call") != 20 {
		t.Errorf("%+v", x.Flips)
	}
}

func TestCheckPrincipal(t *testing.T) {
	for who, ok := range map[palyra.Principal]bool{
		"agent:local": true, "user:a": true, "xx": false, "user:": false, "": false,
		"moon:a": false,
	} {
		if err := CheckPrincipal(who); (err == nil) != ok || err != nil && palyra.AsError(err).Remedy == "" {
			t.Errorf("%q: %v", who, err)
		}
	}
}

// A permit for a program that files tell what to do would hold for whatever they say
// later: nobody is told to make one in place of an answer, and where one turns a
// denial it says so itself.
func TestPermitsForScripts(t *testing.T) {
	r := program("python3", "x.py")
	r.Plan.Inputs = []palyra.Input{{Path: "/w/x.py", Digest: palyra.SumBytes([]byte("1"))}}
	x := engineOf(t, "default", palyra.Command{Class: palyra.CommandUnknown}).Why(t.Context(), r)
	if x.Verdict != palyra.Ask || strings.Contains(x.Remedy, unnecessary) ||
		slices.ContainsFunc(x.Flips, func(f Flip) bool { return f.Kind == flipPolicy }) {
		t.Errorf("%s %q %+v", x.Verdict, x.Remedy, x.Flips)
	}
	x = engineOf(t, "ci", palyra.Command{}).Why(t.Context(), r)
	if x.Verdict != palyra.Deny || len(x.Flips) != 1 || !strings.Contains(x.Flips[0].Text, "any content of the files that it runs") ||
		!strings.Contains(x.Flips[0].Change, "any content of the files") {
		t.Errorf("%s %+v", x.Verdict, x.Flips)
	}
	r.Plan.Inputs[0].Digest = "" // a file that is not there tells nothing
	if x := engineOf(t, "default", palyra.Command{Class: palyra.CommandUnknown}).
		Why(t.Context(), r); !slices.ContainsFunc(x.Flips, func(f Flip) bool { return f.Kind == flipPolicy }) {
		t.Errorf("%+v", x.Flips)
	}
}

// A permit for a program of the workspace is for the program as it is.
func TestPermitsForProgramsOfTheWorkspace(t *testing.T) {
	for path, bound := range map[string]bool{"/w/tool": true, "/usr/bin/tool": false} {
		r := program("tool")
		r.Plan.Workspace, r.Plan.Executable = palyra.WorkspaceRef{Path: "/w", Known: true}, palyra.Executable{
			Path:   path,
			Digest: palyra.SumBytes([]byte("1")),
		}
		b, err := Default()
		if err != nil {
			t.Fatal(err)
		}
		x := engine(t, b).Why(t.Context(), r)
		i := slices.IndexFunc(x.Flips, func(f Flip) bool { return f.Kind == flipPolicy })
		if i < 0 || strings.Contains(x.Flips[i].Change, "context.executable.digest == ") != bound {
			t.Fatalf("%s: %+v", path, x.Flips)
		}
		more, err := b.parse(x.Flips[i].Change)
		if err != nil {
			t.Fatal(err)
		}
		e := engine(t, b.rewritten(nil, more))
		if v := e.Judge(t.Context(), r); v.Effect != palyra.Allow {
			t.Errorf("%s: %s", path, v.Reason)
		}
		r.Plan.Executable.Digest = palyra.SumBytes([]byte("2"))
		if v := e.Judge(t.Context(), r); (v.Effect == palyra.Allow) == bound {
			t.Errorf("%s: another program is answered %s", path, v.Effect)
		}
	}
}
