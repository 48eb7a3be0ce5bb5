//go:build !linux && !darwin && !windows

package daemon

import (
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/bubble"
	"palyra/internal/sandbox/confine"
)

// drivers makes drivers that say what this system lacks.
func (d *Daemon) drivers() ([]sandbox.Backend, error) {
	b, err := confine.New(confine.Config{})
	if err != nil {
		return nil, err
	}
	c, err := bubble.New(bubble.Config{})
	if err != nil {
		return nil, err
	}
	return []sandbox.Backend{b, c}, nil
}
