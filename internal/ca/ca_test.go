package ca

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"palyra"
	"palyra/internal/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = 24 * time.Hour

// memory is a keeper whose failures the test chooses.
type memory struct {
	mu     sync.Mutex
	held   []byte
	lost   error // Store fails and keeps nothing
	kept   error // Store fails after keeping
	blind  error // Load fails
	stores int
}

func (m *memory) Load(context.Context, string) (palyra.Secret, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blind != nil {
		return palyra.Secret{}, m.blind
	}
	if m.held == nil {
		return palyra.Secret{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "nothing")
	}
	return palyra.NewSecret(slices.Clone(m.held)), nil
}

func (m *memory) Store(_ context.Context, _ string, s palyra.Secret) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stores++
	if m.lost != nil {
		return m.lost
	}
	_ = s.Use(func(b []byte) error { m.held = slices.Clone(b); return nil })
	return m.kept
}

type fixture struct {
	t     *testing.T
	keep  *memory
	certs string
	days  int

	mu  sync.Mutex
	now time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{
		t: t, keep: &memory{}, certs: filepath.Join(t.TempDir(), "certs"), days: 30,
		now: time.Date(2031, 5, 6, 7, 8, 9, 10, time.UTC),
	}
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fixture) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func (f *fixture) config() Config {
	return Config{KeyStore: f.keep, Certs: f.certs, Days: f.days, Now: f.clock}
}

func (f *fixture) open() *Authority {
	f.t.Helper()
	a, err := Open(f.t.Context(), f.config())
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

func (f *fixture) published() []string {
	f.t.Helper()
	entries, err := os.ReadDir(f.certs)
	if err != nil {
		f.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// device is a machine with a key and, once issued, a certificate.
type device struct {
	key         ed25519.PrivateKey
	id          string
	leaf        Leaf
	authorities [][]byte
}

func (d *device) public() ed25519.PublicKey { return d.key.Public().(ed25519.PublicKey) }

func newDevice(t *testing.T) *device {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(pub)
	return &device{key: key, id: "dev-" + hex.EncodeToString(sum[:])[:32]}
}

// renew gets the device its certificate.
func (d *device) renew(t *testing.T, a *Authority) *device {
	t.Helper()
	leaf, err := a.IssueDevice(d.public(), d.id)
	if err != nil {
		t.Fatal(err)
	}
	d.leaf, d.authorities = leaf, a.Certificates()
	return d
}

func parsed(t *testing.T, der []byte) *x509.Certificate {
	t.Helper()
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func reason(err error) palyra.Reason {
	if err == nil {
		return ""
	}
	return palyra.AsError(err).Reason
}

func TestFirstOpenMakesAnAuthorityAndTheNextFindsIt(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	b := f.open()
	if a.ID() != b.ID() || len(a.ID()) != 16 || f.keep.stores != 1 {
		t.Errorf("ids %q and %q, %d stores", a.ID(), b.ID(), f.keep.stores)
	}
	if diff := cmp.Diff(a.Certificates(), b.Certificates()); diff != "" || len(a.Certificates()) != 1 {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{a.ID() + ".crt"}, f.published()); diff != "" {
		t.Error(diff)
	}
	text, _ := os.ReadFile(filepath.Join(f.certs, a.ID()+".crt"))
	if block, _ := pem.Decode(text); block == nil || !bytes.Equal(block.Bytes, a.Certificates()[0]) {
		t.Errorf("the published copy is %q", text)
	}
	if bytes.Contains(f.keep.held, []byte("PRIVATE")) || len(a.Rotations()) != 0 {
		t.Error("a first authority follows nobody")
	}
}

func TestAuthorityCertificate(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	c := parsed(t, a.Certificates()[0])
	spki := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	if a.ID() != hex.EncodeToString(spki[:])[:16] {
		t.Errorf("id %s is not of the SPKI", a.ID())
	}
	if !c.IsCA || c.MaxPathLen != 0 || !c.MaxPathLenZero || c.KeyUsage != x509.KeyUsageCertSign || c.PublicKeyAlgorithm != x509.Ed25519 {
		t.Errorf("certificate %+v", c)
	}
	if !c.PermittedDNSDomainsCritical || !slices.Equal(c.PermittedDNSDomains, []string{a.ID() + ".palyra.internal"}) ||
		len(c.ExcludedIPRanges) != 2 {
		t.Errorf("constraints: %v %v %v", c.PermittedDNSDomainsCritical, c.PermittedDNSDomains, c.ExcludedIPRanges)
	}
	if got := c.NotBefore; !got.Before(f.now) || f.now.Sub(got) > time.Hour {
		t.Errorf("not before %v at %v", got, f.now)
	}
	key := a.Key()
	pub, _ := base64.StdEncoding.DecodeString(key.PublicKey)
	if key.Use != "ca" || key.ID != a.ID() || !bytes.Equal(pub, c.PublicKey.(ed25519.PublicKey)) || !key.RetiredAt.IsZero() ||
		!key.CreatedAt.Equal(f.now.Truncate(time.Second)) {
		t.Errorf("key %+v", key)
	}
}

func TestIssueDevice(t *testing.T) {
	f := newFixture(t)
	f.days = 0 // the default
	a := f.open()
	d := newDevice(t).renew(t, a)
	c := parsed(t, d.leaf.DER)
	if !slices.Equal(c.DNSNames, []string{d.id + "." + a.ID() + ".palyra.internal"}) ||
		!slices.Equal(c.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) {
		t.Errorf("names %v, usages %v", c.DNSNames, c.ExtKeyUsage)
	}
	if c.IsCA || c.KeyUsage != x509.KeyUsageDigitalSignature || !d.public().Equal(c.PublicKey) {
		t.Errorf("leaf %+v", c)
	}
	now := f.now.Truncate(time.Second)
	if !c.NotBefore.Equal(now.Add(-backdate)) || !c.NotAfter.Equal(now.Add(30*day)) || !d.leaf.NotAfter.Equal(c.NotAfter) {
		t.Errorf("holds from %v to %v (%v)", c.NotBefore, c.NotAfter, d.leaf.NotAfter)
	}
	if d.leaf.Serial != SerialOf(c) || len(d.leaf.Serial) != 32 || d.leaf.Digest != palyra.SumBytes(d.leaf.DER) {
		t.Errorf("leaf %+v", d.leaf)
	}
	if keyID(d.public()) != identity.KeyID(d.public()) {
		t.Error("the key has another id than in signatures")
	}
}

func TestSerialsAreRandomAndLong(t *testing.T) {
	a := newFixture(t).open()
	d, seen, bits := newDevice(t), map[string]bool{}, 0
	for range 64 {
		d.renew(t, a)
		c := parsed(t, d.leaf.DER)
		if seen[d.leaf.Serial] || c.SerialNumber.Sign() <= 0 || c.SerialNumber.BitLen() > 128 {
			t.Fatalf("serial %s", d.leaf.Serial)
		}
		seen[d.leaf.Serial] = true
		bits = max(bits, c.SerialNumber.BitLen())
	}
	if bits < 120 {
		t.Errorf("the longest of 64 serials has %d bits", bits)
	}
}

func TestIssueDeviceRefuses(t *testing.T) {
	a := newFixture(t).open()
	d := newDevice(t)
	for name, c := range map[string]struct {
		pub ed25519.PublicKey
		id  string
	}{
		"no key":       {nil, d.id},
		"short key":    {d.public()[:31], d.id},
		"no id":        {d.public(), ""},
		"a name":       {d.public(), "daemon"},
		"short":        {d.public(), d.id[:35]},
		"long":         {d.public(), d.id + "0"},
		"capitals":     {d.public(), "dev-" + strings.ToUpper(strings.Repeat("ab", 16))},
		"dots":         {d.public(), "dev-0123456789abcdef.123456789abcdef"},
		"wildcard":     {d.public(), "*"},
		"the CA's key": {a.current().key.pub, d.id},
	} {
		if leaf, err := a.IssueDevice(c.pub, c.id); err == nil || leaf.DER != nil {
			t.Errorf("%s: issued", name)
		}
	}
}

func TestOpenRefusesConfiguration(t *testing.T) {
	f := newFixture(t)
	for _, cfg := range []Config{{}, {KeyStore: f.keep, Days: -1}, {KeyStore: f.keep, Days: 366}} {
		if _, err := Open(t.Context(), cfg); reason(err) != palyra.ReasonConfig {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	if f.keep.stores != 0 {
		t.Error("something was kept")
	}
}

// A keeper that cannot answer, or lost what it had, must not lead to a new
// authority: every device would be cut off.
func TestOpenMakesNoSecondAuthorityByMistake(t *testing.T) {
	f := newFixture(t)
	id := f.open().ID()
	held := f.keep.held
	f.keep.blind = errors.New("locked")
	if _, err := Open(t.Context(), f.config()); !errors.Is(err, f.keep.blind) {
		t.Errorf("locked keeper: %v", err)
	}
	f.keep.blind, f.keep.held = nil, nil
	if _, err := Open(t.Context(), f.config()); reason(err) != palyra.ReasonConfig || palyra.AsError(err).Remedy == "" {
		t.Errorf("lost key: %v", err)
	}
	f.keep.held = held
	if got := f.open().ID(); got != id {
		t.Errorf("id %s, was %s", got, id)
	}
	f.keep.held = nil
	if err := os.RemoveAll(f.certs); err != nil {
		t.Fatal(err)
	}
	if got := f.open().ID(); got == id {
		t.Error("the old authority came back from nothing")
	}
}

func TestOpenFailsWhenTheFirstIsNotKept(t *testing.T) {
	f := newFixture(t)
	f.keep.lost = errors.New("full")
	if _, err := Open(t.Context(), f.config()); !errors.Is(err, f.keep.lost) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(f.certs); err == nil {
		t.Error("a certificate was published that nobody has the key of")
	}
	f.keep.lost = nil
	f.open()
}

// What lies in the public directory is a copy that nobody believes.
func TestPublishedCertificatesAreMendedAndNotBelieved(t *testing.T) {
	f, g := newFixture(t), newFixture(t)
	a, other := f.open(), g.open()
	foreign, _ := os.ReadFile(filepath.Join(g.certs, other.ID()+".crt"))
	for _, n := range []string{a.ID() + ".crt", other.ID() + ".crt"} {
		if err := os.WriteFile(filepath.Join(f.certs, n), foreign, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(f.certs, "operator.crt"), foreign, 0o644); err != nil {
		t.Fatal(err)
	}
	b := f.open()
	if diff := cmp.Diff([]string{a.ID() + ".crt", "operator.crt"}, f.published()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(a.Certificates(), b.Certificates()); diff != "" {
		t.Error(diff)
	}
	text, _ := os.ReadFile(filepath.Join(f.certs, a.ID()+".crt"))
	if block, _ := pem.Decode(text); block == nil || !bytes.Equal(block.Bytes, a.Certificates()[0]) {
		t.Error("the copy was not mended")
	}
}

func TestAnExpiredAuthorityIssuesNothing(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	end := a.current().cert.NotAfter
	f.pass(end.Sub(f.now) - 10*day)
	d := newDevice(t).renew(t, a)
	if d.leaf.NotAfter.After(end) {
		t.Errorf("a leaf holds to %v, its authority to %v", d.leaf.NotAfter, end)
	}
	f.pass(10*day + time.Second)
	if _, err := a.IssueDevice(d.public(), d.id); palyra.CodeOf(err) != palyra.Expired {
		t.Errorf("error %v", err)
	}
	if _, err := a.ServerLeaf(""); palyra.CodeOf(err) != palyra.Expired {
		t.Errorf("server leaf: %v", err)
	}
	if _, _, _, err := a.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.renew(t, f.open())
	if len(d.authorities) != 1 {
		t.Error("an expired authority is still served")
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	if _, _, _, err := a.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.ServerLeaf(""); err != nil {
		t.Fatal(err)
	}
	seeds := [][]byte{a.current().key.copy(), a.leaf.cert.PrivateKey.(*signer).copy(), a.st.issuers[1].last.PrivateKey.(*signer).copy()}
	for _, v := range []any{a, a.current(), *a.current(), a.current().key, *a.current().key, a.st, a.leaf, *a.leaf.cert} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%x", "%s"} {
			text := fmt.Sprintf(verb, v)
			for _, seed := range seeds {
				if strings.Contains(text, hex.EncodeToString(seed)) || strings.Contains(text, string(seed)) ||
					strings.Contains(text, strings.Trim(fmt.Sprint(seed), "[]")) {
					t.Fatalf("%s of %T shows a private key", verb, v)
				}
			}
		}
	}
}

func TestSignerSignsMessagesOnlyAndNotWhenItIsGone(t *testing.T) {
	s, err := newSigner()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sign(nil, []byte("m"), crypto.SHA256); err == nil {
		t.Error("signed a digest")
	}
	sig, err := s.Sign(nil, []byte("m"), nil)
	if err != nil || !ed25519.Verify(s.pub, []byte("m"), sig) {
		t.Errorf("signature: %v", err)
	}
	s.seed.Destroy()
	if _, err := s.Sign(nil, []byte("m"), nil); err == nil {
		t.Error("signed without a key")
	}
}
