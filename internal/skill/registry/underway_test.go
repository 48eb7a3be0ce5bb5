package registry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/store"
	"palyra/internal/wasm"
)

// begun is a call of the demo's tool that runs until its context ends.
func (w *world) begun(s skill.Skill) <-chan palyra.Result {
	w.t.Helper()
	w.enable(s)
	begun, done := make(chan struct{}), make(chan palyra.Result, 1)
	w.Runtime = &runtime{work: func(ctx context.Context, _ wasm.Invocation) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}}
	l, c := w.launch("skill.demo.greet", `{}`)
	go func() { done <- w.Call(context.Background(), l, c) }()
	<-begun
	return done
}

// TestTakenAwayWhileItRuns: whoever takes a skill away, or something that it was granted, is answered when no call of it runs
// any more, and the call says why.
func TestTakenAwayWhileItRuns(t *testing.T) {
	for name, c := range map[string]struct {
		take func(w *world) error
		says string
	}{
		"quarantined": {func(w *world) error { _, err := w.Quarantine(t.Context(), "demo", w.by); return err }, "quarantine"},
		"removed":     {func(w *world) error { return w.Remove(t.Context(), "demo", false, w.by) }, "removed"},
		"forgotten":   {func(w *world) error { return w.Remove(t.Context(), "demo", true, w.by) }, "removed"},
		"revoked":     {func(w *world) error { _, err := w.Revoke(t.Context(), keyID(1), w.by); return err }, "revoked"},
		"granted less": {func(w *world) error {
			s, err := w.Find("demo")
			if err == nil {
				_, err = w.Enable(t.Context(), skill.Enabling{ID: "demo", Digest: s.Digest, By: w.by})
			}
			return err
		}, "granted less"},
		"an update without something": {func(w *world) error {
			_, err := w.Install(t.Context(), skill.Addition{Package: pack(t, 1, "1.0.0", "1.1.0", `storage = ["cache/"]`, ""), By: w.by})
			return err
		}, "granted less"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.trust("acme", 1)
			done := w.begun(w.install(pack(t, 1)))
			w.Runtime = &runtime{}
			if err := c.take(w); err != nil {
				t.Fatal(err)
			}
			w.mu.Lock()
			if len(w.running) != 0 {
				t.Errorf("%d calls run", len(w.running))
			}
			w.mu.Unlock()
			res := <-done
			if f := res.Failure; f == nil || f.Reason != skill.ReasonTaken || !strings.Contains(f.Text, c.says) || f.Remedy == "" ||
				res.Output != nil {
				t.Errorf("%+v", res.Failure)
			}
		})
	}
}

// TestOthersGoOn: what takes one skill away, changes nothing or gives more ends nobody else's calls.
func TestOthersGoOn(t *testing.T) {
	w := newWorld(t)
	w.trust("acme", 1)
	w.trust("other", 2)
	done := w.begun(w.install(pack(t, 1)))
	w.Runtime = &runtime{}
	w.enable(w.install(pack(t, 2, `"demo"`, `"second"`, `"acme"`, `"other"`)))
	if _, err := w.Revoke(t.Context(), keyID(2), w.by); err != nil {
		t.Fatal(err)
	}
	w.install(pack(t, 1, "1.0.0", "1.1.0"))
	select {
	case res := <-done:
		t.Fatalf("%+v", res.Failure)
	default:
	}
	if err := w.Remove(t.Context(), "demo", false, w.by); err != nil {
		t.Fatal(err)
	}
	<-done
}

// TestTakenBeforeItBegins: between the look and the start of a call nothing slips through.
func TestTakenBeforeItBegins(t *testing.T) {
	w := newWorld(t)
	w.trust("acme", 1)
	s := w.enable(w.install(pack(t, 1)))
	if _, err := w.Quarantine(t.Context(), "demo", w.by); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.enter(t.Context(), s); palyra.AsError(err).Reason != skill.ReasonTaken || len(w.running) != 0 {
		t.Error(err)
	}
}

// TestForget: what a skill kept goes with --forget, in the transaction that lets go of its id, and not before.
func TestForget(t *testing.T) {
	w := newWorld(t)
	var forgotten []string
	w.Forget = func(_ *store.Tx, owner string) error {
		forgotten = append(forgotten, owner)
		return nil
	}
	w.trust("acme", 1)
	w.enable(w.install(pack(t, 1)))
	if err := w.Remove(t.Context(), "demo", false, w.by); err != nil || len(forgotten) > 0 {
		t.Error(err, forgotten)
	}
	if err := w.Remove(t.Context(), "demo", true, w.by); err != nil || !slices.Equal(forgotten, []string{"acme/demo"}) {
		t.Error(err, forgotten)
	}
	w.install(pack(t, 1))
	w.Forget = func(*store.Tx, string) error { return errors.New("no room") }
	if err := w.Remove(t.Context(), "demo", true, w.by); err == nil {
		t.Error("it is not said that it was not forgotten")
	}
	w.Forget = nil
	w.again()
	if err := w.Remove(t.Context(), "demo", true, w.by); err != nil || len(w.known) != 0 {
		t.Error(err, w.known)
	}
}

// TestModulesAreChecked: before a package is installed the runtime has looked at every module of it, as its tools use it.
func TestModulesAreChecked(t *testing.T) {
	w := newWorld(t)
	w.trust("acme", 1)
	module, schema := "module = \"demo.wasm\"\n", "input_schema = '{\"type\":\"object\"}'\n"
	tool := func(name, more string) string {
		return "[[tools]]\nname = \"" + name + "\"\ndescription = \"x\"\n" + module + more
	}
	both := pack(t, 1, `id = "demo"`, "abi = \"palyra-skill/1\"\nid = \"demo\"", module, module+schema+tool("other", schema+"export = \"two\"\n")+tool("third", ""))
	for _, reason := range []palyra.Reason{
		wasm.ReasonBadModule, wasm.ReasonImport, wasm.ReasonExport, wasm.ReasonTooLarge, wasm.ReasonCompile, wasm.ReasonNoRuntime,
	} {
		w.Runtime = &runtime{bad: palyra.Errorf(palyra.Invalid, reason, "it is bad").WithRemedy("mend it")}
		w.refused(reason, both)
	}
	w.Runtime = nil
	w.refused(skill.ReasonNoRuntime, both)
	w.Runtime = &runtime{}
	w.refused(skill.ReasonABI, pack(t, 1, `id = "demo"`, "abi = \"palyra-skill/2\"\nid = \"demo\""))
	run := &runtime{}
	w.Runtime = run
	w.enable(w.install(both))
	if !slices.Equal(run.checked, []wasm.Kind{wasm.Command, wasm.Export}) {
		t.Errorf("%v", run.checked)
	}
	for tool, want := range map[palyra.ToolName]wasm.Invocation{
		"skill.demo.greet": {Kind: wasm.Command, Function: "greet"}, "skill.demo.other": {Kind: wasm.Export, Function: "two"},
	} {
		l, c := w.launch(tool, `{}`)
		if res := w.Call(t.Context(), l, c); res.Failure != nil || run.got.Kind != want.Kind || run.got.Function != want.Function {
			t.Errorf("%s: %+v %+v", tool, res.Failure, run.got)
		}
	}
}

// TestRevokedWhileItIsChecked: a key that is revoked while the modules of a package are compiled installs nothing.
func TestRevokedWhileItIsChecked(t *testing.T) {
	w := newWorld(t)
	w.trust("acme", 1)
	w.Runtime = &runtime{while: func() {
		if _, err := w.Revoke(t.Context(), keyID(1), w.by); err != nil {
			t.Error(err)
		}
	}}
	_, err := w.Install(t.Context(), skill.Addition{Package: pack(t, 1), By: w.by})
	if palyra.AsError(err).Reason != skill.ReasonUntrusted || palyra.AsError(err).Remedy == "" {
		t.Error(err)
	}
	if all, _ := w.List(t.Context()); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}
