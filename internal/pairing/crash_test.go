package pairing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"palyra"
)

var errDied = errors.New("died")

// dying is a connection whose machine dies at its n-th read or write, before or
// after the bytes got through.
type dying struct {
	net.Conn
	step string // "read", "write lost" or "write kept"

	mu   sync.Mutex
	left int
	hit  bool
}

func (d *dying) due(reading bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if reading != (d.step == "read") {
		return d.hit
	}
	d.left--
	d.hit = d.hit || d.left == 0
	return d.hit
}

func (d *dying) died() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hit
}

func (d *dying) Read(b []byte) (int, error) {
	if d.due(true) {
		_ = d.Close()
		return 0, errDied
	}
	return d.Conn.Read(b)
}

func (d *dying) Write(b []byte) (int, error) {
	if d.due(false) {
		if d.step == "write kept" {
			_, _ = d.Conn.Write(b)
		}
		_ = d.Close()
		return 0, errDied
	}
	return d.Conn.Write(b)
}

// once wraps the first connection that comes.
type once struct {
	step string
	left int
	mu   sync.Mutex
	conn *dying
}

func (o *once) wrap(c net.Conn) net.Conn {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conn != nil {
		return c
	}
	o.conn = &dying{Conn: c, step: o.step, left: o.left}
	return o.conn
}

func (o *once) died() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conn != nil && o.conn.died()
}

// TestDeathAtEveryStep lets either machine die at every read and write of a
// pairing. Whatever happens, a device that has something stored is registered, a
// pairing that failed before the proof leaves the code usable, one that failed
// after it leaves it dead, and the daemon can pair again.
func TestDeathAtEveryStep(t *testing.T) {
	for _, side := range []string{"device", "daemon"} {
		for _, way := range []string{"PIN", "QR"} {
			for _, step := range []string{"read", "write lost", "write kept"} {
				for n := 1; ; n++ {
					if n > 40 {
						t.Fatalf("%s, %s, %s: a pairing has no end", side, way, step)
					}
					if !death(t, side, way, &once{step: step, left: n}) {
						break
					}
				}
			}
		}
	}
}

// death runs one pairing and reports whether the machine died.
func death(t *testing.T, side, way string, o *once) bool {
	t.Helper()
	name := fmt.Sprintf("%s, %s, %s %d", side, way, o.step, o.left)
	h := newHost(t, patient(2*time.Second), func(h *host) {
		if side == "daemon" {
			h.wrap = o.wrap
		}
	})
	s, d := h.show(), h.device("laptop")
	if side == "device" {
		d.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return o.wrap(c), nil
		}
	}
	var err error
	if way == "PIN" {
		_, err = d.pin(s.PIN)
	} else {
		_, err = d.scan(s.Code)
	}
	if (err == nil) != (len(d.kept) == 1) {
		t.Errorf("%s: kept %d, but %v", name, len(d.kept), err)
	}
	if err != nil && reason(err) != palyra.ReasonPairingBroken {
		t.Errorf("%s: %v", name, err)
	}
	_, second := h.device("second").pin(s.PIN)
	last := s.wait()
	issued := last.Device != nil
	switch {
	case second == nil: // nothing had been proven
		if len(d.kept) != 0 || last.State != palyra.PairingDone || last.Name != "second" {
			t.Errorf("%s: the code was good for two: %+v", name, last)
		}
	case reason(second) != palyra.ReasonPairingBusy && reason(second) != palyra.ReasonPairingExpired:
		t.Errorf("%s: the second device is told %v", name, second)
	case last.State != palyra.PairingDone && last.State != palyra.PairingGone || last.Name != "laptop":
		t.Errorf("%s: %+v", name, last)
	case len(d.kept) == 1 && !issued:
		t.Errorf("%s: the device has a certificate that nobody registered: %+v", name, last)
	case last.State == palyra.PairingGone && (last.Reason != palyra.ReasonPairingBroken || last.Text == ""):
		t.Errorf("%s: no reason in %+v", name, last)
	}
	if n := h.questions(); n != 1 && n != 0 || n == 0 && issued {
		t.Errorf("%s: %d questions", name, n)
	}
	again := h.show()
	again.end()
	again.wait()
	return o.died()
}

// A device that goes away while a person is asked takes the question with it.
func TestDeviceLeavesWhileAsked(t *testing.T) {
	for name, leave := range map[string]func(*join){
		"hangs up":      func(j *join) { _ = j.conn.NetConn().Close() },
		"says goodbye":  func(j *join) { _ = j.conn.Close() },
		"speaks early":  func(j *join) { _ = j.w.send(message{Type: typeAck}) },
		"sends rubbish": func(j *join) { _, _ = j.conn.Write([]byte{0xff, 0xff, 0xff, 0xff}) },
		"says no":       func(j *join) { j.w.refuseNoWait(problem(palyra.ReasonPairingImpostor)) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			ended := make(chan error, 1)
			h.ask = func(ctx context.Context, _ Candidate, asked func(palyra.ApprovalID)) (Issued, error) {
				asked("A1")
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return Issued{}, ctx.Err()
			}
			s := h.show()
			j := h.device("laptop").ready(s.PIN)
			defer func() { _ = j.conn.Close() }()
			if _, _, err := j.prove(); err != nil {
				t.Fatal(err)
			}
			leave(j)
			if err := <-ended; !errors.Is(err, errLeft) {
				t.Errorf("the question ended by %v", err)
			}
			if last := s.wait(); last.State != palyra.PairingGone || last.Reason != palyra.ReasonPairingBroken || last.Approval != "A1" {
				t.Errorf("%+v", last)
			}
			if fs := h.failures(); len(fs) != 1 || fs[0] != palyra.ReasonPairingBroken {
				t.Errorf("recorded %v", fs)
			}
		})
	}
}

// When the daemon stops, connections and questions end with it.
func TestServeEndsWithItsContext(t *testing.T) {
	h := newHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	h.ask = func(ctx context.Context, _ Candidate, _ func(palyra.ApprovalID)) (Issued, error) {
		cancel()
		<-ctx.Done()
		return Issued{}, ctx.Err()
	}
	h.address = accept(t, func(_ context.Context, c net.Conn) { h.Serve(ctx, tlsServer(c, h)) })
	s := h.show()
	if _, err := h.device("laptop").pin(s.PIN); reason(err) != palyra.ReasonPairingBroken {
		t.Error(err)
	}
	if last := s.wait(); last.State != palyra.PairingGone {
		t.Errorf("%+v", last)
	}
}

// A device that cannot store what it got says so, and the person sees which
// device is left behind.
func TestKeepFails(t *testing.T) {
	h := newHost(t)
	s, d := h.show(), h.device("laptop")
	full := errors.New("disk full")
	d.Keep = func(Joined) error { return full }
	if _, err := d.pin(s.PIN); !errors.Is(err, full) {
		t.Error(err)
	}
	if last := s.wait(); last.State != palyra.PairingGone || last.Device == nil || last.Reason != palyra.ReasonPairingBroken {
		t.Errorf("%+v", last)
	}
}

// Keep is before the acknowledgement: the daemon does not say paired earlier.
func TestKeepComesFirst(t *testing.T) {
	h := newHost(t)
	s, d := h.show(), h.device("laptop")
	d.Keep = func(Joined) error {
		s.until(palyra.PairingIssued)
		if v := s.all(); v[len(v)-1].State != palyra.PairingIssued {
			t.Errorf("%s before the device stored anything", v[len(v)-1].State)
		}
		return nil
	}
	if _, err := d.pin(s.PIN); err != nil {
		t.Fatal(err)
	}
	if last := s.wait(); last.State != palyra.PairingDone {
		t.Errorf("%+v", last)
	}
}

func TestJoinEndsWithItsContext(t *testing.T) {
	h := newHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	h.ask = func(ctx context.Context, _ Candidate, _ func(palyra.ApprovalID)) (Issued, error) {
		cancel() // the person at the device gives up
		<-ctx.Done()
		return Issued{}, ctx.Err()
	}
	s, d := h.show(), h.device("laptop")
	d.Code, d.Address = s.Code, ""
	if _, err := Join(ctx, d.JoinConfig); reason(err) != palyra.ReasonPairingBroken || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s.wait()
}
