package daemon

import (
	"path/filepath"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/confine"
	"palyra/internal/sandbox/seatbelt"
	"palyra/internal/tiers"
)

// drivers makes the drivers of this system's tiers: tier B is refused, tier C is
// sandbox-exec where the operator accepts that it is unproven.
func drivers(c tiers.Config) ([]sandbox.Backend, error) {
	b, err := confine.New(confine.Config{})
	if err != nil {
		return nil, err
	}
	room, err := unproven(c.Settings.Process, "seatbelt", seatbelt.Executor, func() (sandbox.Backend, error) {
		return seatbelt.New(seatbelt.Config{Dir: filepath.Join(filepath.Dir(c.Settings.Paths.State), "seatbelt"), Log: c.Log})
	})
	if err != nil {
		return nil, err
	}
	return []sandbox.Backend{b, room}, nil
}
