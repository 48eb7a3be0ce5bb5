package daemon

import (
	"palyra"
	"palyra/internal/config"
	"palyra/internal/sandbox"
)

// unproven is tier C of a system on which nobody has run it: it is opened only where the
// operator names it in process.unproven, and refused with that remedy everywhere else.
func unproven(c config.Process, name, executor string, open func() (sandbox.Backend, error)) (sandbox.Backend, error) {
	if c.Unproven == name {
		return open()
	}
	return sandbox.Absent{
		Of: palyra.TierC, Name: executor,
		Why: palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "tier C of this system, %s, was never shown to hold", name).
			WithRemedy("run palyrad on Linux, or accept what is unproven: process.unproven = %q", name),
	}, nil
}
