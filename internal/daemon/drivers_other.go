//go:build !linux && !darwin && !windows

package daemon

import (
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/bubble"
	"palyra/internal/sandbox/confine"
	"palyra/internal/tiers"
)

// drivers makes drivers that say what this system lacks.
func drivers(tiers.Config) ([]sandbox.Backend, error) {
	b, err := confine.New(confine.Config{})
	if err != nil {
		return nil, err
	}
	room, err := bubble.New(bubble.Config{})
	if err != nil {
		return nil, err
	}
	return []sandbox.Backend{b, room}, nil
}
