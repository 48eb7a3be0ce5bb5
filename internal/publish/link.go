package publish

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/hostport"
)

// Link is one run's part of the published ports.
type Link struct {
	ports     *Ports
	call      palyra.CallID
	session   palyra.SessionID
	principal palyra.Principal
	published []*port
	reaches   []*port
	free      map[bool]chan socket // of the room's network, that nobody uses now; true: for IPv6
	six       bool                 // there are sockets for IPv6, which a kernel without it has not; set before anybody connects
	dials     int                  // sockets that it gets, of both kinds
	slots     chan struct{}        // holds one for each connection into the room: no more than sockets of one kind

	ctx    context.Context // ends with the link
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex // guards the fields below; a leaf lock
	closed bool
	open   map[*net.TCPListener]bool
	held   []socket
}

// Open takes the ports of a plan on the host, and finds what else of its session the run reaches. beside are the other
// sockets of its room, whose addresses are not to be taken. A run that has to do with no port has no link: nil.
func (p *Ports) Open(c *palyra.Call, plan palyra.Plan, beside []cell.Listener) (*Link, error) {
	l := &Link{ports: p, call: c.ID, session: c.Proposal.Session, principal: c.Proposal.Principal, open: map[*net.TCPListener]bool{}}
	ports, bad := hostport.ParseAll(plan.Publish)
	if bad != "" {
		return nil, refused(palyra.Invalid, "%q is not a port", palyra.Clip(bad, 32))
	}
	if err := p.allowed(ports); err != nil {
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	for _, at := range p.reached(l) {
		if slices.ContainsFunc(ports, func(own hostport.Pair) bool { return own.Inside == at.Host }) {
			continue // its own server is to listen there
		}
		if !slices.Contains(beside, listener(at.Host)) && len(beside)+len(l.reaches)+2*mostConns < cell.MaxDoors {
			l.reaches = append(l.reaches, at)
		}
	}
	for _, at := range ports {
		listen, err := p.bind(l.session, at)
		if err != nil {
			l.Close()
			return nil, err
		}
		l.published = append(l.published, &port{Pair: at, link: l, listen: listen})
		l.open[listen] = true
	}
	if len(l.published) > 0 {
		l.dials, l.slots = 2*mostConns, make(chan struct{}, mostConns)
		l.free = map[bool]chan socket{false: make(chan socket, l.dials), true: make(chan socket, l.dials)}
	}
	if len(l.published)+len(l.reaches) == 0 {
		l.Close()
		return nil, nil
	}
	return l, nil
}

// listener is where a run finds a port of its session.
func listener(host int) cell.Listener {
	return cell.Listener{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(host))}
}

// Doors lists the sockets that it needs in the run's own network.
func (l *Link) Doors() []cell.Listener {
	out := make([]cell.Listener, 0, l.dials+len(l.reaches))
	for i := 1; i <= l.dials/2; i++ {
		out = append(out, cell.Listener{Dial: i}, cell.Listener{Dial: -i})
	}
	for _, at := range l.reaches {
		out = append(out, listener(at.Host))
	}
	return out
}

// Serve takes over the sockets of Doors, in their order, and answers from then on. It does not block. The files are
// closed in every case.
func (l *Link) Serve(sockets []*os.File) error {
	defer func() {
		for _, f := range sockets {
			_ = f.Close()
		}
	}()
	if len(sockets) != l.dials+len(l.reaches) {
		return fmt.Errorf("publish: serve: %d sockets for %d doors", len(sockets), l.dials+len(l.reaches))
	}
	for _, f := range sockets[:l.dials] {
		if err := l.hold(f); err != nil {
			return fmt.Errorf("publish: serve: %w", err)
		}
	}
	for i, f := range sockets[l.dials:] {
		if err := l.lead(f, l.reaches[i]); err != nil {
			return fmt.Errorf("publish: serve: %w", err)
		}
	}
	for _, at := range l.published {
		l.ports.add(at)
		l.spawn(func() { l.accept(at.listen, at) })
	}
	return nil
}

// hold keeps a socket for connections into the run's network.
func (l *Link) hold(f *os.File) error {
	s, err := newSocket(f)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		s.close()
		return net.ErrClosed
	}
	l.held = append(l.held, s)
	l.six = l.six || s.six
	l.free[s.six] <- s
	return nil
}

// lead answers at a port of the run's own network with one of its session.
func (l *Link) lead(f *os.File, to *port) error {
	got, err := net.FileListener(f)
	if err != nil {
		return err
	}
	listen, ok := got.(*net.TCPListener)
	if !ok {
		_ = got.Close()
		return errors.New("not a listening TCP socket")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = listen.Close()
		return net.ErrClosed
	}
	l.open[listen] = true
	l.work.Go(func() { l.accept(listen, to) })
	return nil
}

// shut closes a listener; those that are closed already stay so.
func (l *Link) shut(listen *net.TCPListener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, listen)
	_ = listen.Close()
}

// spawn runs work that Close waits for.
func (l *Link) spawn(work func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.work.Go(work)
	}
}

// enter announces work on the link's sockets that Close waits for; false: it is closed.
func (l *Link) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.work.Add(1)
	}
	return !l.closed
}

// Close frees the ports and ends every connection. It can be called again.
func (l *Link) Close() {
	for _, at := range l.published {
		l.ports.remove(at)
	}
	l.mu.Lock()
	l.closed = true
	for listen := range l.open {
		_ = listen.Close()
	}
	clear(l.open)
	l.mu.Unlock()
	l.cancel()
	l.work.Wait()
	for _, s := range l.held {
		s.close()
	}
	l.held = nil
}
