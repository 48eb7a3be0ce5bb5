package pairing

import (
	"context"
	"errors"
	"sync"
	"time"

	"palyra"
)

var (
	errWithdrawn = errors.New("pairing: the offer was withdrawn")
	errLeft      = errors.New("pairing: the device went away")
)

// offer is a PairingOffer that is shown.
type offer struct {
	id      palyra.ID
	what    palyra.PairingOffer
	expires time.Time
	notify  chan struct{} // capacity 1: there is something in queue

	mu     sync.Mutex // guards what follows
	pin    palyra.Secret
	token  palyra.Secret
	view   palyra.Pairing // without the code
	queue  []palyra.Pairing
	active int                     // tries under way
	cancel context.CancelCauseFunc // ends the question; nil when there is none
}

// Offer shows a code and reports what becomes of it, through emit, up to a final state. The code is in the first
// report only. When ctx ends or emit fails the offer is withdrawn; a question that a person is being asked is
// withdrawn too, unless the answer is already there. There is one offer at a time.
func (o *Office) Offer(ctx context.Context, what palyra.PairingOffer, emit func(palyra.Pairing) error) error {
	if what.Principal.Kind() != "user" || what.Principal.Name() == "" || what.Role == "" || what.By == "" {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "a device is offered to a user, in a role, by someone").
			WithRemedy("name a user such as user:alice and a role such as approver")
	}
	f, err := o.reserve(what)
	if err != nil {
		return err
	}
	defer o.release(f)
	if err := o.c.Record(ctx, palyra.PairingOpened{
		Pairing: f.id, Principal: what.Principal, Role: what.Role, Browser: what.Browser, ExpiresAt: f.expires, By: what.By,
		Signature: what.Signature,
	}); err != nil {
		return err
	}
	o.mu.Lock()
	o.shown = true
	o.mu.Unlock()
	o.changed()
	if err := o.queueFirstReport(f); err != nil {
		return err
	}
	return f.follow(ctx, o.c.Now, emit)
}

// reserve makes the offer the current one; it cannot be tried yet.
func (o *Office) reserve(what palyra.PairingOffer) (*offer, error) {
	pin, err := newPIN()
	if err != nil {
		return nil, err
	}
	token, err := newToken()
	if err != nil {
		return nil, err
	}
	f := &offer{id: o.c.NewID(), what: what, pin: pin, token: token, expires: o.c.Now().Add(o.life), notify: make(chan struct{}, 1)}
	f.view = palyra.Pairing{
		ID: f.id, State: palyra.PairingOffered, ExpiresAt: f.expires, Principal: what.Principal, Role: what.Role,
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.current != nil {
		return nil, palyra.Errorf(palyra.Conflict, palyra.ReasonPairingBusy, "another pairing code is shown already").
			WithRemedy("use that one, or end the command that shows it")
	}
	o.current, o.shown = f, false
	return f, nil
}

// release ends the offer, whatever state it is in.
func (o *Office) release(f *offer) {
	f.withdraw() // for one that never got as far as being followed
	f.mu.Lock()
	f.pin.Destroy()
	f.token.Destroy()
	state := f.view.State
	f.mu.Unlock()
	o.mu.Lock()
	o.current, o.shown, o.last = nil, false, state
	o.mu.Unlock()
	o.changed()
}

// queueFirstReport queues the report with the code in it before all others.
func (o *Office) queueFirstReport(f *offer) error {
	code, err := o.codeOf(f)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.view
	v.State = palyra.PairingOffered
	v.Addresses, v.Code = code.Addresses, code.String()
	if f.what.Browser {
		v.Code = code.secret()
	}
	if err := f.pin.Use(func(p []byte) error { v.PIN = string(p); return nil }); err != nil {
		return err
	}
	f.queue = append([]palyra.Pairing{v}, f.queue...)
	f.wake()
	return nil
}

// codeOf is what the code says. A browser is signed in to this daemon already: it needs the secret alone.
func (o *Office) codeOf(f *offer) (Code, error) {
	if f.what.Browser {
		return Code{Token: f.token}, nil
	}
	var addresses []string
	for _, a := range o.c.Addresses() {
		if CheckAddress(a) == nil && len(addresses) < maxAddresses {
			addresses = append(addresses, a)
		}
	}
	authorities := o.c.Authorities()
	if len(addresses) == 0 || len(authorities) == 0 {
		return Code{}, palyra.Errorf(palyra.Unavailable, palyra.ReasonDisabled, "there is no address at which a device could reach this daemon").
			WithRemedy("set remote.listen to an address of this machine")
	}
	pinned, err := authorityPin(authorities[0])
	return Code{Addresses: addresses, Pin: pinned, Token: f.token}, err
}

// follow reports every change up to a final state.
func (f *offer) follow(ctx context.Context, now func() time.Time, emit func(palyra.Pairing) error) error {
	timer := time.NewTimer(f.expires.Sub(now()))
	defer timer.Stop()
	done, failed := ctx.Done(), error(nil)
	for {
		select {
		case <-f.notify:
		case <-timer.C:
			f.expire()
		case <-done:
			done, failed = nil, context.Cause(ctx)
			f.withdraw()
		}
		for _, v := range f.take() {
			if failed == nil {
				if failed = emit(v); failed != nil {
					f.withdraw()
				}
			}
			if final(v.State) {
				return failed
			}
		}
	}
}

func (f *offer) take() []palyra.Pairing {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queue
	f.queue = nil
	return q
}

// move applies e and reports it; f.mu is held. An event that the state does not know changes nothing.
func (f *offer) move(e offerEvent, change func(*palyra.Pairing)) bool {
	to, ok := next(f.view.State, e)
	if !ok {
		return false
	}
	f.view.State = to
	if change != nil {
		change(&f.view)
	}
	f.report()
	return true
}

func (f *offer) report() {
	f.queue = append(f.queue, f.view)
	f.wake()
}

func (f *offer) wake() {
	select {
	case f.notify <- struct{}{}:
	default:
	}
}

// withReason returns a change that says why an offer ended.
func withReason(r palyra.Reason, text string) func(*palyra.Pairing) {
	return func(v *palyra.Pairing) { v.Reason, v.Text = r, text }
}

func (f *offer) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.move(eventExpire, withReason(palyra.ReasonPairingExpired, "nobody proved the code in time"))
}

// withdraw ends the offer, or the question that came of it.
func (f *offer) withdraw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.move(eventWithdraw, withReason(palyra.ReasonCancelled, "the code was withdrawn")) && f.cancel != nil {
		f.cancel(errWithdrawn)
	}
}
