package egress

import (
	"bufio"
	"context"
	"errors"
	"net"
	"time"

	"palyra"
	"palyra/internal/egress/lend"
	"palyra/internal/egress/sniff"
	"palyra/secrets"
)

// Lend has the session put secrets into requests, at the hosts of their bindings. It takes them over, and is called
// before Serve. The run finds the authorities to trust in the file bundle. note is told of every use, and of placeholders
// in other places.
func (s *Session) Lend(loans []secrets.Loan, bundle string, note func(host string, u lend.Use)) error {
	desk, err := lend.New(loans, s.guard.cfg.Now())
	if err != nil {
		for _, l := range loans {
			l.Value.Destroy()
		}
		return err
	}
	desk.Trust(s.guard.cfg.Roots)
	desk.Bundle(bundle)
	s.desk, s.lent = desk, note
	return nil
}

// Signs has signatures with lent keys told of before they are made; an error refuses one. Without it none is made. It is
// called before Serve.
func (s *Session) Signs(record func(host string, s lend.Signature) error) { s.signs = record }

// Authority is the certificate of the authority that programs of the run are to trust, as PEM; nil: nothing was lent.
func (s *Session) Authority() []byte {
	if s.desk == nil {
		return nil
	}
	return s.desk.Certificate()
}

// Stand returns what stands in the run for a value that is lent to it; such a placeholder stands for itself.
func (s *Session) Stand(value []byte) (placeholder string, ok bool) { return s.desk.Stand(value) }

// opened answers a TLS client at a bound host in the server's place, and reports whether it did.
func (t *tunnel) opened() bool {
	if !t.desk.Opens(t.permit.target.String()) || !t.isSecure() {
		return false
	}
	first := make(chan net.Conn, 1)
	first <- &counted{Conn: t.up, session: t.Session, flow: t.flow}
	t.flow.open()
	t.client.within(0)
	way := lend.Way{
		Name: t.permit.host.String(), At: t.permit.target.String(), Head: t.guard.times.head, Idle: t.guard.times.idle,
		Note: func(u lend.Use) { t.lent(t.permit.target.String(), u) },
		Dial: func(ctx context.Context) (net.Conn, error) {
			select {
			case c := <-first:
				return c, nil
			default:
				return t.redial(ctx)
			}
		},
	}
	if t.signs != nil {
		way.Sign = func(s lend.Signature) error { return t.signs(way.At, s) }
	}
	err := t.desk.Serve(t.client.unread(), way)
	switch {
	case lend.IsOtherHost(err):
		t.refused(t.permit.door, t.permit.target, palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied,
			"%s: the client asks for another host than it connected to", t.permit.target))
	case errors.Is(err, lend.ErrClientTrust):
		t.refused(t.permit.door, t.permit.target, palyra.Errorf(palyra.Denied, secrets.ReasonClientTrust,
			"%s: the client does not trust the authority of the run, which opens TLS for the secret that is bound there", t.permit.target).
			WithRemedy("have it use the system's certificates, or SSL_CERT_FILE"))
	}
	return true
}

// redial makes another connection to the same target, decided and counted like the first.
func (t *tunnel) redial(ctx context.Context) (net.Conn, error) {
	up, f, _, err := t.connect(ctx, t.permit.door, t.permit.target)
	if err != nil {
		return nil, err
	}
	f.open()
	return &counted{Conn: up, session: t.Session, flow: f}, nil
}

// isSecure waits for the client's first bytes and reports whether it begins TLS.
func (t *tunnel) isSecure() bool {
	t.client.within(t.guard.times.head)
	for have := 0; ; {
		b, err := t.client.more(have)
		if err != nil {
			return false
		}
		if kind := sniff.Classify(b); kind != sniff.Unclear {
			return kind == sniff.Secure
		}
		have = len(b)
	}
}

// unread is a connection whose first bytes were only looked at.
type unread struct {
	*net.TCPConn
	br   *bufio.Reader
	idle time.Duration
}

// unread takes the buffer out of a stream. Nobody gives it back to be used again: goroutines of net/http may read from a
// connection when everything else of it is over.
func (c *stream) unread() *unread {
	u := &unread{TCPConn: c.TCPConn, br: c.br, idle: c.idle}
	c.br = nil
	return u
}

// Read implements net.Conn.
func (u *unread) Read(b []byte) (int, error) { return u.br.Read(b) }

// Write implements net.Conn, for receivers that may never read.
func (u *unread) Write(b []byte) (int, error) {
	_ = u.SetWriteDeadline(time.Now().Add(u.idle)) // each time: net/http clears it after an answer
	return u.TCPConn.Write(b)
}
