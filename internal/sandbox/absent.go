package sandbox

import (
	"context"

	"palyra"
)

// Absent is what a tier's backend is where there is none, or none that may be used: it starts nothing, and
// whoever asks for its tier is told Why.
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
	closeAll(j.Stdin, j.Stdout, j.Stderr, j.Sealed) // a second close, of a file given twice, is not worth telling
}
