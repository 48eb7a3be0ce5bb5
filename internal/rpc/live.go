package rpc

import (
	"context"
	"io"
	"sync"

	"palyra"
)

// live is what is under way, by the credential that it came with: when that ends,
// so does the rest.
type live struct {
	mu sync.Mutex
	by map[string]map[*held]bool
}

// held is one request, or one connection.
type held struct {
	cancel context.CancelCauseFunc
	conn   io.Closer
}

var errEnded = palyra.Errorf(palyra.Denied, palyra.ReasonBadCredential, "the credential of this request has ended").
	WithRemedy("ask an operator for another")

// enter adds h under a credential; leave takes it off again.
func (l *live) enter(id string, h *held) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[string]map[*held]bool{}
	}
	if l.by[id] == nil {
		l.by[id] = map[*held]bool{}
	}
	l.by[id][h] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.by[id], h)
		if len(l.by[id]) == 0 {
			delete(l.by, id)
		}
	}
}

// request returns ctx, ended when the credential is.
func (l *live) request(ctx context.Context, id string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	leave := l.enter(id, &held{cancel: cancel})
	return ctx, func() {
		leave()
		cancel(nil)
	}
}

// end ends everything under a credential: requests first, so that they can still
// say why, then connections.
func (l *live) end(id string) {
	for _, h := range l.under(id) {
		if h.cancel != nil {
			h.cancel(errEnded)
		}
	}
	for _, h := range l.under(id) {
		if h.conn != nil {
			_ = h.conn.Close() // it is cut off whatever the peer does
		}
	}
}

// under lists what a credential holds. It is ended without the lock, which those
// that end take to leave.
func (l *live) under(id string) (all []*held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for h := range l.by[id] {
		all = append(all, h)
	}
	return all
}

// EndCredential ends every request and connection under a credential that the
// registry has ended: "device:…", "token:…", "agent:…", "key:…".
func (s *Server) EndCredential(id string) {
	s.live.end(id)
	s.console.end(id)
}
