package rpc

import (
	"errors"
	"net"
	"sync"
)

// twins are two listeners that are served as one.
type twins struct {
	both   [2]net.Listener
	come   chan arrival
	closed chan struct{}
	once   sync.Once
}

type arrival struct {
	conn net.Conn
	err  error
}

// newTwins begins to accept at both. It ends with Close.
func newTwins(one, two net.Listener) *twins {
	t := &twins{both: [2]net.Listener{one, two}, come: make(chan arrival), closed: make(chan struct{})}
	for _, l := range t.both {
		go t.take(l)
	}
	return t
}

// take hands on what comes to one of the two, errors too, until it is closed.
func (t *twins) take(l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		select {
		case t.come <- arrival{c, err}:
		case <-t.closed:
			if c != nil {
				_ = c.Close()
			}
			return
		}
	}
}

// Accept implements net.Listener.
func (t *twins) Accept() (net.Conn, error) {
	select {
	case a := <-t.come:
		return a.conn, a.err
	case <-t.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (t *twins) Close() error {
	t.once.Do(func() { close(t.closed) })
	return errors.Join(t.both[0].Close(), t.both[1].Close())
}

// Addr implements net.Listener: that of the first.
func (t *twins) Addr() net.Addr { return t.both[0].Addr() }
