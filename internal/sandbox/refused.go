package sandbox

import (
	"context"

	"palyra"
)

// Refused is a backend that is known and not used: whoever asks for its tier is
// told Why, which carries a remedy.
type Refused struct {
	Of  palyra.Tier
	As  string // the executor it would be
	Why *palyra.Error
}

var _ Backend = Refused{}

// Executor implements Backend.
func (r Refused) Executor() string { return r.As }

// Tier implements Backend.
func (r Refused) Tier() palyra.Tier { return r.Of }

// Probe implements Backend: it always refuses.
func (r Refused) Probe(context.Context, palyra.Limits) (palyra.Enforcement, error) {
	return palyra.Enforcement{}, r.Why
}

// Start implements Backend: it always refuses.
func (r Refused) Start(_ context.Context, j Job) (Process, error) {
	closeAll(j.Stdin, j.Stdout, j.Stderr, j.Sealed)
	return nil, r.Why
}

// Recover implements Backend. There is never anything left.
func (Refused) Recover(context.Context) error { return nil }

// Close implements Backend.
func (Refused) Close() error { return nil }
