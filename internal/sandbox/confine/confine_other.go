//go:build !linux

package confine

import (
	"context"
	"runtime"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/cells"
)

// Driver says on this system that there is no tier B.
type Driver struct{}

// New returns a backend whose Probe refuses.
func New(Config) (*Driver, error) { return &Driver{}, nil }

// Executor implements sandbox.Backend.
func (*Driver) Executor() string { return executor }

// Tier implements sandbox.Backend.
func (*Driver) Tier() palyra.Tier { return palyra.TierB }

// Probe implements sandbox.Backend: it always refuses.
func (*Driver) Probe(context.Context, palyra.Limits) (palyra.Enforcement, error) {
	return palyra.Enforcement{}, refusal()
}

// Start implements sandbox.Backend: it always refuses.
func (*Driver) Start(_ context.Context, j sandbox.Job) (sandbox.Process, error) {
	j.CloseFiles()
	return nil, refusal()
}

// Recover implements sandbox.Backend. There is never anything left.
func (*Driver) Recover(context.Context) error { return nil }

// Close implements sandbox.Backend.
func (*Driver) Close() error { return nil }

func refusal() error {
	return cells.Unsupported("tier B needs Linux with Landlock and seccomp; this is %s", runtime.GOOS).
		WithRemedy("run palyrad on Linux 5.13 or newer")
}
