package policy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"palyra"
)

// manyTests is a table of n tests that succeed.
func manyTests(n int) map[string]string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "- {name: t%d, request: {tool: palyra.process.run, argv: [ls]}, expect: ask}\n", i)
	}
	return tableOf(b.String())
}

// The tests of a bundle end when their time is up, and say so.
func TestTestsHaveABudget(t *testing.T) {
	c := Config{Bundle: load(t, tablePolicies), Snapshot: open(), budget: time.Nanosecond}
	results, problems := c.Test(t.Context(), manyTests(3))
	if len(results) > 0 || len(problems) != 1 || !strings.Contains(problems[0].Text, "took longer than 1ns") || problems[0].File != "tests/a.yaml" {
		t.Fatalf("%v %v", results, problems)
	}
	if testBudget > 10*time.Second {
		t.Errorf("the budget is %s", testBudget)
	}
}

// Whoever gives up ends them, and what is done until then is no success.
func TestTestsEndWithTheirCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	c := Config{Bundle: load(t, tablePolicies), Snapshot: open(), Analyse: func(palyra.Plan) palyra.Command {
		if asked++; asked == 5 {
			cancel()
		}
		return palyra.Command{Class: palyra.CommandUnknown}
	}}
	results, problems := c.Test(ctx, manyTests(100))
	if len(results) != 4 || len(problems) != 1 || !strings.Contains(problems[0].Text, "interrupted") || problems[0].Line != 6 {
		t.Fatalf("%d results, %v", len(results), problems)
	}
}

// Also one judgement ends, between two policies, and then denies.
func TestOneJudgementEnds(t *testing.T) {
	var text strings.Builder
	text.WriteString(`@id("yes") permit (principal, action, resource);`)
	for i := range 1000 {
		fmt.Fprintf(&text, "@id(\"p%d\") forbid (principal, action, resource) when { false };\n", i)
	}
	b := load(t, text.String())
	for _, c := range []struct {
		after int
		want  palyra.Effect
	}{{10, palyra.Deny}, {1 << 30, palyra.Allow}} {
		asked := 0
		e, err := New(Config{Bundle: b, Snapshot: open(), stop: func() bool { asked++; return asked > c.after }})
		if err != nil {
			t.Fatal(err)
		}
		v := e.Judge(t.Context(), tabled(t, "{tool: palyra.echo}").ask)
		if v.Effect != c.want || c.want == palyra.Deny && (len(v.Errors) == 0 || asked > 30) {
			t.Errorf("stopped after %d: %s %v, asked %d times", c.after, v.Effect, v.Errors, asked)
		}
	}
}

// Reading a bundle ends with whoever wants it, and half of it is none.
func TestReadingEnds(t *testing.T) {
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, "@id(\"p%d\") permit (principal, action, resource);\n", i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	start := time.Now()
	b, report := CheckWithin(ctx, map[string]string{"a.cedar": text.String()})
	if b != nil || len(report.Problems) != 1 || report.Digest != "" {
		t.Errorf("%v %+v", b, report)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}
