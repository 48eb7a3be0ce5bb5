// Package opa measures judging beside plain cedar-go and OPA. It is a module of
// its own, so that what it is compared with is no part of the product.
package opa

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"

	"palyra"
	"palyra/internal/policy"
)

var sizes = []int{5, 100, 1_000, 10_000}

// rule is one policy in both languages. There are six kinds, as in a large
// installation: about a tool, an agent, a team, a secret, a role that everybody
// has and a tool, a team and the group of all tools.
type rule struct{ cedar, rego string }

func operator(i int) rule {
	cedarScope := [...]string{
		`principal, action == Action::"tool.execute", resource == Tool::"mcp.server.tool%d"`,
		`principal == Agent::"bot%d", action == Action::"tool.execute", resource`,
		`principal in Team::"team%d", action in Action::"call", resource`,
		`principal, action == Action::"vault.use", resource == Secret::"s%d"`,
		`principal in Role::"agent", action == Action::"tool.execute", resource == Tool::"mcp.other.tool%d"`,
		`principal in Team::"team%d", action == Action::"tool.execute", resource in ToolGroup::"allowed"`,
	}[i%6]
	regoScope := [...]string{
		`input.action == "tool.execute"; input.resource == "Tool::mcp.server.tool%d"`,
		`input.principal == "Agent::bot%d"; input.action == "tool.execute"`,
		`"Team::team%d" in input.parents; "call" in input.action_groups`,
		`input.action == "vault.use"; input.resource == "Secret::s%d"`,
		`"Role::agent" in input.parents; input.action == "tool.execute"; input.resource == "Tool::mcp.other.tool%d"`,
		`"Team::team%d" in input.parents; input.action == "tool.execute"; "ToolGroup::allowed" in input.groups`,
	}[i%6]
	return rule{
		fmt.Sprintf("@id(\"op-%d\") permit ("+cedarScope+") when { context.approval.granted && context.writes.isEmpty() };\n", i, i),
		fmt.Sprintf("allow if { "+regoScope+"; input.context.approval.granted; count(input.context.writes) == 0 }\n", i),
	}
}

// matching is the one that decides the request.
var matching = rule{
	`@id("echo") permit (principal, action == Action::"tool.execute", resource == Tool::"palyra.echo") when { context.sensitive == false };` + "\n",
	`allow if { input.action == "tool.execute"; input.resource == "Tool::palyra.echo"; input.context.sensitive == false }` + "\n",
}

// texts are n policies in both languages.
func texts(n int) (inCedar, inRego string) {
	var c, r strings.Builder
	r.WriteString("package bench\n\ndefault allow := false\n\n")
	for i := range n {
		one := matching
		if i != n/2 {
			one = operator(i)
		}
		c.WriteString(one.cedar)
		r.WriteString(one.rego)
	}
	return c.String(), r.String()
}

func request(tool palyra.ToolName) palyra.Request {
	return palyra.Request{
		Principal: "agent:local", Owner: "user:ada", Session: "01SESSION", Surface: palyra.SurfaceCLI,
		Tool: palyra.Tool{Name: tool, Source: palyra.SourceBuiltin, ReadOnly: true, Tier: palyra.TierBuiltin},
		Plan: palyra.Plan{Tool: tool, Arguments: []byte(`{"text":"hi"}`), ReadOnly: true, Tier: palyra.TierBuiltin},
	}
}

// asked is one question to all engines: the policies in both languages, the
// tool, and what Palyra shows policies of the request.
type asked struct {
	cedar, rego string
	tool        string
	seen        policy.Explanation
}

func ask(t testing.TB, n int, tool string) asked {
	t.Helper()
	q := asked{tool: tool}
	q.cedar, q.rego = texts(n)
	q.seen = engine(t, q.cedar).Why(t.Context(), request(palyra.ToolName(tool)))
	return q
}

func engine(t testing.TB, text string) *policy.Engine {
	t.Helper()
	b, err := policy.Load(fstest.MapFS{"a.cedar": {Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := policy.New(policy.Config{Bundle: b, Snapshot: palyra.Snapshot{
		AllowedTools: []string{"*"}, Principals: []string{"*"}, Channels: []string{"*"}, MaxCallsPerRun: 64,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// judge is Palyra: the whole of Judge, from a request to a verdict with reasons.
func judge(t testing.TB, q asked) func() bool {
	t.Helper()
	e, r, ctx := engine(t, q.cedar), request(palyra.ToolName(q.tool)), t.Context()
	return func() bool { return e.Judge(ctx, r).Effect == palyra.Allow }
}

// plain is cedar-go by itself, asked about the entities and the context that
// Palyra made of the request: it is spared making them.
func plain(t testing.TB, q asked) func() bool {
	t.Helper()
	set, err := cedar.NewPolicySetFromBytes("a.cedar", []byte(q.cedar))
	if err != nil {
		t.Fatal(err)
	}
	entities := actions(t)
	var own []cedar.Entity
	if err := json.Unmarshal(q.seen.Entities, &own); err != nil {
		t.Fatal(err)
	}
	for _, e := range own {
		entities[e.UID] = e
	}
	req := cedar.Request{
		Principal: cedar.NewEntityUID("Agent", "local"), Action: cedar.NewEntityUID("Action", "tool.execute"),
		Resource: cedar.NewEntityUID("Tool", cedar.String(q.tool)),
	}
	if err := json.Unmarshal(q.seen.Context, &req.Context); err != nil {
		t.Fatal(err)
	}
	return func() bool {
		decision, _ := cedar.Authorize(set, entities, req)
		return decision == cedar.Allow
	}
}

func actions(t testing.TB) cedar.EntityMap {
	t.Helper()
	var s schema.Schema
	if err := s.UnmarshalCedar([]byte(policy.SchemaText())); err != nil {
		t.Fatal(err)
	}
	model, err := s.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	m := cedar.EntityMap{}
	for uid, a := range model.Actions {
		m[uid] = a.Entity
	}
	return m
}

// opa is OPA with a prepared query and an input that is parsed already.
func opa(t testing.TB, q asked) func() bool {
	t.Helper()
	ctx := t.Context()
	query, err := rego.New(rego.Query("data.bench.allow"), rego.Module("a.rego", q.rego)).PrepareForEval(ctx)
	if err != nil {
		t.Fatal(err)
	}
	input := map[string]any{
		"principal": "Agent::local", "parents": []any{"Role::agent"}, "action": "tool.execute", "action_groups": []any{"call"},
		"resource": "Tool::" + q.tool, "groups": []any{"ToolGroup::allowed"},
	}
	var c map[string]any
	if err := json.Unmarshal(q.seen.Context, &c); err != nil {
		t.Fatal(err)
	}
	input["context"] = c
	parsed, err := ast.InterfaceToValue(input)
	if err != nil {
		t.Fatal(err)
	}
	return func() bool {
		out, err := query.Eval(ctx, rego.EvalParsedInput(parsed))
		return err == nil && out.Allowed()
	}
}

// Each round asks all sizes in turn, so that a machine which is busy for a while
// is so for all of them; the figures are those of the round that a tenth of the
// rounds were faster than, which other programs disturbed least. One request is
// allowed by a policy, the other one no policy speaks about: an engine that
// stops at the first yes has to look at everything then.
func BenchmarkJudgeBeside(b *testing.B) {
	for name, start := range map[string]func(testing.TB, asked) func() bool{"palyra": judge, "cedar-go": plain, "opa": opa} {
		for tool, allowed := range map[string]bool{"palyra.echo": true, "palyra.other": false} {
			b.Run(fmt.Sprintf("%s/allowed=%t", name, allowed), func(b *testing.B) {
				decide := make([]func() bool, len(sizes))
				for i, n := range sizes {
					if decide[i] = start(b, ask(b, n, tool)); decide[i]() != allowed {
						b.Fatalf("%d policies: the answer is wrong", n)
					}
				}
				measure(b, decide)
			})
		}
	}
}

func measure(b *testing.B, decide []func() bool) {
	b.Helper()
	took := make([][]float64, len(decide))
	for b.Loop() {
		for i, d := range decide {
			took[i] = append(took[i], each(d))
		}
	}
	quiet := make([]float64, len(decide))
	for i, n := range sizes {
		slices.Sort(took[i])
		quiet[i] = took[i][len(took[i])/10]
		b.ReportMetric(quiet[i], fmt.Sprintf("µs@%d", n))
	}
	b.ReportMetric(0, "ns/op") // of a round, which says nothing
	b.ReportMetric(quiet[len(quiet)-1]/quiet[0], "10000/5")
}

// each returns the µs of one decision, over at least half a millisecond.
func each(d func() bool) float64 {
	start, n := time.Now(), 0
	for time.Since(start) < 500*time.Microsecond {
		for range 8 {
			d()
		}
		n += 8
	}
	return float64(time.Since(start).Nanoseconds()) / float64(n) / 1e3
}
