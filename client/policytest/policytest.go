// Package policytest runs the tests of a policy bundle without a daemon, for people who keep
// policies in a repository and want to know their answers before they are in force.
//
// The tests are the bundle's own, tests/*.yaml: each describes a call and the answer that policy
// must give. They are judged by the engine that the daemon uses, with the same analysis of
// commands. Nothing runs, nobody is asked and no state is read; where a daemon's configuration
// differs from the defaults, a test must say so.
package policytest

import (
	"context"
	"errors"
	"io/fs"

	"palyra"
	"palyra/internal/command"
	"palyra/internal/policy"
	"palyra/internal/policy/tables"
)

// The parts of a report.
type (
	// Result is how one test ended.
	Result = tables.Result
	// Problem is one thing wrong with the bundle or its tests, and where.
	Problem = policy.Problem
)

// Report is the result of a bundle's tests.
type Report struct {
	OK       bool          `json:"ok"`
	Bundle   palyra.Digest `json:"bundle_digest,omitempty"` // empty: the files are not a valid bundle
	Policies int           `json:"policies"`
	Tests    []Result      `json:"tests"`
	Failed   int           `json:"failed"`
	Problems []Problem     `json:"problems"`
}

// Run loads the bundle in dir and runs its tests with the configuration base. An error means that there was
// nothing to read; faults of the files are in the report. A bundle without tests does not pass.
func Run(ctx context.Context, dir fs.FS, base palyra.Snapshot) (Report, error) {
	r := Report{Tests: []Result{}, Problems: []Problem{}}
	b, err := policy.Load(dir)
	if err != nil {
		var found policy.Problems
		if !errors.As(err, &found) {
			return r, err
		}
		r.Problems = append(r.Problems, found...)
		return r, nil
	}
	r.Bundle, r.Policies = b.Digest(), len(b.Policies())
	tests, problems := tables.Run(ctx, policy.Config{Bundle: b, Snapshot: base, Analyse: command.Of}, b.Files())
	r.Tests, r.Problems = append(r.Tests, tests...), append(r.Problems, problems...)
	for _, t := range tests {
		if !t.OK {
			r.Failed++
		}
	}
	if len(tests)+len(problems) == 0 {
		r.Problems = append(r.Problems, Problem{File: "tests", Line: 1, Column: 1, Text: "the bundle has no tests: tests/*.yaml"})
	}
	r.OK = r.Failed == 0 && len(r.Problems) == 0
	return r, nil
}
