package ca

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"palyra"
)

const (
	pairing  = "palyra-pair/1"
	patience = 20 * time.Second // on a connection; far more than it takes
)

// door is a TLS listener on loopback that greets whoever comes in.
type door struct {
	t    *testing.T
	addr string
	came chan arrival
}

type arrival struct {
	state tls.ConnectionState
	err   error
}

func listen(t *testing.T, conf *tls.Config) *door {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{t: t, addr: ln.Addr().String(), came: make(chan arrival, 1)}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { d.greet(tls.Server(conn, conf)) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); all.Wait() })
	return d
}

func (d *door) greet(conn *tls.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	err := conn.HandshakeContext(d.t.Context())
	if err == nil {
		_, err = io.WriteString(conn, "ok")
	}
	d.came <- arrival{conn.ConnectionState(), err}
	_, _ = io.Copy(io.Discard, conn) // until the client has read and gone
}

// visit connects once and returns what each side says about it.
func (d *door) visit(conf *tls.Config) (server arrival, client error) {
	d.t.Helper()
	raw, err := net.Dial("tcp", d.addr)
	if err != nil {
		d.t.Fatal(err)
	}
	conn := tls.Client(raw, conf)
	_ = conn.SetDeadline(time.Now().Add(patience))
	buf := make([]byte, 2)
	if client = conn.HandshakeContext(d.t.Context()); client == nil {
		_, client = io.ReadFull(conn, buf) // with TLS 1.3 a refusal comes with the first read
	}
	server = <-d.came
	_ = conn.Close()
	return server, client
}

// welcome checks that conf is let in.
func (d *door) welcome(conf *tls.Config) tls.ConnectionState {
	d.t.Helper()
	server, client := d.visit(conf)
	if client != nil || server.err != nil {
		d.t.Fatalf("client: %v; server: %v", client, server.err)
	}
	return server.state
}

// refuses checks that conf is not let in, and that the server says why.
func (d *door) refuses(conf *tls.Config, want palyra.Reason) {
	d.t.Helper()
	server, client := d.visit(conf)
	if client == nil || server.err == nil || reason(server.err) != want {
		d.t.Errorf("client: %v; server: %v, want %s", client, server.err, want)
	}
}

func (d *device) config(t *testing.T, now func() time.Time) *tls.Config {
	t.Helper()
	conf, name, err := Client(ClientConfig{Certificate: d.leaf.DER, Key: d.key, Authorities: d.authorities, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if conf.ServerName != name {
		t.Errorf("name %q, configured %q", name, conf.ServerName)
	}
	return conf
}

// show is a client that shows any certificates, whatever the server asks for.
func show(a *Authority, key crypto.PrivateKey, ders ...[]byte) *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{Protocol}, ServerName: a.current().serverName(),
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: ders, PrivateKey: key}, nil
		},
	}
}

func anyDevice(context.Context, string, *x509.Certificate) error { return nil }

func TestADeviceComesIn(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	d := newDevice(t).renew(t, a)
	asked := make(chan string, 1)
	door := listen(t, a.Server(ServerConfig{PairProtocol: pairing, Device: func(ctx context.Context, key string,
		leaf *x509.Certificate,
	) error {
		asked <- key + " " + SerialOf(leaf)
		return ctx.Err()
	}}))
	state := door.welcome(d.config(t, f.clock))
	if got, want := <-asked, keyID(d.public())+" "+d.leaf.Serial; got != want {
		t.Errorf("asked for %q, want %q", got, want)
	}
	if state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != "h2" || state.DidResume {
		t.Errorf("state %+v", state)
	}
	if key, err := KeyOf(state); err != nil || !key.Equal(d.public()) {
		t.Errorf("key %x, %v", key, err)
	}
	p, err := PeerOf(state)
	if err != nil || p.Device != d.id || p.KeyID != keyID(d.public()) || p.Serial != d.leaf.Serial || !p.NotAfter.Equal(d.leaf.NotAfter) ||
		!p.Key.Equal(d.public()) {
		t.Errorf("peer %+v, %v", p, err)
	}
	state.HandshakeComplete = false // as the state is before the key is proved
	if _, err := KeyOf(state); reason(err) != palyra.ReasonBadCertificate {
		t.Errorf("unproved key: %v", err)
	}
	if _, err := PeerOf(tls.ConnectionState{HandshakeComplete: true}); reason(err) != palyra.ReasonBadCertificate {
		t.Errorf("nobody: %v", err)
	}
}

func TestClocksMayDifferALittle(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	d := newDevice(t).renew(t, a)
	door := listen(t, a.Server(ServerConfig{Device: anyDevice}))
	for _, skew := range []time.Duration{-9 * time.Minute, 9 * time.Minute} {
		door.welcome(d.config(t, func() time.Time { return f.clock().Add(skew) }))
	}
	if _, _, err := Client(ClientConfig{Certificate: d.leaf.DER, Key: d.key, Authorities: d.authorities, Now: func() time.Time {
		return f.clock().Add(-time.Hour)
	}}); reason(err) != palyra.ReasonBadCertificate {
		t.Errorf("an hour behind: %v", err)
	}
}

func TestARevokedDeviceIsRefusedAtOnce(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	d := newDevice(t).renew(t, a)
	var mu sync.Mutex
	var answer error
	say := func(err error) { mu.Lock(); answer = err; mu.Unlock() }
	door := listen(t, a.Server(ServerConfig{Device: func(context.Context, string, *x509.Certificate) error {
		mu.Lock()
		defer mu.Unlock()
		return answer
	}}))
	conf := d.config(t, f.clock)
	conf.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	conf.SessionTicketsDisabled = false // a client that would like to resume
	door.welcome(conf)
	if again := door.welcome(conf); again.DidResume {
		t.Error("a session was resumed past the check")
	}
	say(palyra.Errorf(palyra.Denied, palyra.ReasonDeviceRevoked, "revoked"))
	door.refuses(conf, palyra.ReasonDeviceRevoked)
	say(errors.New("no database"))
	if server, client := door.visit(conf); client == nil || palyra.CodeOf(server.err) != palyra.Unavailable {
		t.Errorf("nobody can tell: %v", server.err)
	}
	say(nil)
	door.welcome(conf)

	nobody := listen(t, a.Server(ServerConfig{}))
	nobody.refuses(d.config(t, f.clock), palyra.ReasonDeviceRevoked)
}

func TestGreetingsOfTheWrongKind(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	d := newDevice(t).renew(t, a)
	door := listen(t, a.Server(ServerConfig{PairProtocol: pairing, Device: anyDevice}))
	for name, spoil := range map[string]func(c *tls.Config){
		"no ALPN":        func(c *tls.Config) { c.NextProtos = nil },
		"another ALPN":   func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} },
		"both protocols": func(c *tls.Config) { c.NextProtos = []string{Protocol, pairing} },
		"TLS 1.2":        func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 },
		"no name":        func(c *tls.Config) { c.ServerName = "" },
		"an address":     func(c *tls.Config) { c.ServerName = "127.0.0.1" },
		"another daemon": func(c *tls.Config) { c.ServerName = "daemon.0123456789abcdef.palyra.internal" },
		"another host":   func(c *tls.Config) { c.ServerName = "www." + a.current().zone() },
	} {
		t.Run(name, func(t *testing.T) {
			conf := show(a, d.key, d.leaf.DER)
			spoil(conf)
			door.refuses(conf, palyra.ReasonBadCertificate)
		})
	}
	both := show(a, d.key, selfSigned(t, d.key)) // neither certificate makes two protocols one
	both.NextProtos = []string{Protocol, pairing}
	door.refuses(both, palyra.ReasonBadCertificate)
	closed := listen(t, a.Server(ServerConfig{Device: anyDevice}))
	conf := show(a, d.key, d.leaf.DER)
	conf.NextProtos = []string{pairing}
	closed.refuses(conf, palyra.ReasonBadCertificate)
	// More than ours is fine: the answer is ours.
	conf.NextProtos = []string{"http/1.1", Protocol}
	if s := door.welcome(conf); s.NegotiatedProtocol != Protocol {
		t.Errorf("spoke %q", s.NegotiatedProtocol)
	}
}

func TestANewcomerPairsWithItsOwnCertificate(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	door := listen(t, a.Server(ServerConfig{PairProtocol: pairing})) // no device is known
	d := newDevice(t)
	own := selfSigned(t, d.key)
	for _, name := range []string{"", "whatever", a.current().serverName()} {
		conf := show(a, d.key, own)
		conf.NextProtos, conf.ServerName = []string{pairing}, name
		var shown [][]byte
		conf.VerifyPeerCertificate = func(raw [][]byte, _ [][]*x509.Certificate) error { shown = raw; return nil }
		state := door.welcome(conf)
		if key, err := KeyOf(state); err != nil || !key.Equal(d.public()) || state.NegotiatedProtocol != pairing {
			t.Errorf("key %x, %v", key, err)
		}
		if _, err := PeerOf(state); reason(err) != palyra.ReasonBadCertificate {
			t.Error("a newcomer passes for a device")
		}
		leaf, err := a.ServerLeaf(state.ServerName)
		if err != nil || len(shown) != 2 || !slices.Equal(shown[0], leaf) || !slices.Equal(shown[1], a.Certificates()[0]) {
			t.Errorf("the server showed %d certificates, its leaf is known: %v", len(shown), err)
		}
	}
	paired := newDevice(t).renew(t, a)
	for name, conf := range map[string]*tls.Config{
		"a device's":         show(a, paired.key, paired.leaf.DER),
		"another's self":     show(a, d.key, own, own),
		"weak":               weak(t, a, "rsa-1024", true),
		"P-256":              weak(t, a, "p-256", true),
		"own name, not sign": show(a, d.key, signedBy(t, f.foreign(t), d, nil)),
	} {
		t.Run(name, func(t *testing.T) {
			conf.NextProtos = []string{pairing}
			door.refuses(conf, palyra.ReasonBadCertificate)
		})
	}
	conf := show(a, d.key, own) // what pairs does not speak the devices' protocol
	door.refuses(conf, palyra.ReasonBadCertificate)
}

// After a rotation a device goes on with what it has, renews, and is then with
// the new authority; a daemon that starts anew still knows both.
func TestDevicesLiveThroughARotation(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	d := newDevice(t).renew(t, a)
	serving := ServerConfig{PairProtocol: pairing, Device: anyDevice}
	before := listen(t, a.Server(serving))
	before.welcome(d.config(t, f.clock))
	f.pass(day)
	old, next, _ := f.rotate(a)
	for name, x := range map[string]*Authority{"same process": a, "restarted": f.open()} {
		t.Run(name, func(t *testing.T) {
			now := listen(t, x.Server(serving))
			if s := now.welcome(d.config(t, f.clock)); s.ServerName != "daemon."+old.ID+".palyra.internal" {
				t.Errorf("asked for %s", s.ServerName)
			}
			renewed := &device{key: d.key, id: d.id}
			renewed.renew(t, x)
			if s := now.welcome(renewed.config(t, f.clock)); s.ServerName != "daemon."+next.ID+".palyra.internal" || len(renewed.authorities) != 2 {
				t.Errorf("asked for %s", s.ServerName)
			}
		})
	}
	before.welcome(d.config(t, f.clock)) // the listener that was there serves both
	f.pass(29*day - time.Minute)
	before.welcome(d.config(t, f.clock)) // to the end
	conf := d.config(t, f.clock)
	f.pass(2 * time.Minute)
	before.refuses(show(a, d.key, d.leaf.DER), palyra.ReasonBadCertificate)
	if server, client := before.visit(conf); client == nil || server.err == nil {
		t.Error("an expired certificate came in")
	}
	f.pass(2*grace + day)
	conf.Time = func() time.Time { return f.clock().Add(-2 * day) }
	before.refuses(conf, palyra.ReasonBadCertificate) // the authority itself is gone
}

func TestServerLeavesAreRenewedInTime(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	leaf := func() *x509.Certificate {
		t.Helper()
		der, err := a.ServerLeaf("")
		if err != nil {
			t.Fatal(err)
		}
		return parsed(t, der)
	}
	first := leaf()
	f.pass(serverLife/2 + time.Hour)
	if SerialOf(leaf()) != SerialOf(first) {
		t.Error("renewed too early")
	}
	f.pass(serverLife / 6)
	second := leaf()
	if SerialOf(second) == SerialOf(first) || !second.NotAfter.After(first.NotAfter) || !f.now.Before(first.NotAfter) {
		t.Error("not renewed in time")
	}
	f.pass(-day) // a clock that is set back
	third := leaf()
	if !third.NotBefore.Before(f.now) {
		t.Error("a leaf of the future is served")
	}
	if err := checkLeaf(third, x509.ExtKeyUsageServerAuth); err != nil || !slices.Equal(third.DNSNames, []string{a.current().serverName()}) {
		t.Errorf("leaf %v, %v", third.DNSNames, err)
	}
	id := a.ID()
	f.rotate(a)
	if fourth := leaf(); fourth.DNSNames[0] == third.DNSNames[0] {
		t.Error("the old authority still answers those who ask for nobody")
	}
	if cert, err := a.fresh(id); cert != nil || err != nil {
		t.Errorf("a leaf of a retired authority: %v", err)
	}
}

// Connections, certificates and rotations at the same time.
func TestConcurrentUse(t *testing.T) {
	f := newFixture(t)
	a := f.open()
	d := newDevice(t).renew(t, a)
	conf := a.Server(ServerConfig{Device: anyDevice})
	door := listen(t, conf)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			own := newDevice(t)
			for range 8 {
				leaf, err := a.IssueDevice(own.public(), own.id)
				if err != nil || a.verify(parsed(t, leaf.DER)) != nil {
					t.Errorf("issue: %v", err)
				}
				f.pass(3 * time.Hour)
				_, _ = a.ServerLeaf("")
				_, _, _ = a.Certificates(), a.Key(), a.Rotations()
			}
		})
	}
	all.Go(func() {
		for range 5 {
			if _, _, _, err := a.Rotate(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	for range 10 {
		door.welcome(d.config(t, f.clock))
	}
	all.Wait()
	if len(a.Certificates()) != 6 || f.open().ID() != a.ID() {
		t.Errorf("%d authorities", len(a.Certificates()))
	}
}
