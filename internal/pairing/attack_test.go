package pairing

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/internal/pairing/cpace"
)

// middle is a machine between a device and a daemon. It ends both TLS connections
// and passes messages on, changed or not.
type middle struct {
	mu   sync.Mutex
	seen []message // from the device
}

// start returns the address of a middle in front of h that shows cert.
func (m *middle) start(t testing.TB, h *host, cert tls.Certificate, change func(*message)) string {
	return accept(t, func(_ context.Context, c net.Conn) {
		front := tls.Server(c, serverTLS(cert))
		defer func() { _ = front.Close() }()
		own, err := ownCertificate(newKey(t), time.Now())
		if err != nil {
			return
		}
		back, err := tls.Dial("tcp", h.address, &tls.Config{
			MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{Protocol}, Certificates: []tls.Certificate{own},
		})
		if err != nil {
			return
		}
		defer func() { _ = back.Close() }()
		var both sync.WaitGroup
		both.Go(func() {
			for {
				x, err := readFrame(front)
				if err != nil {
					_ = back.Close()
					return
				}
				m.mu.Lock()
				m.seen = append(m.seen, x)
				m.mu.Unlock()
				change(&x)
				_ = writeFrame(back, x)
			}
		})
		both.Go(func() {
			for {
				x, err := readFrame(back)
				if err != nil {
					_ = front.Close()
					return
				}
				change(&x)
				_ = writeFrame(front, x)
			}
		})
		both.Wait()
	})
}

func (m *middle) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.seen)
}

func nothing(*message) {}

// A machine in the middle of a PIN pairing gets nothing through, although it
// passes every message on: both ends compute with the certificates they see.
func TestMiddleOfPIN(t *testing.T) {
	for name, change := range map[string]func(*message){
		"relay": nothing,
		"swap the name": func(m *message) {
			if m.Type == typeHello {
				m.Name = "attacker"
			}
		},
		"swap the authority": func(m *message) { m.Authorities = nil },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			s, d := h.show(), h.device("laptop")
			d.Address = (&middle{}).start(t, h, newAuthority(t).server(), change)
			if _, err := d.pin(s.PIN); reason(err) != palyra.ReasonPairingWrongCode {
				t.Errorf("the device is told %v", err)
			}
			if fs := h.failures(); len(fs) != 1 || fs[0] != palyra.ReasonPairingWrongCode || h.questions() != 0 || len(d.kept) != 0 {
				t.Errorf("recorded %v, %d questions, kept %v", fs, h.questions(), d.kept)
			}
			s.end()
			if last := s.wait(); last.Tries != 1 {
				t.Errorf("%d tries", last.Tries)
			}
		})
	}
}

// The same with the daemon's own certificate shown cannot be: the middle has not
// its key. Even if a server leaf of the very authority is stolen, both ends see
// different connections.
func TestMiddleWithAnotherLeafOfTheAuthority(t *testing.T) {
	h := newHost(t)
	s, d := h.show(), h.device("laptop")
	d.Address = (&middle{}).start(t, h, h.ca.server(), nothing)
	if _, err := d.pin(s.PIN); reason(err) != palyra.ReasonPairingWrongCode || h.questions() != 0 {
		t.Errorf("PIN: %v", err)
	}
	h2 := newHost(t)
	s2 := h2.show()
	c, err := ParseCode(s2.Code)
	must(t, err)
	m := &middle{}
	c.Addresses = []string{m.start(t, h2, h2.ca.server(), nothing)}
	if _, err := h2.device("laptop").scan(c.String()); reason(err) != palyra.ReasonPairingWrongCode || h2.questions() != 0 {
		t.Errorf("QR: %v", err)
	}
}

// With a scanned code a device says nothing at all to anyone but the daemon.
func TestMiddleOfQR(t *testing.T) {
	h := newHost(t)
	s := h.show()
	other := newAuthority(t)
	borrowed := other.server()
	borrowed.Certificate = [][]byte{borrowed.Certificate[0], h.ca.cert.Raw} // the right authority, which did not issue it
	expired := h.ca
	old := sign(t, &x509.Certificate{
		DNSNames: []string{nameUnder(pinOf(expired.cert), serverLabel)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
	}, h.ca.cert, h.ca.key.Public(), h.ca.key)
	clientKey := newKey(t)
	client := h.ca.leaf("dev-1", x509.ExtKeyUsageClientAuth, clientKey.Public())
	for name, cert := range map[string]tls.Certificate{
		"another authority": other.server(),
		"borrowed":          borrowed,
		"no authority":      {Certificate: borrowed.Certificate[:1], PrivateKey: borrowed.PrivateKey},
		"expired":           {Certificate: [][]byte{old.Raw, h.ca.cert.Raw}, PrivateKey: h.ca.key},
		"a device's":        {Certificate: [][]byte{client.Raw, h.ca.cert.Raw}, PrivateKey: clientKey},
		"the authority":     {Certificate: [][]byte{h.ca.cert.Raw, h.ca.cert.Raw}, PrivateKey: h.ca.key},
	} {
		m := &middle{}
		c, err := ParseCode(s.Code)
		must(t, err)
		c.Addresses = []string{m.start(t, h, cert, nothing)}
		d := h.device("laptop")
		if _, err := d.scan(c.String()); reason(err) != palyra.ReasonPairingImpostor || m.count() != 0 || len(d.kept) != 0 {
			t.Errorf("%s: %v, %d messages", name, err, m.count())
		}
	}
	if _, err := h.device("laptop").scan(s.Code); err != nil {
		t.Errorf("the daemon itself: %v", err)
	}
	s.wait()
}

// impostor speaks as a daemon that does not know the code.
func impostor(t testing.TB, a *authority, welcome func(binding, message) []message) string {
	cert := a.server()
	return accept(t, func(ctx context.Context, c net.Conn) {
		conn := tls.Server(c, serverTLS(cert))
		defer func() { _ = conn.Close() }()
		if conn.HandshakeContext(ctx) != nil {
			return
		}
		state := conn.ConnectionState()
		b, err := bind(state, cert.Certificate[0], state.PeerCertificates[0].Raw)
		if err != nil {
			return
		}
		w := wire{conn: conn, patience: 5 * time.Second}
		hello, err := w.receive(w.patience, typeHello)
		if err != nil {
			return
		}
		for _, m := range welcome(b, hello) {
			if w.send(m) != nil {
				return
			}
			if _, err := w.receive(w.patience, typeConfirm); err != nil {
				return
			}
		}
	})
}

func TestImpostorOfPIN(t *testing.T) {
	a := newAuthority(t)
	guess := palyra.NewSecret([]byte("00000000"))
	for name, c := range map[string]struct {
		answer func(binding, message) []message
		want   palyra.Reason
	}{
		"guesses another PIN": {func(b binding, hello message) []message {
			x, _ := b.exchange(guess)
			share := x.Message()
			s, _ := b.pinSession(x, hello.Share, cpace.Responder, hello.Name)
			return []message{{Type: typeShare, Share: share}, s.welcome("s", [][]byte{a.cert.Raw})}
		}, palyra.ReasonPairingImpostor},
		"sends the identity": {func(binding, message) []message {
			return []message{{Type: typeShare, Share: make([]byte, 32)}}
		}, palyra.ReasonPairingImpostor},
		"reflects the share": {func(_ binding, hello message) []message {
			return []message{{Type: typeShare, Share: hello.Share}}
		}, palyra.ReasonPairingImpostor},
		"sends no tag": {func(b binding, hello message) []message {
			x, _ := b.exchange(guess)
			return []message{{Type: typeShare, Share: x.Message()}, {Type: typeWelcome, StateID: "s", Authorities: [][]byte{a.cert.Raw}}}
		}, palyra.ReasonPairingImpostor},
		"says it is fine": {func(binding, message) []message {
			return []message{{Type: typeIssued}}
		}, palyra.ReasonPairingBroken},
		"hangs up": {func(binding, message) []message { return nil }, palyra.ReasonPairingBroken},
	} {
		h := newHost(t)
		d := h.device("laptop")
		d.Address = impostor(t, a, c.answer)
		if _, err := d.pin("12345678"); reason(err) != c.want || len(d.kept) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What one connection said is worth nothing on another, even with the same keys,
// the same code and both messages in order.
func TestReplay(t *testing.T) {
	h := newHost(t)
	s, d := h.show(), h.device("laptop")

	first := d.ready(s.PIN)
	x, err := first.binding.exchange(first.pin)
	must(t, err)
	hello := message{Type: typeHello, Method: methodPIN, Name: "laptop", Share: x.Message()}
	must(t, first.w.send(hello))
	m, err := first.w.receive(time.Minute, typeShare)
	must(t, err)
	k, err := first.binding.pinSession(x, m.Share, cpace.Initiator, "laptop")
	must(t, err)
	confirm := message{Type: typeConfirm, Tag: k.confirm()}
	_ = first.conn.Close() // before the daemon sees the confirmation

	second := d.ready(s.PIN)
	second.own = first.own
	defer func() { _ = second.conn.Close() }()
	must(t, second.w.send(hello))
	if _, err := second.w.receive(time.Minute, typeShare); err != nil {
		t.Fatal(err)
	}
	must(t, second.w.send(confirm))
	if _, err := second.w.receive(time.Minute, typeWelcome); reason(err) != palyra.ReasonPairingWrongCode {
		t.Errorf("PIN: %v", err)
	}

	d = h.device("laptop")
	d.Address, d.PIN, d.Code = "", nil, s.Code
	third := d.arrive()
	proof, err := third.binding.qrProof(third.code.Token)
	must(t, err)
	_ = third.conn.Close()
	fourth := d.arrive()
	defer func() { _ = fourth.conn.Close() }()
	must(t, fourth.w.send(message{Type: typeHello, Method: methodQR, Name: "laptop", Tag: proof}))
	if _, err := fourth.w.receive(time.Minute, typeWelcome); reason(err) != palyra.ReasonPairingWrongCode {
		t.Errorf("QR: %v", err)
	}
	if h.questions() != 0 {
		t.Error("a replay was asked about")
	}
}

// The binding covers both certificates and the connection, each on its own.
func TestProofsCoverTheBinding(t *testing.T) {
	b := binding{exporter: bytes.Repeat([]byte{1}, 32), server: [32]byte{2}, device: [32]byte{3}}
	token := palyra.NewSecret(bytes.Repeat([]byte{4}, tokenSize))
	want, err := b.qrProof(token)
	must(t, err)
	key, err := b.qrSession(token)
	must(t, err)
	for name, other := range map[string]binding{
		"exporter": {bytes.Repeat([]byte{9}, 32), b.server, b.device},
		"server":   {b.exporter, [32]byte{9}, b.device},
		"device":   {b.exporter, b.server, [32]byte{9}},
		"swapped":  {b.exporter, b.device, b.server},
	} {
		got, err := other.qrProof(token)
		must(t, err)
		s, err := other.qrSession(token)
		must(t, err)
		if bytes.Equal(got, want) || bytes.Equal(s.key, key.key) || bytes.Equal(other.ci(), b.ci()) && name != "exporter" {
			t.Errorf("%s is not covered", name)
		}
	}
	gone := palyra.NewSecret(nil)
	if _, err := b.qrProof(gone); err == nil {
		t.Error("a proof without a token")
	}
	if _, err := b.qrSession(gone); err == nil {
		t.Error("a session without a token")
	}
	if (sharedKey{}).check((sharedKey{}).tag(labelDevice), labelDevice) {
		t.Error("a session without a key agrees")
	}
}

// Everything that an eavesdropper could see if TLS were not there, and what an
// active attacker gets for one try, tests at most the one PIN that was guessed.
func TestNoOfflineGuess(t *testing.T) {
	b := binding{exporter: make([]byte, 32)}
	const right = 9
	pin := func(n int) palyra.Secret { return palyra.NewSecret(fmt.Appendf(nil, "%08d", n)) }
	device, err := b.exchange(pin(right))
	must(t, err)
	daemon, err := b.exchange(pin(right))
	must(t, err)
	ya, yb := device.Message(), daemon.Message()
	s, err := b.pinSession(device, yb, cpace.Initiator, "d")
	must(t, err)
	tag := s.confirm()
	for n := range 16 {
		for _, seen := range [][]byte{ya, yb} { // passive: not even the right PIN fits
			x, err := b.exchange(pin(n))
			must(t, err)
			for _, role := range []cpace.Side{cpace.Initiator, cpace.Responder} {
				if k, err := b.pinSession(x, seen, role, "d"); err == nil && k.check(tag, labelDevice) {
					t.Errorf("a transcript confirms PIN %d", n)
				}
				if x, err = b.exchange(pin(n)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, guess := range []int{right - 1, right} { // active, as a false daemon: one share commits to one guess
		d, err := b.exchange(pin(right))
		must(t, err)
		x, err := b.exchange(pin(guess))
		must(t, err)
		share := d.Message()
		k, err := b.pinSession(d, x.Message(), cpace.Initiator, "d")
		must(t, err)
		mine, err := b.pinSession(x, share, cpace.Responder, "d")
		must(t, err)
		if mine.check(k.confirm(), labelDevice) != (guess == right) {
			t.Errorf("guess %d", guess)
		}
		if _, err := b.pinSession(x, share, cpace.Responder, "d"); err == nil {
			t.Error("a second guess with the same share")
		}
	}
}

// Who does not keep to the protocol costs nothing but their own connection: no
// try is counted for it, and the right device still gets in.
func TestStrangers(t *testing.T) {
	h := newHost(t)
	s := h.show()
	for name, m := range map[string]message{
		"no name":      {Type: typeHello, Method: methodPIN, Share: make([]byte, 32)},
		"a bad name":   {Type: typeHello, Method: methodPIN, Name: "a\x1b[2J", Share: make([]byte, 32)},
		"no method":    {Type: typeHello, Name: "x", Share: make([]byte, 32)},
		"a confirm":    {Type: typeConfirm, Tag: make([]byte, 32)},
		"an ack":       {Type: typeAck},
		"an error":     {Type: typeError, Reason: palyra.ReasonPairingLocked},
		"a long thing": {Type: typeHello, Name: "x", Method: methodPIN, Certificate: make([]byte, 8000)},
	} {
		j := h.device("x").ready("12345678")
		must(t, j.w.send(m))
		// What is not needed is not looked at; of a long thing the share is, and it
		// is no point: that is a try.
		if _, err := j.w.receive(time.Minute, typeShare); err == nil {
			t.Errorf("%s is answered", name)
		}
		_ = j.conn.Close()
	}
	if _, err := h.device("laptop").pin(s.PIN); err != nil {
		t.Error(err)
	}
	if last := s.wait(); last.Tries != 2 {
		t.Errorf("%d tries", last.Tries)
	}
}

// A point that is none is a try, and gives nothing.
func TestBadPoints(t *testing.T) {
	h := newHost(t)
	s := h.show()
	for n, bad := range [][]byte{nil, make([]byte, 32), bytes.Repeat([]byte{0xff}, 32), make([]byte, 5000)} {
		j := h.device("x").ready("12345678")
		must(t, j.w.send(message{Type: typeHello, Method: methodPIN, Name: "x", Share: bad}))
		if _, err := j.w.receive(time.Minute, typeShare); reason(err) != palyra.ReasonPairingBroken {
			t.Errorf("%d: %v", n, err)
		}
		_ = j.conn.Close()
	}
	s.end()
	if last := s.wait(); last.Tries != 4 || h.questions() != 0 {
		t.Errorf("%+v", last)
	}
}

func TestWrongConnections(t *testing.T) {
	h := newHost(t)
	h.show()
	good, err := ownCertificate(newKey(t), time.Now())
	must(t, err)
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	foreign := newAuthority(t)
	key := newKey(t)
	leaf := foreign.leaf("x", x509.ExtKeyUsageClientAuth, key.Public())
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	weak, err := x509.CreateCertificate(rand.Reader, template, template, p256.Public(), p256)
	must(t, err)
	for name, c := range map[string]*tls.Config{
		"no protocol":    {Certificates: []tls.Certificate{good}},
		"no certificate": {NextProtos: []string{Protocol}},
		"not Ed25519":    {NextProtos: []string{Protocol}, Certificates: []tls.Certificate{{Certificate: [][]byte{weak}, PrivateKey: p256}}},
		"not its own":    {NextProtos: []string{Protocol}, Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}}},
		"two certificates": {
			NextProtos:   []string{Protocol},
			Certificates: []tls.Certificate{{Certificate: [][]byte{good.Certificate[0], leaf.Raw}, PrivateKey: good.PrivateKey}},
		},
		"old TLS": {NextProtos: []string{Protocol}, Certificates: []tls.Certificate{good}, MaxVersion: tls.VersionTLS12},
	} {
		c.InsecureSkipVerify = true
		conn, err := tls.Dial("tcp", h.address, c)
		if err != nil {
			continue
		}
		w := wire{conn: conn, patience: 5 * time.Second}
		_ = w.send(message{Type: typeHello, Method: methodPIN, Name: "x", Share: make([]byte, 32)})
		if _, err := w.receive(w.patience, typeShare); err == nil {
			t.Errorf("%s is answered", name)
		}
		_ = conn.Close()
	}
	if f, err := h.live(false); err != nil || f.snapshot().Tries != 0 {
		t.Errorf("tries were counted: %v", err)
	}
}

// Tries that are under way count: nobody gets a sixth by being quick.
func TestTriesAtOnce(t *testing.T) {
	h := newHost(t)
	s := h.show()
	begin := func() (*join, error) {
		j := h.device("x").ready(wrong(s.PIN))
		t.Cleanup(func() { _ = j.conn.Close() })
		x, err := j.binding.exchange(j.pin)
		must(t, err)
		must(t, j.w.send(message{Type: typeHello, Method: methodPIN, Name: "x", Share: x.Message()}))
		_, err = j.w.receive(time.Minute, typeShare)
		return j, err
	}
	var waiting []*join
	for range Tries {
		j, err := begin()
		must(t, err)
		waiting = append(waiting, j)
	}
	if _, err := begin(); reason(err) != palyra.ReasonPairingLocked {
		t.Errorf("a sixth try: %v", err)
	}
	if _, err := h.device("laptop").scan(s.Code); reason(err) != palyra.ReasonPairingLocked {
		t.Errorf("a sixth try by another way: %v", err)
	}
	for _, j := range waiting {
		must(t, j.w.send(message{Type: typeConfirm, Tag: make([]byte, 32)}))
	}
	if last := s.wait(); last.State != palyra.PairingLocked || last.Tries != Tries {
		t.Errorf("%+v", last)
	}
}

// The key exchange itself is for one connection between two certificates, not
// only what is derived from it.
func TestExchangeCoversTheBinding(t *testing.T) {
	b := binding{exporter: bytes.Repeat([]byte{1}, 32), server: [32]byte{2}, device: [32]byte{3}}
	agree := func(other binding) bool {
		pin := palyra.NewSecret([]byte("12345678"))
		x, err := b.exchange(pin)
		must(t, err)
		y, err := other.exchange(pin)
		must(t, err)
		mx, my := x.Message(), y.Message()
		kx, err := x.Finish(my, cpace.Initiator, nil, nil)
		must(t, err)
		ky, err := y.Finish(mx, cpace.Responder, nil, nil)
		must(t, err)
		return bytes.Equal(kx, ky)
	}
	if !agree(b) {
		t.Error("the same binding gives two keys")
	}
	for name, other := range map[string]binding{
		"exporter": {bytes.Repeat([]byte{9}, 32), b.server, b.device},
		"server":   {b.exporter, [32]byte{9}, b.device},
		"device":   {b.exporter, b.server, [32]byte{9}},
	} {
		if agree(other) {
			t.Errorf("%s is not covered", name)
		}
	}
}
