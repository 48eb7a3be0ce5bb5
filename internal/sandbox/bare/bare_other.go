//go:build !linux

package bare

import (
	"context"
	"os"
	"runtime"

	"palyra"
	"palyra/internal/sandbox/refusal"
)

// Driver refuses: this system has no tier B.
type Driver struct{}

// New returns a driver whose Ready refuses.
func New(Config) (*Driver, error) { return &Driver{}, nil }

// Ready says why nothing can be started.
func (*Driver) Ready() error {
	return refusal.Unsupported("a bare cell needs Linux with Landlock and seccomp; this is %s", runtime.GOOS).
		WithRemedy("run palyrad on Linux 5.13 or newer")
}

// Enforcement is that of nothing.
func (*Driver) Enforcement() palyra.Enforcement { return palyra.Enforcement{} }

// Start refuses.
func (d *Driver) Start(context.Context, palyra.Limits) (*Program, error) { return nil, d.Ready() }

// Recover does nothing.
func (*Driver) Recover(context.Context) error { return nil }

// Close does nothing.
func (*Driver) Close() error { return nil }

// Program never is.
type Program struct{}

// Streams returns nothing.
func (*Program) Streams() (in, out *os.File) { return nil, nil }

// Kill does nothing.
func (*Program) Kill(string) {}

// Done is never closed.
func (*Program) Done() <-chan struct{} { return nil }

// Limit returns nothing.
func (*Program) Limit() string { return "" }
