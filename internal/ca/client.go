package ca

import (
	"crypto"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"

	"palyra"
)

// ClientConfig is what a device has of its pairing.
type ClientConfig struct {
	Certificate []byte        // its own, in DER
	Key         crypto.Signer // of that certificate
	Authorities [][]byte      // those it was given, in DER
	Now         func() time.Time
}

// Client returns the configuration with which a device talks to its daemon and the name it asks for: that of the
// authority which signed the device's certificate, because a daemon serves that one for as long as the certificate
// holds.
func Client(cfg ClientConfig) (*tls.Config, string, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Key == nil || len(cfg.Certificate) > maxCert {
		return nil, "", refused("a device needs its certificate and its key")
	}
	leaf, err := x509.ParseCertificate(cfg.Certificate)
	if err != nil {
		return nil, "", refused("the device's certificate does not parse").WithRemedy("pair the device again")
	}
	i, err := ownAuthority(leaf, cfg.Authorities, cfg.Now())
	if err != nil {
		return nil, "", err
	}
	if pub, ok := cfg.Key.Public().(ed25519.PublicKey); !ok || !pub.Equal(leaf.PublicKey) {
		return nil, "", refused("the device's key does not fit its certificate").WithRemedy("pair the device again")
	}
	name, roots := i.serverName(), x509.NewCertPool()
	roots.AddCert(i.cert)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, Time: cfg.Now,
		NextProtos: []string{Protocol}, ServerName: name, RootCAs: roots,
		Certificates:     []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: cfg.Key, Leaf: leaf}},
		VerifyConnection: func(s tls.ConnectionState) error { return checkDaemon(s, name) },
	}, name, nil
}

// ownAuthority finds the authority that signed a device's certificate among those the device was given.
func ownAuthority(leaf *x509.Certificate, authorities [][]byte, now time.Time) (*issuer, error) {
	if len(authorities) == 0 || len(authorities) > mostIssuers {
		return nil, refused("a device knows 1 to %d authorities of its daemon", mostIssuers)
	}
	if err := checkLeaf(leaf, x509.ExtKeyUsageClientAuth); err != nil {
		return nil, err
	}
	device, id, err := deviceName(leaf)
	if err != nil {
		return nil, err
	}
	if err := checkDates(leaf, now); err != nil {
		return nil, err
	}
	for _, der := range authorities {
		i, err := parseIssuer(der)
		if err != nil {
			return nil, err
		}
		if i.id == id {
			return i, i.verify(leaf, device+"."+i.zone(), x509.ExtKeyUsageClientAuth, now)
		}
	}
	return nil, refused("the device's certificate is from none of the authorities it knows").WithRemedy("pair the device again")
}

// checkDaemon adds to what TLS itself has checked by then (chain, dates, name,
// usage): that the certificate is exactly what an authority makes for a server.
func checkDaemon(s tls.ConnectionState, name string) error {
	if s.Version != tls.VersionTLS13 || s.NegotiatedProtocol != Protocol {
		return refused("the other side does not speak the daemon's protocol")
	}
	if len(s.PeerCertificates) == 0 || len(s.VerifiedChains) == 0 {
		return refused("the other side has not shown that it is the daemon")
	}
	leaf := s.PeerCertificates[0]
	if err := checkLeaf(leaf, x509.ExtKeyUsageServerAuth); err != nil {
		return err
	}
	if leaf.DNSNames[0] != name {
		return refused("the other side is not the daemon that was asked for")
	}
	for _, c := range s.VerifiedChains {
		if len(c) == 2 {
			return nil
		}
	}
	return refused("the other side's certificate is not signed by the authority itself")
}

// Explain gives what TLS says about certificates a name: our refusal of theirs,
// and theirs of ours. Every other error is returned as it is.
func Explain(err error) error {
	if e := (*palyra.Error)(nil); err == nil || errors.As(err, &e) {
		return err
	}
	if bad := (*tls.CertificateVerificationError)(nil); errors.As(err, &bad) {
		e := refused("the other side is not the daemon that this device was paired with: %s", why(bad.Err)).WithCause(err)
		return e.WithRemedy("check the address; if the daemon was set up anew, pair the device again")
	}
	// With TLS 1.3 a client learns only when it first reads that it was refused.
	if alert := (*net.OpError)(nil); errors.As(err, &alert) && alert.Op == "remote error" {
		return refused("the other side refused the connection (%s)", palyra.Clip(alert.Err.Error(), 80)).
			WithRemedy("see on the daemon's machine whether the device is revoked; if its certificate has expired, pair it again").WithCause(err)
	}
	return err
}

// why says in our words what is wrong with a server's certificate.
func why(err error) string {
	var (
		invalid x509.CertificateInvalidError
		name    x509.HostnameError
		unknown x509.UnknownAuthorityError
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired or does not hold yet"
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return "its certificate is not a server's"
	case errors.As(err, &name):
		return "its certificate has another name"
	case errors.As(err, &unknown):
		return "its certificate is from another authority"
	}
	return "its certificate is not good"
}
