//go:build !windows

package jobobject

import (
	"runtime"

	"palyra"
	"palyra/internal/sandbox"
)

// Driver refuses: this system has no job objects.
type Driver struct{ sandbox.Absent }

var _ sandbox.Backend = (*Driver)(nil)

// New returns a backend whose Probe refuses.
func New(Config) (*Driver, error) {
	why := palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "job objects need Windows; this is %s", runtime.GOOS).
		WithRemedy("use the tier C of this system")
	return &Driver{sandbox.Absent{Name: Executor, Of: palyra.TierC, Why: why}}, nil
}
