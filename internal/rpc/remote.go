package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"palyra"
)

// Bounds on connections from other machines, whatever they are for.
const (
	maxRemote     = 1024 // at once
	maxPerAddress = 64   // of them, from one address
	maxShaking    = 128  // of them, before they have shown who they are
)

// RemoteConfig says how other machines come in.
type RemoteConfig struct {
	Listen string      // host:port or :port
	TLS    *tls.Config // decides about every certificate
	Name   func(string) bool
	// Device returns the paired device behind a connection that TLS let in.
	Device func(ctx context.Context, s tls.ConnectionState) (palyra.Device, error)
	// Seen is told of a device that came in.
	Seen func(id string)
	// PairProtocol is the protocol of those that want to become one, and Pair
	// serves one of them. It must end when ctx does.
	PairProtocol string
	Pair         func(ctx context.Context, c *tls.Conn)
}

// remote is the door for paired devices. It is open or not.
type remote struct {
	mu     sync.Mutex // held while it opens or closes
	end    func()
	listen string
}

// OpenRemote opens the door for other machines and returns its address. It may be
// called while it is open; then nothing changes.
func (s *Server) OpenRemote(c RemoteConfig) (string, error) {
	s.remote.mu.Lock()
	defer s.remote.mu.Unlock()
	if s.remote.end != nil {
		return s.remote.listen, nil
	}
	if s.stopping.Err() != nil {
		return "", errStopping
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return "", palyra.Errorf(palyra.Unavailable, palyra.ReasonConfig, "devices cannot come in at %s: %v", c.Listen, err).
			WithRemedy("set remote.listen to a free address, or end what uses it").WithCause(err)
	}
	d := &door{name: "remote", far: true, hosts: c.Name}
	h := &hall{RemoteConfig: c, server: s, in: l, ready: make(chan net.Conn), by: map[string]int{}, closed: make(chan struct{})}
	d.listener = h
	d.server = d.http(d.guard(s.chain, s, s.bodies), s)
	d.server.Protocols.SetHTTP2(true)
	d.server.TLSConfig = &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13} // the handshake is over by then
	d.server.ConnContext = h.peer
	s.remote.listen, s.remote.end = l.Addr().String(), s.serve(d, h.accept)
	return s.remote.listen, nil
}

// CloseRemote closes it, with every connection.
func (s *Server) CloseRemote() {
	s.remote.mu.Lock()
	defer s.remote.mu.Unlock()
	if s.remote.end != nil {
		s.remote.end()
		s.remote.end, s.remote.listen = nil, ""
	}
}

// RemoteAddress is where the door for other machines is; empty when it is closed.
func (s *Server) RemoteAddress() string {
	s.remote.mu.Lock()
	defer s.remote.mu.Unlock()
	return s.remote.listen
}

// serve serves a door that comes and goes, and whatever else runs beside it. What
// it returns ends both, and is called at the latest when the server stops.
func (s *Server) serve(d *door, beside ...func()) (end func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.server.Serve(d.listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			s.Log.Warn("a door is closed", "door", d.name, "err", err)
		}
	})
	for _, f := range beside {
		wg.Go(f)
	}
	var once sync.Once
	close := func() {
		once.Do(func() {
			_ = d.close() // what is cut off must end anyway
			wg.Wait()
		})
	}
	quit := context.AfterFunc(s.stopping, close)
	return func() {
		quit()
		close()
	}
}

// hall is where connections wait until they have shown who they are. As a
// listener it gives only those of paired devices.
type hall struct {
	RemoteConfig
	server *Server
	in     net.Listener
	ready  chan net.Conn
	closed chan struct{}
	once   sync.Once
	wg     sync.WaitGroup

	mu      sync.Mutex // guards what follows
	by      map[string]int
	all     int
	shaking int
}

// Accept implements net.Listener.
func (h *hall) Accept() (net.Conn, error) {
	select {
	case c := <-h.ready:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *hall) Close() (err error) {
	h.once.Do(func() {
		close(h.closed)
		err = h.in.Close()
	})
	return err
}

// Addr implements net.Listener.
func (h *hall) Addr() net.Addr { return h.in.Addr() }

// accept takes connections in until the hall is closed, and waits for those that
// are in it.
func (h *hall) accept() {
	ctx, cancel := context.WithCancel(context.Background())
	defer h.wg.Wait()
	defer cancel()
	go func() {
		<-h.closed
		cancel()
	}()
	for {
		c, err := h.in.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of descriptors, or the peer is gone: neither is a reason to close
			select {
			case <-h.closed:
				return
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		address := host(c.RemoteAddr())
		if !h.enter(address) {
			h.server.alarm.flood("remote", palyra.ReasonRateLimited)
			_ = c.Close()
			continue
		}
		h.wg.Go(func() { h.greet(ctx, &counted{Conn: c, leave: []func(){func() { h.leave(address) }}}) })
	}
}

func host(a net.Addr) string {
	name, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return name
}

func (h *hall) enter(address string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all >= maxRemote || h.by[address] >= maxPerAddress || h.shaking >= maxShaking {
		return false
	}
	h.all++
	h.by[address]++
	h.shaking++
	return true
}

func (h *hall) shook() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shaking--
}

func (h *hall) leave(address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all--
	if h.by[address]--; h.by[address] <= 0 {
		delete(h.by, address)
	}
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

// greet lets a connection show who it is, and passes it on.
func (h *hall) greet(ctx context.Context, raw *counted) {
	c := tls.Server(raw, h.TLS)
	err := h.shake(ctx, c)
	h.shook()
	if err != nil {
		h.turnAway(raw, err)
		return
	}
	if c.ConnectionState().NegotiatedProtocol == h.PairProtocol && h.PairProtocol != "" {
		defer func() { _ = c.Close() }()
		h.Pair(ctx, c)
		return
	}
	select {
	case h.ready <- c:
	case <-h.closed:
		_ = c.Close()
	}
}

func (h *hall) shake(ctx context.Context, c *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, h.server.limits.header)
	defer cancel()
	return c.HandshakeContext(ctx)
}

// turnAway closes a connection that did not show who it is. That somebody came
// with a certificate that is no good is on record.
func (h *hall) turnAway(c net.Conn, err error) {
	_ = c.Close()
	if e := (*palyra.Error)(nil); errors.As(err, &e) && e.Code == palyra.Denied {
		h.server.alarm.raise(palyra.AlertRaised{Reason: e.Reason, PeerUID: -1, Method: "tls"})
	}
	h.server.Log.Debug("a connection was turned away", "address", host(c.RemoteAddr()), "err", err)
}

// peer says who is at the other end of a device's connection. From then on it is
// closed when the device is revoked.
func (h *hall) peer(ctx context.Context, c net.Conn) context.Context {
	t, ok := c.(*tls.Conn)
	if !ok {
		return ctx // without a peer every request is refused
	}
	d, err := h.Device(ctx, t.ConnectionState())
	if err != nil || !d.Live() {
		_ = c.Close()
		return ctx
	}
	leave := h.server.live.enter("device:"+d.ID, &held{conn: c})
	if raw, ok := t.NetConn().(*counted); ok {
		raw.then(leave)
	}
	if h.Seen != nil {
		h.Seen(d.ID)
	}
	return context.WithValue(ctx, peerKey{}, peer{uid: -1, device: d.ID})
}
