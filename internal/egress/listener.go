package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"palyra"
	"palyra/internal/cell"
)

// listener is a socket that a session answers on.
type listener struct {
	cell.Listener
	kind doorKind
}

type doorKind int

const (
	proxyDoor doorKind = iota
	nameDoor
	directDoor
)

// plan lists the doors of a session: the proxy, the name server, every address at 80, 443 and the low ports that
// rules name, and for other ports the address of each name that has a rule for it, because a run's own servers use
// such ports. Of granted addresses only those of loopback have a door of their own: there they mean the host's, and
// no program asks a proxy for them. The proxy leads to others.
func (s *Session) plan() []listener {
	server := offset(s.book.base, serverOffset)
	doors := []listener{
		{cell.Listener{Addr: netip.AddrPortFrom(server, proxyPort)}, proxyDoor},
		{cell.Listener{Addr: netip.AddrPortFrom(server, dnsPort), UDP: true}, nameDoor},
		{cell.Listener{Addr: netip.AddrPortFrom(server, dnsPort)}, nameDoor},
	}
	low, own := []int{80, 443}, []listener{}
	for _, r := range s.rules {
		at, ok := s.doorFor(r)
		d := listener{cell.Listener{Addr: netip.AddrPortFrom(at, uint16(r.port))}, directDoor}
		switch {
		case !ok:
		case at.Is4() && r.port < 1024 && r.port != dnsPort:
			low = append(low, r.port)
		case !r.below && !slices.Contains(own, d):
			own = append(own, d)
		}
	}
	slices.Sort(low)
	for _, p := range slices.Compact(low) {
		doors = append(doors, listener{cell.Listener{Addr: netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(p))}, directDoor})
	}
	return append(doors, own...)
}

// doorFor is the address at which programs without a proxy connect to what a rule names; false
// means that no door can lead there.
func (s *Session) doorFor(r rule) (netip.Addr, bool) {
	switch {
	case r.literal():
		return r.addr, r.addr.IsLoopback()
	case r.below:
		return netip.IPv4Unspecified(), true
	case r.local():
		return loopback4, true
	}
	return s.book.address(r.name)
}

// meant returns the target of a client that connected to an address directly.
func (s *Session) meant(at netip.Addr, port int) (target, bool) {
	if name, ok := s.book.name(at); ok {
		return target{host{name: name}, port}, true
	}
	itself := target{host{addr: at}, port}
	if !at.IsLoopback() || spelled(s.rules, itself) {
		return itself, at.IsLoopback()
	}
	for _, r := range s.rules {
		if r.local() && !r.below && r.port == port {
			return r.target, true
		}
	}
	return itself, false
}

// Serve takes over the sockets of Doors, in their order, and answers on them until Close; nil
// stands for a door that was not opened. It does not block. The files are closed in every case.
func (s *Session) Serve(sockets []*os.File) error {
	defer func() {
		for _, f := range sockets {
			_ = f.Close()
		}
	}()
	if len(sockets) != len(s.doors) {
		return fmt.Errorf("egress: serve: %d sockets for %d doors", len(sockets), len(s.doors))
	}
	var starts []func()
	for i, d := range s.doors {
		if sockets[i] == nil {
			continue
		}
		start, err := s.take(d, sockets[i])
		if err != nil {
			return fmt.Errorf("egress: serve: door %s: %w", d.Addr, err)
		}
		starts = append(starts, start)
	}
	for _, start := range starts {
		if !s.spawn(start) {
			return ended()
		}
	}
	return nil
}

// backlog is how many clients may wait at a door.
const backlog = 512

// take serves a socket as a door. It is closed with the session.
func (s *Session) take(d listener, f *os.File) (func(), error) {
	if d.UDP {
		c, err := net.FilePacketConn(f)
		if err != nil {
			return nil, err
		}
		u, ok := c.(*net.UDPConn)
		if !s.track(c, nil) || !ok {
			return nil, errors.New("not a UDP socket")
		}
		return func() { s.answerUDP(u) }, nil
	}
	if err := listen(f, backlog); err != nil {
		return nil, err
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	t, ok := l.(*net.TCPListener)
	if !s.track(l, nil) || !ok {
		return nil, errors.New("not a listening TCP socket")
	}
	port := int(d.Addr.Port())
	switch d.kind {
	case nameDoor:
		return func() { s.accept(t, s.answerTCP) }, nil
	case directDoor:
		return func() { s.accept(t, func(c *net.TCPConn) { s.direct(c, port) }) }, nil
	default:
		return func() { s.accept(t, s.proxy) }, nil
	}
}

// accept serves the clients of a door, each once there is a place for it.
func (s *Session) accept(l *net.TCPListener, serve func(*net.TCPConn)) {
	for s.ctx.Err() == nil {
		c, err := l.AcceptTCP()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !s.pause(50*time.Millisecond) {
				return
			}
			continue // out of descriptors, or the client is gone already
		}
		if !s.track(c, nil) || !s.occupy() {
			return
		}
		if !s.spawn(func() {
			defer s.vacate()
			defer s.drop(c)
			serve(c)
		}) {
			s.vacate()
			s.drop(c)
		}
	}
}

// occupy waits for a place for one more connection, in the session and among all sessions.
func (s *Session) occupy() bool {
	select {
	case s.slots <- struct{}{}:
	case <-s.ctx.Done():
		return false
	}
	if !s.guard.places.take(s.ctx, s.seat) {
		<-s.slots
		return false
	}
	return true
}

func (s *Session) vacate() {
	s.guard.places.give(s.seat)
	<-s.slots
}

// pause waits; false means that the session ended meanwhile.
func (s *Session) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// direct serves a client that connected directly to a synthetic address. It can be refused only by
// a reset, without a reason.
func (s *Session) direct(c *net.TCPConn, port int) {
	at := addrOf(c.LocalAddr())
	t, ok := s.meant(at, port)
	if !ok {
		s.refused(doorDirect, t, errors.New("nobody asked for a name with this address"))
		reset(c)
		return
	}
	up, f, p, err := s.connect(s.ctx, doorDirect, t)
	if err != nil {
		reset(c)
		return
	}
	defer s.drop(up)
	s.tunnel(s.stream(c), up, f, p)
}

// reset closes a connection so that the other side sees an error, not an end.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// resolveTarget returns the target of a proxy's client. A synthetic address stands for its name.
func (s *Session) resolveTarget(h host, port int) (target, error) {
	if h.literal() && s.book.inRange(h.addr) {
		name, ok := s.book.name(h.addr)
		if !ok {
			return target{h, port}, palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "nobody asked for a name with the address %s", h).
				WithRemedy("look the name up first, or give the proxy the name")
		}
		h = host{name: name}
	}
	return target{h, port}, nil
}
