package registry

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
	"palyra/internal/wasm"
)

// runtime is a runtime that says what it was given, and answers.
type runtime struct {
	got     wasm.Invocation
	err     error
	checked []wasm.Kind
	bad     error
	while   func()                                             // a module is checked
	work    func(ctx context.Context, i wasm.Invocation) error // what the module does
}

func (r *runtime) Ready() error { return nil }

func (r *runtime) Check(_ context.Context, m wasm.Module, k wasm.Kind, _ []string, _ wasm.Limits) error {
	b, err := m.Bytes()
	if err != nil || palyra.SumBytes(b) != m.Digest {
		return errors.New("another module")
	}
	r.checked = append(r.checked, k)
	if r.while != nil {
		r.while()
	}
	return r.bad
}

func (r *runtime) Run(ctx context.Context, i wasm.Invocation) (wasm.Result, error) {
	r.got = i
	if r.work != nil {
		return wasm.Result{Runtime: "wasmtime 1"}, r.work(ctx, i)
	}
	if _, err := i.Module.Bytes(); err != nil {
		return wasm.Result{Runtime: "wasmtime 1"}, err
	}
	host := wasm.Permit{Kind: wasm.HTTP, Name: "a.example"}
	return wasm.Result{
		Output: json.RawMessage(`{"a":1}`), Runtime: "wasmtime 1", ABI: wasm.ABI, Fuel: 7, Granted: []wasm.Permit{host, {Kind: wasm.Clock}},
		Refused: []wasm.Refusal{{Permit: host, Function: "http_request", Reason: wasm.ReasonNotGranted, Text: "x"}},
		Used: []wasm.Use{
			{Permit: host, Count: 2, Refused: 1},
			{Permit: wasm.Permit{Kind: wasm.Storage, Name: "cache/"}, Count: 1, Refused: 1},
		},
	}, r.err
}

// launch plans a call of a tool and has it granted.
func (w *world) launch(tool palyra.ToolName, args string) (palyra.Launch, *palyra.Call) {
	w.t.Helper()
	_, is, err := w.lookup(tool)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &palyra.Call{ID: "C", Tool: is, Proposal: palyra.Proposal{Tool: tool, Arguments: json.RawMessage(args)}}
	c.Plan = palyra.Plan{
		Tool: tool, Arguments: json.RawMessage(args), Capabilities: is.Capabilities, Source: is.Source, ReadOnly: is.ReadOnly, Tier: is.Tier,
		Limits: palyra.Limits{WallMS: 1000, OutputBytes: 1000},
	}
	if err := w.Plan(w.t.Context(), c, &c.Plan); err != nil {
		w.t.Fatal(err)
	}
	if c.Digest, err = c.Plan.Digest(); err != nil {
		w.t.Fatal(err)
	}
	c.Verdict.Effect = palyra.Allow
	g, err := palyra.NewGrant("G", c, w.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	c.Grant = "G"
	l, err := g.Confirm(c.Plan)
	if err != nil {
		w.t.Fatal(err)
	}
	return l, c
}

// A tool gets what was granted and nothing else, and its result says what it took and used.
func TestCall(t *testing.T) {
	w := newWorld(t)
	run := &runtime{}
	w.Runtime = run
	w.trust("acme", 1)
	s := w.install(pack(t, 1))
	_, err := w.Enable(t.Context(), skill.Enabling{
		ID: "demo", Digest: s.Digest, Granted: skill.Capabilities{Hosts: []string{"a.example:443"}}, By: w.by,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, c := w.launch("skill.demo.greet", `{}`)
	if got := c.Plan.Enforcement.Mechanisms; !slices.Contains(got, "skill_may:hosts:a.example:443") || !slices.Contains(got,
		"skill_publisher:acme") ||
		slices.ContainsFunc(got, func(m string) bool { return strings.Contains(m, "storage") }) {
		t.Error(got)
	}
	res := w.Call(t.Context(), l, c)
	if res.Refusal != nil || res.Failure != nil || string(res.Output) != `{"a":1}` {
		t.Fatalf("%+v %+v", res.Refusal, res.Failure)
	}
	g := run.got.Grants
	if !slices.Equal(g.HTTPHosts, []string{"a.example"}) || g.Storage != nil || g.Tools != nil || g.Secrets != nil ||
		run.got.Function != "greet" {
		t.Errorf("%+v", run.got)
	}
	if got := res.Runtime; got.Skill != "demo@1.0.0" || got.Fuel != 7 || !slices.Equal(got.Granted, []string{
		"clock",
		"hosts:a.example:443",
	}) ||
		!slices.Equal(got.Used, []string{"hosts:a.example:443"}) || // and not what it only wished for
		!slices.Equal(got.Refused, []string{"wasm_not_granted http_request hosts:a.example:443"}) {
		t.Errorf("%+v", got)
	}
	if got, err := w.Shrink(t.Context(), "demo", false, w.by); err != nil || got.Runs != 1 || len(got.Needed.Hosts) != 1 ||
		got.Needed.Storage != nil {
		t.Errorf("%+v %v", got, err)
	}
	if err := run.got.Host.Refused(t.Context(), wasm.Refusal{
		Permit: wasm.Permit{Kind: wasm.HTTP, Name: "evil.example"}, Function: "handle", Reason: wasm.ReasonNotGranted, Text: "no",
	}); err != nil {
		t.Fatal(err)
	}
	if a, ok := w.lines.lines[len(w.lines.lines)-1].(palyra.AlertRaised); !ok || a.Call != "C" || a.Reason != wasm.ReasonNotGranted ||
		a.Method != "skill demo handle" || a.Path != "hosts:evil.example:443: no" {
		t.Errorf("%+v", a)
	}
	run.err = palyra.Errorf(palyra.Exhausted, wasm.ReasonFuel, "no fuel")
	if res = w.Call(t.Context(), l, c); res.Failure == nil || res.Failure.Layer != palyra.LayerLimit || res.KillReason != "fuel" ||
		res.Output != nil {
		t.Errorf("%+v", res)
	}
	run.err = nil
	if _, err := w.Shrink(t.Context(), "demo", true, w.by); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Enable(t.Context(), skill.Enabling{ID: "demo", Digest: s.Digest, By: w.by}); err != nil { // granted less than was planned
		t.Fatal(err)
	}
	if res = w.Call(t.Context(), l, c); res.Refusal == nil || res.Refusal.Reason != palyra.ReasonPlanChanged {
		t.Errorf("what was planned with another grant ran: %+v", res)
	}
	l, c = w.launch("skill.demo.greet", `{}`)
	if _, err := w.Revoke(t.Context(), keyID(1), w.by); err != nil {
		t.Fatal(err)
	}
	if res = w.Call(t.Context(), l, c); res.Refusal == nil || res.Refusal.Reason != skill.ReasonState {
		t.Errorf("a call after its key was revoked: %+v", res)
	}
}

// A folder is read, file by file, as it was signed; a file that is not in it is not there.
func TestReadFolder(t *testing.T) {
	w := newWorld(t)
	w.trust("acme", 1)
	text := "format = \"palyra-manifest/1\"\nid = \"notes\"\nversion = \"1.0.0\"\npublisher = \"acme\"\ndescription = \"Notes.\"\n[folder]\n"
	raw, err := archive.Pack(map[string][]byte{
		skill.ManifestName: []byte(text), archive.Text: []byte("# Notes\n"), archive.Folder + "more.md": []byte("more"),
		archive.Folder + "b": {0xff},
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := archive.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = archive.Sign(p, key(1)); err != nil {
		t.Fatal(err)
	}
	w.enable(w.install(raw))
	for args, want := range map[string]string{
		`{}`: "# Notes", `{"path":"more.md"}`: "more", `{"path":"../skill.toml"}`: "", `{"path":"b"}`: "", `{"path":"none"}`: "",
	} {
		l, c := w.launch("skill.notes.read", args)
		res := w.Call(t.Context(), l, c)
		if res.Refusal != nil || (res.Failure == nil) != (want != "") || want != "" && !strings.Contains(string(res.Output), want) {
			t.Errorf("%s: %+v %s", args, res.Failure, res.Output)
		}
		if !c.Plan.ReadOnly || res.Runtime.Package != w.known["notes"].Digest {
			t.Errorf("%+v", res.Runtime)
		}
	}
}
