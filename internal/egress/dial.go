package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"palyra"
)

const (
	stagger  = 250 * time.Millisecond // before the next address is tried beside the last
	maxDials = 6                      // addresses tried
)

// permit is a target that was let through.
type permit struct {
	target
	door  string
	exact bool // the address itself was granted: names do not matter
	check bool // the name in the client's first bytes must fit

	wild   bool      // only a suffix covers it: a run can make up any number of such names
	answer *question // not nil: people let it through, not the plan
}

// grant is the grant of the answer that let the target through.
func (p permit) grant() palyra.GrantID {
	if p.answer == nil {
		return ""
	}
	return p.answer.answer.Grant
}

// reachable reports whether an address may be dialled for a permit.
func (g *Guard) reachable(a netip.Addr, granted bool) bool {
	if !routable(a) {
		return false
	}
	return granted || g.cfg.HostNetwork || anyContains(g.cfg.PrivateRanges, a) || g.Public(a)
}

// addresses returns the addresses that may be dialled for a target; granted means that an address
// was granted literally.
func (g *Guard) addresses(ctx context.Context, t target, granted bool) ([]netip.Addr, error) {
	list := []netip.Addr{t.addr}
	if !t.literal() {
		granted = false
		var err error
		if list, err = g.names.addrs(ctx, t.name); err != nil {
			return nil, err
		}
	}
	good := make([]netip.Addr, 0, len(list))
	for _, a := range list {
		if g.reachable(a, granted) {
			good = append(good, a)
		}
	}
	if len(good) == 0 {
		return nil, g.privateError(t, list[0])
	}
	return good, nil
}

func (g *Guard) privateError(t target, a netip.Addr) *palyra.Error {
	e := palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s is %s, which is not an address of the public Internet", t.host, a.Unmap())
	if t.literal() {
		e = palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s is not an address of the public Internet", a)
	}
	if !routable(a) {
		return e.WithRemedy("nothing can be reached there")
	}
	return e.WithRemedy("name the address itself (%s), or let the operator add its range to the private ranges", target{host{addr: a}, t.port})
}

// dial connects to a permitted target and returns the address it dialled.
func (g *Guard) dial(ctx context.Context, p permit) (*net.TCPConn, string, error) {
	ctx, cancel := context.WithTimeout(ctx, g.times.dial)
	defer cancel()
	if g.upstream != nil {
		return g.dialUpstream(ctx, p)
	}
	list, err := g.addresses(ctx, p.target, p.exact)
	if err != nil {
		return nil, "", err
	}
	c, err := g.race(ctx, interleave(list), p.port)
	if err != nil {
		return nil, "", unreachable(p.target, err)
	}
	return g.notSelf(c, p)
}

// notSelf gives up a connection that leads to this machine although its address was not known to be
// ours when it was checked.
func (g *Guard) notSelf(c *net.TCPConn, p permit) (*net.TCPConn, string, error) {
	here, there := addrOf(c.LocalAddr()), addrOf(c.RemoteAddr())
	if here == there && !p.exact && !g.cfg.HostNetwork && !anyContains(g.cfg.PrivateRanges, there) {
		_ = c.Close()
		return nil, "", g.privateError(p.target, there)
	}
	return c, there.String(), nil
}

func addrOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

func unreachable(t target, err error) *palyra.Error {
	why := "no connection could be made"
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		why = "the connection was refused"
	case errors.Is(err, context.DeadlineExceeded):
		why = "no connection was made in time"
	}
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonNotFound, "%s cannot be reached: %s", t, why).
		WithRemedy("check that the host is up and that this machine can reach it").WithCause(err)
}

// interleave alternates the address families, beginning with that of the first answer.
func interleave(list []netip.Addr) []netip.Addr {
	var a, b []netip.Addr
	for _, x := range list {
		if x.Is4() == list[0].Is4() {
			a = append(a, x)
		} else {
			b = append(b, x)
		}
	}
	out := make([]netip.Addr, 0, len(list))
	for i := range max(len(a), len(b)) {
		if i < len(a) {
			out = append(out, a[i])
		}
		if i < len(b) {
			out = append(out, b[i])
		}
	}
	return out[:min(len(out), maxDials)]
}

type dialled struct {
	conn *net.TCPConn
	err  error
}

// race dials the addresses one after the other, the next as soon as the last fails or is slow, and
// returns the first connection. It waits for all the dials that it started.
func (g *Guard) race(ctx context.Context, list []netip.Addr, port int) (*net.TCPConn, error) {
	one := func(ctx context.Context, a netip.Addr) (*net.TCPConn, error) {
		return g.dialTCP(ctx, netip.AddrPortFrom(a, uint16(port)))
	}
	if len(list) == 1 {
		return one(ctx, list[0])
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan dialled)
	started, ended := 0, 0
	next := func() {
		if started < len(list) {
			a := list[started]
			started++
			go func() {
				c, err := one(ctx, a)
				results <- dialled{c, err}
			}()
		}
	}
	timer := time.NewTimer(stagger)
	defer timer.Stop()
	var won *net.TCPConn
	var failed error
	for next(); ended < started; {
		select {
		case <-timer.C:
			if won == nil {
				next()
				timer.Reset(stagger)
			}
		case r := <-results:
			ended++
			won, failed = settle(won, failed, r)
			if won != nil {
				cancel()
			} else {
				next()
			}
		}
	}
	cancel()
	if won == nil {
		return nil, failed
	}
	return won, nil
}

// settle keeps the first connection and the first error.
func settle(won *net.TCPConn, failed error, r dialled) (*net.TCPConn, error) {
	switch {
	case r.err != nil:
		if failed == nil {
			failed = r.err
		}
	case won != nil:
		_ = r.conn.Close()
	default:
		won = r.conn
	}
	return won, failed
}

// isTCP reports whether a network name, as dialers take it, means TCP.
func isTCP(network string) bool { return strings.HasPrefix(network, "tcp") }
