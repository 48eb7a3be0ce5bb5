package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"

	"palyra"
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
	mu      sync.Mutex // held while it opens or closes
	serving *serving
	listen  string
}

// OpenRemote opens the door for other machines and returns its address. It may be
// called while it is open; then nothing changes.
func (s *Server) OpenRemote(c RemoteConfig) (string, error) {
	s.remote.mu.Lock()
	defer s.remote.mu.Unlock()
	if s.remote.serving != nil {
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
	h := newHandshakes(c, s, l)
	d.listener = h
	d.server = d.http(d.admission(s.chain, s, s.bodies), s)
	d.server.Protocols.SetHTTP2(true)
	d.server.TLSConfig = &tls.Config{NextProtos: []string{protocolHTTP2}, MinVersion: tls.VersionTLS13} // the handshake is over by then
	d.server.HTTP2.SendPingTimeout, d.server.HTTP2.PingTimeout = s.limits.idle/4, s.limits.header       // a machine may be gone without a word
	d.server.ConnContext = h.peer
	s.remote.listen, s.remote.serving = l.Addr().String(), s.serve(d, h.accept)
	return s.remote.listen, nil
}

// CloseRemote closes it, with every connection. It does not wait for requests under way there: one of them
// may be the caller.
func (s *Server) CloseRemote() {
	s.remote.mu.Lock()
	defer s.remote.mu.Unlock()
	if s.remote.serving != nil {
		_ = s.remote.serving.close() // what is cut off must end anyway
		s.remote.serving, s.remote.listen = nil, ""
	}
}

// RemoteAddress is where the door for other machines is; empty when it is closed.
func (s *Server) RemoteAddress() string {
	s.remote.mu.Lock()
	defer s.remote.mu.Unlock()
	return s.remote.listen
}

// serving is a door that comes and goes, being served.
type serving struct{ *door }

// serve serves such a door, and whatever else runs beside it until it is closed.
func (s *Server) serve(d *door, beside ...func()) *serving {
	s.guests.Go(func() {
		if err := d.server.Serve(d.listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			s.Log.Warn("a door is closed", "door", d.name, "err", err)
		}
	})
	for _, f := range beside {
		s.guests.Go(f)
	}
	return &serving{d}
}

// leaving takes the doors that come and go out of service: nothing opens them
// again, because the server is stopping.
func (s *Server) leaving() (out []*door) {
	s.remote.mu.Lock()
	if s.remote.serving != nil {
		out = append(out, s.remote.serving.door)
		s.remote.serving, s.remote.listen = nil, ""
	}
	s.remote.mu.Unlock()
	s.console.mu.Lock()
	defer s.console.mu.Unlock()
	for _, c := range s.console.doors {
		out = append(out, c.serving.door)
	}
	s.console.doors = nil
	return out
}

// waitDoorsGone waits, but not for ever, until the doors that came and went are served no more.
func (s *Server) waitDoorsGone(ctx context.Context) {
	over := make(chan struct{})
	go func() {
		s.guests.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
		s.Log.Warn("a connection from another machine did not end in time")
	}
}
