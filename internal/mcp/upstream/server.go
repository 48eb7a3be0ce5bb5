package upstream

import (
	"context"
	"slices"
	"sync"
	"time"

	"palyra"
)

// server is an upstream with its session, if it has one.
type server struct {
	r    *Registry
	name string
	def  palyra.UpstreamDefinition
	turn chan struct{} // held by who starts it, looks at its tools or changes them

	revision string // of the protocol, that it is begun with; the turn's

	mu       sync.Mutex // guards the fields below
	up       palyra.Upstream
	live     *connection
	removed  bool
	leaving  bool // somebody is removing it: it is not started any more
	changes  int  // of its tools, since the first of them
	restless time.Time
	failures int
	fault    string
	retry    time.Time
	used     time.Time
	busy     int
	stderr   []byte
}

func newServer(r *Registry, u palyra.Upstream) *server {
	return &server{r: r, name: u.Name, def: u.UpstreamDefinition, up: u, turn: make(chan struct{}, 1), used: r.Now()}
}

// take waits for the server's turn.
func (s *server) take(ctx context.Context) (give func(), err error) {
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// view is the upstream as it is now.
func (s *server) view() palyra.Upstream {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.up
	u.Tools = slices.Clone(u.Tools)
	u.State, u.Fault = palyra.UpstreamIdle, ""
	switch {
	case s.live != nil:
		u.State = palyra.UpstreamReady
	case s.fault != "":
		u.State, u.Fault = palyra.UpstreamFailing, s.fault
		if last := lastWords(s.stderr); last != "" {
			u.Fault += "; it wrote: " + last
		}
	}
	return u
}

// offer puts the active tools into the catalog.
func (s *server) offer() error {
	s.mu.Lock()
	tools, gone := s.up.Tools, s.removed
	s.mu.Unlock()
	var list []palyra.Tool
	for _, t := range tools {
		if t.State == palyra.UpstreamToolActive && !gone {
			list = append(list, s.tool(t))
		}
	}
	return s.r.Catalog.Offer("mcp."+s.name, list)
}

// active returns a tool that may be called, by its name in the catalog.
func (s *server) active(tool palyra.ToolName) (palyra.UpstreamTool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.up.Tools {
		if t.Tool == tool && t.State == palyra.UpstreamToolActive {
			return t, true
		}
	}
	return palyra.UpstreamTool{}, false
}

// use returns a session for one call, and starts the server where it has none. start is the digest of the
// server's plan: a session of another start is ended first.
func (s *server) use(ctx context.Context, start palyra.Digest) (*connection, func(), error) {
	give, err := s.take(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer give()
	x, err := s.current(ctx, start)
	if err != nil {
		return nil, nil, err
	}
	if x == nil {
		if x, err = s.begin(ctx); err != nil {
			return nil, nil, err
		}
	}
	if start != "" && x.start != start {
		return nil, nil, palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "what the server %s runs by changed while it was started",
			s.name).
			WithRemedy("propose the call anew")
	}
	if !x.fresh.Load() {
		if err := s.review(ctx, x); err != nil {
			return nil, nil, err
		}
	}
	s.mu.Lock()
	s.busy++
	s.mu.Unlock()
	return x, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy--
		s.used = s.r.Now()
	}, nil
}

// current is the session that there is. One of another start is ended, and one
// that is ending waited for: a server runs once.
func (s *server) current(ctx context.Context, start palyra.Digest) (*connection, error) {
	s.mu.Lock()
	x := s.live
	s.mu.Unlock()
	if x == nil {
		return nil, nil
	}
	if x.usable() && (start == "" || x.start == start) {
		return x, nil
	}
	if x.usable() {
		x.end("definition_changed")
	}
	select {
	case <-x.dead:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// stopIdle ends a session that nobody used for long.
func (s *server) stopIdle() {
	select {
	case s.turn <- struct{}{}: // nobody takes it up meanwhile
		defer func() { <-s.turn }()
	default:
		return
	}
	s.mu.Lock()
	idle := s.live != nil && s.busy == 0 && s.r.Now().Sub(s.used) >= s.r.Idle
	s.mu.Unlock()
	if idle {
		s.stop("idle")
	}
}

// stop ends the session, if there is one. It does not wait.
func (s *server) stop(reason string) {
	s.mu.Lock()
	x := s.live
	s.mu.Unlock()
	if x != nil {
		x.end(reason)
	}
}
