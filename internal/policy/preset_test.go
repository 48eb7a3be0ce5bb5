package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"palyra"
	programs "palyra/internal/program"
)

// bundleOf compiles a preset.
func bundleOf(t testing.TB, name string) *Bundle {
	t.Helper()
	files, err := Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	b, r := Check(files)
	if b == nil {
		t.Fatalf("%s: %v", name, r.Problems)
	}
	return b
}

// engineOf judges with a preset, and with c as what any command is.
func engineOf(t testing.TB, preset string, c palyra.Command) *Engine {
	t.Helper()
	e, err := New(Config{Bundle: bundleOf(t, preset), Snapshot: open(), Analyse: func(palyra.Plan) palyra.Command { return c }})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// program is a program in a registered workspace and the full sandbox.
func program(argv ...string) palyra.Request {
	r := builtin("palyra.process.run", acts(true, palyra.ProcessExec, palyra.FilesystemWrite, palyra.FilesystemRead))
	r.Tool.Tier, r.Plan.Tier, r.Plan.Enforcement.Mode = palyra.TierC, palyra.TierC, "strict"
	r.Plan.Executable, r.Plan.Argv = palyra.Executable{Path: "/usr/bin/" + argv[0], Digest: palyra.SumBytes(nil)}, argv
	return r
}

func fromMCP(r *palyra.Request) { r.Tool.Source = palyra.SourceMCP }

// staged is a request whose run writes to a layer of its own.
func staged(r palyra.Request) palyra.Request {
	r.Plan.Staging = palyra.Staging{Writes: palyra.WritesStaged}
	return r
}

func understood(class palyra.CommandClass) palyra.Command {
	return palyra.Command{Class: class, Understood: true, Programs: []string{"x"}}
}

func TestPresetsAreNamedAndKnown(t *testing.T) {
	seen := map[palyra.Digest]bool{}
	for _, name := range Presets() {
		b := bundleOf(t, name)
		if got := PresetOf(b.Digest()); got != name || seen[b.Digest()] {
			t.Errorf("%s is known as %q", name, got)
		}
		seen[b.Digest()] = true
		for _, p := range b.Policies() {
			if p.Reason == "" || p.Remedy == "" {
				t.Errorf("%s: %s does not explain itself", name, p.ID)
			}
		}
	}
	if PresetOf(palyra.SumBytes(nil)) != "" || PresetOf("") != "" {
		t.Error("a preset nobody made")
	}
	if _, err := Preset(""); palyra.AsError(err).Remedy == "" {
		t.Error(err)
	}
}

// What each preset says to each kind of call.
func TestPresetVerdicts(t *testing.T) {
	shell := palyra.Command{Class: palyra.CommandReadOnly, Understood: true, Shell: true, Programs: []string{"sh", "ls"}}
	for _, c := range []struct {
		name    string
		command palyra.Command
		request palyra.Request
		want    string // default ask strict ci readonly
	}{
		{"looks", understood(palyra.CommandReadOnly), program("ls"), "allow allow ask allow allow"},
		{"builds", understood(palyra.CommandBuild), program("make"), "allow allow ask allow deny"},
		{"writes", understood(palyra.CommandWrite), program("touch"), "ask ask ask allow deny"},
		{"destroys", understood(palyra.CommandDestructive), program("git", "push"), "ask ask ask deny deny"},
		{"unknown", palyra.Command{Class: palyra.CommandUnknown}, program("x"), "ask ask ask deny deny"},
		{"a shell that looks", shell, program("sh", "-c", "ls"), "allow allow deny allow allow"},
		{"writes, staged", understood(palyra.CommandWrite), staged(program("touch")), "allow ask ask allow deny"},
		{"unknown, staged", palyra.Command{Class: palyra.CommandUnknown}, staged(program("x")), "allow ask ask allow deny"},
		{"destroys, staged", understood(palyra.CommandDestructive), staged(program("git", "push")), "ask ask ask deny deny"},
		{"outside, staged", palyra.Command{Class: palyra.CommandUnknown, Outside: []string{"/x"}}, staged(program("x")), "ask ask ask deny deny"},
		{"reaches out", palyra.Command{Class: palyra.CommandUnknown, Programs: []string{"curl"}}, staged(program("x")), "ask ask ask deny deny"},
		{"echo", palyra.Command{}, echo(), "allow allow allow allow allow"},
		{"a file", palyra.Command{}, write("a.txt"), "allow ask ask allow deny"},
		{"a guarded file", palyra.Command{}, write(".git/config"), "ask ask ask deny deny"},
		{"another's tool", palyra.Command{}, builtin("mcp.x", fromMCP), "ask ask ask deny ask"},
		{"a device", palyra.Command{}, builtin("palyra.device.pair", acts(false, palyra.DevicePair)), "ask ask ask ask ask"},
	} {
		var got []string
		for _, preset := range Presets() {
			v := engineOf(t, preset, c.command).Judge(t.Context(), c.request)
			got = append(got, v.Effect.String())
			if len(v.Errors) > 0 {
				t.Errorf("%s under %s: %v", c.name, preset, v.Errors)
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
}

// Under strict an interpreter does not run by the name of its version either.
func TestStrictKnowsInterpretersByVersion(t *testing.T) {
	for _, name := range []string{"python3", "python3.13", "pypy3", "nodejs", "node22", "perl5.36.0", "ruby3.1", "php8.2", "lua5.4"} {
		e := engineOf(t, "strict", palyra.Command{Class: palyra.CommandUnknown, RunsCode: true, Programs: []string{name}})
		if v := e.Judge(t.Context(), program(name, "-c", "x")); v.Effect != palyra.Deny {
			t.Errorf("%s: %s", name, v.Effect)
		}
	}
	e := engineOf(t, "strict", understood(palyra.CommandWrite))
	if v := e.Judge(t.Context(), program("mkdir", "x")); v.Effect != palyra.Ask {
		t.Errorf("mkdir: %s", v.Effect)
	}
}

// Under strict an answer covers one call.
func TestStrictIsFresh(t *testing.T) {
	e := engineOf(t, "strict", understood(palyra.CommandReadOnly))
	if v := e.Judge(t.Context(), program("ls")); v.Effect != palyra.Ask || !v.Need.Fresh {
		t.Errorf("%s %+v", v.Effect, v.Need)
	}
	for _, name := range []string{"bash", "node", "python3"} {
		blind, err := New(Config{Bundle: bundleOf(t, "strict"), Snapshot: open()}) // nobody analyses
		if err != nil {
			t.Fatal(err)
		}
		if v := blind.Judge(t.Context(), program(name, "x")); v.Effect != palyra.Deny {
			t.Errorf("%s: %s", name, v.Effect)
		}
	}
}

// A bundle's text has a copy of the programs that reach beyond this machine: the same ones, in the same order.
func TestProgramsThatReachBeyond(t *testing.T) {
	files, err := Preset(DefaultPreset)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(files["commands.cedar"], "context.command.programs.containsAny([")
	list, _, closed := strings.Cut(rest, "])")
	var names []string
	if err := json.Unmarshal([]byte("["+list+"]"), &names); !found || !closed || err != nil {
		t.Fatal(err)
	}
	if want := programs.Shipped().Beyond; !slices.Equal(names, want) {
		t.Errorf("the preset has %q, the table %q", names, want)
	}
}
