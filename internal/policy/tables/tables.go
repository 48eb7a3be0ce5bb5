// Package tables runs the tests that a policy bundle carries: requests in YAML and the verdicts that
// their author expects (tests/*.yaml). They are judged as any call is, by an engine of package policy;
// what is wrong with a table is told with file, line and column.
package tables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"palyra"
	"palyra/internal/policy"
)

// Limits of a bundle's tests.
const (
	maxTables     = 256       // files
	maxTable      = 256 << 10 // bytes of one
	maxTableTests = 2000      // of one
	maxAllTests   = 10_000    // of all together, which whoever applies the bundle waits for
	maxTableFault = 100       // problems that are told of one
	maxTableWord  = 64 << 10  // bytes of one value
	maxTableList  = 1024      // values of one list
	maxTableDepth = 16
	maxTableName  = 200
)

// testBudget is the time that all tests of a bundle together may take: whoever puts
// one into force waits for them, and so does everybody after them.
const testBudget = 10 * time.Second

// Result is how one test of a bundle ended.
type Result struct {
	File string `json:"file"`
	Name string `json:"name"`
	Line int    `json:"line"`
	OK   bool   `json:"ok"`
	Text string `json:"text,omitempty"` // what was expected and what came instead
}

// Run runs the tests in files, which are named tests/*.yaml; others are left alone, so that a bundle's Files
// may be given. They are judged with c; whether a tier was tried out is what each test says of it, not what c
// says. A bundle is good when no result is bad and there is no problem; a table with a problem is not run at
// all, since half of a table proves nothing. The tests end with ctx and after testBudget, within a judgement
// too; a test that did not run is a problem.
func Run(ctx context.Context, c policy.Config, files map[string]string) ([]Result, []policy.Problem) {
	return runWithin(ctx, testBudget, c, files)
}

// Failures are the tests of a configuration's bundle that fail, with what is wrong with them; nil: it has no tests.
func Failures(ctx context.Context, c policy.Config) map[string]bool {
	results, problems := Run(ctx, c, c.Bundle.Files())
	if len(results) == 0 && len(problems) == 0 {
		return nil
	}
	out := map[string]bool{}
	for _, r := range results {
		if !r.OK {
			out[r.File+"\x00"+r.Name] = true
		}
	}
	for _, p := range problems {
		out[p.String()] = true
	}
	return out
}

// runWithin is Run with a budget.
func runWithin(ctx context.Context, budget time.Duration, c policy.Config, files map[string]string) ([]Result, []policy.Problem) {
	if c.Bundle == nil {
		return nil, []policy.Problem{{File: ".", Line: 1, Column: 1, Text: "there is no bundle to test"}}
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if isTable(name) {
			names = append(names, name)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, budget, slow(budget))
	defer cancel()
	c.Stop = func() bool { return ctx.Err() != nil }
	if len(names) > maxTables {
		return nil, []policy.Problem{{File: names[maxTables], Line: 1, Column: 1, Text: fmt.Sprintf("more than %d files with tests", maxTables)}}
	}
	var results []Result
	var problems []policy.Problem
	for _, name := range names {
		if ctx.Err() != nil {
			return results, append(problems, unfinished(ctx, name, 1))
		}
		t, faults := readTable(name, files[name], c.Bundle)
		if len(faults) == 0 && len(results)+len(t.tests) > maxAllTests {
			faults = []policy.Problem{{File: name, Line: 1, Column: 1, Text: fmt.Sprintf("more than %d tests in all", maxAllTests)}}
		}
		if len(faults) == 0 {
			var done []Result
			done, faults = t.run(ctx, c)
			results = append(results, done...)
		}
		problems = append(problems, faults...)
	}
	return results, problems
}

// slow is the cause that ends tests which together took longer than this.
type slow time.Duration

// Error implements error.
func (s slow) Error() string {
	return fmt.Sprintf("the tests together took longer than %s; neither this one nor those after it were finished: have fewer, or "+
		"simpler policies", time.Duration(s))
}

// unfinished is the problem of tests that did not run to their end.
func unfinished(ctx context.Context, file string, line int) policy.Problem {
	text := "interrupted before or in this test"
	if over, ok := errors.AsType[slow](context.Cause(ctx)); ok {
		text = over.Error()
	}
	return policy.Problem{File: file, Line: line, Column: 1, Text: text}
}

// isTable reports whether a bundle's file holds tests.
func isTable(name string) bool {
	dir, base := path.Split(name)
	return dir == "tests/" && strings.HasSuffix(base, ".yaml")
}

// table is one file of tests.
type table struct {
	file  string
	lists tableLists
	tests []tableTest
}

// tableLists replace the lists of the configuration, where they are given.
type tableLists struct{ tools, principals, surfaces []string }

// tableTest is one test.
type tableTest struct {
	name   string
	line   int
	ask    palyra.Request
	probed bool
	want   tableWant
}

// applyTo puts the lists into a configuration.
func (l tableLists) applyTo(s palyra.Snapshot) palyra.Snapshot {
	for _, one := range []struct {
		to   *[]string
		from []string
	}{{&s.AllowedTools, l.tools}, {&s.Principals, l.principals}, {&s.Channels, l.surfaces}} {
		if one.from != nil {
			*one.to = one.from
		}
	}
	return s
}

// run judges every test of a table.
func (t table) run(ctx context.Context, c policy.Config) ([]Result, []policy.Problem) {
	c.Snapshot = t.lists.applyTo(c.Snapshot)
	c.Probed, c.Standing, c.Now = nil, nil, nil // a test says itself who calls, and when
	plain, err := policy.New(c)
	if err != nil {
		return nil, []policy.Problem{{File: t.file, Line: 1, Column: 1, Text: palyra.Clip(err.Error(), 256)}}
	}
	c.Probed = func(palyra.Tier) bool { return true }
	probed, err := policy.New(c)
	if err != nil {
		return nil, []policy.Problem{{File: t.file, Line: 1, Column: 1, Text: palyra.Clip(err.Error(), 256)}}
	}
	results := make([]Result, 0, len(t.tests))
	for _, one := range t.tests {
		e := plain
		if one.probed {
			e = probed
		}
		text := one.want.mismatch(e.Judge(ctx, one.ask))
		if ctx.Err() != nil { // a judgement that was cut short did not succeed
			return results, []policy.Problem{unfinished(ctx, t.file, one.line)}
		}
		results = append(results, Result{File: t.file, Name: one.name, Line: one.line, OK: text == "", Text: text})
	}
	return results, nil
}
