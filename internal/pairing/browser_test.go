package pairing

import (
	"context"
	"crypto/ed25519"
	"errors"
	"sync"
	"testing"
	"time"

	"palyra"
)

// forBrowser is an offer to a browser.
var forBrowser = palyra.PairingOffer{Principal: "user:alice", Role: palyra.RoleApprover, By: "user:alice", Browser: true}

// browser is one that wants to be a device.
func browser(t testing.TB, code string) palyra.BrowserKey {
	t.Helper()
	pub, _ := newKey(t).Public().(ed25519.PublicKey)
	return palyra.BrowserKey{
		Name: "chromium", PublicKey: publicText(pub), Principal: "user:alice", Code: palyra.NewSecret([]byte(code)),
	}
}

// browse has a browser use a code, and returns what it heard.
func (h *host) browse(b palyra.BrowserKey) (heard []palyra.Pairing, err error) {
	err = h.Browse(h.t.Context(), b, func(p palyra.Pairing) error {
		heard = append(heard, p)
		return nil
	})
	return heard, err
}

// A browser pairs by the PIN as well as by the code's text, and hears the code in no report.
func TestBrowse(t *testing.T) {
	for name, code := range map[string]func(*shown) string{
		"pin":          func(s *shown) string { return s.PIN },
		"pin as shown": func(s *shown) string { return s.PIN[:4] + " " + s.PIN[4:] },
		"text":         func(s *shown) string { return s.Code },
	} {
		h := newHost(t)
		s := h.showFor(forBrowser)
		if h.Open() {
			t.Errorf("%s: the door for machines is open for a browser", name)
		}
		b := browser(t, code(s))
		heard, err := h.browse(b)
		if err != nil || len(heard) != 2 || heard[0].State != palyra.PairingProven || heard[1].State != palyra.PairingDone ||
			heard[1].Device == nil || heard[1].Device.PublicKey != b.PublicKey {
			t.Fatalf("%s: %+v %v", name, heard, err)
		}
		for _, p := range heard {
			if p.PIN != "" || p.Code != "" {
				t.Errorf("%s: the browser hears the code: %+v", name, p)
			}
		}
		if last := s.wait(); last.State != palyra.PairingDone || last.Print != heard[0].Print || last.Address != "console" {
			t.Errorf("%s: %+v", name, last)
		}
		h.mu.Lock()
		if c := h.asked[0]; !c.Browser || c.Principal != "user:alice" {
			t.Errorf("%s: asked about %+v", name, c)
		}
		h.mu.Unlock()
		if _, err := h.browse(browser(t, code(s))); palyra.AsError(err).Reason != palyra.ReasonPairingExpired {
			t.Errorf("%s: the code again: %v", name, err)
		}
	}
}

// Each wrong code counts; after five the code is dead, also for whoever knows it. Nobody is asked.
func TestBrowseGuesses(t *testing.T) {
	h := newHost(t)
	s := h.showFor(forBrowser)
	for i, guess := range []string{wrong(s.PIN), "", s.Code[:42], s.Code + "A", "nonsense"} {
		want := palyra.ReasonPairingWrongCode
		if i == Tries-1 {
			want = palyra.ReasonPairingLocked
		}
		if _, err := h.browse(browser(t, guess)); palyra.AsError(err).Reason != want || palyra.AsError(err).Remedy == "" {
			t.Errorf("guess %d: %v", i, err)
		}
	}
	if _, err := h.browse(browser(t, s.PIN)); palyra.CodeOf(err) == "" || h.questions() != 0 {
		t.Errorf("after five guesses: %v, %d asked", err, h.questions())
	}
	if last := s.wait(); last.State != palyra.PairingLocked {
		t.Errorf("%+v", last)
	}
	if _, bad := h.limit.counts(); bad < Tries {
		t.Errorf("%d guesses were counted against the place", bad)
	}
}

// A code for a browser is none for a machine, nor the other way round, nor for another person's browser, nor when its
// time is over. What is no key or no name costs no try.
func TestBrowseIsForBrowsers(t *testing.T) {
	h := newHost(t)
	s := h.showFor(forBrowser)
	if _, err := h.device("laptop").pin(s.PIN); palyra.AsError(err).Reason != palyra.ReasonPairingExpired {
		t.Errorf("a machine with a browser's code: %v", err)
	}
	other := browser(t, s.PIN)
	other.Principal = "user:bob"
	if _, err := h.browse(other); palyra.AsError(err).Reason != palyra.ReasonPairingExpired {
		t.Errorf("another person's browser: %v", err)
	}
	for name, change := range map[string]func(*palyra.BrowserKey){
		"no key":    func(b *palyra.BrowserKey) { b.PublicKey = "" },
		"short key": func(b *palyra.BrowserKey) { b.PublicKey = "AAAA" },
		"bad name":  func(b *palyra.BrowserKey) { b.Name = "a\u202eb" },
		"a device":  func(b *palyra.BrowserKey) { b.Name = "dev-0" },
	} {
		b := browser(t, s.PIN)
		change(&b)
		if _, err := h.browse(b); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if v := s.all(); v[len(v)-1].Tries != 0 || h.questions() != 0 {
		t.Errorf("%+v, %d asked", v, h.questions())
	}
	h.clock.advance(Life)
	if _, err := h.browse(browser(t, s.PIN)); palyra.AsError(err).Reason != palyra.ReasonPairingExpired {
		t.Errorf("too late: %v", err)
	}

	machines := newHost(t)
	m := machines.show()
	if _, err := machines.browse(browser(t, m.PIN)); palyra.AsError(err).Reason != palyra.ReasonPairingExpired {
		t.Errorf("a browser with a machine's code: %v", err)
	}
}

// A no, silence, a page that is closed and a device that is not the one asked about leave nothing.
func TestBrowseWithoutAYes(t *testing.T) {
	type asks = func(ctx context.Context, c Candidate, asked func(palyra.ApprovalID)) (Issued, error)
	for name, c := range map[string]struct {
		ask   asks
		want  palyra.Reason
		state palyra.PairingState
	}{
		"no": {func(context.Context, Candidate, func(palyra.ApprovalID)) (Issued, error) {
			return Issued{}, palyra.Errorf(palyra.Denied, palyra.ReasonPairingRefused, "no")
		}, palyra.ReasonPairingRefused, palyra.PairingRefused},
		"taken name": {func(context.Context, Candidate, func(palyra.ApprovalID)) (Issued, error) {
			return Issued{}, palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "taken")
		}, palyra.ReasonExists, palyra.PairingRefused},
		"silence": {func(context.Context, Candidate, func(palyra.ApprovalID)) (Issued, error) {
			return Issued{}, palyra.Errorf(palyra.Expired, palyra.ReasonApprovalExpired, "nobody")
		}, palyra.ReasonPairingExpired, palyra.PairingExpired},
		"another key": {func(_ context.Context, c Candidate, _ func(palyra.ApprovalID)) (Issued, error) {
			return Issued{Device: palyra.Device{PublicKey: c.PublicKey + "x"}}, nil
		}, palyra.ReasonPairingRefused, palyra.PairingRefused},
	} {
		h := newHost(t, func(h *host) { h.ask = c.ask })
		s := h.showFor(forBrowser)
		heard, err := h.browse(browser(t, s.PIN))
		if palyra.AsError(err).Reason != c.want || len(heard) != 1 {
			t.Errorf("%s: %v %+v", name, err, heard)
		}
		if last := s.wait(); last.State != c.state || last.Device != nil {
			t.Errorf("%s: %+v", name, last)
		}
	}
	h := newHost(t, func(h *host) {
		h.ask = func(ctx context.Context, _ Candidate, asked func(palyra.ApprovalID)) (Issued, error) {
			asked("A1")
			<-ctx.Done()
			return Issued{}, context.Cause(ctx)
		}
	})
	s := h.showFor(forBrowser)
	closed := errors.New("the page was closed")
	err := h.Browse(t.Context(), browser(t, s.PIN), func(palyra.Pairing) error { return closed })
	if err == nil || s.wait().State != palyra.PairingRefused || h.questions() != 0 {
		t.Errorf("a page that is gone before the question: %v, %d asked", err, h.questions())
	}
	s = h.showFor(forBrowser)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	err = h.Browse(ctx, browser(t, s.PIN), func(palyra.Pairing) error { return nil })
	if err == nil || s.wait().State != palyra.PairingGone {
		t.Errorf("a page that is closed while a person is asked: %v, %+v", err, s.all())
	}
}

// Of many browsers with one code one becomes a device.
func TestBrowseRace(t *testing.T) {
	h := newHost(t)
	s := h.showFor(forBrowser)
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for range 20 {
		b := browser(t, s.Code)
		wg.Go(func() {
			if _, err := h.browse(b); err == nil {
				mu.Lock()
				defer mu.Unlock()
				won++
			}
		})
	}
	wg.Wait()
	if won != 1 || h.questions() != 1 {
		t.Errorf("%d paired, %d asked", won, h.questions())
	}
}
