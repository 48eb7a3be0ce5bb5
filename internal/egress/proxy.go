package egress

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"palyra"
	"palyra/internal/egress/sniff"
)

// proxyUser is the name that comes with a session's token.
const proxyUser = "palyra"

// maxAttempts bounds requests without the token on one connection: some clients wait to be asked for it.
const maxAttempts = 3

// proxy serves a client of the proxy's one port.
func (s *Session) proxy(conn *net.TCPConn) {
	c := s.stream(conn)
	defer c.release()
	c.within(s.guard.times.first)
	b, err := c.more(0)
	if err != nil {
		return
	}
	if b[0] == socksVersion {
		s.serveSOCKS(c)
		return
	}
	s.serveProxy(c)
}

// serveProxy serves HTTP requests, and decides on each: the next on the same connection may be for another host.
func (s *Session) serveProxy(c *stream) {
	l := &line{}
	defer func() { s.hangUp(l) }()
	for attempts := 0; ; {
		r, err := s.readRequest(c, 80)
		if err != nil {
			s.refuseRequest(c, r, err)
			return
		}
		if !s.knows(r.credentials()) {
			attempts++
			if again := attempts < maxAttempts && !r.hasBody(); !challenge(c, again) || !again {
				c.linger(s.guard.times.quiet)
				return
			}
			continue
		}
		if r.Method == http.MethodConnect {
			s.serveConnect(c, r)
			return
		}
		if err := s.route(l, r); err != nil {
			s.refuseRequest(c, r, err)
			return
		}
		if !s.exchange(c, r, l) {
			return
		}
	}
}

// challenge asks for the token, again on this connection or on a new one.
func challenge(c io.Writer, again bool) bool {
	last := "Connection: close\r\n"
	if again {
		last = ""
	}
	_, err := io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\n"+
		"Proxy-Authenticate: Basic realm=\"palyra\"\r\n"+last+"Content-Length: 0\r\n\r\n")
	return err == nil
}

// serveConnect makes a tunnel.
func (s *Session) serveConnect(c *stream, r *request) {
	t, err := s.resolveTarget(r.at.host, r.at.port)
	if err != nil {
		s.refused(doorConnect, t, err)
		s.refuseRequest(c, r, err)
		return
	}
	up, f, p, err := s.connect(s.ctx, doorConnect, t)
	if err != nil {
		s.refuseRequest(c, r, err)
		return
	}
	defer s.drop(up)
	if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err == nil {
		s.tunnel(c, up, f, p)
	}
}

// route finds the line for a request: the present one, if it leads to the same target, which is
// decided again, or a new one.
func (s *Session) route(l *line, r *request) error {
	if !r.whole {
		return sniff.BadHead("this is a proxy: it wants whole URLs")
	}
	t, err := s.resolveTarget(r.at.host, r.at.port)
	if err != nil {
		s.refused(doorHTTP, t, err)
		return err
	}
	r.rename(t)
	if l.up != nil && l.at == r.at && l.alive() {
		if p, err := s.decide(s.ctx, doorHTTP, r.at); err != nil || p.answer == l.by {
			return err
		}
	}
	s.hangUp(l)
	up, f, p, err := s.connect(s.ctx, doorHTTP, r.at)
	if err != nil {
		return err
	}
	*l = line{up: s.stream(up), flow: f, at: r.at, by: p.answer}
	return nil
}

// hangUp closes a line.
func (s *Session) hangUp(l *line) {
	if l.up != nil {
		s.drop(l.up.TCPConn)
		l.up.release()
	}
	*l = line{}
}

// refuseRequest tells an HTTP client why its request is refused.
func (s *Session) refuseRequest(c *stream, r *request, err error) {
	var bad sniff.BadHead
	e := (*palyra.Error)(nil)
	switch {
	case errors.As(err, &e):
	case errors.As(err, &bad), errors.Is(err, errAuthority):
		e = palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the request is refused: %s", err).
			WithRemedy("send a plain HTTP/1.1 request that says one thing only")
	case errors.Is(err, sniff.ErrTooLong):
		e = palyra.Errorf(palyra.Invalid, palyra.ReasonInputTooLarge, "the request's head is too long").WithRemedy("send fewer or shorter fields")
	default: // the client is gone, or too slow
		return
	}
	name := ""
	if r != nil {
		name = r.at.host.String()
	}
	writeRefusal(c, e, name)
	c.linger(s.guard.times.quiet)
}

// writeRefusal writes a refusal as JSON.
func writeRefusal(c io.Writer, e *palyra.Error, host string) {
	body, err := json.Marshal(struct {
		Reason palyra.Reason `json:"reason_code"`
		Host   string        `json:"host,omitempty"`
		Text   string        `json:"reason"`
		Remedy string        `json:"remedy,omitempty"`
	}{e.Reason, host, e.Text, e.Remedy})
	if err != nil {
		return
	}
	status := statusOf(e)
	_, _ = fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		status, http.StatusText(status), len(body)+1, body)
}
