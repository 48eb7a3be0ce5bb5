//go:build unix

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"palyra"
	"palyra/internal/canon"
)

// A replay reads of a plan only what policy looks at: the rest changes no verdict.
func TestReadPlanLeavesOutNothingJudged(t *testing.T) {
	p := newPast(t, testDaemon(t))
	c := p.tools["write"]
	c.Plan.Mounts = []palyra.Mount{{Source: "/a", Target: "/b", Writable: true}}
	c.Plan.Inputs = []palyra.Input{{Path: "x", Mode: 1}}
	c.Plan.Files = []palyra.RoomFile{{Target: "x", Text: "y"}}
	c.Plan.Seals, c.Plan.Limits = []string{"x"}, palyra.Limits{WallMS: 7}
	c.Plan.Argv, c.Plan.Env = []string{"a<b", "é"}, []palyra.EnvVar{{Name: "A", Value: "\u2028"}}
	raw, err := json.Marshal(c.Plan)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMemo(readPlan).read(raw, new(scratch))
	if err != nil {
		t.Fatal(err)
	}
	if digest, err := c.Plan.Digest(); err != nil || m.sum != digest {
		t.Errorf("the digest is %s, not %s: %v", m.sum, digest, err)
	}
	context := func(plan palyra.Plan) string {
		pr := c.Proposal
		why := p.d.policy.Why(t.Context(), palyra.Request{Principal: pr.Principal, Owner: pr.Owner, Session: pr.Session, Door: pr.Door, Tool: c.Tool, Plan: plan})
		return string(why.Context)
	}
	if whole, some := context(c.Plan), context(m.value); whole != some || whole == "" {
		t.Errorf("judged\n%s\nnot\n%s", some, whole)
	}
	want := c.Plan
	want.Mounts, want.Inputs, want.Files, want.Seals, want.Limits, want.Detail = nil, nil, nil, nil, palyra.Limits{}, palyra.Detail{}
	if diff := cmp.Diff(want, m.value); diff != "" {
		t.Error(diff)
	}
}

// somePlan is a plan with anything in it.
func somePlan(t *rapid.T) (p palyra.Plan) {
	word := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "a<b", "\u2028", "é\n\"\\", "😀"}), rapid.String())
	words := func(label string) []string { return rapid.SliceOfN(word, 0, 3).Draw(t, label) }
	flag := func(label string) bool { return rapid.Bool().Draw(t, label) }
	p.Tool, p.Cwd, p.Stdin, p.Profile = word.Draw(t, "tool"), word.Draw(t, "cwd"), word.Draw(t, "stdin"), word.Draw(t, "profile")
	p.Arguments = json.RawMessage(rapid.SampledFrom([]string{`{}`, `null`, `{"b":[1,2.50],"a":"\\u00e9"}`, `[]`, `"x"`}).Draw(t, "arguments"))
	p.Argv, p.Reads, p.Writes, p.Egress, p.Bindings, p.Seals = words("argv"), words("reads"), words("writes"), words("egress"), words("bindings"), words("seals")
	for _, w := range words("capabilities") {
		p.Capabilities = append(p.Capabilities, palyra.Capability(w))
	}
	p.Source, p.Tier = palyra.Source(word.Draw(t, "source")), palyra.Tier(word.Draw(t, "tier"))
	p.ReadOnly, p.Terminal, p.Asks, p.UnixSockets, p.AgentSocket = flag("read_only"), flag("terminal"), flag("asks"), flag("sockets"), flag("agent")
	p.Unshown, p.Guarded = flag("unshown"), words("guarded")
	p.Workspace = palyra.WorkspaceRef{Path: word.Draw(t, "workspace"), Owner: rapid.Int64().Draw(t, "owner"), Known: flag("known")}
	p.Executable = palyra.Executable{Path: word.Draw(t, "executable"), Digest: palyra.Digest(word.Draw(t, "digest")), Sealed: flag("sealed")}
	for _, w := range words("env") {
		p.Env = append(p.Env, palyra.EnvVar{Name: w, Digest: palyra.Digest(w), Value: word.Draw(t, "value"), Secret: flag("secret")})
	}
	p.Mounts = make([]palyra.Mount, rapid.IntRange(0, 2).Draw(t, "mounts"))
	p.Limits.WallMS = rapid.Int64().Draw(t, "wall")
	p.Enforcement = palyra.Enforcement{Mode: word.Draw(t, "mode"), Mechanisms: words("mechanisms"), Limits: rapid.MapOfN(word, word, 0, 3).Draw(t, "limits")}
	return p
}

// judgedPart is a plan without what policy does not look at, as the JSON package
// reads it.
func judgedPart(raw []byte) (p palyra.Plan, err error) {
	err = json.Unmarshal(raw, &p)
	p.Mounts, p.Inputs, p.Files, p.Seals, p.Limits = nil, nil, nil, nil, palyra.Limits{}
	return p, err
}

// Whatever is in a plan is read as the JSON package reads it, and its digest is the
// plan's.
func TestReadPlanReadsAsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := somePlan(t)
		raw, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		got, err := newMemo(readPlan).read(raw, new(scratch))
		if err != nil {
			t.Fatal(err)
		}
		want, err := judgedPart(raw)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.value); diff != "" {
			t.Fatal(diff)
		}
		if digest, err := plan.Digest(); err != nil || digest != got.sum {
			t.Fatalf("%s, not %s: %v", got.sum, digest, err)
		}
	})
}

// FuzzReadPlan takes any text. What the JSON package would write again is read as
// it reads it.
func FuzzReadPlan(f *testing.F) {
	for _, text := range []string{
		`{}`, `null`, `[]`, `{"tool":"x","argv":["a"],"env":[{"name":"A"}],"enforcement":{"limits":{"a":"b"}}}`,
		`{"tool":7}`, `{"argv":[7]}`, `{"env":{}}`, `{"workspace":{"owner":1.5}}`, `{"enforcement":{"limits":{"a":1}}}`, `{"enforcement":{"limits":null,"mechanisms":null}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var d canon.Doc
		var p palyra.Plan
		if d.Read(string(raw)) == nil {
			_ = readPlan(d.Root(), &p)
		}
		if p = (palyra.Plan{}); json.Unmarshal(raw, &p) != nil {
			return
		}
		again, err := json.Marshal(p)
		if err != nil || d.Read(string(again)) != nil { // nested too deep, numbers out of range
			return
		}
		want, err := judgedPart(again)
		if err != nil {
			t.Fatal(err)
		}
		var got palyra.Plan
		if err := readPlan(d.Root(), &got); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n%s", again, diff)
		}
	})
}

func TestReadPlanRefuses(t *testing.T) {
	for _, text := range []string{
		``, `{`, `[]`, `7`, `null`, `{"tool":7}`, `{"argv":{}}`, `{"argv":["a",7]}`, `{"env":[7]}`, `{"env":[{"name":7}]}`, `{"asks":"yes"}`, `{"workspace":[]}`,
		`{"workspace":{"owner":1.5}}`, `{"workspace":{"owner":99999999999999999999}}`, `{"executable":7}`, `{"enforcement":{"limits":[]}}`,
		`{"enforcement":{"limits":{"a":7}}}`, `{"tool":"a","tool":"b"}`, "{\"tool\":\"\xff\"}",
	} {
		if m, err := newMemo(readPlan).read([]byte(text), new(scratch)); err == nil {
			t.Errorf("%s is read as %+v", text, m.value)
		}
	}
	for _, text := range []string{``, `[]`, `{"principal":7}`, `{"calls_used":"x"}`, `{"owner":"a","owner":"b"}`} {
		if p, err := readProposal([]byte(text), new(scratch)); err == nil {
			t.Errorf("%s is read as %+v", text, p)
		}
	}
}

func TestReadProposal(t *testing.T) {
	want := palyra.Proposal{Principal: "agent:a", Owner: "user:é", Session: "s", Run: "r", Parent: "p", Door: palyra.DoorCLI, CallsUsed: 3, CallsMax: 1 << 60}
	whole := want
	whole.Arguments, whole.Labels, whole.Tool = json.RawMessage(`{"a":[1]}`), []string{"x"}, "t"
	raw, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readProposal(raw, new(scratch))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// What comes by once is not kept; what comes by again is, within bounds.
func TestMemoKeepsWhatComesAgain(t *testing.T) {
	m, s := newMemo(readPlan), new(scratch)
	read := func(text string) *remembered[palyra.Plan] {
		t.Helper()
		r, err := m.read([]byte(text), s)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if first := read(`{"tool":"a"}`); first.id != 0 || len(m.known) != 0 {
		t.Errorf("kept at once: %d", first.id)
	}
	second, other := read(`{"tool":"a"}`), read(`{"tool":"b"}`)
	if third := read(`{"tool":"a"}`); second.id == 0 || third != second || other.id != 0 || third.value.Tool != "a" || third.sum == other.sum {
		t.Errorf("%+v %+v %+v", second, third, other)
	}
	for i := range maxOnce + 10 {
		read(fmt.Sprintf(`{"tool":"%d"}`, i))
	}
	if len(m.once) > maxOnce || len(m.known) != 1 {
		t.Errorf("%d and %d are kept", len(m.once), len(m.known))
	}
}

func TestAhead(t *testing.T) {
	count := func(n int) func(context.Context, func(int) error) error {
		return func(_ context.Context, hand func(int) error) error {
			for i := range n {
				if err := hand(i); err != nil {
					return err
				}
			}
			return nil
		}
	}
	var got []int
	if err := ahead(t.Context(), count(5), func(i int) error { got = append(got, i); return nil }); err != nil || !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
		t.Errorf("%v %v", got, err)
	}
	bad := errors.New("bad")
	ended := false
	err := ahead(t.Context(), func(ctx context.Context, hand func(int) error) error {
		defer func() { ended = true }()
		return count(1000)(ctx, hand)
	}, func(i int) error {
		if i == 2 {
			return bad
		}
		return nil
	})
	if !errors.Is(err, bad) || !ended {
		t.Errorf("an error of the use: %v, and the other has ended: %v", err, ended)
	}
	got = nil
	err = ahead(t.Context(), func(ctx context.Context, hand func(int) error) error { return errors.Join(hand(7), bad) }, func(i int) error { got = append(got, i); return nil })
	if !errors.Is(err, bad) || !slices.Equal(got, []int{7}) {
		t.Errorf("an error of the other: %v %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = ahead(ctx, count(1000), func(i int) error {
		if i == 3 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
