package policy

import (
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"palyra"
)

func TestReadsContext(t *testing.T) {
	for text, want := range map[string][]string{
		``:                                   {},
		`when { principal == resource }`:     {},
		`when { context.sensitive }`:         {"sensitive"},
		`unless { context["cwd"] == "x" }`:   {"cwd"},
		`when { context has run_id }`:        {"run_id"},
		`when { context.approval.granted }`:  {"approval"},
		`when { context has risk.level }`:    {"risk"},
		`when { context.risk.level == "a" }`: {"risk"},
		`when { if context.asks then context.tier == "B" else context.labels.contains(context.cwd) } unless { context.argv.isEmpty() }`: {
			"asks", "tier", "labels", "cwd", "argv",
		},
		`when { principal in context.session && resource == context.place }`: {"session", "place"},
		`when { principal has approval && resource.tool == "x" }`:            {},
		`when { {"a": context.cwd} == {"a": context.tier} }`:                 {"cwd", "tier"},
		`when { [context.cwd].contains("x") }`:                               {"cwd"},
		`when { context.cwd like "x*" && -context.budget < 0 }`:              {"cwd", "budget"},
		`when { context.approval == context.approval }`:                      {"approval"},
		`when { context == principal }`:                                      nil,
		`when { {"a": context}.a.cwd == "x" }`:                               nil,
		`when { (if true then context else context).asks }`:                  nil,
		`when { context has nobody_knows }`:                                  nil,
		`when { [context].contains(principal) }`:                             nil,
	} {
		var p cedar.Policy
		if err := p.UnmarshalCedar([]byte("permit (principal, action, resource) " + text + ";")); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		all := everything
		if want != nil {
			all = 0
			for _, name := range want {
				all |= attrNamed(cedar.String(name))
			}
		}
		if got := readsContext((*ast.Policy)(p.AST())); got != all {
			t.Errorf("%s: %b, want %b", text, got, all)
		}
	}
}

// No two attributes have one name, and each is known by its own.
func TestAttributeNames(t *testing.T) {
	for i, a := range attributes {
		if got := attrNamed(a.name); got != 1<<i {
			t.Errorf("%s: %b", a.name, got)
		}
	}
	if attrNamed("approval") != attrApproval || attrNamed("nobody_knows") != everything {
		t.Error("the approval, or what nobody knows")
	}
}

// seenAlike judges one request with everything and with what the
// policies read, with and without an answer.
func seenAlike(t *rapid.T, s *state, r palyra.Request) {
	blind := *s // its policies are shown everything
	blind.bundle = wholly(s.bundle)
	answers := []*palyra.ApprovalFacts{
		nil,
		{Votes: 1, Scope: palyra.ScopeOnce, Fresh: true},
		{Votes: 2, OtherPerson: true, Scope: palyra.ScopeSession},
		{},
	}
	part, err := s.newCall(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		r.Approval, part.request.Approval = a, a
		whole, err := blind.newCall(r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(whole.judge(), part.judge(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%+v: %s (-everything +what is read)", a, diff)
		}
	}
}

// Policies that see only what they read answer as they do when they see everything:
// effects, needs, policies and faults.
func TestSightsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &state{bundle: unchecked(t, somePolicies(t)), tools: newNames([]string{"palyra.*"})}
		seenAlike(t, s, someRequest(t))
	})
	b := defaults(t)
	rapid.Check(t, func(t *rapid.T) {
		s := &state{
			bundle: b, tools: newNames([]string{"palyra.*"}), principals: newNames([]string{"agent:*"}), surfaces: newNames([]string{"cli"}),
			probed: func(palyra.Tier) bool { return true },
		}
		seenAlike(t, s, anyRequest(t))
	})
}

// wholly is a bundle whose policies are as if nobody had looked at what they read.
func wholly(b *Bundle) *Bundle {
	out := *b
	out.rules, out.implied, out.byID = nil, nil, map[cedar.PolicyID]*rule{}
	for _, r := range b.rules {
		one := *r
		one.unread = 0
		out.rules, out.byID[one.id] = append(out.rules, &one), &one
	}
	for _, r := range b.implied {
		one := *r
		one.unread = 0
		out.implied, out.byID[one.id] = append(out.implied, &one), &one
	}
	out.index = out.newIndex()
	return &out
}

// A policy that nobody has looked at sees everything.
func TestSightsOfStrangers(t *testing.T) {
	b := load(t, `@id("a") forbid (principal, action == Action::"tool.execute", resource) when { context.cwd == "x" }; @id("b") permit (principal, action, resource);`)
	c, err := (&state{bundle: b}).newCall(echo())
	if err != nil {
		t.Fatal(err)
	}
	if rec := c.contextFor(b.rules[:1], answer{}); rec.Len() != 1 {
		t.Errorf("the policy that is known sees %d attributes", rec.Len())
	}
	if got, want := c.contextFor(wholly(b).rules, answer{}), c.context(answer{}); !got.Equal(want) || got.Len() < 20 {
		t.Errorf("a stranger sees %d of %d attributes", got.Len(), want.Len())
	}
	if a := ladder[3]; !approvalRecord(a).Equal(a.record()) || !approvalRecord(answer{votes: 99}).Equal(answer{votes: 99}.record()) {
		t.Error("approvals differ")
	}
}
