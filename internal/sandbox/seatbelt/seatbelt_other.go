//go:build !darwin

package seatbelt

import (
	"runtime"

	"palyra"
	"palyra/internal/sandbox"
)

// Driver refuses: this system has no sandbox-exec.
type Driver struct{ sandbox.Absent }

var _ interface {
	sandbox.Backend
	sandbox.Walled
} = (*Driver)(nil)

// New returns a backend whose Probe refuses.
func New(Config) (*Driver, error) {
	why := palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "sandbox-exec needs macOS; this is %s", runtime.GOOS).
		WithRemedy("use the tier C of this system")
	return &Driver{sandbox.Absent{Name: Executor, Of: palyra.TierC, Why: why}}, nil
}

// Room implements sandbox.Walled.
func (*Driver) Room() bool { return true }
