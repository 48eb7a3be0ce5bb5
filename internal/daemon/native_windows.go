package daemon

import (
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/confine"
	"palyra/internal/sandbox/jobobject"
)

// drivers makes the drivers of this system's tiers: tier B is refused, tier C is a
// restricted token in a job object where the operator accepts that it is unproven.
func (d *Daemon) drivers() ([]sandbox.Backend, error) {
	b, err := confine.New(confine.Config{})
	if err != nil {
		return nil, err
	}
	c, err := unproven(d.Config.Config.Process, "jobobject", jobobject.Executor, func() (sandbox.Backend, error) {
		return jobobject.New(jobobject.Config{StateID: d.stateID, HostNetwork: d.Config.Config.Egress.HostNetwork == "on", Log: d.Log})
	})
	if err != nil {
		return nil, err
	}
	return []sandbox.Backend{b, c}, nil
}
