package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"palyra"
)

// Bounds on connections from other machines, whatever they are for.
const (
	maxRemote     = 1024 // at once
	maxPerAddress = 64   // of them, from one address
	maxShaking    = 512  // of them, before they have shown who they are
	maxShakingPer = 32   // of those, from one address
)

const protocolHTTP2 = "h2"

// handshakes is where connections wait until they have shown who they are. As a
// listener it gives only those of paired devices.
type handshakes struct {
	RemoteConfig
	server *Server
	in     net.Listener
	ready  chan net.Conn
	ctx    context.Context // ends when it is closed
	closed context.CancelFunc

	mu      sync.Mutex // guards what follows
	all     int
	shaking int
	by      map[string]visitors
}

// visitors are those from one address.
type visitors struct{ all, shaking int }

func newHandshakes(c RemoteConfig, s *Server, in net.Listener) *handshakes {
	h := &handshakes{RemoteConfig: c, server: s, in: in, ready: make(chan net.Conn), by: map[string]visitors{}}
	h.ctx, h.closed = context.WithCancel(context.Background())
	return h
}

// Accept implements net.Listener.
func (h *handshakes) Accept() (net.Conn, error) {
	select {
	case c := <-h.ready:
		return c, nil
	case <-h.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handshakes) Close() error {
	h.closed()
	return h.in.Close()
}

// Addr implements net.Listener.
func (h *handshakes) Addr() net.Addr { return h.in.Addr() }

// accept takes connections in until it is closed, and waits for those that are in it.
func (h *handshakes) accept() {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := h.in.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of descriptors, or the peer is gone: neither is a reason to close
			select {
			case <-h.ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		address := place(c.RemoteAddr().String())
		if !h.enter(address) {
			h.server.alarm.flood("remote", palyra.ReasonRateLimited)
			_ = c.Close()
			continue
		}
		wg.Go(func() { h.greet(&counted{Conn: c, leave: []func(){func() { h.leave(address) }}}, address) })
	}
}

// place is whom an address counts as: a host, and of IPv6 the network that one host has to itself.
func place(address string) string {
	const network = 64
	if name, _, err := net.SplitHostPort(address); err == nil {
		address = name
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return palyra.Clip(address, network)
	}
	if ip = ip.Unmap().WithZone(""); ip.Is6() {
		return netip.PrefixFrom(ip, network).Masked().String()
	}
	return ip.String()
}

// enter reports whether there is room for one more, who has yet to show who it is.
func (h *handshakes) enter(address string) bool {
	if l := h.server.Limits; l != nil {
		if _, ok := l.Take(limitRequests, "address:"+address); !ok {
			return false
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.by[address]
	if h.all >= maxRemote || h.shaking >= maxShaking || v.all >= maxPerAddress || v.shaking >= maxShakingPer {
		return false
	}
	h.all++
	h.shaking++
	h.by[address] = visitors{v.all + 1, v.shaking + 1}
	return true
}

func (h *handshakes) shook(address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shaking--
	if v := h.by[address]; v.all > 0 {
		v.shaking--
		h.by[address] = v
	}
}

func (h *handshakes) leave(address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all--
	v := h.by[address]
	if v.all--; v.all <= 0 {
		delete(h.by, address)
		return
	}
	h.by[address] = v
}

// greet lets a connection show who it is, and passes it on.
func (h *handshakes) greet(raw *counted, address string) {
	c := tls.Server(raw, h.TLS)
	err := h.shake(c)
	h.shook(address)
	if err != nil {
		h.turnAway(raw, err)
		return
	}
	switch p := c.ConnectionState().NegotiatedProtocol; {
	case p == protocolHTTP2:
		select {
		case h.ready <- c:
		case <-h.ctx.Done():
			_ = raw.Close()
		}
	case p == h.PairProtocol && p != "":
		defer func() { _ = c.Close() }()
		h.Pair(h.ctx, c)
	default: // whatever the configuration let through
		_ = raw.Close()
	}
}

func (h *handshakes) shake(c *tls.Conn) error {
	ctx, cancel := context.WithTimeout(h.ctx, h.server.limits.header)
	defer cancel()
	return c.HandshakeContext(ctx)
}

// turnAway closes a connection that did not show who it is. That somebody came
// with a certificate that is no good is on record.
func (h *handshakes) turnAway(c net.Conn, err error) {
	_ = c.Close()
	if e := (*palyra.Error)(nil); errors.As(err, &e) && (e.Code == palyra.Denied || e.Code == palyra.Expired) {
		h.server.alarm.raise(palyra.AlertRaised{Reason: e.Reason, PeerUID: -1, Method: "tls"})
	}
	h.server.Log.Debug("a connection was turned away", "address", c.RemoteAddr().String(), "err", err)
}

// peer says who is at the other end of a device's connection. From then on it is
// closed when the device is revoked or the certificate it came with expires.
func (h *handshakes) peer(ctx context.Context, c net.Conn) context.Context {
	t, ok := c.(*tls.Conn)
	if !ok {
		return ctx // without a peer every request is refused
	}
	raw, state := t.NetConn(), t.ConnectionState() // without TLS's good-bye, which waits for the peer
	since := h.server.live.begin()
	d, err := h.Device(ctx, state)
	if err != nil || !d.Live() || len(state.PeerCertificates) == 0 {
		_ = raw.Close()
		return ctx
	}
	leave, err := h.server.live.enter("device:"+d.ID, since, &held{conn: raw})
	if err != nil {
		_ = raw.Close()
		return ctx
	}
	until := state.PeerCertificates[0].NotAfter
	lapse := time.AfterFunc(until.Sub(h.server.Now()), func() { _ = raw.Close() })
	if counted, ok := raw.(*counted); ok {
		counted.onClose(func() {
			lapse.Stop()
			leave()
		})
	}
	if h.Seen != nil {
		h.Seen(d.ID)
	}
	return context.WithValue(ctx, peerKey{}, peer{uid: -1, device: d.ID, until: until, address: place(c.RemoteAddr().String())})
}
