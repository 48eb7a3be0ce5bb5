package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"

	"palyra"
	"palyra/internal/ca"
)

// dialTime is how long connecting to a daemon elsewhere may take, the TLS handshake included.
const dialTime = 10 * time.Second

// config returns the TLS configuration of a connection, and the name of the daemon there.
func (r *Remote) config() (*tls.Config, string, error) {
	c := r.Copy()
	return ca.Client(ca.ClientConfig{Certificate: c.Certificate, Key: r.key.Certificate(), Authorities: c.Authorities})
}

// host is the daemon's name in requests.
func (r *Remote) host() string {
	_, name, err := r.config()
	if err != nil {
		return "daemon.palyra.internal" // dialling reports the fault
	}
	return name
}

// dial connects to the daemon and returns when both ends have accepted each other.
func (r *Remote) dial(ctx context.Context) (net.Conn, error) {
	conf, _, err := r.config()
	if err != nil {
		return nil, err
	}
	caller := ctx
	ctx, stop := context.WithTimeout(ctx, dialTime)
	defer stop()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.Address)
	if err != nil {
		return nil, r.silent(caller, err)
	}
	conn, err := shake(ctx, tls.Client(raw, conf))
	if err != nil {
		_ = raw.Close()
		return nil, r.explain(caller, err)
	}
	return conn, nil
}

// shake does the TLS handshake. A device learns that it is refused only when it first reads, so
// shake awaits the daemon's first byte as well: an HTTP/2 server speaks without being asked.
func shake(ctx context.Context, conn *tls.Conn) (net.Conn, error) {
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	first := make([]byte, 1)
	_, err := conn.Read(first)
	if !stop() && err == nil {
		err = context.Cause(ctx) // the deadline stays set, so the connection cannot be used
	}
	if err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	return &greeted{Conn: conn, first: first}, nil
}

// greeted is a connection whose first byte was read ahead.
type greeted struct {
	*tls.Conn
	first []byte // of the reader alone
}

// Read implements net.Conn.
func (g *greeted) Read(b []byte) (int, error) {
	if len(g.first) > 0 && len(b) > 0 {
		n := copy(b, g.first)
		g.first = g.first[n:]
		return n, nil
	}
	return g.Conn.Read(b)
}

// holds reports whether this device's certificate is valid today.
func (r *Remote) holds() bool {
	cert, err := x509.ParseCertificate(r.Copy().Certificate)
	now := time.Now()
	return err == nil && !now.Before(cert.NotBefore) && now.Before(cert.NotAfter)
}

// silent is the error for an address at which nobody answers.
func (r *Remote) silent(caller context.Context, err error) error {
	if caller.Err() != nil {
		return gaveUp(caller)
	}
	return palyra.Errorf(palyra.Unavailable, ReasonNoDaemon, "no daemon answers at %s", r.Address).
		WithRemedy("see whether it runs there and can be reached, or this machine was revoked: the port closes with the last device " +
			"(there: palyra device list)").WithCause(err)
}

// gaveUp is the error for a caller whose context ended.
func gaveUp(caller context.Context) error {
	reason, text := palyra.ReasonCancelled, "given up before the daemon answered"
	if errors.Is(caller.Err(), context.DeadlineExceeded) {
		reason, text = palyra.ReasonTimedOut, "the daemon did not answer in time"
	}
	return palyra.Errorf(palyra.Expired, reason, "%s", text).WithCause(caller.Err())
}

// explain turns the error of a connection that was made but failed into one with a reason.
func (r *Remote) explain(caller context.Context, err error) error {
	named := (*palyra.Error)(nil)
	// The certificate is valid today, so the alert means that the daemon refuses this device.
	if alert := (*net.OpError)(nil); errors.As(err, &alert) && alert.Op == "remote error" &&
		alert.Err.Error() == "tls: bad certificate" && r.holds() {
		return palyra.Errorf(palyra.Denied, palyra.ReasonDeviceRevoked, "the daemon at %s does not accept this device any more", r.Address).
			WithRemedy("see there whether it is revoked: palyra device list; then pair again under a new name").WithCause(err)
	}
	if err = ca.Explain(err); errors.As(err, &named) {
		return named
	}
	if caller.Err() != nil {
		return gaveUp(caller)
	}
	if late := net.Error(nil); errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late) && late.Timeout() {
		return palyra.Errorf(palyra.Unavailable, ReasonNoDaemon, "the server at %s does not answer like a daemon", r.Address).
			WithRemedy("check the address, and see whether the daemon is well there").WithCause(err)
	}
	if odd := (tls.RecordHeaderError{}); errors.As(err, &odd) {
		return palyra.Errorf(palyra.Unavailable, ReasonNoDaemon, "the server at %s is not a Palyra daemon", r.Address).
			WithRemedy("check the address and the port: 'palyra device remotes'").WithCause(err)
	}
	return palyra.Errorf(palyra.Unavailable, ReasonConnectionLost, "the daemon at %s hung up before it answered", r.Address).
		WithRemedy("see on its machine whether it runs and whether this device is revoked: palyra device list").WithCause(err)
}
