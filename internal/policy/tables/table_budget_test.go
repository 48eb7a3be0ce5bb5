package tables

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/policy"
	"palyra/internal/policy/policytest"
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
	c := policy.Config{Bundle: policytest.Load(t, tablePolicies), Snapshot: policytest.Open()}
	results, problems := runWithin(t.Context(), time.Nanosecond, c, manyTests(3))
	if len(results) > 0 || len(problems) != 1 || !strings.Contains(problems[0].Text, "took longer than 1ns") ||
		problems[0].File != "tests/a.yaml" {
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
	c := policy.Config{Bundle: policytest.Load(t, tablePolicies), Snapshot: policytest.Open(), Analyse: func(palyra.Plan) palyra.Command {
		if asked++; asked == 5 {
			cancel()
		}
		return palyra.Command{Class: palyra.CommandUnknown}
	}}
	results, problems := Run(ctx, c, manyTests(100))
	if len(results) != 4 || len(problems) != 1 || !strings.Contains(problems[0].Text, "interrupted") || problems[0].Line != 6 {
		t.Fatalf("%d results, %v", len(results), problems)
	}
}
