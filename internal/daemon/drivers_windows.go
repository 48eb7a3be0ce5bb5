package daemon

import (
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/confine"
	"palyra/internal/sandbox/jobobject"
	"palyra/internal/tiers"
)

// drivers makes the drivers of this system's tiers: tier B is refused, tier C is a
// restricted token in a job object where the operator accepts that it is unproven.
func drivers(c tiers.Config) ([]sandbox.Backend, error) {
	b, err := confine.New(confine.Config{})
	if err != nil {
		return nil, err
	}
	room, err := unproven(c.Settings.Process, "jobobject", jobobject.Executor, func() (sandbox.Backend, error) {
		return jobobject.New(jobobject.Config{StateID: c.StateID, HostNetwork: c.Settings.Egress.HostNetwork == "on", Log: c.Log})
	})
	if err != nil {
		return nil, err
	}
	return []sandbox.Backend{b, room}, nil
}
