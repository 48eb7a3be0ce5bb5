package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"palyra"
)

// Pieces of random policies over a small world, so that matches are frequent.
var (
	somePrincipals = []string{
		"principal", "principal", "principal", "principal", "principal == Agent::\"local\"", "principal == Agent::\"other\"",
		"principal == User::\"local\"",
		"principal in Role::\"agent\"", "principal in Role::\"owner\"", "principal is Agent", "principal is User",
		"principal is Agent in Role::\"agent\"", "principal is User in Role::\"agent\"",
	}
	someActions = []string{
		"action", `action == Action::"tool.execute"`, `action == Action::"vault.use"`, `action in Action::"call"`, `action in Action::"operate"`,
		`action in [Action::"tool.execute", Action::"call"]`, `action in [Action::"vault.use", Action::"tool.execute", Action::"read_only"]`,
		`action in []`,
	}
	someResources = []string{
		"resource", "resource", "resource", "resource", `resource == Tool::"palyra.fs.write"`, `resource == Tool::"other"`,
		`resource in ToolGroup::"allowed"`, `resource in ToolGroup::"other"`,
		"resource is Tool", "resource is Secret", `resource is Tool in ToolGroup::"allowed"`, `resource is Secret in ToolGroup::"allowed"`,
		`resource == Secret::"github"`,
	}
	someConditions = []string{
		"", "", "when { true }", "when { false }", "when { context.sensitive }", "unless { context.approval.granted }",
		"when { context.approval.granted }",
		"when { context.approval.votes >= 2 }", "when { context.approval.device || context.approval.other_person }",
		"when { context.approval.separation > 1 }",
		"when { context.approval.fresh }", "when { context has approval && context.writes.contains(\"a.txt\") }",
		"when { context.calls_used + 9223372036854775807 > 0 }", "when { context.approval.votes + 9223372036854775805 > 0 }",
		"unless { context.approval.votes == 3 && context.calls_used * 9223372036854775807 > 9 }",
		"when { {a: context} == {a: context} }", "when { context.door == \"mcp\" } unless { context.approval.scope == \"session\" }",
		"when { resource has nothing }", "when { resource.nothing }", "when { principal.owner == User::\"ada\" }",
	}
)

func somePolicies(t *rapid.T) string {
	var b strings.Builder
	n := rapid.IntRange(1, 14).Draw(t, "policies")
	for i := range n {
		fmt.Fprintf(&b, "@id(\"p%d\") %s (%s, %s, %s) %s;\n", i,
			rapid.SampledFrom([]string{"permit", "permit", "forbid"}).Draw(t, "effect"),
			rapid.SampledFrom(somePrincipals).Draw(t, "principal"),
			rapid.SampledFrom(someActions).Draw(t, "action"),
			rapid.SampledFrom(someResources).Draw(t, "resource"),
			rapid.SampledFrom(someConditions).Draw(t, "condition"))
	}
	return b.String()
}

// unchecked makes a bundle without the type checker, so that policies may fail
// in every way they can.
func unchecked(t interface{ Fatal(...any) }, text string) *Bundle {
	return uncheckedOver(t, SchemaText(), text)
}

func uncheckedOver(t interface{ Fatal(...any) }, schema, text string) *Bundle {
	list, err := cedar.NewPolicyListFromBytes("a.cedar", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	model, err := resolve(schema)
	if err != nil {
		t.Fatal(err)
	}
	b := &Bundle{byID: map[cedar.PolicyID]*rule{}, actions: actionEntities(model)}
	for _, p := range list {
		r, problem := b.name(p)
		if problem != nil {
			t.Fatal(problem)
		}
		b.rules = append(b.rules, r)
		b.byID[r.id] = r
	}
	b.index = b.newIndex()
	return b
}

func someRequest(t *rapid.T) palyra.Request {
	r := write("a.txt")
	r.Principal = rapid.SampledFrom([]palyra.Principal{"agent:local", "agent:x", "user:local", "system:cron"}).Draw(t, "who")
	r.Owner = rapid.SampledFrom([]palyra.Principal{"user:ada", ""}).Draw(t, "owner")
	r.CallsUsed = rapid.Int64Range(0, 1).Draw(t, "used")
	useSecrets(&r, rapid.SampledFrom([][]string{nil, {"github"}, {"github", "npm"}}).Draw(t, "secrets")...)
	return r
}

// Through the index and split by what looks at the approval, Cedar says
// exactly what it says about the whole bundle.
func TestIndexChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := unchecked(t, somePolicies(t))
		s := &state{bundle: b, tools: newNames([]string{"palyra.*"})}
		c, err := s.newCall(someRequest(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range c.pairs {
			q := c.newQuestion(p)
			for _, a := range append([]answer{{}, ladder[0].leased()}, ladder...) {
				got, want := q.ask(a), c.evaluate(b.rules, p, a)
				want.allow = len(want.errs) == 0 && len(want.forbids) == 0 && len(want.permits) > 0
				if got.allow != want.allow {
					t.Fatalf("%v under %+v: %v, whole bundle %v", p, a, got.allow, want.allow)
				}
				if len(want.forbids) > 0 { // Cedar does not list permits beside forbids
					got.permits = nil
				}
				for name, pair := range map[string][2]rules{
					"permits": {got.permits, want.permits}, "forbids": {got.forbids, want.forbids}, "failed": {got.failed, want.failed},
				} {
					if d := cmp.Diff(sortedIDs(pair[1]), sortedIDs(pair[0])); d != "" {
						t.Fatalf("%v under %+v: %s (-whole +indexed)\n%s", p, a, name, d)
					}
				}
			}
		}
	})
}

// someEntity is one of a few, so that policies and requests meet.
func someEntity(t *rapid.T, label string) cedar.EntityUID {
	return cedar.NewEntityUID(
		rapid.SampledFrom([]cedar.EntityType{"A", "B", "N::C"}).Draw(t, label+" type"),
		rapid.SampledFrom([]cedar.String{"", "x", "y", `z"\n`}).Draw(t, label))
}

// someWorld is a random graph: deep, with several ways up, loops, and parents
// that are not there.
func someWorld(t *rapid.T) cedar.EntityMap {
	m := cedar.EntityMap{}
	for range rapid.IntRange(0, 9).Draw(t, "entities") {
		uid := someEntity(t, "entity")
		parents := make([]cedar.EntityUID, rapid.IntRange(0, 3).Draw(t, "parents"))
		for i := range parents {
			parents[i] = someEntity(t, "parent")
		}
		m[uid] = cedar.Entity{UID: uid, Parents: cedar.NewEntityUIDSet(parents...)}
	}
	return m
}

// someScope is any form of scope that Cedar knows for a variable.
func someScope(t *rapid.T, variable string) string {
	uid := someEntity(t, variable)
	forms := []string{
		variable, fmt.Sprintf("%s == %v", variable, uid), fmt.Sprintf("%s in %v", variable, uid),
	}
	if variable == "action" {
		forms = append(forms, "action in []", fmt.Sprintf("action in [%v]", uid),
			fmt.Sprintf("action in [%v, %v, %v]", uid, someEntity(t, "second"), uid))
	} else {
		forms = append(forms, fmt.Sprintf("%s is %s", variable, uid.Type), fmt.Sprintf("%s is %s in %v", variable, uid.Type,
			someEntity(t, "within")))
	}
	return rapid.SampledFrom(forms).Draw(t, variable+" scope")
}

// In any graph and for every form of scope, what the index leaves out neither
// matches nor fails, and what it finds comes once and in the order of the
// bundle.
func TestIndexInRandomWorlds(t *testing.T) {
	left := 0
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for i := range rapid.IntRange(1, 20).Draw(t, "policies") {
			fmt.Fprintf(&text, "@id(\"p%d\") %s (%s, %s, %s) %s;\n", i, rapid.SampledFrom([]string{"permit", "forbid"}).Draw(t, "effect"),
				someScope(t, "principal"), someScope(t, "action"), someScope(t, "resource"),
				rapid.SampledFrom([]string{"", "when { false }", "when { resource.nothing }", "unless { context.approval.granted }"}).
					Draw(t, "condition"))
		}
		b, w := unchecked(t, text.String()), someWorld(t)
		for range 4 {
			req := cedar.Request{Principal: someEntity(t, "who"), Action: someEntity(t, "what"), Resource: someEntity(t, "on")}
			left += unfound(t, b, w, req)
		}
	})
	if left == 0 {
		t.Error("the index left nothing out")
	}
}

// unfound holds the index to its promise for one request and returns how many
// policies it did not find.
func unfound(t *rapid.T, b *Bundle, w cedar.EntityMap, req cedar.Request) int {
	fixed, asking := b.index.find(w, req.Resource, req.Principal, req.Action)
	found := map[*rule]bool{}
	for _, some := range []rules{fixed, asking} {
		last := -1
		for _, r := range some {
			at := slices.Index(b.rules, r)
			if at <= last || found[r] || (r.reads == 0) != slices.Contains(fixed, r) {
				t.Fatalf("%s is found twice, out of order or among the wrong kind", r.id)
			}
			last, found[r] = at, true
		}
	}
	for _, r := range b.rules {
		_, diag := cedar.Authorize(rules{r}, w, req)
		if !found[r] && len(diag.Reasons)+len(diag.Errors) > 0 {
			t.Fatalf("%v: %s was left out and says %+v\n%s", req, r.id, diag, r.policy.MarshalCedar())
		}
	}
	return len(b.rules) - len(found)
}

func sortedIDs(r rules) []string {
	out := r.ids()
	slices.Sort(out)
	return out
}

// Judge agrees with the definition of the ladder written down plainly.
func TestJudgeIsTheLadder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := unchecked(t, somePolicies(t))
		e, err := New(Config{Bundle: b, Snapshot: open()})
		if err != nil {
			t.Fatal(err)
		}
		r := someRequest(t)
		v := e.Judge(t.Context(), r)
		effect, need := plainly(t, e.live.Load(), r)
		if v.Effect != effect || v.Need != need {
			t.Fatalf("judged %s %+v, plainly %s %+v", v.Effect, v.Need, effect, need)
		}
		if len(v.Errors) > 0 && v.Effect != palyra.Deny {
			t.Fatalf("%s with errors", v.Effect)
		}
	})
}

// plainly is the ladder without index, split or cache.
func plainly(t *rapid.T, s *state, r palyra.Request) (palyra.Effect, palyra.Need) {
	c, err := s.newCall(r)
	if err != nil {
		t.Fatal(err)
	}
	effect, need := palyra.Allow, palyra.Need{}
	ask := func(p pair, a answer) (bool, bool) {
		reply := c.evaluate(s.bundle.rules, p, a)
		return len(reply.forbids) == 0 && len(reply.permits) > 0, len(reply.errs) > 0
	}
	for _, p := range c.pairs {
		one, n := plainPair(func(a answer) (bool, bool) { return ask(p, a) })
		effect, need = min(effect, one), stricter(need, n)
	}
	if effect != palyra.Ask {
		return effect, palyra.Need{}
	}
	if len(c.pairs) == 1 {
		return effect, need
	}
	return plainlyAgreed(need, func(a answer) bool {
		return !slices.ContainsFunc(c.pairs, func(p pair) bool {
			allow, failed := ask(p, a)
			return !allow || failed
		})
	})
}

// plainlyAgreed is the first answer that does for all pairs: what each of them needs
// taken together, or else the first rung.
func plainlyAgreed(need palyra.Need, all func(answer) bool) (palyra.Effect, palyra.Need) {
	together := answer{
		votes: need.Votes, other: need.OtherPerson, device: need.Device, separation: need.Separation.Rank(), scope: palyra.ScopeOnce, fresh: true,
	}
	for _, a := range append([]answer{together}, ladder...) {
		if all(a) {
			n := a.need()
			n.Fresh = need.Fresh || !all(a.leased())
			return palyra.Ask, n
		}
	}
	return palyra.Deny, palyra.Need{}
}

func plainPair(ask func(answer) (allow, failed bool)) (palyra.Effect, palyra.Need) {
	if allow, failed := ask(answer{}); failed || allow {
		return map[bool]palyra.Effect{true: palyra.Deny, false: palyra.Allow}[failed], palyra.Need{}
	}
	for _, rung := range ladder {
		allow, failed := ask(rung)
		if failed {
			return palyra.Deny, palyra.Need{}
		}
		if allow {
			leased, failed := ask(rung.leased())
			if failed {
				return palyra.Deny, palyra.Need{}
			}
			n := rung.need()
			n.Fresh = !leased
			return palyra.Ask, n
		}
	}
	return palyra.Deny, palyra.Need{}
}

func TestReadsApproval(t *testing.T) {
	for cond, want := range map[string]parts{
		"true":                               0,
		"context.sensitive":                  0,
		"context has executable":             0,
		"principal has approval":             0,
		`context.tool == "context.approval"`: 0,
		"principal.approval.votes == 1":      0,
		"context.approval.granted":           partGranted,
		"context.approval.fresh":             partFresh,
		`context["approval"]["device"]`:      partDevice,
		"context.approval has scope":         partScope,
		"context.approval.votes > 1 && context.approval.separation > 0":     partVotes | partSeparation,
		"if context.sensitive then context.approval.other_person else true": partOther,
		"context.approval.unheard_of":                                       allParts,
		"context has approval":                                              allParts,
		"context.approval == {a: 1}":                                        allParts,
		"[context].contains(context)":                                       allParts,
		"{a: context}.a.sensitive":                                          allParts,
		"{a: context.approval}.a.granted":                                   allParts,
		"(if true then context else context).approval.granted":              allParts,
	} {
		for _, word := range []string{"when", "unless"} {
			var p cedar.Policy
			if err := p.UnmarshalCedar([]byte("permit (principal, action, resource) " + word + " { " + cond + " };")); err != nil {
				t.Fatal(cond, err)
			}
			if got := readsApproval((*ast.Policy)(p.AST())); got != want {
				t.Errorf("%q reads %b, want %b", cond, got, want)
			}
		}
	}
	if len(partOf) != 7 || allParts != 1<<7-1 {
		t.Error("a part of the approval is not listed")
	}
	for name := range (answer{}).record().All() {
		if partOf[name] == 0 {
			t.Errorf("approval.%s is not a part", name)
		}
	}
}

// Ancestors are followed however deep they lie, and cycles end.
func TestClosure(t *testing.T) {
	uid := func(s string) cedar.EntityUID { return cedar.NewEntityUID("Role", cedar.String(s)) }
	m := cedar.EntityMap{}
	for child, parents := range map[string][]string{"a": {"b", "c"}, "b": {"d"}, "d": {"a", "e"}} {
		var set []cedar.EntityUID
		for _, p := range parents {
			set = append(set, uid(p))
		}
		m[uid(child)] = cedar.Entity{UID: uid(child), Parents: cedar.NewEntityUIDSet(set...)}
	}
	var got []string
	for _, u := range closure(m, []cedar.EntityUID{uid("a")}) {
		got = append(got, string(u.ID))
	}
	slices.Sort(got)
	if d := cmp.Diff([]string{"a", "b", "c", "d", "e"}, got); d != "" {
		t.Error(d)
	}
}
