package ca

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"time"

	"palyra"
)

// refused is the error for a certificate, or a greeting, that is not good enough.
// It repeats nothing of what the other side sent.
func refused(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonBadCertificate, format, args...)
}

// Peer is the device at the other end of a connection.
type Peer struct {
	Device   string // its id
	KeyID    string // as in signatures
	Key      ed25519.PublicKey
	Serial   string
	NotAfter time.Time // a connection that is older than this is not a device's any more
}

// PeerOf returns the device at the other end of a finished handshake with a
// configuration of Server, under Protocol.
func PeerOf(s tls.ConnectionState) (Peer, error) {
	key, err := KeyOf(s)
	if err != nil {
		return Peer{}, err
	}
	leaf := s.PeerCertificates[0]
	device, _, err := deviceName(leaf)
	if err != nil || s.NegotiatedProtocol != Protocol {
		return Peer{}, refused("the connection is not a device's")
	}
	return Peer{Device: device, KeyID: keyID(key), Key: key, Serial: SerialOf(leaf), NotAfter: leaf.NotAfter}, nil
}

// KeyOf returns the key that the other side of a finished handshake has proved
// to hold: a device's, or a newcomer's.
func KeyOf(s tls.ConnectionState) (ed25519.PublicKey, error) {
	if !s.HandshakeComplete || len(s.PeerCertificates) == 0 { // before that it is only said
		return nil, refused("the other side has proved no key")
	}
	key, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return nil, refused("the other side's key is not an Ed25519 key")
	}
	return key, nil
}

// keyID names a key as signatures do.
func keyID(pub ed25519.PublicKey) string {
	const hexStart, hexLen = len("sha256:"), 32
	return "op-" + string(palyra.SumBytes(pub)[hexStart:hexStart+hexLen])
}

// checkDevice is the check of a device's connection.
func (a *Authority) checkDevice(ctx context.Context, s tls.ConnectionState,
	live func(context.Context, string, *x509.Certificate) error,
) error {
	leaf, err := onlyCertificate(s)
	if err != nil {
		return err
	}
	if err := a.verify(leaf); err != nil {
		return err
	}
	if live == nil {
		return palyra.Errorf(palyra.Denied, palyra.ReasonDeviceRevoked, "no device is known here")
	}
	key, _ := leaf.PublicKey.(ed25519.PublicKey) // verify saw to it
	err = live(ctx, keyID(key), leaf)
	if e := (*palyra.Error)(nil); err != nil && !errors.As(err, &e) {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonInternal, "it cannot be told whether the device is still paired").WithCause(err)
	}
	return err
}

// onlyCertificate returns the one certificate of a connection. Ours are signed by the
// authority itself: whoever sends a chain has something else.
func onlyCertificate(s tls.ConnectionState) (*x509.Certificate, error) {
	if s.Version != tls.VersionTLS13 || s.DidResume || len(s.PeerCertificates) != 1 || len(s.PeerCertificates[0].Raw) > maxCert {
		return nil, refused("a client shows one certificate, its own")
	}
	return s.PeerCertificates[0], nil
}

// verify accepts a device leaf as IssueDevice makes it, of an authority in service, at this time.
func (a *Authority) verify(leaf *x509.Certificate) error {
	if err := checkLeaf(leaf, x509.ExtKeyUsageClientAuth); err != nil {
		return err
	}
	device, id, err := deviceName(leaf)
	if err != nil {
		return err
	}
	if err := a.Ready(); err != nil {
		return err
	}
	now := a.cfg.Now()
	if err := checkDates(leaf, now); err != nil {
		return err
	}
	for _, i := range a.serving() {
		if i.id == id {
			return i.verify(leaf, device+"."+i.zone(), x509.ExtKeyUsageClientAuth, now)
		}
	}
	return refused("the certificate is not from an authority of this daemon").WithRemedy("pair the device again")
}

// verify walks the chain: the authority and the leaf, nothing between.
func (i *issuer) verify(leaf *x509.Certificate, name string, usage x509.ExtKeyUsage, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AddCert(i.cert)
	chains, err := leaf.Verify(x509.VerifyOptions{
		DNSName: name, Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return refused("the certificate is not signed by the authority it names").WithRemedy("pair the device again").WithCause(err)
	}
	for _, c := range chains {
		if len(c) == 2 {
			return nil
		}
	}
	return refused("the certificate is not signed by the authority itself")
}

// checkLeaf looks at what a leaf is, whoever signed it.
func checkLeaf(leaf *x509.Certificate, usage x509.ExtKeyUsage) error {
	if _, ok := leaf.PublicKey.(ed25519.PublicKey); !ok || leaf.SignatureAlgorithm != x509.PureEd25519 {
		return refused("keys and signatures of certificates are Ed25519 here, nothing weaker")
	}
	if leaf.IsCA || leaf.Version != 3 || leaf.KeyUsage != x509.KeyUsageDigitalSignature {
		return refused("the certificate is an authority's, or for something else than connections")
	}
	if len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != usage || len(leaf.UnknownExtKeyUsage) > 0 {
		return refused("the certificate is for another side of the connection: clients show a device's, servers a server's")
	}
	if len(leaf.DNSNames) != 1 || len(leaf.IPAddresses)+len(leaf.EmailAddresses)+len(leaf.URIs) > 0 {
		return refused("the certificate has other names than the one of its holder")
	}
	return nil
}

func checkDates(leaf *x509.Certificate, now time.Time) error {
	switch {
	case now.Before(leaf.NotBefore):
		return refused("the certificate does not hold yet").WithRemedy("check the clocks of both machines")
	case now.After(leaf.NotAfter):
		e := refused("the certificate has expired").WithRemedy("pair the device again; a device that is used renews its certificate itself")
		e.Code = palyra.Expired
		return e
	}
	return nil
}

// deviceName takes the name of a device leaf apart.
func deviceName(leaf *x509.Certificate) (device, id string, err error) {
	bad := refused("the certificate does not name a device")
	if len(leaf.DNSNames) != 1 {
		return "", "", bad
	}
	zoned, ok := strings.CutSuffix(leaf.DNSNames[0], zoneSuffix)
	device, id, dot := strings.Cut(zoned, ".")
	if !ok || !dot || !validDevice(device) || len(id) != idDigits || !isHex(id) {
		return "", "", bad
	}
	return device, id, nil
}

// checkNewcomer is the check of a connection that wants to pair: a certificate that the holder of its key made,
// whatever stands in it. All it is for is that TLS proves the key.
func checkNewcomer(s tls.ConnectionState) error {
	leaf, err := onlyCertificate(s)
	if err != nil {
		return err
	}
	if _, ok := leaf.PublicKey.(ed25519.PublicKey); !ok || leaf.SignatureAlgorithm != x509.PureEd25519 ||
		leaf.CheckSignature(leaf.SignatureAlgorithm, leaf.RawTBSCertificate, leaf.Signature) != nil {
		return refused("a device pairs with a certificate that its own Ed25519 key signed")
	}
	return nil
}
