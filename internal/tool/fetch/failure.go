package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"

	"palyra"
	"palyra/internal/show"
)

// broken turns the error of a request without an answer into a *palyra.Error. Refusals of the
// session and the end of the call pass unchanged.
func broken(t target, err error) error {
	var (
		e         *palyra.Error
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		check     *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		wire      *net.OpError
	)
	switch {
	case errors.As(err, &e), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &authority):
		return failed("the certificate of %s is signed by nobody whom this system trusts", t.hostPort).
			WithRemedy("install the certificate of its authority on the daemon's system").WithCause(err)
	case errors.As(err, &name):
		return failed("the certificate of %s is for another host", t.hostPort).WithCause(err)
	case errors.As(err, &invalid), errors.As(err, &check):
		return failed("the certificate of %s is not valid: %s", t.hostPort, errorText(err)).WithCause(err)
	case errors.As(err, &record):
		return failed("%s does not speak TLS", t.hostPort).WithRemedy("check the port, or use http").WithCause(err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return failed("%s closed the connection without an answer", t.hostPort).WithCause(err)
	case errors.As(err, &wire): // its text could show private addresses
		return failed("the connection to %s failed: %s", t.hostPort, errorText(wire.Err)).WithRemedy("try again later").WithCause(err)
	}
	return failed("%s gave no usable answer: %s", t.hostPort, errorText(err)).WithCause(err)
}

// unread is the error of an answer that could not be read to its end.
func unread(t target, err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return failed("the answer of %s ended before it was complete", t.hostPort).WithRemedy("try again").WithCause(err)
	}
	return failed("the answer of %s cannot be read: %s", t.hostPort, errorText(err)).WithCause(err)
}

// errorText is an error's text, which may quote bytes of the other side.
func errorText(err error) string { return show.Line(palyra.Clip(err.Error(), 200)) }
