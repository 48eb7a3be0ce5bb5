package sandbox

import (
	"context"

	"palyra"
)

// Absent is the backend of a tier that this system lacks, or that may not be used: it starts
// nothing, and refuses with Why.
type Absent struct {
	Name string
	Of   palyra.Tier
	Why  error
}

// Executor implements Backend.
func (a Absent) Executor() string { return a.Name }

// Tier implements Backend.
func (a Absent) Tier() palyra.Tier { return a.Of }

// Facts returns an empty map: there is nothing to tell.
func (Absent) Facts() map[string]string { return map[string]string{} }

// Probe implements Backend: it always refuses.
func (a Absent) Probe(context.Context, palyra.Limits) (palyra.Enforcement, error) {
	return palyra.Enforcement{}, a.Why
}

// Start implements Backend: it always refuses.
func (a Absent) Start(_ context.Context, j Job) (Process, error) {
	j.CloseFiles()
	return nil, a.Why
}

// Recover implements Backend. Nothing can be left behind.
func (Absent) Recover(context.Context) error { return nil }

// Close implements Backend.
func (Absent) Close() error { return nil }

// CloseFiles closes the files of a job. Start does so in every case.
func (j Job) CloseFiles() {
	closeAll(j.Stdin, j.Stdout, j.Stderr, j.Sealed) // the error of closing a file twice does not matter
	for _, c := range j.Covers {
		closeAll(c.File)
	}
}
