package sandbox

import (
	"context"
	"os"

	"palyra"
)

// Absent is what a tier's backend is on systems that do not have it: it says so, and starts nothing.
type Absent struct {
	Name string
	Of   palyra.Tier
	Why  error
}

// Executor implements Backend.
func (a Absent) Executor() string { return a.Name }

// Tier implements Backend.
func (a Absent) Tier() palyra.Tier { return a.Of }

// Facts tells nothing: there is nothing to tell.
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

// Recover implements Backend. There is never anything left.
func (Absent) Recover(context.Context) error { return nil }

// Close implements Backend.
func (Absent) Close() error { return nil }

// CloseFiles closes what a job handed over. Start does so in every case.
func (j Job) CloseFiles() {
	for _, f := range []*os.File{j.Stdin, j.Stdout, j.Stderr, j.Sealed} {
		if f != nil {
			_ = f.Close() // a second close, of a file given twice, is not an error worth telling
		}
	}
}
