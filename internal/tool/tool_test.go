package tool

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/mask"
)

// fake is a tool made of functions.
type fake struct {
	spec palyra.Tool
	run  func(ctx context.Context, p palyra.Plan) (json.RawMessage, error)
}

func (f fake) Spec() palyra.Tool { return f.spec }

func (f fake) Plan(_ context.Context, env Env, p *palyra.Plan) error {
	p.Detail.Summary = "for " + string(env.Session)
	return nil
}

func (f fake) Run(ctx context.Context, _ Env, p palyra.Plan) (json.RawMessage, error) {
	return f.run(ctx, p)
}

func (f fake) Mechanisms(p palyra.Plan) []string { return []string{string("fake_" + p.Tool)} }

func named(name string, run func(context.Context, palyra.Plan) (json.RawMessage, error)) fake {
	return fake{palyra.Tool{
		Name: palyra.ToolName(name), Description: "d", Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin, MaxInput: 1,
		InputSchema: json.RawMessage("{}"),
	}, run}
}

func TestSet(t *testing.T) {
	s, err := NewSet(named("b", nil), named("a", nil))
	if err != nil {
		t.Fatal(err)
	}
	if l := s.Specs(); len(l) != 2 || l[0].Name != "a" {
		t.Errorf("%v", l)
	}
	if x, ok := s.Tool("b"); !ok || x.Name != "b" {
		t.Errorf("%v %v", x, ok)
	}
	if _, ok := s.Tool("c"); ok {
		t.Error("c is there")
	}
	p := palyra.Plan{Tool: "a"}
	if err := s.Plan(t.Context(), &palyra.Call{Proposal: palyra.Proposal{Proposer: palyra.Proposer{Session: "S"}}}, &p); err != nil ||
		p.Detail.Summary != "for S" {
		t.Errorf("%v %+v", err, p)
	}
	if err := s.Plan(t.Context(), &palyra.Call{}, &palyra.Plan{Tool: "c"}); palyra.AsError(err).Reason != palyra.ReasonUnknownTool {
		t.Error(err)
	}
	if _, err := NewSet(named("a", nil), named("a", nil)); err == nil {
		t.Error("two of one name")
	}
	for _, spoil := range []func(*palyra.Tool){
		func(t *palyra.Tool) { t.Name = "" }, func(t *palyra.Tool) { t.MaxInput = 0 }, func(t *palyra.Tool) { t.InputSchema = nil },
		func(t *palyra.Tool) { t.Tier = palyra.TierC }, func(t *palyra.Tool) { t.Source = palyra.SourceSkill },
		func(t *palyra.Tool) { t.Description = "" },
	} {
		f := named("a", nil)
		spoil(&f.spec)
		if _, err := NewSet(f); err == nil {
			t.Errorf("accepted %+v", f.spec)
		}
	}
}

// world is a keeper for one call.
type world struct {
	kept    []byte
	keepErr error
}

func (w *world) Keep(_ context.Context, session palyra.SessionID, call palyra.CallID, data []byte) (palyra.ID, error) {
	if session != "S" || call != "C" {
		return "", errors.New("whose is it")
	}
	w.kept = data
	return "A", w.keepErr
}

// launch is the launch of a call that policy allowed and whose plan did not change.
func launch(t *testing.T, c *palyra.Call) palyra.Launch {
	t.Helper()
	g, err := palyra.NewGrant("G", c, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	l, err := g.Confirm(c.Plan)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// confirmed makes a call of the tool that policy allowed.
func confirmed(t *testing.T, name string) (*palyra.Call, palyra.Launch, *world) {
	t.Helper()
	plan := palyra.Plan{
		Tool: palyra.ToolName(name), Arguments: json.RawMessage(`{}`), Tier: palyra.TierBuiltin,
		Limits: palyra.Limits{WallMS: 1000, OutputBytes: 1000},
		Inputs: []palyra.Input{{Path: "a"}, {Path: "b"}},
	}
	digest, err := plan.Digest()
	if err != nil {
		t.Fatal(err)
	}
	c := &palyra.Call{
		ID: "C", Proposal: palyra.Proposal{Proposer: palyra.Proposer{Session: "S"}, Tool: palyra.ToolName(name)},
		Plan: plan, Digest: digest, Verdict: palyra.Verdict{Effect: palyra.Allow},
	}
	return c, launch(t, c), &world{}
}

func run(t *testing.T, ctx context.Context, f fake, change func(*palyra.Call, *palyra.Launch, *world)) palyra.Result {
	t.Helper()
	c, l, w := confirmed(t, "x")
	if change != nil {
		change(c, &l, w)
	}
	set, err := NewSet(f)
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Unix(0, 0)
	r, err := NewRunner(Config{Tools: set, Artifacts: w, Now: func() time.Time { clock = clock.Add(time.Second); return clock }})
	if err != nil {
		t.Fatal(err)
	}
	return r.Run(ctx, l, c)
}

func says(out string) fake {
	return named("x", func(context.Context, palyra.Plan) (json.RawMessage, error) { return json.RawMessage(out), nil })
}

func TestRun(t *testing.T) {
	res := run(t, t.Context(), says(`{"a":1}`), nil)
	if string(res.Output) != `{"a":1}` || res.Failure != nil || res.Refusal != nil || res.ExitCode != 0 || res.Truncated ||
		res.Executor != "builtin" {
		t.Errorf("%+v", res)
	}
	e := res.Enforcement
	if e.Mode != "none" || len(e.Mechanisms) != 1 || e.Mechanisms[0] != "fake_x" || e.Limits["wall"] != "context" ||
		e.Limits["output"] != "cap" {
		t.Errorf("%+v", e)
	}
	if res.Usage.WallMS != 1000 || res.Usage.BytesIn != 2 || res.Usage.BytesOut != 7 || !res.Finished.After(res.Started) {
		t.Errorf("%+v", res)
	}
}

// Nothing runs but by a launch for this very call.
func TestRunRefuses(t *testing.T) {
	for name, change := range map[string]func(*palyra.Call, *palyra.Launch, *world){
		"no launch": func(_ *palyra.Call, l *palyra.Launch, _ *world) { *l = palyra.Launch{} },
		"another's": func(c *palyra.Call, _ *palyra.Launch, _ *world) { c.ID = "D" },
	} {
		t.Run(name, func(t *testing.T) {
			ran := false
			res := run(t, t.Context(), named("x", func(context.Context, palyra.Plan) (json.RawMessage, error) { ran = true; return nil, nil }),
				change)
			if r := res.Refusal; ran || r == nil || r.Reason != palyra.ReasonInternal || r.Code != palyra.Denied || r.Layer != palyra.LayerTier {
				t.Errorf("ran %v, %+v", ran, r)
			}
		})
	}
}

func TestRunRefusesOtherTiersAndTools(t *testing.T) {
	f := says(`{}`)
	f.spec.Name = "other"
	if res := run(t, t.Context(), f, nil); res.Refusal == nil || res.Refusal.Reason != palyra.ReasonUnsupported {
		t.Errorf("%+v", res)
	}
	res := run(t, t.Context(), says(`{}`), func(c *palyra.Call, l *palyra.Launch, _ *world) {
		c.Plan.Tier = palyra.TierC
		c.Digest, _ = c.Plan.Digest()
		*l = launch(t, c)
	})
	if res.Refusal == nil || res.Refusal.Reason != palyra.ReasonUnsupported {
		t.Errorf("%+v", res)
	}
}

func TestRunFailures(t *testing.T) {
	fails := func(err error) fake {
		return named("x", func(context.Context, palyra.Plan) (json.RawMessage, error) { return nil, err })
	}
	res := run(t, t.Context(), fails(palyra.Errorf(palyra.NotFound, palyra.ReasonFileNotFound, "gone").WithRemedy("look")), nil)
	if f := res.Failure; f == nil || res.ExitCode != 1 || f.Reason != palyra.ReasonFileNotFound || f.Remedy != "look" ||
		f.Layer != palyra.LayerTier || res.Refusal != nil {
		t.Errorf("%+v", res)
	}
	res = run(t, t.Context(), fails(errors.New("secret detail")), nil)
	if f := res.Failure; f == nil || f.Reason != palyra.ReasonInternal || strings.Contains(f.Text, "secret") {
		t.Errorf("%+v", res.Failure)
	}
	res = run(t, t.Context(), named("x", func(context.Context, palyra.Plan) (json.RawMessage, error) { panic("boom") }), nil)
	if f := res.Failure; f == nil || f.Reason != palyra.ReasonInternal || res.ExitCode != 1 || len(res.Output) != 0 {
		t.Errorf("%+v", res)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	waits := named("x", func(ctx context.Context, _ palyra.Plan) (json.RawMessage, error) { <-ctx.Done(); return nil, ctx.Err() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if res := run(t, ctx, waits, nil); res.Failure == nil || res.Failure.Reason != palyra.ReasonTimedOut ||
		res.Failure.Code != palyra.Expired {
		t.Errorf("%+v", res.Failure)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if res := run(t, gone, waits, nil); res.Failure == nil || res.Failure.Reason != palyra.ReasonCancelled {
		t.Errorf("%+v", res.Failure)
	}
}

func TestOutputOverTheCap(t *testing.T) {
	big := `"` + strings.Repeat("é", 5000) + `"`
	var w *world
	res := run(t, t.Context(), says(big), func(_ *palyra.Call, _ *palyra.Launch, x *world) { w = x })
	var cut Cut
	if err := json.Unmarshal(res.Output, &cut); err != nil || !res.Truncated || res.Failure != nil {
		t.Fatalf("%v %+v", err, res)
	}
	if !cut.Truncated || cut.Artifact != "A" || cut.Size != len(big) || cut.SHA256 != palyra.SumBytes([]byte(big)) || string(w.kept) != big ||
		!strings.HasPrefix(big, cut.Head) || !strings.HasSuffix(big, cut.Tail) || cut.Head == "" || cut.Tail == "" || len(res.Output) > 1000 {
		t.Errorf("%+v", cut)
	}
	res = run(t, t.Context(), says(big), func(_ *palyra.Call, _ *palyra.Launch, x *world) {
		x.keepErr = palyra.Errorf(palyra.Unavailable, palyra.ReasonDiskFull, "the disk is full")
	})
	if err := json.Unmarshal(res.Output, &cut); err != nil || !strings.Contains(cut.Note, "the disk is full") || !res.Truncated {
		t.Errorf("%v %+v", err, cut)
	}
	if res := run(t, t.Context(), says(`"`+strings.Repeat("a", 998)+`"`), nil); res.Truncated {
		t.Error("an output of exactly the cap was cut")
	}
}

func TestNewRunnerNeedsItsParts(t *testing.T) {
	if _, err := NewRunner(Config{}); err == nil {
		t.Error("accepted")
	}
}

func TestArguments(t *testing.T) {
	var a struct {
		N int64 `json:"n"`
	}
	if err := Arguments(palyra.Plan{Arguments: json.RawMessage(`{"n":1000}`)}, &a); err != nil || a.N != 1000 {
		t.Error(err, a)
	}
	for _, raw := range []string{`{"m":1}`, `{"n":"x"}`, `{"n":1e99}`, `{`} {
		if err := Arguments(palyra.Plan{Arguments: json.RawMessage(raw)}, &a); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestEncode(t *testing.T) {
	if b, err := Encode("<&>"); err != nil || string(b) != `"<&>"` {
		t.Errorf("%s %v", b, err)
	}
	if _, err := Encode(func() {}); err == nil {
		t.Error("a function was encoded")
	}
}

// A page never comes back larger than it may, ends with a whole character, and
// always makes progress.
func FuzzPage(f *testing.F) {
	f.Add([]byte("aé日😀\x01\""), int64(0), int64(200), false)
	f.Add([]byte("\xff\xfe"), int64(1), int64(150), true)
	f.Fuzz(func(t *testing.T, data []byte, offset, most int64, b64 bool) {
		if offset < 0 || offset > 1<<40 || most < 200 || most > 1<<20 {
			return
		}
		out, err := Page{Path: "p", Data: data, Offset: offset, Size: offset + int64(len(data)), Base64: b64}.Encode(most)
		if err != nil {
			if b64 || palyra.CodeOf(err) != palyra.Invalid {
				t.Fatal(err)
			}
			return
		}
		var r pageResult
		if err := json.Unmarshal(out, &r); err != nil || int64(len(out)) > most {
			t.Fatalf("%v, %d bytes of %d", err, len(out), most)
		}
		if len(data) > 0 && r.Bytes == 0 || r.NextOffset != offset+int64(r.Bytes) || r.EOF != (r.Bytes == len(data)) {
			t.Fatalf("%+v of %d bytes", r, len(data))
		}
		if !b64 && r.Content != string(data[:r.Bytes]) {
			t.Fatalf("%q of %q", r.Content, data)
		}
	})
}

// Nothing of a value is delivered or kept, also of an output that is cut.
func TestKnownValuesAreMasked(t *testing.T) {
	m := new(mask.Masker)
	m.Set(func(yield func(string, []byte) bool) { yield("token", []byte("the value of a token")) })
	for _, text := range []string{"the value of a token", strings.Repeat("the value of a token, ", 500)} {
		c, l, w := confirmed(t, "x")
		set, err := NewSet(says(`"` + text + `"`))
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewRunner(Config{Tools: set, Artifacts: w, Mask: m, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		res := r.Run(t.Context(), l, c)
		if all := string(res.Output) + string(w.kept); strings.Contains(all, "the value") || !strings.Contains(all, "[secret token]") {
			t.Errorf("%s", all)
		}
	}
}
