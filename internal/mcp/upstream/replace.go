package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"palyra"
)

// replace has a server run by another definition: it is started by that, and what is kept of it changes at once, or not at
// all. What the server keeps in its own directory stays.
func (r *Registry) replace(ctx context.Context, q AddRequest, u palyra.Upstream) (palyra.Upstream, error) {
	old, err := r.find(q.Name)
	if err != nil {
		return palyra.Upstream{}, err
	}
	old.leave(true) // a server runs once
	defer old.leave(false)
	give, err := old.take(ctx)
	if err != nil {
		return palyra.Upstream{}, err
	}
	defer give()
	if again, err := r.find(q.Name); err != nil || again != old { // somebody was faster
		return palyra.Upstream{}, errors.Join(err, palyra.Errorf(palyra.Conflict, palyra.ReasonNotFound,
			"the MCP server %s was removed or replaced meanwhile", q.Name).WithRemedy("look at it: 'palyra mcp show %s'", q.Name))
	}
	if err := old.ended(ctx); err != nil {
		return palyra.Upstream{}, err
	}
	s := newServer(r, u)
	turn, err := s.take(ctx)
	if err != nil {
		return palyra.Upstream{}, err
	}
	defer turn()
	if _, err := s.begin(ctx); err != nil {
		return palyra.Upstream{}, notAdded(err, u.UpstreamDefinition)
	}
	if err := s.keep(ctx, q, old.view().Tools); err != nil {
		s.stop("not_added")
		return palyra.Upstream{}, fmt.Errorf("upstream: replace: %w", err)
	}
	old.mu.Lock()
	old.removed = true
	old.mu.Unlock()
	return s.view(), nil
}

// ended waits until nothing is left of a session that was stopped.
func (s *server) ended(ctx context.Context) error {
	s.mu.Lock()
	x := s.live
	s.mu.Unlock()
	if x == nil {
		return nil
	}
	select {
	case <-x.dead:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(stopGrace):
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonUpstreamFailed, "the MCP server %s does not end", s.name).
			WithRemedy("nothing was changed; try it again")
	}
}

// approved reports whether a tool is as it was approved, and whether as one that changes nothing.
func approved(was []palyra.UpstreamTool, t *palyra.UpstreamTool) (same, readOnly bool) {
	for i := range was {
		if w := &was[i]; w.Digest == t.Digest && w.Pinned == t.Digest {
			return true, w.ReadOnly
		}
	}
	return false, false
}
