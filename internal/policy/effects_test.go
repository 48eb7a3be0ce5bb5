package policy

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cedar-policy/cedar-go"
	"pgregory.net/rapid"

	"palyra"
)

// kept is the question whether what a run did is kept.
func kept(f palyra.EffectFacts) palyra.Request {
	r := staged(program("make"))
	r.Effects = &f
	return r
}

// What each preset says to what a run did. Nobody's answer for the call counts.
func TestPresetsOnEffects(t *testing.T) {
	paths := []palyra.PathText{"x"}
	for _, c := range []struct {
		name  string
		facts palyra.EffectFacts
		want  string // default ask strict ci readonly
	}{
		{"nothing", palyra.EffectFacts{Share: -1}, "allow allow allow allow allow"},
		{"ordinary work", palyra.EffectFacts{
			Created: 3, Changed: 4, Removed: 25, RemovedFiles: 20, Bytes: 256 << 20, Executables: 2, NeverKept: 1, RunByTools: paths, Share: 100,
		}, "allow allow allow allow deny"},
		{"trusted", palyra.EffectFacts{Created: 1, Trusted: paths}, "ask ask ask deny deny"},
		{"outward", palyra.EffectFacts{Created: 1, Outward: paths}, "ask allow ask deny deny"},
		{"removed", palyra.EffectFacts{Removed: 21, RemovedFiles: 21}, "ask allow ask deny deny"},
		{"uncommitted", palyra.EffectFacts{Changed: 1, Uncommitted: paths}, "ask allow ask deny deny"},
		{"rewound", palyra.EffectFacts{Changed: 1, Rewound: []string{"refs/heads/main"}}, "ask allow ask deny deny"},
		{"large", palyra.EffectFacts{Created: 1, Bytes: 256<<20 + 1}, "ask allow ask deny deny"},
		{"omitted", palyra.EffectFacts{Created: 1, Omitted: 1}, "ask ask ask deny deny"},
		{"not undoable", palyra.EffectFacts{Changed: 1, NotUndoable: true}, "ask ask ask deny deny"},
		{"pushes out", palyra.EffectFacts{Changed: 1, PushesOut: 1}, "ask ask ask deny deny"},
	} {
		var got []string
		for _, preset := range Presets() {
			v := engineOf(t, preset, palyra.Command{Class: palyra.CommandUnknown}).Judge(t.Context(), kept(c.facts))
			got = append(got, v.Effect.String())
			if len(v.Errors) > 0 || len(v.Pairs) != 1 || v.Pairs[0].Action != KeepAction {
				t.Errorf("%s under %s: %v %v", c.name, preset, v.Errors, v.Pairs)
			}
			if v.Effect == palyra.Ask && !v.Need.Fresh {
				t.Errorf("%s under %s: an earlier answer would do", c.name, preset)
			}
			if strings.Contains(v.Reason, "about this command") {
				t.Errorf("%s under %s speaks of words: %s", c.name, preset, v.Reason)
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
}

// An answer counts for what the run did only when it was given for that.
func TestEffectsNeedAnAnswerOfTheirOwn(t *testing.T) {
	e := engineOf(t, DefaultPreset, palyra.Command{})
	r := kept(palyra.EffectFacts{Created: 1, Trusted: []palyra.PathText{".envrc"}})
	for _, c := range []struct {
		facts palyra.ApprovalFacts
		want  palyra.Effect
	}{
		{palyra.ApprovalFacts{Votes: 1, Scope: palyra.ScopeOnce, Fresh: true}, palyra.Allow},
		{palyra.ApprovalFacts{Votes: 5, Scope: palyra.ScopeOnce}, palyra.Deny},
		{palyra.ApprovalFacts{Votes: 5, Scope: palyra.ScopeSession, Fresh: true}, palyra.Deny},
		{palyra.ApprovalFacts{Scope: palyra.ScopeOnce, Fresh: true}, palyra.Deny},
	} {
		r.Approval = &c.facts
		if v := e.Judge(t.Context(), r); v.Effect != c.want {
			t.Errorf("%+v: %s", c.facts, v.Effect)
		}
	}
}

// A bundle that says nothing about effects.keep, such as one from before there was the action, keeps what it let
// run, but for what was sealed then. One that counts on stages and does not say what is kept is asked about all of
// it. Rules about calls, and the policies of a workspace, do not make it speak.
func TestBundleWithoutRulesAboutEffects(t *testing.T) {
	const calls = `@id("all") permit (principal, action in Action::"call", resource);
@id("never") forbid (principal, action in Action::"call", resource) when { context.tool == "x" };`
	plain := palyra.EffectFacts{Changed: 1}
	trusted := palyra.EffectFacts{Changed: 1, Trusted: []palyra.PathText{".envrc"}}
	cut, lasts := palyra.EffectFacts{Changed: 1, Omitted: 1}, palyra.EffectFacts{Changed: 1, PushesOut: 1}
	const execute = `action == Action::"tool.execute", resource)`
	keeps := func(when string) string {
		return calls + `@id("k") permit (principal, action == Action::"effects.keep", resource) when { ` + when + ` };`
	}
	for name, c := range map[string]struct {
		text string
		want string // of plain, trusted, cut, lasts
	}{
		"old":          {calls, "allow ask ask ask"},
		"stages":       {calls + `@id("s") permit (principal, ` + execute + ` when { context.staged };`, "ask ask ask ask"},
		"forbids live": {calls + `@id("s") forbid (principal, ` + execute + ` unless { context.staged };`, "allow ask ask ask"},
		"says it":      {keeps("context.effects.total < 2"), "allow allow allow ask"},
		"says all":     {keeps("context.effects.not_undoable || context.effects.total < 2"), "allow allow allow allow"},
		"denies it":    {calls + `@id("k") forbid (principal, action in [Action::"effects.keep"], resource);`, "deny deny deny deny"},
		"anything":     {calls + `@id("k") permit (principal, action, resource) when { context.approval.granted };`, "allow ask ask ask"},
		"nothing":      {calls + `@id("k") forbid (principal, action, resource);`, "deny deny deny deny"},
		"fails":        {keeps("context.effects.bytes + 9223372036854775807 > 0"), "deny deny deny deny"},
	} {
		b, err := Load(fstest.MapFS{"a.cedar": {Data: []byte(c.text)}})
		if err != nil {
			t.Fatal(name, err)
		}
		if n := strings.Count(c.text, "@id"); len(b.Policies()) != n {
			t.Errorf("%s has %d policies, not %d", name, len(b.Policies()), n)
		}
		e := engine(t, b)
		var got []string
		for _, f := range []palyra.EffectFacts{plain, trusted, cut, lasts} {
			f.Bytes = 1
			got = append(got, e.Judge(t.Context(), kept(f)).Effect.String())
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", name, s, c.want)
		}
	}
}

// A bundle that was put into force before there was the action goes on, with the schema that it has.
func TestBundleOfAnOlderSchema(t *testing.T) {
	old := SchemaText()
	from, to := strings.Index(old, "// What a staged run did becomes"), strings.Index(old, `action "tool.list"`)
	old = old[:from] + old[to:]
	files := map[string]string{schemaFile: old, "a.cedar": `@id("a") permit (principal, action == Action::"tool.execute", resource);`}
	b, err := Compile(files)
	if err != nil {
		t.Fatal(err)
	}
	e := engine(t, b)
	if v := e.Judge(t.Context(), kept(palyra.EffectFacts{Changed: 1})); v.Effect != palyra.Allow || len(v.Errors) > 0 {
		t.Errorf("%+v", v)
	}
	if v := e.Judge(t.Context(), kept(palyra.EffectFacts{Changed: 1, Trusted: []palyra.PathText{"x"}})); v.Effect != palyra.Ask {
		t.Errorf("%+v", v)
	}
	_, report := Check(files)
	if len(report.Problems) != 1 || !strings.Contains(report.Problems[0].Text, "remove it") {
		t.Errorf("%v", report.Problems)
	}
}

// Why says that what a staged run did is judged as well, and never what permit would keep it unseen.
func TestWhyOfStagedCalls(t *testing.T) {
	e := engineOf(t, DefaultPreset, palyra.Command{Class: palyra.CommandUnknown})
	if x := e.Why(t.Context(), staged(program("x"))); x.Verdict != palyra.Allow || x.Then != KeepAction {
		t.Errorf("%s then %q", x.Verdict, x.Then)
	}
	if x := e.Why(t.Context(), program("x")); x.Then != "" {
		t.Errorf("live: then %q", x.Then)
	}
	for _, preset := range []string{DefaultPreset, "readonly"} {
		x := engineOf(t, preset, palyra.Command{}).Why(t.Context(), kept(palyra.EffectFacts{Created: 1, Trusted: []palyra.PathText{"x"}}))
		if x.Then != "" || strings.Contains(x.Remedy, "@id") ||
			slices.ContainsFunc(x.Flips, func(f Flip) bool { return f.Kind == flipPolicy }) {
			t.Errorf("%s: %q %+v", preset, x.Remedy, x.Flips)
		}
	}
}

// Every question about effects has the shape that the schema promises, names of any bytes included.
func TestEffectsFitTheSchema(t *testing.T) {
	b := bundleOf(t, DefaultPreset)
	names := rapid.SliceOf(rapid.Custom(func(t *rapid.T) palyra.PathText {
		return palyra.TextOfPath(string(rapid.SliceOfN(rapid.Byte(), 1, 8).Draw(t, "name")))
	}))
	rapid.Check(t, func(t *rapid.T) {
		r := anyRequest(t)
		r.Effects = &palyra.EffectFacts{
			Created: rapid.Int64Min(0).Draw(t, "created"), Bytes: rapid.Int64().Draw(t, "bytes"), Share: -1,
			Trusted: names.Draw(t, "trusted"), Outward: names.Draw(t, "outward"),
		}
		c, err := (&state{bundle: b}).newCall(r)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.pairs) != 1 || c.pairs[0].action != keepAction {
			t.Fatalf("%v", c.pairs)
		}
		req := cedar.Request{Principal: c.principal, Action: keepAction, Resource: c.pairs[0].resource, Context: c.context(answer{})}
		if err := b.valid.Request(req); err != nil {
			t.Fatal(err)
		}
	})
}

// A caller that wants to write to the workspace directly does not get around the judgement of what it did: whatever
// permits the call, somebody is asked, also where the bundle comes from a version that did not know of this.
func TestLiveAsked(t *testing.T) {
	live := func(why string) palyra.Request {
		r := program("make")
		r.Plan.Staging = palyra.Staging{Writes: palyra.WritesLive, Why: why}
		return r
	}
	for preset, want := range map[string]palyra.Effect{
		DefaultPreset: palyra.Ask, "ask": palyra.Ask, "strict": palyra.Ask, "ci": palyra.Deny, "readonly": palyra.Deny,
	} {
		e := engineOf(t, preset, understood(palyra.CommandBuild))
		if v := e.Judge(t.Context(), live(palyra.LiveAsked)); v.Effect != want {
			t.Errorf("%s: %s", preset, v.Effect)
		}
		if got, as := e.Judge(t.Context(), live("no place for stages")).Effect, e.Judge(t.Context(), program("make")).Effect; got != as {
			t.Errorf("%s: that cannot be staged: %s, want %s", preset, got, as)
		}
	}
	old := strings.Replace(SchemaText(), "  live_asked: Bool,", "", 1)
	for name, files := range map[string]map[string]string{
		"new": {schemaFile: SchemaText(), "a.cedar": `@id("a") permit (principal, action, resource);`},
		"old": {schemaFile: old, "a.cedar": `@id("a") permit (principal, action == Action::"tool.execute", resource);`},
	} {
		b, err := Compile(files)
		if err != nil {
			t.Fatal(err)
		}
		e := engine(t, b)
		if v := e.Judge(t.Context(), live(palyra.LiveAsked)); v.Effect != palyra.Ask || len(v.Policies) == 0 || v.Policies[0].Effect != "forbid" {
			t.Errorf("%s: %+v", name, v)
		}
		if x := e.Why(t.Context(), live(palyra.LiveAsked)); x.Verdict != palyra.Ask || !strings.Contains(x.Remedy, "live") {
			t.Errorf("%s: %+v", name, x)
		}
		if v := e.Judge(t.Context(), live("it has a terminal")); v.Effect != palyra.Allow {
			t.Errorf("%s: %+v", name, v)
		}
	}
	own, err := Compile(map[string]string{schemaFile: SchemaText(), "a.cedar": `@id("a") permit (principal, action, resource);
@id("b") forbid (principal, action, resource) when { context has live_asked && context.live_asked && context.tool == "x" };`})
	if err != nil {
		t.Fatal(err)
	}
	if v := engine(t, own).Judge(t.Context(), live(palyra.LiveAsked)); v.Effect != palyra.Allow {
		t.Errorf("a bundle with a rule of its own: %+v", v)
	}
}

// What a command changed that only looks is known as that, and nothing else is.
func TestLooks(t *testing.T) {
	for _, tt := range []struct {
		words palyra.Command
		did   bool
		want  bool
	}{
		{palyra.Command{Class: palyra.CommandReadOnly, Understood: true}, true, true},
		{palyra.Command{Class: palyra.CommandReadOnly, Understood: true}, false, false},
		{palyra.Command{Class: palyra.CommandReadOnly, Understood: true, RunsCode: true}, true, false},
		{palyra.Command{Class: palyra.CommandReadOnly}, true, false},
		{palyra.Command{Class: palyra.CommandBuild, Understood: true}, true, false},
		{palyra.Command{Class: palyra.CommandWrite, Understood: true}, true, false},
	} {
		r := staged(program("git", "status"))
		if tt.did {
			r.Effects = &palyra.EffectFacts{Changed: 1, Share: -1}
		}
		if got := engineOf(t, "readonly", tt.words).Judge(t.Context(), r).Looks; got != tt.want {
			t.Errorf("%+v, %t: %t", tt.words, tt.did, got)
		}
	}
}
