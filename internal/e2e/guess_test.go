//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// attacked is a daemon with one honest device, so that its door is open whatever
// becomes of a code.
func attacked(t *testing.T) *daemon {
	t.Helper()
	d := newDaemon(t)
	d.mustStart("PALYRA_LIMITS_LOGIN_PER_MINUTE=1000")
	d.paired("honest", "", "")
	return d
}

// patiently joins as often as the daemon only says that it is too early, which the
// back-off after failures does.
func patiently(t *testing.T, q client.JoinRequest) (waited time.Duration, err error) {
	t.Helper()
	for {
		_, err := newElsewhere(t).join(t.Context(), "guesser", q)
		if reason(err) != palyra.ReasonRateLimited {
			return waited, err
		}
		after := palyra.AsError(err).After
		if after <= 0 || after > 30*time.Second {
			t.Fatalf("the wait is %v", after)
		}
		waited += after
		<-time.After(after)
	}
}

// onlyHonest fails the test unless nobody was let in.
func onlyHonest(t *testing.T, d *daemon, failed ...palyra.Reason) {
	t.Helper()
	list, err := d.client(client.OperatorDoor).Devices(t.Context())
	if err != nil || len(list) != 1 {
		t.Errorf("the devices: %+v, %v", list, err)
	}
	seen := map[string]bool{}
	for _, l := range d.lines("pairing.failed") {
		seen[l["reason_code"].(string)] = true
	}
	for _, want := range failed {
		if !seen[string(want)] {
			t.Errorf("no %s on record: %v", want, seen)
		}
	}
	d.verify()
}

// wrongPIN is any PIN but the one that is shown.
func wrongPIN(o *offer) string {
	if strings.HasPrefix(o.PIN, "9") {
		return "1" + o.PIN[1:]
	}
	return "9" + o.PIN[1:]
}

func TestFiveGuessesKillACode(t *testing.T) {
	t.Parallel()
	d := attacked(t)
	o := d.offer("", "")
	var waited time.Duration
	for try := 1; try <= 5; try++ {
		w, err := patiently(t, byPIN(o.Addresses[0], wrongPIN(o)))
		waited += w
		want := palyra.ReasonPairingWrongCode
		if try == 5 {
			want = palyra.ReasonPairingLocked
		}
		if reason(err) != want {
			t.Fatalf("guess %d: %v", try, err)
		}
	}
	if waited < time.Second {
		t.Errorf("five guesses waited %v", waited)
	}
	if last := o.over(); last.State != palyra.PairingLocked || last.Tries != 5 {
		t.Errorf("the offer: %+v", last)
	}
	if _, err := patiently(t, byPIN(o.Addresses[0], o.PIN)); reason(err) != palyra.ReasonPairingLocked {
		t.Errorf("the right PIN after five wrong ones: %v", err)
	}
	onlyHonest(t, d, palyra.ReasonPairingWrongCode, palyra.ReasonPairingLocked)
	_, token, _ := strings.Cut(o.Code, "&t=")
	d.nowhere(o.PIN, wrongPIN(o), token)
}

// A code that is withdrawn is as dead as one that is too old. That one takes two
// minutes and is waited for with 'make faults'.
func TestADeadCodePairsNobody(t *testing.T) {
	d := attacked(t)
	o := d.offer("", "")
	if os.Getenv("PALYRA_FAULTS") == "full" {
		<-time.After(time.Until(o.ExpiresAt) - 100*time.Millisecond)
		if o.over().State != palyra.PairingExpired {
			t.Errorf("%+v", o.last)
		}
	} else {
		o.gone()
	}
	for _, q := range []client.JoinRequest{byPIN(o.Addresses[0], o.PIN), {Code: o.Code}} {
		if _, err := patiently(t, q); reason(err) != palyra.ReasonPairingExpired {
			t.Errorf("%v", err)
		}
	}
	onlyHonest(t, d, palyra.ReasonPairingExpired)
}

// Two devices know one code: one is asked about, the other is too late.
func TestOneCodeOneDevice(t *testing.T) {
	d := attacked(t)
	o := d.offer("", "")
	machines := []*elsewhere{newElsewhere(t), newElsewhere(t), newElsewhere(t)}
	ends := make(chan joined, len(machines))
	for i, m := range machines {
		q := byPIN(o.Addresses[0], o.PIN)
		if i == 1 {
			q = client.JoinRequest{Code: o.Code}
		}
		go func() { ends <- <-m.joining(t.Context(), "racer"+string(rune('a'+i)), q) }()
	}
	id := o.approval()
	for range len(machines) - 1 {
		if j := <-ends; reason(j.err) != palyra.ReasonPairingBusy {
			t.Errorf("a loser: %v", j.err)
		}
	}
	if err := answerTo(t.Context(), d.client(client.OperatorDoor), id, palyra.AnswerDeny); err != nil {
		t.Fatal(err)
	}
	if j := <-ends; reason(j.err) != palyra.ReasonPairingRefused {
		t.Errorf("the winner, after a no: %v", j.err)
	}
	if last := o.over(); last.State != palyra.PairingRefused {
		t.Errorf("%+v", last)
	}
	onlyHonest(t, d, palyra.ReasonPairingBusy, palyra.ReasonPairingRefused)
}

// Somebody who ends TLS between the two machines has one guess, as anybody has, and
// with the QR code not even that. What they recorded is worth nothing later.
func TestTheManInTheMiddle(t *testing.T) {
	d := attacked(t)
	o := d.offer("", "")
	mitm := newMiddle(t, o.Addresses[0])
	if _, err := patiently(t, client.JoinRequest{Code: o.Code, Address: mitm.address}); reason(err) != palyra.ReasonPairingImpostor {
		t.Errorf("by QR: %v", err)
	}
	if n := len(mitm.frames()); n != 0 {
		t.Errorf("the device told the impostor %d messages", n)
	}
	_, err := patiently(t, byPIN(mitm.address, o.PIN))
	if r := reason(err); r != palyra.ReasonPairingWrongCode && r != palyra.ReasonPairingImpostor {
		t.Errorf("by PIN: %v", err)
	}
	recorded := mitm.frames()
	if len(recorded) != 2 { // hello and confirm
		t.Fatalf("recorded %d messages", len(recorded))
	}
	if got := replay(t, o.Addresses[0], recorded); got != palyra.ReasonPairingWrongCode {
		t.Errorf("the recorded messages again: %s", got)
	}
	if now := o.last; now.Approval != "" {
		t.Error("somebody was asked")
	}
	o.gone()
	onlyHonest(t, d, palyra.ReasonPairingWrongCode)
}

// The bytes of a pairing that succeeded, sent once more, pair nobody: neither while
// the device is known nor with the next code shown.
func TestARecordedPairingIsWorthNothing(t *testing.T) {
	d := attacked(t)
	m := newElsewhere(t)
	o := d.offer("", "")
	tap := newTap(t, o.Addresses[0])
	ch := m.joining(t.Context(), "recorded", client.JoinRequest{Code: o.Code, Address: tap.address})
	if err := answerTo(t.Context(), d.client(client.OperatorDoor), o.approval(), palyra.AnswerAllow); err != nil {
		t.Fatal(err)
	}
	if j := <-ch; j.err != nil {
		t.Fatal(j.err)
	}
	o.over()
	if _, err := d.client(client.OperatorDoor).RevokeDevice(t.Context(), d.device("recorded").ID); err != nil {
		t.Fatal(err)
	}
	next := d.offer("", "")
	c, err := net.Dial("tcp", next.Addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(waitMost))
	_, _ = c.Write(tap.recorded())
	_, _ = io.Copy(io.Discard, c) // it is hung up on
	next.gone()
	if next.last.Tries != 0 || next.last.Approval != "" {
		t.Errorf("it came to a try: %+v", next.last)
	}
	list, err := d.client(client.OperatorDoor).Devices(t.Context())
	if err != nil || len(list) != 2 || list[1].Live() {
		t.Errorf("%+v, %v", list, err)
	}
	d.verify()
}

// tap passes bytes on and keeps those of the one who connects.
type tap struct {
	address string
	mu      sync.Mutex
	bytes   bytes.Buffer
}

func (p *tap) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes.Write(b)
}

func (p *tap) recorded() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.bytes.Bytes())
}

func newTap(t *testing.T, target string) *tap {
	t.Helper()
	p := &tap{}
	p.address = between(t, nil, func(ctx context.Context, near net.Conn) {
		far, err := (&net.Dialer{}).DialContext(ctx, "tcp", target)
		if err != nil {
			return
		}
		defer func() { _ = far.Close() }()
		go func() { _, _ = io.Copy(near, far); _ = near.Close() }()
		_, _ = io.Copy(far, io.TeeReader(near, p))
	})
	return p
}

// between listens and serves connections until the test ends.
func between(t *testing.T, conf *tls.Config, serve func(context.Context, net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if conf != nil {
		l = tls.NewListener(l, conf)
	}
	t.Cleanup(func() { _ = l.Close() })
	ctx := t.Context()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			go func() {
				defer stop()
				defer func() { _ = c.Close() }()
				serve(ctx, c)
			}()
		}
	}()
	return l.Addr().String()
}

// middle ends the device's TLS and speaks its own to the daemon. It keeps the
// device's messages.
type middle struct {
	address string
	mu      sync.Mutex
	heard   [][]byte
}

func (m *middle) frames() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.heard
}

func newMiddle(t *testing.T, target string) *middle {
	t.Helper()
	m := &middle{}
	conf := &tls.Config{
		Certificates: []tls.Certificate{selfMade(t)}, MinVersion: tls.VersionTLS13, NextProtos: []string{"palyra-pair/1"},
		ClientAuth: tls.RequestClientCert,
	}
	m.address = between(t, conf, func(_ context.Context, near net.Conn) {
		if near.(*tls.Conn).Handshake() != nil {
			return
		}
		far, err := pairingConn(t, target)
		if err != nil {
			return
		}
		defer func() { _ = far.Close() }()
		go func() { _, _ = io.Copy(near, far); _ = near.Close() }()
		for {
			f, err := frame(near)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.heard = append(m.heard, f)
			m.mu.Unlock()
			if _, err := far.Write(f); err != nil {
				return
			}
		}
	})
	return m
}

// selfMade is a certificate as devices make them.
func selfMade(t *testing.T) tls.Certificate {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "palyra device"}, DNSNames: []string{"device.palyra.internal"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, pub, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// pairingConn is a connection to a daemon that pairs, by hand.
func pairingConn(t *testing.T, address string) (*tls.Conn, error) {
	d := &tls.Dialer{Config: &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"palyra-pair/1"}, Certificates: []tls.Certificate{selfMade(t)},
		InsecureSkipVerify: true, // whoever attacks does not care
	}}
	c, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		return nil, err
	}
	return c.(*tls.Conn), c.SetDeadline(time.Now().Add(waitMost))
}

// frame reads one message, with its length.
func frame(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	body := make([]byte, min(binary.BigEndian.Uint32(head), 1<<16))
	_, err := io.ReadFull(r, body)
	return append(head, body...), err
}

// replay sends recorded messages on a new connection and returns what the daemon
// says to that. It waits where it is asked to.
func replay(t *testing.T, address string, messages [][]byte) palyra.Reason {
	t.Helper()
	for {
		c, err := pairingConn(t, address)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			_, _ = c.Write(m)
		}
		var said struct {
			Reason palyra.Reason `json:"reason_code"`
			After  int64         `json:"after_ms"`
		}
		for err == nil && said.Reason == "" {
			var f []byte
			if f, err = frame(c); err == nil {
				err = json.Unmarshal(f[4:], &said)
			}
		}
		_ = c.Close()
		if said.Reason != palyra.ReasonRateLimited {
			return said.Reason
		}
		<-time.After(time.Duration(said.After) * time.Millisecond)
	}
}
