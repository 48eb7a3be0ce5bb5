package pairing

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"palyra"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// authority is a small device authority, as internal/ca makes them.
type authority struct {
	t    testing.TB
	key  ed25519.PrivateKey
	cert *x509.Certificate
}

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, pub any, key ed25519.PrivateKey) *x509.Certificate {
	t.Helper()
	if template.SerialNumber == nil {
		template.SerialNumber = big.NewInt(time.Now().UnixNano())
	}
	if template.NotBefore.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t)}
	spki, err := x509.MarshalPKIXPublicKey(a.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	pin := pinOf(&x509.Certificate{RawSubjectPublicKeyInfo: spki})
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage:                    x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: []string{strings.TrimPrefix(nameUnder(pin, "x"), "x.")},
	}
	a.cert = sign(t, template, template, a.key.Public(), a.key)
	return a
}

func (a *authority) leaf(label string, usage x509.ExtKeyUsage, pub any) *x509.Certificate {
	a.t.Helper()
	return sign(a.t, &x509.Certificate{
		DNSNames: []string{nameUnder(pinOf(a.cert), label)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}, a.cert, pub, a.key)
}

func (a *authority) server() tls.Certificate {
	a.t.Helper()
	key := newKey(a.t)
	leaf := a.leaf(serverLabel, x509.ExtKeyUsageServerAuth, key.Public())
	return tls.Certificate{Certificate: [][]byte{leaf.Raw, a.cert.Raw}, PrivateKey: key}
}

// issue is what the gate and the registry do after a yes.
func (a *authority) issue(c Candidate) (Issued, error) {
	pub, err := base64.StdEncoding.DecodeString(c.PublicKey)
	if err != nil {
		return Issued{}, err
	}
	d := palyra.Device{
		ID: "dev-" + strings.TrimPrefix(c.KeyID, "op-"), Name: c.Name, Principal: c.Principal, Role: c.Role,
		KeyID: c.KeyID, PublicKey: c.PublicKey, Address: c.Address, PairedBy: c.By,
	}
	leaf := a.leaf(d.ID, x509.ExtKeyUsageClientAuth, ed25519.PublicKey(pub))
	d.Certificate = palyra.SumBytes(leaf.Raw)
	return Issued{Device: d, Certificate: leaf.Raw, Authorities: [][]byte{a.cert.Raw}}, nil
}

// clock is a clock that a test moves.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// allow is a Limiter that counts, and says no when told to.
type allow struct {
	mu        sync.Mutex
	no        time.Duration
	good, bad int
	missed    chan struct{} // one for each bad
}

func (l *allow) Try(string) (func(bool), time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.no > 0 {
		return nil, l.no, false
	}
	return func(ok bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if ok {
			l.good++
		} else {
			l.bad++
			l.missed <- struct{}{}
		}
	}, 0, true
}

func (l *allow) counts() (good, bad int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.good, l.bad
}

// host is a daemon: an Office behind a TLS listener on the loopback.
type host struct {
	*Office
	t       testing.TB
	ca      *authority
	cert    tls.Certificate
	clock   clock
	limit   allow
	address string
	wrap    func(net.Conn) net.Conn // of what is accepted; may be nil
	logs    lockedBuffer

	mu     sync.Mutex
	ask    func(ctx context.Context, c Candidate, asked func(palyra.ApprovalID)) (Issued, error)
	events []palyra.Event
	asked  []Candidate
	record error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newHost starts one; changes are made before anyone can come.
func newHost(t testing.TB, changes ...func(*host)) *host {
	t.Helper()
	h := &host{t: t, ca: newAuthority(t)}
	h.limit.missed = make(chan struct{}, 1000)
	h.cert = h.ca.server()
	h.ask = func(_ context.Context, c Candidate, asked func(palyra.ApprovalID)) (Issued, error) {
		asked("A1")
		return h.ca.issue(c)
	}
	var ids atomic.Int64
	o, err := New(Config{
		StateID: "state-1", Authorities: func() [][]byte { return [][]byte{h.ca.cert.Raw} },
		Leaf:      func(string) ([]byte, error) { return h.cert.Certificate[0], nil },
		Ask:       h.doAsk,
		Record:    h.doRecord,
		Addresses: func() []string { return []string{h.address} },
		Limit:     &h.limit, NewID: func() palyra.ID { return palyra.ID(fmt.Sprintf("P%d", ids.Add(1))) }, Now: h.clock.now,
		Log: slog.New(slog.NewTextHandler(&h.logs, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	o.patience = 5 * time.Second
	h.Office = o
	for _, change := range changes {
		change(h)
	}
	h.listen()
	return h
}

func (h *host) doAsk(ctx context.Context, c Candidate, asked func(palyra.ApprovalID)) (Issued, error) {
	h.mu.Lock()
	h.asked = append(h.asked, c)
	ask := h.ask
	h.mu.Unlock()
	return ask(ctx, c, asked)
}

func (h *host) doRecord(_ context.Context, es ...palyra.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, es...)
	return h.record
}

// failures returns the reasons of the failures that were recorded.
func (h *host) failures() []palyra.Reason {
	h.mu.Lock()
	defer h.mu.Unlock()
	var rs []palyra.Reason
	for _, e := range h.events {
		if f, ok := e.(palyra.PairingFailed); ok {
			rs = append(rs, f.Reason)
		}
	}
	return rs
}

func (h *host) questions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.asked)
}

func serverTLS(cert tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, NextProtos: []string{Protocol},
		ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
	}
}

// accept runs serve for everyone who comes, until the test ends.
func accept(t testing.TB, serve func(context.Context, net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer func() { _ = c.Close() }()
				serve(ctx, c)
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

func (h *host) listen() {
	h.t.Helper()
	h.address = accept(h.t, func(ctx context.Context, c net.Conn) {
		if h.wrap != nil {
			c = h.wrap(c)
		}
		h.Serve(ctx, tls.Server(c, serverTLS(h.cert)))
	})
}

// shown is an offer as the person who made it watches it.
type shown struct {
	t      testing.TB
	PIN    string
	Code   string
	end    context.CancelFunc
	mu     sync.Mutex
	views  []palyra.Pairing
	update chan struct{}
	err    chan error
}

var alice = palyra.PairingOffer{Principal: "user:alice", Role: palyra.RoleApprover, By: "user:alice"}

// show makes an offer and returns when its code is there.
func (h *host) show() *shown {
	h.t.Helper()
	return h.showFor(alice)
}

func (h *host) showFor(what palyra.PairingOffer) *shown {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &shown{t: h.t, end: cancel, update: make(chan struct{}, 1000), err: make(chan error, 1)}
	go func() {
		s.err <- h.Offer(ctx, what, func(p palyra.Pairing) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.views = append(s.views, p)
			s.update <- struct{}{}
			return nil
		})
		close(s.err)
	}()
	h.t.Cleanup(func() {
		cancel()
		for range s.err { // until the offer is over
		}
	})
	select {
	case <-s.update:
	case err := <-s.err:
		h.t.Fatalf("Offer: %v", err)
	}
	first := s.all()[0]
	s.PIN, s.Code = first.PIN, first.Code
	return s
}

func (s *shown) all() []palyra.Pairing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]palyra.Pairing(nil), s.views...)
}

// wait returns the last view once the offer is over, which must be in time.
func (s *shown) wait() palyra.Pairing {
	s.t.Helper()
	select {
	case <-s.err:
	case <-time.After(20 * time.Second):
		s.t.Fatal("the offer does not end")
	}
	v := s.all()
	return v[len(v)-1]
}

// until waits for a state.
func (s *shown) until(want palyra.PairingState) palyra.Pairing {
	s.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		for _, v := range s.all() {
			if v.State == want {
				return v
			}
		}
		select {
		case <-s.update:
		case <-deadline:
			s.t.Fatalf("never %s: %+v", want, s.all())
		}
	}
}

// device is another machine.
type device struct {
	JoinConfig
	kept []Joined
}

func (h *host) device(name string) *device {
	h.t.Helper()
	d := &device{}
	d.JoinConfig = JoinConfig{
		Address: h.address, Name: name, Key: newKey(h.t), Now: h.clock.now, Dial: (&net.Dialer{}).DialContext,
		Keep: func(j Joined) error { d.kept = append(d.kept, j); return nil },
	}
	return d
}

func (d *device) pin(pin string) (Joined, error) {
	d.PIN = func() (palyra.Secret, error) { return palyra.NewSecret([]byte(pin)), nil }
	return Join(context.Background(), d.JoinConfig)
}

func (d *device) scan(code string) (Joined, error) {
	d.Address, d.Code = "", code
	d.PIN = func() (palyra.Secret, error) { return palyra.Secret{}, errors.New("asked for a PIN") }
	return Join(context.Background(), d.JoinConfig)
}

// wrong returns another PIN.
func wrong(pin string) string {
	return pin[:7] + string('0'+(pin[7]-'0'+1)%10)
}

// ready returns a device's side with a connection but nothing said.
func (d *device) ready(pin string) *join {
	d.PIN = func() (palyra.Secret, error) { return palyra.NewSecret([]byte(pin)), nil }
	return d.arrive()
}

func (d *device) arrive() *join {
	j := &join{JoinConfig: d.JoinConfig}
	if err := j.prepare(); err != nil {
		panic(err)
	}
	if err := j.connect(context.Background()); err != nil {
		panic(err)
	}
	return j
}
