//go:build !linux

package bubble

import (
	"runtime"

	"palyra"
	"palyra/internal/sandbox"
)

// Backend refuses: this system has no bubblewrap.
type Backend struct{ sandbox.Absent }

// New returns a backend whose Probe refuses.
func New(Config) (*Backend, error) {
	why := palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "bubblewrap needs Linux; this is %s", runtime.GOOS).
		WithRemedy("use the tier C of this system, or run palyrad on Linux")
	return &Backend{sandbox.Absent{Name: executor, Of: palyra.TierC, Why: why}}, nil
}

// Room implements sandbox.Walled.
func (*Backend) Room() bool { return true }
