package ca

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

func TestDamagedStateIsRefused(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	f.rotate(a)
	g := newFixture(t)
	other := g.open()
	g.rotate(other)
	var foreign keptState
	if err := json.Unmarshal(g.keep.held, &foreign); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(k *keptState){
		"version":             func(k *keptState) { k.Version = 2 },
		"no authority":        func(k *keptState) { k.Authorities = nil },
		"too many":            func(k *keptState) { k.Authorities = append(k.Authorities, make([]keptIssuer, mostIssuers)...) },
		"no days":             func(k *keptState) { k.LongestDays = 0 },
		"too many days":       func(k *keptState) { k.LongestDays = 366 },
		"no certificate":      func(k *keptState) { k.Authorities[0].Certificate = nil },
		"a leaf as authority": func(k *keptState) { k.Authorities[0].Certificate = k.Authorities[1].Leaf },
		"foreign certificate": func(k *keptState) { k.Authorities[0].Certificate = foreign.Authorities[0].Certificate },
		"foreign key":         func(k *keptState) { k.Authorities[0].Seed = foreign.Authorities[0].Seed },
		"short key":           func(k *keptState) { k.Authorities[0].Seed = k.Authorities[0].Seed[:31] },
		"no key":              func(k *keptState) { k.Authorities[0].Seed = nil },
		"current is retired":  func(k *keptState) { k.Authorities[0].RetiredAt = f.now },
		"foreign rotation":    func(k *keptState) { k.Authorities[0].From = foreign.Authorities[0].From },
		"unsigned rotation":   func(k *keptState) { k.Authorities[0].From.Sig = "" },
		"retired has a key":   func(k *keptState) { k.Authorities[1].Seed = k.Authorities[1].LeafSeed },
		"retired never":       func(k *keptState) { k.Authorities[1].RetiredAt = foreign.Authorities[0].RetiredAt },
		"no server key":       func(k *keptState) { k.Authorities[1].LeafSeed = nil },
		"foreign server key":  func(k *keptState) { k.Authorities[1].LeafSeed = foreign.Authorities[1].LeafSeed },
		"foreign server leaf": func(k *keptState) {
			k.Authorities[1].Leaf, k.Authorities[1].LeafSeed = foreign.Authorities[1].Leaf, foreign.Authorities[1].LeafSeed
		},
		"broken server leaf":    func(k *keptState) { k.Authorities[1].Leaf = k.Authorities[1].Leaf[:40] },
		"authorities swapped":   func(k *keptState) { k.Authorities[0], k.Authorities[1] = k.Authorities[1], k.Authorities[0] },
		"a foreign authority":   func(k *keptState) { k.Authorities[1].Certificate = foreign.Authorities[1].Certificate },
		"oversized server leaf": func(k *keptState) { k.Authorities[1].Leaf = make([]byte, maxCert+1) },
	} {
		var k keptState
		if err := json.Unmarshal(f.keep.held, &k); err != nil {
			t.Fatal(err)
		}
		seed := base64.StdEncoding.EncodeToString(k.Authorities[0].Seed)
		spoil(&k)
		raw, _ := json.Marshal(k)
		if _, err := decode(raw); reason(err) != palyra.ReasonConfig || palyra.AsError(err).Remedy == "" || strings.Contains(err.Error(), seed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, raw := range map[string][]byte{
		"empty": nil, "text": []byte("-----BEGIN PRIVATE KEY-----"), "cut": f.keep.held[:len(f.keep.held)/2],
		"more": append(bytes.Clone(f.keep.held), "{}"...), "unknown field": []byte(`{"palyra_ca":1,"secret":"s3cr3t"}`),
		"too long": bytes.Repeat([]byte(" "), maxState+1),
	} {
		_, err := decode(raw)
		if reason(err) != palyra.ReasonConfig || strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("%s: %v", name, err)
		}
		f.keep.held = raw
		if _, err := Open(t.Context(), f.config()); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

// Whatever a keeper gives back, the answer is a refusal or a state that is what
// it says: it encodes to something that reads the same.
func FuzzDecode(f *testing.F) {
	keep := &memory{}
	a, err := Open(f.Context(), Config{KeyStore: keep})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Clone(keep.held))
	if _, _, _, err := a.Rotate(f.Context()); err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Clone(keep.held))
	f.Add([]byte(`{"palyra_ca":1,"longest_days":1,"authorities":[{}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		st, err := decode(raw)
		if err != nil {
			return
		}
		s, err := st.encode()
		if err != nil {
			t.Fatal(err)
		}
		var again *state
		if err := s.Use(func(b []byte) error { again, err = decode(b); return err }); err != nil {
			t.Fatal(err)
		}
		if again.issuers[0].id != st.issuers[0].id || !again.issuers[0].key.pub.Equal(st.issuers[0].cert.PublicKey) {
			t.Error("another authority came back")
		}
	})
}

// Authorities come from the other side of a pairing.
func FuzzParseIssuer(f *testing.F) {
	a, err := Open(f.Context(), Config{KeyStore: &memory{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(a.Certificates()[0])
	leaf, err := a.ServerLeaf("")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(leaf)
	f.Fuzz(func(t *testing.T, der []byte) {
		i, err := parseIssuer(der)
		if err != nil {
			return
		}
		if !i.cert.IsCA || i.cert.MaxPathLen != 0 || !i.cert.PermittedDNSDomainsCritical || i.cert.PermittedDNSDomains[0] != i.zone() {
			t.Errorf("accepted %x", der)
		}
		if diff := cmp.Diff(i.cert.Raw, der); diff != "" {
			t.Error(diff)
		}
	})
}

// A device must not be made to trust an authority that could sign for more than
// its own zone, or let others sign.
func TestAuthoritiesOfAnotherKindAreRefused(t *testing.T) {
	a := newFixture(t).open()
	key := a.current().key
	for name, spoil := range map[string]func(c *x509.Certificate){
		"":                   func(*x509.Certificate) {},
		"path length 1":      func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = 1, false },
		"any path length":    func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = -1, false },
		"no constraints":     func(c *x509.Certificate) { c.PermittedDNSDomains = nil },
		"constraints: maybe": func(c *x509.Certificate) { c.PermittedDNSDomainsCritical = false },
		"another zone":       func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"0123456789abcdef.palyra.internal"} },
		"a wider zone":       func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"palyra.internal"} },
		"a zone more":        func(c *x509.Certificate) { c.PermittedDNSDomains = append(c.PermittedDNSDomains, "example.org") },
		"no authority":       func(c *x509.Certificate) { c.IsCA, c.MaxPathLenZero = false, false },
		"signs more":         func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageDigitalSignature },
	} {
		c := *a.current().cert
		c.RawSubject, c.ExtraExtensions, c.SignatureAlgorithm = nil, nil, 0
		spoil(&c)
		der, err := x509.CreateCertificate(rand.Reader, &c, &c, key.pub, key)
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := parseIssuer(der); (err == nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := parseIssuer(selfSigned(t, weakKey(t, "p-256"))); reason(err) != palyra.ReasonBadCertificate {
		t.Errorf("a P-256 authority: %v", err)
	}
}
