package posture

import (
	"context"
	"maps"
	"time"

	"palyra"
)

// checkInterval is how often Run looks whether the facts are still the same.
const checkInterval = 10 * time.Minute

// Run tries every tier out whose last posture is not current: at once, and again
// when a fact changes. It returns when ctx ends.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		if err := s.refresh(ctx); err != nil && ctx.Err() == nil {
			s.Log.Error("the sandbox tiers could not be tried out", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// refresh checks the tiers that are due.
func (s *Store) refresh(ctx context.Context) error {
	due := s.due()
	if len(due) == 0 {
		return nil
	}
	_, err := s.Check(ctx, due, palyra.SystemDaemon)
	return err
}

// due are the tiers without a current posture.
func (s *Store) due() []palyra.Tier {
	s.mu.Lock()
	last := maps.Clone(s.last)
	s.mu.Unlock()
	var due []palyra.Tier
	for _, t := range s.Tiers {
		if p, known := last[t]; !known || !s.current(p) {
			due = append(due, t)
		}
	}
	return due
}
