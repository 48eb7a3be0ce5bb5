package pairing

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/subtle"
	"encoding/base64"

	"palyra"
	"palyra/internal/passkey"
)

// browserPlace is where browsers are said to come from: the console's door lets in this machine only.
const browserPlace = "console"

// Browse has a browser on the daemon's own machine use the code that is shown for one. The console's door has said
// whom the browser is signed in as. What becomes of it goes to emit, without the code: that the code was right, so
// that the person compares the fingerprints, and the device when they said yes. The end of ctx withdraws the question.
func (o *Office) Browse(ctx context.Context, b palyra.BrowserKey, emit func(palyra.Pairing) error) error {
	key, err := browserKey(b)
	if err != nil {
		return err
	}
	if err := CheckName(b.Name); err != nil {
		return err
	}
	f, err := o.browsed(ctx, b)
	if err != nil {
		return inBrowser(err)
	}
	c := Candidate{
		Pairing: f.id, Name: b.Name, KeyID: KeyID(key), PublicKey: b.PublicKey, Address: cmp.Or(b.Console, browserPlace),
		Fingerprint: Fingerprint(key), Principal: f.what.Principal, Role: f.what.Role, By: f.what.By, Browser: true, Passkey: b.Passkey,
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := f.prove(o.c.Now(), c, cancel); err != nil {
		o.failed(ctx, palyra.PairingFailed{Pairing: f.id, Reason: palyra.AsError(err).Reason, Address: browserPlace, Tries: f.snapshot().Tries})
		return inBrowser(err)
	}
	return o.askAbout(ctx, f, c, emit)
}

// browserKey is the key of a browser, or of a passkey.
func browserKey(b palyra.BrowserKey) ([]byte, error) {
	if b.Passkey != nil {
		key, err := passkey.ParseKey(b.PublicKey)
		if err != nil {
			return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%v", err)
		}
		return key.DER, nil
	}
	key, err := base64.StdEncoding.Strict().DecodeString(b.PublicKey)
	if err != nil || len(key) != ed25519.PublicKeySize || publicText(key) != b.PublicKey {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the public key is not an Ed25519 key in base64")
	}
	return key, nil
}

// browsed counts a browser's try and checks its code.
func (o *Office) browsed(ctx context.Context, b palyra.BrowserKey) (*offer, error) {
	if !tryAcquire(o.slots) {
		return nil, problem(palyra.ReasonPairingBusy)
	}
	defer func() { <-o.slots }()
	f, err := o.live(true)
	if err == nil && f.what.Principal != b.Principal {
		err = problem(palyra.ReasonPairingExpired)
	}
	if err != nil {
		return nil, err
	}
	done, after, ok := o.c.Limit.Try(browserPlace)
	if !ok {
		return nil, problem(palyra.ReasonRateLimited).WithAfter(after)
	}
	if err := f.try(o.c.Now(), browserPlace); err != nil {
		done(false)
		return nil, err
	}
	right := f.opens(b.Code)
	done(right)
	if !right {
		why, n := f.miss(palyra.ReasonPairingWrongCode)
		o.failed(ctx, palyra.PairingFailed{Pairing: f.id, Reason: why, Address: browserPlace, Tries: n})
		return nil, problem(why)
	}
	return f, nil
}

// opens reports whether a text is the offer's PIN or the secret of its code.
func (f *offer) opens(code palyra.Secret) (ok bool) {
	pin, token := code, palyra.Secret{}
	if clean, err := cleanPIN(code); err == nil {
		pin = clean
	}
	_ = code.Use(func(b []byte) error {
		raw, err := base64.RawURLEncoding.Strict().DecodeString(string(b))
		token = palyra.NewSecret(raw)
		return err
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	return same(pin, f.pin) || same(token, f.token)
}

// same compares two secrets in a time that says nothing. An empty one is like no other.
func same(a, b palyra.Secret) (ok bool) {
	_ = a.Use(func(x []byte) error {
		return b.Use(func(y []byte) error {
			ok = len(x) > 0 && subtle.ConstantTimeCompare(x, y) == 1
			return nil
		})
	})
	return ok
}

// askAbout asks the person about a browser that knew the code.
func (o *Office) askAbout(ctx context.Context, f *offer, c Candidate, emit func(palyra.Pairing) error) error {
	ctx, stop := context.WithTimeout(ctx, askMost)
	defer stop()
	err := emit(f.snapshot())
	if err == nil {
		var issued Issued
		issued, err = o.c.Ask(ctx, c, f.asked)
		if err == nil && issued.Device.PublicKey != c.PublicKey {
			err = palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "the device is not the one that was asked about")
		}
		if err == nil {
			f.settle(eventIssue, func(p *palyra.Pairing) { p.Device = &issued.Device })
			f.settle(eventAck, nil)
			return emit(f.snapshot())
		}
	}
	end := unanswered(context.Cause(ctx), err)
	o.failed(ctx, palyra.PairingFailed{
		Pairing: c.Pairing, Reason: palyra.AsError(end.told).Reason, Address: browserPlace, Tries: f.snapshot().Tries,
	})
	f.settle(end.event, withReason(end.shown, end.text))
	return inBrowser(end.told)
}

// inBrowser is a problem with the remedy of one who sits at a browser.
func inBrowser(err error) error {
	e := palyra.AsError(err)
	switch e.Reason {
	case palyra.ReasonPairingExpired, palyra.ReasonPairingLocked, palyra.ReasonPairingWrongCode, palyra.ReasonPairingBroken:
		return e.WithRemedy("run 'palyra console pair' in a terminal, and use the link or the PIN that it shows within %.0f minutes",
			Life.Minutes())
	case palyra.ReasonExists:
		return e.WithRemedy("try again: the browser takes another name")
	}
	return err
}
