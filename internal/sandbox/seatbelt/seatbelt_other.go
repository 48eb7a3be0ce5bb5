//go:build !darwin

package seatbelt

import (
	"context"
	"runtime"

	"palyra"
	"palyra/internal/sandbox"
)

// Driver says on this system that there is no sandbox-exec.
type Driver struct{}

var _ interface {
	sandbox.Backend
	sandbox.Walled
} = (*Driver)(nil)

// New returns a backend whose Probe refuses.
func New(Config) (*Driver, error) { return &Driver{}, nil }

// Executor implements sandbox.Backend.
func (*Driver) Executor() string { return Executor }

// Tier implements sandbox.Backend.
func (*Driver) Tier() palyra.Tier { return palyra.TierC }

// Room implements sandbox.Walled.
func (*Driver) Room() bool { return true }

// Facts tells nothing: there is nothing to tell.
func (*Driver) Facts() map[string]string { return map[string]string{} }

// Probe implements sandbox.Backend: it always refuses.
func (*Driver) Probe(context.Context, palyra.Limits) (palyra.Enforcement, error) {
	return palyra.Enforcement{}, refusal()
}

// Start implements sandbox.Backend: it always refuses.
func (*Driver) Start(_ context.Context, j sandbox.Job) (sandbox.Process, error) {
	closeFiles(j)
	return nil, refusal()
}

// Recover implements sandbox.Backend. There is never anything left.
func (*Driver) Recover(context.Context) error { return nil }

// Close implements sandbox.Backend.
func (*Driver) Close() error { return nil }

func refusal() error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "sandbox-exec needs macOS; this is %s", runtime.GOOS).
		WithRemedy("use the tier C of this system")
}
