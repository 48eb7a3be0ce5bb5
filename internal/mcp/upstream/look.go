package upstream

import (
	"context"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
)

// hear looks at a server's tools again when it says that they are others, at most once a second.
func (s *server) hear(x *connection, quit <-chan struct{}) {
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
				err = s.review(ctx, x)
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

// look asks for the tools and compares them with the approved ones. The caller has the turn. Changes are
// durable before anything else happens.
func (s *server) look(ctx context.Context, x *connection) error {
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
		if s.changesTooOften() {
			return failed(s.name, "it changes its tools all the time")
		}
		u.Tools = now
		var events []palyra.Event
		for _, t := range quarantined {
			text, err := textOf(t)
			if err != nil {
				return err
			}
			events = append(events, palyra.UpstreamQuarantined{
				Name: s.name, Tool: palyra.ToolName(t.Name), Digest: t.Digest, Pinned: t.Pinned,
				Text: text,
			})
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

// A server whose tools change more often than this is not believed any more: every change is written down.
const (
	maxChanges   = 30
	changesApart = time.Hour
)

// changesTooOften counts a change, and reports whether it is one too many.
func (s *server) changesTooOften() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.r.Now(); now.Sub(s.restless) >= changesApart {
		s.restless, s.changes = now, 0
	}
	s.changes++
	return s.changes > maxChanges
}

func sameTool(a, b palyra.UpstreamTool) bool {
	return a.Name == b.Name && a.State == b.State && a.Digest == b.Digest && a.Pinned == b.Pinned && a.ReadOnly == b.ReadOnly
}

// stale has the tools looked at again before the next call.
func (s *server) stale() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live != nil {
		s.live.fresh.Store(false)
	}
}
