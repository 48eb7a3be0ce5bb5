package past

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"palyra"
	"palyra/internal/canon"
)

// readJudged reads a plan on record, and its digest.
func readJudged(raw []byte) (p palyra.Plan, sum palyra.Digest, err error) {
	var d canon.Doc
	if err := d.Read(string(raw)); err != nil {
		return p, "", err
	}
	err = ReadJudgedPlan(d.Root(), &p)
	return p, palyra.PlanDigest(d.AppendCanonical(nil)), err
}

// somePlan is a plan with anything in it.
func somePlan(t *rapid.T) (p palyra.Plan) {
	word := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "a<b", "\u2028", "é\n\"\\", "😀"}), rapid.String())
	words := func(label string) []string { return rapid.SliceOfN(word, 0, 3).Draw(t, label) }
	flag := func(label string) bool { return rapid.Bool().Draw(t, label) }
	p.Tool, p.Cwd = palyra.ToolName(word.Draw(t, "tool")), word.Draw(t, "cwd")
	p.Stdin, p.Profile = word.Draw(t, "stdin"), word.Draw(t, "profile")
	p.Arguments = json.RawMessage(rapid.SampledFrom([]string{`{}`, `null`, `{"b":[1,2.50],"a":"\\u00e9"}`, `[]`, `"x"`}).Draw(t, "arguments"))
	p.Argv, p.Reads, p.Writes, p.Egress, p.Bindings, p.Seals = words("argv"), words("reads"), words("writes"), words("egress"), words(
		"bindings"), words("seals")
	for _, w := range words("capabilities") {
		p.Capabilities = append(p.Capabilities, palyra.Capability(w))
	}
	p.Source, p.Tier = palyra.Source(word.Draw(t, "source")), palyra.Tier(word.Draw(t, "tier"))
	p.ReadOnly, p.Terminal, p.Asks, p.UnixSockets, p.AgentSocket = flag("read_only"), flag("terminal"), flag("asks"), flag("sockets"), flag(
		"agent")
	p.Removes = words("removes")
	p.Unshown, p.Lasting, p.Guarded = flag("unshown"), flag("lasting"), words("guarded")
	p.Workspace = palyra.WorkspaceRef{Path: word.Draw(t, "workspace"), Owner: rapid.Int64().Draw(t, "owner"), Known: flag("known")}
	p.Executable = palyra.Executable{Path: word.Draw(t, "executable"), Digest: palyra.Digest(word.Draw(t, "digest")), Sealed: flag("sealed")}
	for _, w := range words("env") {
		p.Env = append(p.Env, palyra.EnvVar{Name: w, Digest: palyra.Digest(w), Value: word.Draw(t, "value"), Secret: flag("secret")})
	}
	p.Staging = palyra.Staging{Writes: word.Draw(t, "staging"), Why: word.Draw(t, "why")}
	p.Mounts = make([]palyra.Mount, rapid.IntRange(0, 2).Draw(t, "mounts"))
	p.Limits.WallMS = rapid.Int64().Draw(t, "wall")
	p.Enforcement = palyra.Enforcement{
		Mode: palyra.NetworkMode(word.Draw(t, "mode")), Mechanisms: words("mechanisms"),
		Limits: rapid.MapOfN(word, rapid.Map(word, func(s string) palyra.Hold { return palyra.Hold(s) }), 0, 3).Draw(t, "limits"),
	}
	return p
}

// judgedPart is a plan without what policy does not look at, as the JSON package
// reads it.
func judgedPart(raw []byte) (p palyra.Plan, err error) {
	err = json.Unmarshal(raw, &p)
	p.Mounts, p.Inputs, p.Links, p.Files, p.Seals, p.Effects, p.Limits = nil, nil, nil, nil, nil, nil, palyra.Limits{}
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
		got, sum, err := readJudged(raw)
		if err != nil {
			t.Fatal(err)
		}
		want, err := judgedPart(raw)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		if digest, err := plan.Digest(); err != nil || digest != sum {
			t.Fatalf("%s, not %s: %v", sum, digest, err)
		}
	})
}

// FuzzReadPlan takes any text. What the JSON package would write again is read as
// it reads it.
func FuzzReadPlan(f *testing.F) {
	for _, text := range []string{
		`{}`, `null`, `[]`, `{"tool":"x","argv":["a"],"env":[{"name":"A"}],"enforcement":{"limits":{"a":"b"}}}`,
		`{"tool":7}`, `{"argv":[7]}`, `{"env":{}}`, `{"workspace":{"owner":1.5}}`, `{"enforcement":{"limits":{"a":1}}}`,
		`{"enforcement":{"limits":null,"mechanisms":null}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var d canon.Doc
		var p palyra.Plan
		if d.Read(string(raw)) == nil {
			_ = ReadJudgedPlan(d.Root(), &p)
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
		if err := ReadJudgedPlan(d.Root(), &got); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n%s", again, diff)
		}
	})
}

func TestReadPlanRefuses(t *testing.T) {
	for _, text := range []string{
		``, `{`, `[]`, `7`, `null`, `{"tool":7}`, `{"argv":{}}`, `{"argv":["a",7]}`, `{"env":[7]}`, `{"env":[{"name":7}]}`, `{"asks":"yes"}`,
		`{"workspace":[]}`,
		`{"workspace":{"owner":1.5}}`, `{"workspace":{"owner":99999999999999999999}}`, `{"executable":7}`, `{"enforcement":{"limits":[]}}`,
		`{"enforcement":{"limits":{"a":7}}}`, `{"tool":"a","tool":"b"}`, "{\"tool\":\"\xff\"}",
	} {
		if p, _, err := readJudged([]byte(text)); err == nil {
			t.Errorf("%s is read as %+v", text, p)
		}
	}
	for _, text := range []string{``, `[]`, `{"principal":7}`, `{"calls_used":"x"}`, `{"owner":"a","owner":"b"}`} {
		var d canon.Doc
		var p palyra.Proposer
		if d.Read(text) == nil && judgedProposer(d.Root(), &p) == nil {
			t.Errorf("%s is read as %+v", text, p)
		}
	}
}
