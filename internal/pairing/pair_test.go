package pairing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

// states lists the states of the reports, repeats left out.
func (s *shown) states() []palyra.PairingState {
	var all []palyra.PairingState
	for _, v := range s.all() {
		if len(all) == 0 || all[len(all)-1] != v.State {
			all = append(all, v.State)
		}
	}
	return all
}

var happy = []palyra.PairingState{
	palyra.PairingOffered, palyra.PairingTrying, palyra.PairingProven, palyra.PairingIssued, palyra.PairingDone,
}

func TestPair(t *testing.T) {
	for name, way := range map[string]func(*device, *shown) (Joined, error){
		"PIN":          func(d *device, s *shown) (Joined, error) { return d.pin(s.PIN) },
		"PIN in parts": func(d *device, s *shown) (Joined, error) { return d.pin(s.PIN[:4] + " " + s.PIN[4:]) },
		"QR":           func(d *device, s *shown) (Joined, error) { return d.scan(s.Code) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			s, d := h.show(), h.device("laptop")
			var told []string
			d.Progress = func(p palyra.PairingState, text string) { told = append(told, string(p)+" "+text) }
			j, err := way(d, s)
			if err != nil {
				t.Fatal(err)
			}
			last := s.wait()
			if diff := cmp.Diff(happy, s.states()); diff != "" {
				t.Error(diff)
			}
			if last.Device == nil || last.Device.ID != j.Device.ID || last.Tries != 1 || last.Approval != "A1" {
				t.Errorf("last report %+v", last)
			}
			if len(d.kept) != 1 || cmp.Diff(d.kept[0], j) != "" || j.StateID != "state-1" || j.Address != h.address || len(j.Authorities) != 1 {
				t.Errorf("joined %+v, kept %+v", j, d.kept)
			}
			c := h.asked[0]
			if c.Name != "laptop" || c.Principal != alice.Principal || c.Role != alice.Role || c.By != alice.By || c.Pairing != "P1" ||
				!strings.HasPrefix(c.Address, "127.0.0.1:") || c.KeyID != j.Device.KeyID || c.Fingerprint != last.Print {
				t.Errorf("asked about %+v", c)
			}
			if !strings.Contains(strings.Join(told, "\n"), c.Fingerprint) {
				t.Errorf("the device does not show its fingerprint: %q", told)
			}
			if good, bad := h.limit.counts(); good+bad > 0 && bad > 0 {
				t.Errorf("the limiter heard of %d failures", bad)
			}
		})
	}
}

func TestTheCodeIsShownOnceAndNowhereElse(t *testing.T) {
	h := newHost(t)
	s := h.show()
	_, _ = h.device("other").pin(wrong(s.PIN))
	if _, err := h.device("laptop").pin(s.PIN); err != nil {
		t.Fatal(err)
	}
	s.wait()
	token := s.Code[strings.Index(s.Code, "&t=")+3:]
	for n, v := range s.all() {
		text := fmt.Sprintf("%+v", v)
		if n == 0 {
			if v.PIN == "" || v.Code == "" || len(v.Addresses) != 1 || v.ExpiresAt.IsZero() {
				t.Errorf("first report %+v", v)
			}
			continue
		}
		if strings.Contains(text, s.PIN) || strings.Contains(text, token) {
			t.Errorf("the code is in report %d: %s", n, text)
		}
	}
	if text := fmt.Sprintf("%+v", h.events) + h.logs.String(); strings.Contains(text, s.PIN) || strings.Contains(text, token) {
		t.Errorf("the code is recorded: %s", text)
	}
}

func TestFiveWrongTries(t *testing.T) {
	for name, way := range map[string]func(d *device, s *shown) error{
		"PIN": func(d *device, s *shown) error { _, err := d.pin(wrong(s.PIN)); return err },
		"QR": func(d *device, s *shown) error {
			c, err := ParseCode(s.Code)
			if err != nil {
				return err
			}
			c.Token = palyra.NewSecret([]byte(strings.Repeat("x", tokenSize)))
			_, err = d.scan(c.String())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			s := h.show()
			for n := 1; n <= Tries; n++ {
				want := palyra.ReasonPairingWrongCode
				if n == Tries {
					want = palyra.ReasonPairingLocked
				}
				if err := way(h.device("laptop"), s); reason(err) != want {
					t.Fatalf("try %d: %v", n, err)
				}
			}
			if last := s.wait(); last.State != palyra.PairingLocked || last.Tries != Tries || last.Reason != palyra.ReasonPairingLocked ||
				last.Address == "" || !strings.HasSuffix(last.Text, "from "+last.Address) {
				t.Errorf("%+v", last)
			}
			for _, right := range []func() (Joined, error){
				func() (Joined, error) { return h.device("laptop").pin(s.PIN) },
				func() (Joined, error) { return h.device("laptop").scan(s.Code) },
			} {
				if _, err := right(); reason(err) != palyra.ReasonPairingLocked {
					t.Errorf("the right code after the lock: %v", err)
				}
			}
			if n := h.questions(); n != 0 {
				t.Errorf("%d questions", n)
			}
			if good, bad := h.limit.counts(); good != 0 || bad != Tries { // after the lock nothing can be guessed
				t.Errorf("the limiter heard of %d good and %d bad", good, bad)
			}
			// A new code starts afresh.
			again := h.show()
			if _, err := h.device("laptop").pin(again.PIN); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWrongThenRight(t *testing.T) {
	h := newHost(t)
	s := h.show()
	for range Tries - 1 {
		if _, err := h.device("laptop").pin(wrong(s.PIN)); reason(err) != palyra.ReasonPairingWrongCode {
			t.Fatal(err)
		}
	}
	if _, err := h.device("laptop").pin(s.PIN); err != nil {
		t.Fatal(err)
	}
	if last := s.wait(); last.State != palyra.PairingDone || last.Tries != Tries {
		t.Errorf("%+v", last)
	}
	want := []palyra.Reason{
		palyra.ReasonPairingWrongCode, palyra.ReasonPairingWrongCode, palyra.ReasonPairingWrongCode,
		palyra.ReasonPairingWrongCode,
	}
	if diff := cmp.Diff(want, h.failures()); diff != "" {
		t.Error(diff)
	}
}

// A code is good once: not for a second device, by either way.
func TestUsedCode(t *testing.T) {
	h := newHost(t)
	s := h.show()
	if _, err := h.device("laptop").scan(s.Code); err != nil {
		t.Fatal(err)
	}
	s.wait()
	if _, err := h.device("second").scan(s.Code); reason(err) != palyra.ReasonPairingExpired {
		t.Errorf("QR: %v", err)
	}
	if _, err := h.device("third").pin(s.PIN); reason(err) != palyra.ReasonPairingExpired {
		t.Errorf("PIN: %v", err)
	}
	if n := h.questions(); n != 1 {
		t.Errorf("%d questions", n)
	}
}

func TestRaceForOneCode(t *testing.T) {
	h := newHost(t)
	h.ask = func(ctx context.Context, c Candidate, asked func(palyra.ApprovalID)) (Issued, error) {
		for range 3 { // until the others have lost
			select {
			case <-ctx.Done():
				return Issued{}, ctx.Err()
			case <-h.limit.missed:
			}
		}
		return h.ca.issue(c)
	}
	s := h.show()
	var all sync.WaitGroup
	errs := make(chan error, 4)
	for n := range 4 {
		d := h.device(fmt.Sprintf("device-%d", n))
		all.Go(func() {
			var err error
			if n%2 == 0 {
				_, err = d.pin(s.PIN)
			} else {
				_, err = d.scan(s.Code)
			}
			errs <- err
		})
	}
	all.Wait()
	won := 0
	for range 4 {
		switch err := <-errs; {
		case err == nil:
			won++
		case reason(err) != palyra.ReasonPairingBusy:
			t.Errorf("a loser is told %v", err)
		}
	}
	if last := s.wait(); won != 1 || h.questions() != 1 || last.State != palyra.PairingDone {
		t.Errorf("%d won, %d questions, %s", won, h.questions(), last.State)
	}
}

func TestExpiry(t *testing.T) {
	t.Run("by the timer", func(t *testing.T) {
		h := newHost(t)
		h.life = 30 * time.Millisecond
		s := h.show()
		if last := s.wait(); last.State != palyra.PairingExpired || last.Reason != palyra.ReasonPairingExpired || h.Open() {
			t.Errorf("%+v, open %v", last, h.Open())
		}
		if fs := h.failures(); len(fs) != 0 {
			t.Errorf("nobody tried, and %v is recorded", fs)
		}
	})
	t.Run("before a try", func(t *testing.T) {
		h := newHost(t)
		s := h.show()
		h.clock.advance(Life)
		if _, err := h.device("laptop").pin(s.PIN); reason(err) != palyra.ReasonPairingExpired {
			t.Error(err)
		}
		if last := s.wait(); last.State != palyra.PairingExpired || last.Tries != 0 {
			t.Errorf("%+v", last)
		}
	})
	t.Run("within a try", func(t *testing.T) {
		h := newHost(t)
		s := h.show()
		j := h.device("laptop").ready(s.PIN)
		defer func() { _ = j.conn.Close() }()
		x, err := j.binding.exchange(j.pin)
		must(t, err)
		must(t, j.w.send(message{Type: typeHello, Method: methodPIN, Name: "laptop", Share: x.Message()}))
		m, err := j.w.receive(time.Minute, typeShare)
		must(t, err)
		k, err := j.binding.pinSession(x, m.Share, 1, "laptop")
		must(t, err)
		h.clock.advance(Life)
		must(t, j.w.send(message{Type: typeConfirm, Tag: k.confirm()}))
		if _, err := j.w.receive(time.Minute, typeWelcome); reason(err) != palyra.ReasonPairingExpired {
			t.Errorf("the right answer too late: %v", err)
		}
		if last := s.wait(); last.State != palyra.PairingExpired || h.questions() != 0 {
			t.Errorf("%+v", last)
		}
	})
	t.Run("not while a person is asked", func(t *testing.T) {
		h := newHost(t)
		h.ask = func(_ context.Context, c Candidate, _ func(palyra.ApprovalID)) (Issued, error) {
			f, err := h.live(false)
			if err != nil {
				return Issued{}, err
			}
			h.clock.advance(Life)
			f.expire() // as the timer does
			return h.ca.issue(c)
		}
		s := h.show()
		if _, err := h.device("laptop").pin(s.PIN); err != nil {
			t.Fatal(err)
		}
		s.wait()
		if diff := cmp.Diff(happy, s.states()); diff != "" {
			t.Error(diff)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestThePersonSaysNo(t *testing.T) {
	for _, c := range []struct {
		err           error
		state         palyra.PairingState
		shown, device palyra.Reason
	}{
		{
			palyra.Errorf(palyra.Denied, palyra.ReasonApprovalDenied, "no"), palyra.PairingRefused, palyra.ReasonApprovalDenied,
			palyra.ReasonPairingRefused,
		},
		{
			palyra.Errorf(palyra.Denied, palyra.ReasonPolicyDenied, "no"), palyra.PairingRefused, palyra.ReasonPolicyDenied,
			palyra.ReasonPairingRefused,
		},
		{
			palyra.Errorf(palyra.Expired, palyra.ReasonApprovalExpired, "late"), palyra.PairingExpired, palyra.ReasonApprovalExpired,
			palyra.ReasonPairingExpired,
		},
		{errors.New("secret detail"), palyra.PairingRefused, palyra.ReasonInternal, palyra.ReasonPairingRefused},
		{palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "laptop is there"), palyra.PairingRefused, palyra.ReasonExists, palyra.ReasonExists},
	} {
		h := newHost(t)
		h.ask = func(context.Context, Candidate, func(palyra.ApprovalID)) (Issued, error) { return Issued{}, c.err }
		s, d := h.show(), h.device("laptop")
		_, err := d.pin(s.PIN)
		last := s.wait()
		if reason(err) != c.device || last.State != c.state || last.Reason != c.shown || last.Device != nil || len(d.kept) != 0 {
			t.Errorf("%v: device %v, last %+v", c.err, err, last)
		}
		if c.device == palyra.ReasonExists && (!strings.Contains(palyra.AsError(err).Remedy, "--name OTHER") ||
			palyra.AsError(err).Text == last.Text) {
			t.Errorf("the device is told %+v", palyra.AsError(err))
		}
		if strings.Contains(fmt.Sprint(last, err), "secret detail") {
			t.Errorf("a cause is shown: %+v, %v", last, err)
		}
		if fs := h.failures(); len(fs) != 1 || fs[0] != c.device {
			t.Errorf("recorded %v", fs)
		}
		if _, err := d.pin(s.PIN); reason(err) != palyra.ReasonPairingExpired {
			t.Errorf("the same code after a no: %v", err)
		}
	}
}

func TestWithdrawal(t *testing.T) {
	t.Run("while nobody came", func(t *testing.T) {
		h := newHost(t)
		s := h.show()
		s.end()
		if err := <-s.err; !errors.Is(err, context.Canceled) || h.Open() {
			t.Errorf("%v, open %v", err, h.Open())
		}
		if _, err := h.device("laptop").pin(s.PIN); reason(err) != palyra.ReasonPairingExpired {
			t.Error(err)
		}
	})
	t.Run("while a person is asked", func(t *testing.T) {
		h := newHost(t)
		h.ask = func(ctx context.Context, _ Candidate, asked func(palyra.ApprovalID)) (Issued, error) {
			asked("A1")
			<-ctx.Done()
			return Issued{}, ctx.Err()
		}
		s, d := h.show(), h.device("laptop")
		got := make(chan error, 1)
		go func() { _, err := d.pin(s.PIN); got <- err }()
		s.until(palyra.PairingProven)
		s.end()
		if err := <-got; reason(err) != palyra.ReasonPairingRefused || len(d.kept) != 0 {
			t.Errorf("%v", err)
		}
		s.wait()
	})
	t.Run("when the answer was first", func(t *testing.T) {
		h := newHost(t)
		h.ask = func(ctx context.Context, c Candidate, _ func(palyra.ApprovalID)) (Issued, error) {
			<-ctx.Done() // the yes is in the journal although the question ends
			return h.ca.issue(c)
		}
		s, d := h.show(), h.device("laptop")
		got := make(chan error, 1)
		go func() { _, err := d.pin(s.PIN); got <- err }()
		s.until(palyra.PairingProven)
		s.end()
		if err := <-got; err != nil || len(d.kept) != 1 {
			t.Errorf("%v", err)
		}
		s.wait()
	})
	t.Run("when the watcher is gone", func(t *testing.T) {
		h := newHost(t)
		gone := errors.New("gone")
		if err := h.Offer(t.Context(), alice, func(palyra.Pairing) error { return gone }); !errors.Is(err, gone) || h.Open() {
			t.Errorf("%v, open %v", err, h.Open())
		}
	})
}

func TestOneOfferAtATime(t *testing.T) {
	h := newHost(t)
	s := h.show()
	err := h.Offer(t.Context(), alice, func(palyra.Pairing) error { t.Error("a second code is shown"); return nil })
	if reason(err) != palyra.ReasonPairingBusy {
		t.Error(err)
	}
	s.end()
	s.wait()
	h.show()
}

func TestOpenAndOnChange(t *testing.T) {
	h := newHost(t)
	var mu sync.Mutex
	var seen []bool
	h.OnChange(func() {
		open := h.Open()
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, open)
	})
	h.ask = func(_ context.Context, c Candidate, _ func(palyra.ApprovalID)) (Issued, error) {
		if !h.Open() {
			t.Error("closed while a device waits for its answer")
		}
		return h.ca.issue(c)
	}
	s := h.show()
	if _, err := h.device("laptop").pin(s.PIN); err != nil {
		t.Fatal(err)
	}
	s.wait()
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]bool{true, false}, seen); diff != "" {
		t.Error(diff)
	}
}

func TestNothingIsShownUnrecorded(t *testing.T) {
	h := newHost(t)
	h.record = errors.New("full")
	err := h.Offer(t.Context(), alice, func(palyra.Pairing) error { t.Error("shown"); return nil })
	if !errors.Is(err, h.record) || h.Open() {
		t.Error(err)
	}
	h.record = nil
	h.show()
	opened, ok := h.events[len(h.events)-1].(palyra.PairingOpened)
	if !ok || opened.Principal != alice.Principal || opened.Role != alice.Role || opened.By != alice.By || opened.ExpiresAt.IsZero() {
		t.Errorf("%+v", h.events)
	}
}

func TestBadOffers(t *testing.T) {
	h := newHost(t)
	for _, bad := range []palyra.PairingOffer{
		{},
		{Principal: "agent:x", Role: "viewer", By: "user:a"},
		{Principal: "user:", Role: "viewer", By: "user:a"},
		{Principal: "user:a", By: "user:a"},
		{Principal: "user:a", Role: "viewer"},
	} {
		if err := h.Offer(t.Context(), bad, func(palyra.Pairing) error { return nil }); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	h.address = "nowhere"
	if err := h.Offer(t.Context(), alice, func(palyra.Pairing) error { t.Error("shown"); return nil }); palyra.CodeOf(
		err) != palyra.Unavailable || h.Open() {
		t.Errorf("without an address: %v", err)
	}
	if _, err := New(Config{}); err == nil {
		t.Error("an empty configuration is accepted")
	}
}

func TestIssuedForAnotherKeyIsNotHandedOver(t *testing.T) {
	h := newHost(t)
	h.ask = func(_ context.Context, c Candidate, _ func(palyra.ApprovalID)) (Issued, error) {
		i, err := h.ca.issue(c)
		i.Device.PublicKey = "another"
		return i, err
	}
	s, d := h.show(), h.device("laptop")
	if _, err := d.pin(s.PIN); reason(err) != palyra.ReasonPairingRefused || len(d.kept) != 0 {
		t.Error(err)
	}
	if last := s.wait(); last.State != palyra.PairingRefused || last.Reason != palyra.ReasonInternal {
		t.Errorf("%+v", last)
	}
}

func TestJoinTriesEveryAddress(t *testing.T) {
	h := newHost(t)
	s := h.show()
	c, err := ParseCode(s.Code)
	must(t, err)
	c.Addresses = append([]string{"127.0.0.1:1"}, c.Addresses...)
	d := h.device("laptop")
	d.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == "127.0.0.1:1" {
			return nil, errors.New("refused")
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	if j, err := d.scan(c.String()); err != nil || j.Address != h.address {
		t.Errorf("%v, %v", j.Address, err)
	}
	s.wait()
}
