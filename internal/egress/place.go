package egress

import (
	"context"
	"sync"
)

// The places of all sessions together, and those that each session has for certain, on top of them.
const (
	totalPlaces = 1024
	ownPlaces   = 8
)

// places limits the connections under way, shared so that nobody can take them all: each principal may hold as many
// as are still free. One alone gets half of them, two get a third each, and a newcomer always finds some.
type places struct {
	most int

	mu      sync.Mutex // guards the fields below, and seats; a leaf lock
	taken   int
	by      map[any]int   // held by each principal
	changed chan struct{} // closed when a place was given back
}

// seat counts the places of one session.
type seat struct {
	whose any // sessions of the same principal share
	held  int
}

func newPlaces(most int) *places {
	return &places{most: most, by: map[any]int{}, changed: make(chan struct{})}
}

// take waits for a place; false means that ctx ended first.
func (p *places) take(ctx context.Context, s *seat) bool {
	for {
		changed, ok := p.try(s)
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// retake waits for the place that was given back for a while. It is counted even when ctx ends,
// because its holder will give it back again.
func (p *places) retake(ctx context.Context, s *seat) {
	if !p.take(ctx, s) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.count(s, 1)
	}
}

// try takes a place if one is free, and otherwise returns a channel to wait for.
func (p *places) try(s *seat) (<-chan struct{}, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.held >= ownPlaces && p.by[s.whose] >= p.most-p.taken {
		return p.changed, false
	}
	p.count(s, 1)
	return nil, true
}

// give returns a place.
func (p *places) give(s *seat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(s, -1)
	close(p.changed)
	p.changed = make(chan struct{})
}

// count adds n places to a session. The first ones of a session are its own.
func (p *places) count(s *seat, n int) {
	if max(s.held, s.held+n) > ownPlaces {
		p.taken += n
		p.by[s.whose] += n
		if p.by[s.whose] == 0 {
			delete(p.by, s.whose)
		}
	}
	s.held += n
}
