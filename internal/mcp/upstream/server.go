package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
)

// server is an upstream with its session, if it has one.
type server struct {
	r    *Registry
	name string
	def  palyra.UpstreamDefinition
	turn chan struct{} // held by who starts it, looks at its tools or changes them

	mu       sync.Mutex // guards the fields below
	up       palyra.Upstream
	live     *session
	removed  bool
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
		if last := lastLine(s.stderr); last != "" {
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
func (s *server) active(tool string) (palyra.UpstreamTool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.up.Tools {
		if t.Tool == tool && t.State == palyra.UpstreamToolActive {
			return t, true
		}
	}
	return palyra.UpstreamTool{}, false
}

// use returns a session for one call, and starts the server where it has none.
// start is the digest of what the plan says it runs by: a session of another start
// is ended first.
func (s *server) use(ctx context.Context, start palyra.Digest) (*session, func(), error) {
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
		return nil, nil, palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "what the server %s runs by changed while it was started", s.name).
			WithRemedy("propose the call anew")
	}
	if !x.fresh.Load() {
		if err := s.look(ctx, x); err != nil {
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
func (s *server) current(ctx context.Context, start palyra.Digest) (*session, error) {
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

// patience is how long a call waits for a server that is not tried again yet.
const patience = 10 * time.Second

// begin starts the server, after the back-off of earlier failures. The turn is the
// caller's.
func (s *server) begin(ctx context.Context) (*session, error) {
	if err := s.backOff(ctx); err != nil {
		return nil, err
	}
	if !s.r.enter() {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the daemon is stopping")
	}
	timed, cancel := context.WithTimeout(ctx, s.r.Start)
	defer cancel()
	x, err := s.connect(timed)
	if err != nil {
		s.r.work.Done()
		if ctx.Err() == nil {
			s.failed(err)
		}
		return nil, err
	}
	s.mu.Lock()
	s.live, s.used = x, s.r.Now()
	s.up.Server = x.server
	s.mu.Unlock()
	go s.follow(x)
	if err := s.look(timed, x); err != nil {
		x.end("no_tools")
		if ctx.Err() == nil {
			s.failed(err)
		}
		return nil, err
	}
	s.mu.Lock()
	s.fault = ""
	s.mu.Unlock()
	return x, nil
}

// backOff waits for the time at which the server is tried again, if that is soon.
func (s *server) backOff(ctx context.Context) error {
	s.mu.Lock()
	wait, fault, removed := s.retry.Sub(s.r.Now()), s.fault, s.removed
	s.mu.Unlock()
	switch {
	case removed:
		return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the upstream %s was removed", s.name)
	case wait <= 0:
		return nil
	case wait > patience:
		return failed(s.name, fault).WithRemedy("it is tried again in %s; see 'palyra mcp show %s'", wait.Round(time.Second), s.name)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failed notes a failure and when to try again.
func (s *server) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := s.r.Most
	if s.failures < 20 {
		wait = min(s.r.Most, s.r.First<<s.failures)
	}
	s.failures++
	s.retry = s.r.Now().Add(wait)
	s.fault = trimmed(err)
}

// steady is how long a session must have lasted for its end not to count with the
// failures before it.
const steady = time.Minute

// follow looks after a session from its start to its end.
func (s *server) follow(x *session) {
	defer s.r.work.Done()
	begun := s.r.Now()
	quit := make(chan struct{})
	var news sync.WaitGroup
	news.Go(func() { s.hear(x, quit) })
	why := x.follow()
	close(quit)
	news.Wait()
	s.mu.Lock()
	if s.live == x {
		s.live = nil
	}
	if x.process != nil {
		s.stderr = x.process.Stderr()
	}
	if s.r.Now().Sub(begun) >= steady {
		s.failures = 0
	}
	s.mu.Unlock()
	defer close(x.dead)
	if !x.ending.Load() {
		s.r.Log.Warn("an MCP server ended", "upstream", s.name, "why", why)
		s.failed(errors.New("it ended: " + why))
	}
}

// hear looks at a server's tools again when it says that they are others, at most
// once a second.
func (s *server) hear(x *session, quit <-chan struct{}) {
	const apart = time.Second
	for {
		select {
		case <-quit:
			return
		case <-x.news:
		}
		ctx, cancel := context.WithTimeout(context.Background(), s.r.Start)
		stop := make(chan struct{})
		go func() {
			select {
			case <-quit:
				cancel()
			case <-stop:
			}
		}()
		if give, err := s.take(ctx); err == nil {
			if !x.fresh.Load() {
				err = s.look(ctx, x)
			}
			give()
			if err != nil && ctx.Err() == nil {
				s.r.Log.Warn("the tools of an MCP server could not be looked at", "upstream", s.name, "error", err)
			}
		}
		close(stop)
		cancel()
		select {
		case <-quit:
			return
		case <-time.After(apart):
		}
	}
}

// look asks for the tools and holds them against what was approved. The turn is
// the caller's. What changed is durable before anything else happens.
func (s *server) look(ctx context.Context, x *session) error {
	found, err := x.list(ctx)
	if err != nil {
		x.fresh.Store(false)
		return s.broken(ctx, x, err)
	}
	return s.adopt(ctx, found)
}

func (s *server) adopt(ctx context.Context, found []*mcp.Tool) error {
	s.mu.Lock()
	u := s.up
	s.mu.Unlock()
	now, quarantined := s.survey(found, u.Tools)
	if !slices.EqualFunc(now, u.Tools, sameTool) && !u.AddedAt.IsZero() { // one that is just being added is stored whole
		u.Tools = now
		var events []palyra.Event
		for _, t := range quarantined {
			events = append(events, palyra.UpstreamQuarantined{Name: s.name, Tool: t.Name, Digest: t.Digest, Pinned: t.Pinned})
		}
		if err := s.r.save(context.WithoutCancel(ctx), "upstream.seen", u, events...); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.up.Tools = now
	s.mu.Unlock()
	if u.AddedAt.IsZero() {
		return nil
	}
	return s.offer()
}

func sameTool(a, b palyra.UpstreamTool) bool {
	return a.Name == b.Name && a.State == b.State && a.Digest == b.Digest && a.Pinned == b.Pinned
}

// stale has the tools looked at again before the next call.
func (s *server) stale() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live != nil {
		s.live.fresh.Store(false)
	}
}

// stopIdle ends a session that nobody used for long.
func (s *server) stopIdle() {
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
