package rpc

import (
	"net"
	"sync"
)

// crowd is a listener that has so many connections at once and no more: whoever
// only connects must not use up the daemon's descriptors.
type crowd struct {
	net.Listener
	most int
	full func()

	mu sync.Mutex // guards n
	n  int
}

// Accept implements net.Listener.
func (l *crowd) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.enter() {
			return &counted{Conn: c, leave: []func(){l.leave}}, nil
		}
		_ = c.Close()
		l.full()
	}
}

func (l *crowd) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n >= l.most {
		return false
	}
	l.n++
	return true
}

func (l *crowd) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n--
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn

	mu    sync.Mutex
	over  bool
	leave []func()
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

// then adds something to do when the connection is closed, which it may be.
func (c *counted) then(f func()) {
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
