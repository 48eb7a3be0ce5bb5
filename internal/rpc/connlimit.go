package rpc

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// connLimit is a listener that has so many connections at once and no more: whoever only connects must not use up
// the daemon's descriptors. Where it makes room, the newest comes in for the oldest that has not shown who it is:
// whoever only connects must not keep others out either, and on this machine they all have one address.
type connLimit struct {
	net.Listener
	most  int
	rooms bool // it makes room
	full  func()

	mu    sync.Mutex // guards order
	order list.List  // of *counted, the oldest first
}

// Accept implements net.Listener.
func (l *connLimit) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		in, out := l.enter(c)
		if out != nil || in == nil {
			l.full()
		}
		if out != nil {
			_ = out.Close()
		}
		if in != nil {
			return in, nil
		}
		_ = c.Close()
	}
}

// enter counts a connection in, and says which one has to go for it. There is no place: nil.
func (l *connLimit) enter(c net.Conn) (in, out *counted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.order.Len() >= l.most {
		if out = l.oldest(); out == nil {
			return nil, nil
		}
		l.order.Remove(out.at)
	}
	in = &counted{Conn: c}
	in.at = l.order.PushBack(in)
	in.leave = []func(){func() { l.leave(in) }}
	return in, out
}

// oldest is the connection that makes room, if one does. The lock is held.
func (l *connLimit) oldest() *counted {
	for e := l.order.Front(); l.rooms && e != nil; e = e.Next() {
		if c, ok := e.Value.(*counted); ok && !c.proven.Load() {
			return c
		}
	}
	return nil
}

func (l *connLimit) leave(c *counted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.order.Remove(c.at) // which does nothing for one that made room
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	at     *list.Element
	proven atomic.Bool // it showed who it is, and keeps its place

	mu    sync.Mutex
	over  bool
	leave []func()
}

// prove lets a browser's connection keep its place once it has come with the cookie of a session.
func (s *Server) prove(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, ok := peerOf(r.Context()); ok && p.conn != nil {
			if _, known := s.console.session(r, s.Now()); known {
				p.conn.proven.Store(true)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.mu.Lock()
	leave := c.leave
	c.over, c.leave = true, nil
	c.mu.Unlock()
	for _, f := range leave {
		f()
	}
	return c.Conn.Close()
}

// onClose adds something to do when the connection is closed, which it may be.
func (c *counted) onClose(f func()) {
	c.mu.Lock()
	over := c.over
	if !over {
		c.leave = append(c.leave, f)
	}
	c.mu.Unlock()
	if over {
		f()
	}
}

// bare is the connection itself.
func bare(c net.Conn) net.Conn {
	if c, ok := c.(*counted); ok {
		return c.Conn
	}
	return c
}
