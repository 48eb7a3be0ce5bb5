package daemon

import (
	"path/filepath"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/confine"
	"palyra/internal/sandbox/seatbelt"
)

// drivers makes the drivers of this system's tiers: tier B is refused, tier C is
// sandbox-exec where the operator accepts that it is unproven.
func (d *Daemon) drivers() ([]sandbox.Backend, error) {
	b, err := confine.New(confine.Config{})
	if err != nil {
		return nil, err
	}
	c, err := unproven(d.Config.Config.Process, "seatbelt", seatbelt.Executor, func() (sandbox.Backend, error) {
		return seatbelt.New(seatbelt.Config{Dir: filepath.Join(filepath.Dir(d.Config.Config.Paths.State), "seatbelt"), Log: d.Log})
	})
	if err != nil {
		return nil, err
	}
	return []sandbox.Backend{b, c}, nil
}
