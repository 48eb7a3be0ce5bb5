package pairing

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
)

// errReached ends a handshake that has shown what it was for.
var errReached = errors.New("pairing: there is one")

// Reach returns an error unless something that pairs answers at address, before a person types a PIN for nothing.
// It hangs up in the middle of the handshake: the device has not shown itself by then, so the daemon counts no try.
func Reach(ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error), address string) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return noDaemonError(err)
	}
	defer func() { _ = conn.Close() }() // nothing was said
	err = tls.Client(conn, &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{Protocol}, SessionTicketsDisabled: true,
		InsecureSkipVerify: true, // the pairing itself finds out whom to trust
		VerifyConnection: func(s tls.ConnectionState) error {
			if s.NegotiatedProtocol != Protocol {
				return errSequence
			}
			return errReached
		},
	}).HandshakeContext(ctx)
	if errors.Is(err, errReached) {
		return nil
	}
	return noDaemonError(err)
}
