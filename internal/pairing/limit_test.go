package pairing

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"palyra"
)

func tlsServer(c net.Conn, h *host) *tls.Conn { return tls.Server(c, serverTLS(h.cert)) }

func patient(d time.Duration) func(*host) { return func(h *host) { h.patience = d } }

func TestTheLimiterIsAsked(t *testing.T) {
	h := newHost(t)
	s := h.show()
	h.limit.mu.Lock()
	h.limit.no = 7 * time.Second
	h.limit.mu.Unlock()
	_, err := h.device("laptop").pin(s.PIN)
	if e := palyra.AsError(err); e.Reason != palyra.ReasonRateLimited || e.After != 7*time.Second ||
		e.Remedy != "wait 7s before the next attempt" {
		t.Errorf("%+v", e)
	}
	h.limit.mu.Lock()
	h.limit.no = 0
	h.limit.mu.Unlock()
	if _, err := h.device("laptop").pin(s.PIN); err != nil {
		t.Error(err)
	}
	if last := s.wait(); last.Tries != 1 {
		t.Errorf("a refused connection was counted: %+v", last)
	}
	if good, bad := h.limit.counts(); good > 1 || bad != 0 {
		t.Errorf("%d good, %d bad", good, bad)
	}
}

// Connections beyond the limit are told so; when one ends there is room again.
func TestTooManyConnections(t *testing.T) {
	h := newHost(t)
	s := h.show()
	for range connections {
		h.slots <- struct{}{}
	}
	if _, err := h.device("laptop").pin(s.PIN); reason(err) != palyra.ReasonPairingBusy {
		t.Errorf("one too many: %v", err)
	}
	for range connections {
		<-h.slots
	}
	if _, err := h.device("laptop").pin(s.PIN); err != nil {
		t.Error(err)
	}
	s.wait()
	if n := len(h.slots); n > 1 { // that of the last one may be on its way back
		t.Errorf("%d places are taken for good", n)
	}
}

func TestSilentConnections(t *testing.T) {
	h := newHost(t, patient(700*time.Millisecond))
	s := h.show()
	j := h.device("silent").ready("12345678")
	defer func() { _ = j.conn.Close() }()
	if _, err := j.w.receive(10 * time.Second); reason(err) != palyra.ReasonPairingBroken {
		t.Errorf("before hello: %v", err)
	}
	k := h.device("silent").ready(s.PIN)
	defer func() { _ = k.conn.Close() }()
	x, err := k.binding.exchange(k.pin)
	must(t, err)
	must(t, k.w.send(message{Type: typeHello, Method: methodPIN, Name: "silent", Share: x.Message()}))
	if _, err := k.w.receive(10*time.Second, typeShare); err != nil {
		t.Fatal(err)
	}
	if _, err := k.w.receive(10 * time.Second); reason(err) != palyra.ReasonPairingBroken {
		t.Errorf("before the confirmation: %v", err)
	}
	s.end()
	if last := s.wait(); last.Tries != 1 { // it got a share: that is a try
		t.Errorf("%d tries", last.Tries)
	}
}

// A device that gets its certificate and says nothing does not hold the offer up.
func TestSilentAfterTheCertificate(t *testing.T) {
	h := newHost(t, patient(700*time.Millisecond))
	s := h.show()
	j := h.device("laptop").ready(s.PIN)
	defer func() { _ = j.conn.Close() }()
	if _, _, err := j.prove(); err != nil {
		t.Fatal(err)
	}
	if last := s.wait(); last.State != palyra.PairingGone || last.Device == nil {
		t.Errorf("%+v", last)
	}
}

func TestNobodyIsAskedWithoutAnOffer(t *testing.T) {
	h := newHost(t)
	if _, err := h.device("laptop").pin("12345678"); reason(err) != palyra.ReasonPairingExpired {
		t.Error(err)
	}
	if h.questions() != 0 {
		t.Error("asked")
	}
}

// However many come without a chance, the journal gets a line for each reason and
// minute, and it says how many.
func TestFloodsAreCoalesced(t *testing.T) {
	h := newHost(t)
	for range 1000 {
		h.turnedAway(t.Context(), palyra.ReasonPairingExpired, "192.0.2.1:1")
		h.turnedAway(t.Context(), palyra.ReasonPairingBusy, "192.0.2.2:1")
	}
	h.clock.advance(quiet)
	h.turnedAway(t.Context(), palyra.ReasonPairingExpired, "192.0.2.3:1")
	var got []int64
	for _, e := range h.events {
		got = append(got, e.(palyra.PairingFailed).Tries)
	}
	if len(got) != 3 || got[0] != 1 || got[1] != 1 || got[2] != 1000 {
		t.Errorf("recorded %v", got)
	}
	if len(h.Office.failures) != 2 {
		t.Errorf("%d reasons are kept", len(h.Office.failures))
	}
}

func TestFailureThatCannotBeRecorded(t *testing.T) {
	h := newHost(t)
	s := h.show()
	h.mu.Lock()
	h.record = context.DeadlineExceeded
	h.mu.Unlock()
	if _, err := h.device("laptop").pin(wrong(s.PIN)); reason(err) != palyra.ReasonPairingWrongCode {
		t.Errorf("refused all the same: %v", err)
	}
	if h.logs.String() == "" {
		t.Error("nothing is logged")
	}
}

func TestBadJoins(t *testing.T) {
	h := newHost(t)
	pin := func() (palyra.Secret, error) { return palyra.NewSecret([]byte("12345678")), nil }
	for name, change := range map[string]func(*JoinConfig){
		"nothing":       func(c *JoinConfig) { *c = JoinConfig{} },
		"no way":        func(c *JoinConfig) { c.PIN = nil },
		"no key":        func(c *JoinConfig) { c.Key = nil },
		"no store":      func(c *JoinConfig) { c.Keep = nil },
		"no dialler":    func(c *JoinConfig) { c.Dial = nil },
		"a bad name":    func(c *JoinConfig) { c.Name = "a b" },
		"no address":    func(c *JoinConfig) { c.Address = "" },
		"a bad address": func(c *JoinConfig) { c.Address = "host" },
		"a bad code":    func(c *JoinConfig) { c.PIN, c.Code = nil, "palyra-pair:1?" },
		"no PIN": func(c *JoinConfig) {
			c.PIN = func() (palyra.Secret, error) { return palyra.Secret{}, context.Canceled }
		},
		"a short PIN": func(c *JoinConfig) {
			c.PIN = func() (palyra.Secret, error) { return palyra.NewSecret([]byte("1234")), nil }
		},
	} {
		c := h.device("laptop").JoinConfig
		c.PIN = pin
		c.Dial = func(context.Context, string, string) (net.Conn, error) {
			t.Errorf("%s: dialled", name)
			return nil, context.Canceled
		}
		change(&c)
		if _, err := Join(t.Context(), c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	d := h.device("laptop")
	d.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, context.DeadlineExceeded }
	if _, err := d.pin("12345678"); reason(err) != palyra.ReasonPairingBroken || palyra.AsError(err).Remedy == "" {
		t.Errorf("nobody there: %v", err)
	}
}
