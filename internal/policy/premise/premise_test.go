package premise_test

import (
	"fmt"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"pgregory.net/rapid"

	"palyra/internal/policy/premise"
)

// names are the members of the context that have a number. "later" may not be known yet.
var names = []types.String{"flag", "word", "size", "list", "inner", "later"}

func number(name types.String) (int, bool, bool) {
	for i, n := range names {
		if n == name {
			return i, n == "later", true
		}
	}
	return 0, false, false
}

// request is a context and a resource as Cedar has them. unknown: "later" is there, and Facts do not say so.
type request struct {
	context, resource cedar.RecordMap
	unknown           bool
}

func (r request) Attribute(i int) types.Value {
	if r.unknown && names[i] == "later" {
		return nil
	}
	return r.context[names[i]]
}

func (r request) Resource(name types.String) types.Value { return r.resource[name] }

var tool = cedar.NewEntityUID("Tool", "t")

// cedarSays asks Cedar about one policy.
func cedarSays(p *cedar.Policy, r request) (matches, fails bool) {
	set := cedar.NewPolicySet()
	set.Add("p", p)
	world := cedar.EntityMap{tool: {UID: tool, Attributes: cedar.NewRecord(r.resource)}}
	_, diag := cedar.Authorize(set, world, cedar.Request{
		Principal: cedar.NewEntityUID("User", "u"), Action: cedar.NewEntityUID("Action", "a"), Resource: tool,
		Context: cedar.NewRecord(r.context),
	})
	return len(diag.Reasons) > 0, len(diag.Errors) > 0
}

func someValue(t *rapid.T, depth int) types.Value {
	switch rapid.IntRange(0, 4).Draw(t, "type") {
	case 0:
		return cedar.Boolean(rapid.Bool().Draw(t, "bool"))
	case 1:
		return cedar.Long(rapid.IntRange(-1, 2).Draw(t, "long"))
	case 2:
		return cedar.NewSet(cedar.String(rapid.SampledFrom([]string{"", "a"}).Draw(t, "member")))
	case 3:
		if depth > 0 {
			return cedar.NewRecord(someMembers(t, depth-1))
		}
		return cedar.NewSet()
	}
	return cedar.String(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "string"))
}

func someMembers(t *rapid.T, depth int) cedar.RecordMap {
	m := cedar.RecordMap{}
	for _, n := range append([]types.String{"other"}, names...) {
		if rapid.IntRange(0, 3).Draw(t, "there") > 0 {
			m[n] = someValue(t, depth)
		}
	}
	return m
}

// someRequest has what its names promise, mostly.
func someRequest(t *rapid.T) request {
	r := request{context: someMembers(t, 1), resource: someMembers(t, 0), unknown: rapid.Bool().Draw(t, "unknown")}
	if rapid.Bool().Draw(t, "well formed") {
		r.context["flag"] = cedar.Boolean(rapid.Bool().Draw(t, "flag"))
		r.context["size"] = cedar.Long(rapid.IntRange(0, 2).Draw(t, "size"))
		r.context["word"] = cedar.String(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "word"))
		r.context["list"] = cedar.NewSet(cedar.String("a"))
	}
	return r
}

func somePath(t *rapid.T) string {
	return rapid.SampledFrom([]string{
		"context.flag", "context.word", "context.size", "context.list", "context.inner", "context.inner.flag", "context.inner.list",
		"context.inner.inner.word", "context.later", "context.later.flag", "context.other", "resource.word", "resource.flag", "resource.list",
		"principal.flag", "principal", "resource", `"a"`, `["a", "b"]`, `[]`, "1", "true", "false", `["a", context.word]`,
	}).Draw(t, "path")
}

func someTest(t *rapid.T, depth int) string {
	if depth == 0 || rapid.IntRange(0, 2).Draw(t, "leaf") == 0 {
		one := somePath(t)
		return "(" + rapid.SampledFrom([]string{
			one, one, one + " == " + somePath(t), one + " != " + somePath(t), one + " < " + somePath(t), one + " <= " + somePath(t),
			one + " > " + somePath(t), one + " >= " + somePath(t), one + ".contains(" + somePath(t) + ")",
			one + ".containsAny(" + somePath(t) + ")", one + ".isEmpty()", "context has word", "context has later", "context has other",
			"context has inner.flag", one + " has word", `context.word like "a*"`, "resource is Tool", "resource in principal",
			"context.size + 1 == 2", "if context.flag then true else context.word", one + ".containsAll(" + somePath(t) + ")",
		}).Draw(t, "test") + ")"
	}
	a, b := someTest(t, depth-1), someTest(t, depth-1)
	return "(" + rapid.SampledFrom([]string{a + " && " + b, a + " && " + b, a + " || " + b, "!" + a}).Draw(t, "operator") + ")"
}

// A policy whose premise fails neither matches nor fails, whatever its conditions are and whatever the request has.
func TestCedarAgrees(t *testing.T) {
	failed, matched := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		text := "permit (principal, action, resource)"
		for range rapid.IntRange(1, 3).Draw(t, "conditions") {
			text += fmt.Sprintf(" %s { %s }", rapid.SampledFrom([]string{"when", "unless"}).Draw(t, "condition"), someTest(t, 3))
		}
		var p cedar.Policy
		if err := p.UnmarshalCedar([]byte(text + ";")); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		pre := premise.Of((*ast.Policy)(p.AST()), number)
		for range 40 {
			r := someRequest(t)
			matches, fails := cedarSays(&p, r)
			switch {
			case pre.Fails(r) && (matches || fails):
				t.Fatalf("its premise fails, and Cedar says that it matches: %v, fails: %v\n%s\n%v %v", matches, fails, text, r.context, r.resource)
			case pre.Fails(r):
				failed++
			case matches:
				matched++
			}
		}
	})
	if failed < 50 || matched < 50 {
		t.Errorf("%d premises failed, %d policies matched: that shows nothing", failed, matched)
	}
}

// What is simple is decided.
func TestWhatIsDecided(t *testing.T) {
	r := request{context: cedar.RecordMap{
		"flag": cedar.False, "word": cedar.String("a"), "size": cedar.Long(1), "list": cedar.NewSet(cedar.String("a")),
		"inner": cedar.NewRecord(cedar.RecordMap{"flag": cedar.False}),
	}, resource: cedar.RecordMap{"word": cedar.String("a")}}
	for text, fails := range map[string]bool{
		`when { context.flag }`:                                              true,
		`unless { !context.flag }`:                                           true,
		`when { context.word == "b" && principal in Role::"x" }`:             true,
		`when { context.word == "a" && context.size > 1 }`:                   true,
		`when { context.word == "a" } when { context.inner.flag }`:           true,
		`when { context.list.isEmpty() }`:                                    true,
		`when { context.list.containsAny(["b", "c"]) }`:                      true,
		`when { resource.word == "b" }`:                                      true,
		`unless { context has word }`:                                        true,
		`when { context.flag || context.size < 1 }`:                          true,
		`when { context.later.granted && context.flag }`:                     false,
		`unless { context has later }`:                                       false,
		`when { principal in Role::"x" && context.flag }`:                    false,
		`when { context.flag == false }`:                                     false,
		`when { context.word }`:                                              false,
		`when { context.other }`:                                             false,
		`when { context.flag || principal in Role::"x" }`:                    false,
		`when { principal in Role::"x" } when { context.flag }`:              false,
		`when { context.word == "a" && context.list.contains(context.word)}`: false,
	} {
		var p cedar.Policy
		if err := p.UnmarshalCedar([]byte("permit (principal, action, resource) " + text + ";")); err != nil {
			t.Fatal(err)
		}
		if got := premise.Of((*ast.Policy)(p.AST()), number).Fails(r); got != fails {
			t.Errorf("%s: %v", text, got)
		}
	}
}
