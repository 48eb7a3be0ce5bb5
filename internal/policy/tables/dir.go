package tables

import (
	"context"
	"errors"
	"io/fs"

	"palyra"
	"palyra/internal/policy"
)

// Report is the result of a bundle's tests.
type Report struct {
	OK       bool             `json:"ok"`
	Bundle   palyra.Digest    `json:"bundle_digest,omitempty"` // empty: the files are not a valid bundle
	Policies int              `json:"policies"`
	Tests    []Result         `json:"tests"`
	Failed   int              `json:"failed"`
	Problems []policy.Problem `json:"problems"`
}

// RunDir loads the bundle in dir and runs its tests with the configuration base, and commands read by analyse, without a
// daemon: for people who keep policies in a repository and want to know their answers before they are in force. Nothing
// runs, nobody is asked and no state is read; where a daemon's configuration differs from the defaults, a test must say so.
// An error means that there was nothing to read; faults of the files are in the report. A bundle without tests does not
// pass.
func RunDir(ctx context.Context, dir fs.FS, base palyra.Snapshot, analyse func(palyra.Plan) palyra.Command) (Report, error) {
	r := Report{Tests: []Result{}, Problems: []policy.Problem{}}
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
	tests, problems := Run(ctx, policy.Config{Bundle: b, Snapshot: base, Analyse: analyse}, b.Files())
	r.Tests, r.Problems = append(r.Tests, tests...), append(r.Problems, problems...)
	for _, t := range tests {
		if !t.OK {
			r.Failed++
		}
	}
	if len(tests)+len(problems) == 0 {
		r.Problems = append(r.Problems, policy.Problem{File: "tests", Line: 1, Column: 1, Text: "the bundle has no tests: tests/*.yaml"})
	}
	r.OK = r.Failed == 0 && len(r.Problems) == 0
	return r, nil
}
