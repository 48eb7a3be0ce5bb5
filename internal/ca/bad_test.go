package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"

	"palyra"
)

// foreign is another daemon's authority, with this one's clock.
func (f *fixture) foreign(t *testing.T) *Authority {
	t.Helper()
	g := newFixture(t)
	g.now = f.clock()
	return g.open()
}

// signedBy makes a certificate with an authority's real key, spoiled first.
func signedBy(t *testing.T, a *Authority, d *device, spoil func(c *x509.Certificate)) []byte {
	t.Helper()
	return signedFor(t, a, d.public(), d.id, spoil)
}

func signedFor(t *testing.T, a *Authority, pub any, id string, spoil func(c *x509.Certificate)) []byte {
	t.Helper()
	now := a.cfg.Now()
	c := deviceTemplate(id, a.ID())
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(7), now.Add(-backdate), now.Add(day)
	if spoil != nil {
		spoil(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.current().cert, pub, a.current().key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func selfSigned(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "me"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func weakKey(t *testing.T, kind string) crypto.Signer {
	t.Helper()
	var key crypto.Signer
	var err error
	switch kind {
	case "rsa-1024":
		key, err = rsa.GenerateKey(rand.Reader, 1024)
	case "rsa-2048":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case "p-224":
		key, err = ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	case "p-256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// weak is a client with a key that is not Ed25519, signed by a's authority or by
// itself.
func weak(t *testing.T, a *Authority, kind string, self bool) *tls.Config {
	t.Helper()
	key := weakKey(t, kind)
	if self {
		return show(a, key, selfSigned(t, key))
	}
	return show(a, key, signedFor(t, a, key.Public(), newDevice(t).id, nil))
}

// chained makes an intermediate authority that a's signed, and a leaf of it.
func chained(t *testing.T, a *Authority, d *device) (leaf, between []byte) {
	t.Helper()
	mid := newDevice(t)
	between = signedBy(t, a, mid, func(c *x509.Certificate) {
		c.IsCA, c.KeyUsage, c.Subject.CommonName = true, x509.KeyUsageCertSign, "between"
	})
	c := deviceTemplate(d.id, a.ID())
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(7), a.cfg.Now().Add(-backdate), a.cfg.Now().Add(day)
	leaf, err := x509.CreateCertificate(rand.Reader, c, parsed(t, between), d.public(), mid.key)
	if err != nil {
		t.Fatal(err)
	}
	return leaf, between
}

// Everything that the authority itself could be brought to sign, and is not what
// IssueDevice makes, is refused.
func TestSignedButWrongCertificatesAreRefused(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	d := newDevice(t)
	door := listen(t, a.Server(ServerConfig{PairProtocol: pairing, Device: anyDevice}))
	door.welcome(show(a, d.key, signedBy(t, a, d, nil))) // unspoiled it comes in
	zone := a.current().zone()
	for name, spoil := range map[string]func(c *x509.Certificate){
		"expired":          func(c *x509.Certificate) { c.NotAfter = f.now.Add(-time.Minute) },
		"not yet valid":    func(c *x509.Certificate) { c.NotBefore = f.now.Add(time.Minute) },
		"no name":          func(c *x509.Certificate) { c.DNSNames = nil },
		"name: daemon":     func(c *x509.Certificate) { c.DNSNames = []string{"daemon." + zone} },
		"name: zone":       func(c *x509.Certificate) { c.DNSNames = []string{zone} },
		"name: wildcard":   func(c *x509.Certificate) { c.DNSNames = []string{"*." + zone} },
		"name: person":     func(c *x509.Certificate) { c.DNSNames = []string{"ada." + zone} },
		"name: deeper":     func(c *x509.Certificate) { c.DNSNames = []string{"x." + d.id + "." + zone} },
		"name: capitals":   func(c *x509.Certificate) { c.DNSNames = []string{"DEV-" + d.id[4:] + "." + zone} },
		"name: other zone": func(c *x509.Certificate) { c.DNSNames = []string{d.id + ".0123456789abcdef.palyra.internal"} },
		"name: no zone":    func(c *x509.Certificate) { c.DNSNames = []string{d.id + ".example.org"} },
		"two names":        func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, newDevice(t).id+"."+zone) },
		"an address":       func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} },
		"a mail address":   func(c *x509.Certificate) { c.EmailAddresses = []string{"a@" + zone} },
		"a link":           func(c *x509.Certificate) { c.URIs = []*url.URL{{Scheme: "https", Host: zone}} },
		"usage: server":    func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} },
		"usage: both":      func(c *x509.Certificate) { c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth) },
		"usage: any":       func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} },
		"usage: none":      func(c *x509.Certificate) { c.ExtKeyUsage = nil },
		"usage: code":      func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} },
		"usage: unknown":   func(c *x509.Certificate) { c.UnknownExtKeyUsage = append(c.UnknownExtKeyUsage, []int{1, 2, 3}) },
		"key usage: sign":  func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCertSign },
		"key usage: none":  func(c *x509.Certificate) { c.KeyUsage = 0 },
		"an authority":     func(c *x509.Certificate) { c.IsCA = true },
		"unknown critical": func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3, 4}, Critical: true, Value: []byte{5, 0}}}
		},
		"oversized": func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3, 4}, Value: make([]byte, maxCert)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			door.refuses(show(a, d.key, signedBy(t, a, d, spoil)), palyra.ReasonBadCertificate)
		})
	}
}

func TestExpiredAndNotYetValidByTheClock(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	d := newDevice(t).renew(t, a)
	door := listen(t, a.Server(ServerConfig{Device: anyDevice}))
	conf := show(a, d.key, d.leaf.DER)
	f.pass(30*day - time.Minute)
	door.welcome(conf)
	f.pass(2 * time.Minute)
	server, _ := door.visit(conf)
	if reason(server.err) != palyra.ReasonBadCertificate || palyra.CodeOf(server.err) != palyra.Expired {
		t.Errorf("expired: %v", server.err)
	}
	f.pass(-31 * day)
	door.refuses(conf, palyra.ReasonBadCertificate)
}

func TestCertificatesOfOthersAreRefused(t *testing.T) {
	f := newFixture(t)
	a, other := f.open(), f.foreign(t)
	d := newDevice(t)
	door := listen(t, a.Server(ServerConfig{PairProtocol: pairing, Device: anyDevice}))
	serverKey, err := a.serverCert("", true)
	if err != nil {
		t.Fatal(err)
	}
	leaf, between := chained(t, a, d)
	twin := *other.current() // another key under this authority's names
	twin.id = a.ID()
	named := *twin.cert
	named.RawSubject, named.Subject, named.SubjectKeyId = a.current().cert.RawSubject, a.current().cert.Subject, a.current().cert.SubjectKeyId
	twin.cert = &named
	lookalike := &Authority{cfg: other.cfg, st: &state{issuers: []*issuer{&twin}}}

	good := signedBy(t, a, d, nil)
	for name, conf := range map[string]*tls.Config{
		"another daemon's device": show(a, d.key, signedBy(t, other, d, nil)),
		"another CA, our names":   show(a, d.key, signedBy(t, lookalike, d, nil)),
		"self-signed":             show(a, d.key, selfSigned(t, d.key)),
		"RSA 1024":                weak(t, a, "rsa-1024", false),
		"RSA 2048":                weak(t, a, "rsa-2048", false),
		"P-224":                   weak(t, a, "p-224", false),
		"P-256":                   weak(t, a, "p-256", false),
		"the server's":            show(a, serverKey.PrivateKey, serverKey.Certificate[0]),
		"the authority's own":     show(a, a.current().key, a.current().cert.Raw),
		"an intermediate's leaf":  show(a, d.key, leaf, between),
		"that leaf alone":         show(a, d.key, leaf),
		"leaf and authority":      show(a, d.key, good, a.current().cert.Raw),
		"two leaves":              show(a, d.key, good, good),
	} {
		t.Run(name, func(t *testing.T) { door.refuses(conf, palyra.ReasonBadCertificate) })
	}
	thief := newDevice(t)
	for name, conf := range map[string]*tls.Config{
		"stolen without its key": show(a, thief.key, good),
		"no certificate":         show(a, nil),
	} {
		t.Run(name, func(t *testing.T) {
			if server, client := door.visit(conf); client == nil || server.err == nil {
				t.Errorf("client: %v; server: %v", client, server.err)
			} else if _, err := KeyOf(server.state); err == nil {
				t.Error("the key counts as proved")
			}
		})
	}
}

// Path length and name constraints hold for anybody who checks our certificates
// by the book, not only for our own stricter check.
func TestConstraintsHoldByTheBook(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	d := newDevice(t)
	roots, mids := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(a.current().cert)
	leaf, between := chained(t, a, d)
	mids.AddCert(parsed(t, between))
	zone := a.current().zone()
	for name, der := range map[string][]byte{
		"intermediate": leaf,
		"bank":         signedBy(t, a, d, func(c *x509.Certificate) { c.DNSNames = []string{"bank.example.org"} }),
		"sibling":      signedBy(t, a, d, func(c *x509.Certificate) { c.DNSNames = []string{"x.0123456789abcdef.palyra.internal"} }),
		"IPv4":         signedBy(t, a, d, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} }),
		"IPv6":         signedBy(t, a, d, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv6loopback} }),
		"mail":         signedBy(t, a, d, func(c *x509.Certificate) { c.EmailAddresses = []string{"ada@example.org"} }),
		"link":         signedBy(t, a, d, func(c *x509.Certificate) { c.URIs = []*url.URL{{Scheme: "https", Host: "example.org"}} }),
		"code signing": signedBy(t, a, d, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} }),
	} {
		opts := x509.VerifyOptions{Roots: roots, Intermediates: mids, CurrentTime: f.now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
		if name == "code signing" {
			opts.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
		}
		if _, err := parsed(t, der).Verify(opts); err == nil {
			t.Errorf("%s: verifies", name)
		}
	}
	opts := x509.VerifyOptions{
		Roots: roots, CurrentTime: f.now, DNSName: d.id + "." + zone,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if _, err := parsed(t, signedBy(t, a, d, nil)).Verify(opts); err != nil {
		t.Error(err)
	}
}

func TestKeyOfRefusesOtherKeys(t *testing.T) {
	key := weakKey(t, "p-256")
	s := tls.ConnectionState{HandshakeComplete: true, PeerCertificates: []*x509.Certificate{parsed(t, selfSigned(t, key))}}
	if got, err := KeyOf(s); err == nil || got != nil {
		t.Errorf("key %v, %v", got, err)
	}
	_, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s.PeerCertificates = []*x509.Certificate{parsed(t, selfSigned(t, priv))}
	if _, err := KeyOf(s); err != nil {
		t.Error(err)
	}
}
