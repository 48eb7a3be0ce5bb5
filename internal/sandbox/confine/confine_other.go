//go:build !linux

package confine

import (
	"runtime"

	"palyra"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/refusal"
)

// Driver refuses: this system has no tier B.
type Driver struct{ sandbox.Absent }

// New returns a backend whose Probe refuses.
func New(Config) (*Driver, error) {
	why := refusal.Unsupported("tier B needs Linux with Landlock and seccomp; this is %s", runtime.GOOS).
		WithRemedy("run palyrad on Linux 5.13 or newer")
	return &Driver{sandbox.Absent{Name: executor, Of: palyra.TierB, Why: why}}, nil
}
