package policy

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"palyra"
)

// What runs without a question in the sandbox is asked about, or denied, when the
// agent means to run it itself; but for files that can be put back.
func TestUnsandboxedIsAskedAbout(t *testing.T) {
	for _, c := range []struct {
		name    string
		command palyra.Command
		request palyra.Request
		want    string // default ask strict ci readonly
	}{
		{"looks", understood(palyra.CommandReadOnly), program("ls"), "ask ask ask deny deny"},
		{"builds", understood(palyra.CommandBuild), program("make"), "ask ask ask deny deny"},
		{"writes", understood(palyra.CommandWrite), program("touch"), "ask ask ask deny deny"},
		{"destroys", understood(palyra.CommandDestructive), program("git", "push"), "ask ask ask deny deny"},
		{"a file", palyra.Command{}, write("a.txt"), "allow ask ask allow deny"}, // what it replaces is kept before the yes
		{"a guarded file", palyra.Command{}, write(".git/config"), "ask ask ask deny deny"},
		{"read", palyra.Command{}, builtin("palyra.fs.read", reads(palyra.FilesystemRead)), "allow allow allow allow allow"},
		{"a tool of its own", palyra.Command{}, foreign(), "ask ask ask deny deny"},
	} {
		r := c.request
		r.Surface, r.Plan = palyra.SurfaceHook, r.Plan.Unsandboxed()
		var got []string
		for _, preset := range Presets() {
			v := engineOf(t, preset, c.command).Judge(t.Context(), r)
			got = append(got, v.Effect.String())
			if len(v.Errors) > 0 {
				t.Errorf("%s under %s: %v", c.name, preset, v.Errors)
			}
			if !slices.Contains(v.Risk.Factors, "no_sandbox: the agent runs it itself") {
				t.Errorf("%s under %s: the risk does not say so: %v", c.name, preset, v.Risk)
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
}

func foreign() palyra.Request {
	return builtin("hook.task", func(r *palyra.Request) {
		r.Tool.Source, r.Plan.Source, r.Tool.Workspace = palyra.SourceAgent, palyra.SourceAgent, true
		acts(true, palyra.ProcessExec, palyra.FilesystemWrite, palyra.Network)(r)
	})
}

// Whatever the plan and the preset: without the sandbox nothing gets a better
// answer than with it.
func TestUnsandboxedIsNeverBetter(t *testing.T) {
	for _, preset := range Presets() {
		e := engineOf(t, preset, understood(palyra.CommandReadOnly))
		rapid.Check(t, func(t *rapid.T) {
			r := anyRequest(t)
			held := e.Judge(t.Context(), r)
			r.Plan = r.Plan.Unsandboxed()
			if v := e.Judge(t.Context(), r); v.Effect > held.Effect || v.Effect == palyra.Ask && held.Effect == palyra.Ask && held.Need.Fresh &&
				!v.Need.Fresh {
				t.Fatalf("%s: %s %+v, held %s %+v", preset, v.Effect, v.Need, held.Effect, held.Need)
			}
		})
	}
}
