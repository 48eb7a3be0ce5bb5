package pairing

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"time"
)

const (
	maxAuthorities = 8
	maxCertificate = 4 << 10
	serverLabel    = "daemon"
)

// authorityPin is the digest of an authority's public key, as a code holds it.
func authorityPin(der []byte) (pin [sha256.Size]byte, err error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return pin, fmt.Errorf("pairing: authority: %w", err)
	}
	return pinOf(cert), nil
}

func pinOf(cert *x509.Certificate) [sha256.Size]byte {
	return sha256.Sum256(cert.RawSubjectPublicKeyInfo)
}

// nameUnder is the name that an authority with this pin gives to label: the daemon, or a device's id.
func nameUnder(pin [sha256.Size]byte, label string) string {
	return label + "." + hex.EncodeToString(pin[:8]) + ".palyra.internal"
}

// parseAuthorities reads the authorities that a daemon wants to be known by.
func parseAuthorities(ders [][]byte) ([]*x509.Certificate, error) {
	if len(ders) == 0 || len(ders) > maxAuthorities {
		return nil, errors.New("pairing: authorities: too few or too many")
	}
	var certs []*x509.Certificate
	for _, der := range ders {
		if len(der) > maxCertificate {
			return nil, errors.New("pairing: authorities: one is too long")
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("pairing: authorities: %w", err)
		}
		if !cert.IsCA || !cert.BasicConstraintsValid || !strong(cert.PublicKey) {
			return nil, errors.New("pairing: authorities: one is not an authority")
		}
		certs = append(certs, cert)
	}
	return certs, nil
}

func strong(key crypto.PublicKey) bool {
	switch k := key.(type) {
	case ed25519.PublicKey:
		return true
	case *ecdsa.PublicKey:
		return k.Curve == elliptic.P256()
	}
	return false
}

// use is what a certificate is shown for.
type use struct {
	label string // of its name
	key   x509.ExtKeyUsage
	now   time.Time
}

// issuedBy reports whether one of the authorities issued leaf for that use.
func issuedBy(leaf *x509.Certificate, authorities []*x509.Certificate, u use) error {
	err := errors.New("pairing: no authority")
	for _, a := range authorities {
		roots := x509.NewCertPool()
		roots.AddCert(a)
		if _, err = leaf.Verify(x509.VerifyOptions{
			DNSName: nameUnder(pinOf(a), u.label), Roots: roots, CurrentTime: u.now, KeyUsages: []x509.ExtKeyUsage{u.key},
		}); err == nil {
			return nil
		}
	}
	return fmt.Errorf("pairing: certificate: %w", err)
}

// pinned checks the chain of a server against the pin of a scanned code: an
// authority with that key is in it and issued the server's certificate.
func pinned(chain []*x509.Certificate, pin [sha256.Size]byte, now time.Time) error {
	if len(chain) == 0 || len(chain) > maxAuthorities {
		return errors.New("pairing: the server's chain is empty or too long")
	}
	for _, c := range chain[1:] {
		if pinOf(c) == pin {
			if !c.IsCA || !c.BasicConstraintsValid || !strong(c.PublicKey) {
				return errors.New("pairing: what is pinned is not an authority")
			}
			return issuedBy(chain[0], []*x509.Certificate{c}, use{serverLabel, x509.ExtKeyUsageServerAuth, now})
		}
	}
	return errors.New("pairing: the pinned authority is not in the server's chain")
}

// ownCertificate makes the certificate that a device comes with. Nobody but the
// key behind it stands for anything in it.
func ownCertificate(key Signer, now time.Time) (tls.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("pairing: own certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "palyra pairing"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("pairing: own certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
