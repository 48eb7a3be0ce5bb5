package identity

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"

	"palyra"
)

// The key makes a certificate and proves in a real handshake that it is its own.
func TestCertificate(t *testing.T) {
	s, err := Create(filepath.Join(t.TempDir(), "k", "device.key"))
	if err != nil {
		t.Fatal(err)
	}
	key := s.Certificate()
	like := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, DNSNames: []string{"x"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, like, like, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	a, b := net.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- tls.Server(a, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{
			{Certificate: [][]byte{der}, PrivateKey: key},
		}}).Handshake()
	}()
	c := tls.Client(b, &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: "x"})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	pub, ok := cert.PublicKey.(ed25519.PublicKey)
	if !ok || KeyID(pub) != s.KeyID() {
		t.Errorf("another key: %s", KeyID(pub))
	}
}

// A handshake cannot be used to have an intent signed.
func TestCertificateSignsNoIntent(t *testing.T) {
	s, err := Create(filepath.Join(t.TempDir(), "k", "device.key"))
	if err != nil {
		t.Fatal(err)
	}
	msg, err := palyra.Intent{Audience: "a", Method: "m", KeyID: s.KeyID()}.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if sig, err := s.Certificate().Sign(nil, msg, crypto.Hash(0)); err == nil {
		t.Errorf("signed an intent: %x", sig)
	}
	if sig, err := s.Certificate().Sign(nil, make([]byte, 32), crypto.SHA256); err == nil {
		t.Errorf("signed a digest: %x", sig)
	}
	s.Close()
	if _, err := s.Certificate().Sign(nil, []byte("x"), crypto.Hash(0)); err == nil {
		t.Error("a closed key signed")
	}
}
