package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"palyra"
)

// patience is how long a call waits for a server that is not tried again yet.
const patience = 10 * time.Second

// begin starts the server, after the back-off of earlier failures. The turn is the caller's.
func (s *server) begin(ctx context.Context) (*connection, error) {
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

// review looks at the tools again, within the time that a start has too: the turn is the caller's, and others wait
// for it. A server that does not tell them, or never the same, is ended.
func (s *server) review(ctx context.Context, x *connection) error {
	timed, cancel := context.WithTimeout(ctx, s.r.Start)
	defer cancel()
	err := s.look(timed, x)
	if err != nil && ctx.Err() == nil {
		x.end("no_tools")
		s.failed(err)
	}
	return err
}

// backOff waits for the time at which the server is tried again, if that is soon.
func (s *server) backOff(ctx context.Context) error {
	s.mu.Lock()
	wait, fault, removed := s.retry.Sub(s.r.Now()), s.fault, s.removed || s.leaving
	s.mu.Unlock()
	switch {
	case removed:
		return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the MCP server %s was removed", s.name)
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

// steady is how long a session must have lasted for its end not to count with the failures before it.
const steady = time.Minute

// follow looks after a session from its start to its end.
func (s *server) follow(x *connection) {
	defer s.r.work.Done()
	begun := s.r.Now()
	quit := make(chan struct{})
	var news sync.WaitGroup
	news.Go(func() { s.hear(x, quit) })
	why := x.follow()
	close(quit)
	news.Wait()
	s.over(x)
	s.mu.Lock()
	if s.live == x {
		s.live = nil
	}
	if x.process != nil {
		_, s.stderr = x.process.Last()
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
