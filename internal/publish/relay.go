package publish

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	idleFor    = 15 * time.Minute // with nothing on a connection either way; then it is closed
	lookEvery  = time.Minute
	acceptRest = 50 * time.Millisecond // after a failure that is not the listener's end
)

// accept leads the clients of a listener to a port, each once there is a free socket. It has one client at a time that
// waits: the kernel has the others, up to a number of its own, so that they cost the daemon nothing. The listener is
// closed when the process ends, and in every case when accept returns: nobody would answer there.
func (l *Link) accept(listen *net.TCPListener, to *port) {
	defer l.shut(listen)
	defer context.AfterFunc(to.link.ctx, func() { l.shut(listen) })()
	var clients sync.WaitGroup
	defer clients.Wait()
	for l.ctx.Err() == nil {
		c, err := listen.AcceptTCP()
		switch {
		case err == nil:
		case errors.Is(err, net.ErrClosed):
			return
		default: // out of descriptors, or the client is gone already
			if !pause(l.ctx, acceptRest) {
				return
			}
			continue
		}
		if !l.take(to.link) {
			reset(c)
			return
		}
		clients.Go(func() {
			defer to.link.leave()
			l.connect(c, to)
		})
	}
}

// take waits for a place among the connections of a process, which ends with leave; false: either link is closed.
func (l *Link) take(of *Link) bool {
	select {
	case of.slots <- struct{}{}:
	case <-l.ctx.Done():
		return false
	case <-of.ctx.Done():
		return false
	}
	if of.enter() {
		return true
	}
	<-of.slots
	return false
}

// leave ends what take began, once the sockets are free again.
func (l *Link) leave() {
	<-l.slots
	l.work.Done()
}

// connect passes bytes between a client and a port of the process, which may listen at addresses of either kind.
func (l *Link) connect(c *net.TCPConn, to *port) {
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	defer context.AfterFunc(to.link.ctx, cancel)()
	first := to.six.Load()
	for _, six := range []bool{first, !first} {
		if l.connectBy(ctx, cancel, c, to, six) {
			to.six.Store(six)
			return
		}
	}
	l.ports.log.Debug("a published port has nobody behind it", "call", string(to.link.call), "port", to.Inside)
	reset(c)
}

// connectBy is connect by one kind of address; false: nobody answers there.
func (l *Link) connectBy(ctx context.Context, cancel func(), c *net.TCPConn, to *port, six bool) bool {
	if six && !to.link.six {
		return false
	}
	var s socket
	select {
	case s = <-to.link.free[six]:
	case <-ctx.Done():
		return false
	}
	defer func() { to.link.free[six] <- s }()
	defer s.disconnect()
	up, err := s.connect(to.Inside)
	if err != nil {
		return false
	}
	defer context.AfterFunc(ctx, func() { reset(c); reset(up) })()
	pass(ctx, cancel, c, up)
	_ = up.Close()
	return true
}

// pass copies both ways until both have ended, one has failed, or nothing happened for long.
func pass(ctx context.Context, cancel func(), a, b *net.TCPConn) {
	var last atomic.Int64
	last.Store(time.Now().UnixNano())
	var both sync.WaitGroup
	one := func(to, from *net.TCPConn) {
		if _, err := io.Copy(noted{to, &last}, from); err != nil {
			cancel()
			return
		}
		_ = to.CloseWrite() // the other side may be gone
	}
	both.Go(func() { one(a, b) })
	both.Go(func() { one(b, a) })
	done := make(chan struct{})
	go func() {
		both.Wait()
		close(done)
	}()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-done:
			return
		case <-ctx.Done():
			<-done
			return
		case now := <-look.C:
			if now.Sub(time.Unix(0, last.Load())) > idleFor {
				cancel()
			}
		}
	}
}

// noted is a connection that notes when something was written to it.
type noted struct {
	net.Conn
	last *atomic.Int64
}

// Write implements io.Writer.
func (n noted) Write(b []byte) (int, error) {
	n.last.Store(time.Now().UnixNano())
	return n.Conn.Write(b)
}

// reset closes a connection so that the other side sees an error, not an end.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// pause waits; false: the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
