package pairing

import (
	"context"
	"time"

	"palyra"
)

// refusal says why a code cannot be used in a state; f.mu is held.
func (f *offer) refusal() error {
	switch f.view.State {
	case palyra.PairingProven, palyra.PairingIssued, palyra.PairingDone:
		return problem(palyra.ReasonPairingBusy)
	case palyra.PairingLocked:
		return problem(palyra.ReasonPairingLocked)
	}
	return problem(palyra.ReasonPairingExpired)
}

// usable reports whether the code may be used now; f.mu is held. It looks at the
// clock itself: the one who watches the offer may be slow.
func (f *offer) usable(now time.Time) error {
	if !now.Before(f.expires) {
		f.move(eventExpire, withReason(palyra.ReasonPairingExpired, "nobody proved the code in time"))
	}
	if s := f.view.State; s != palyra.PairingOffered && s != palyra.PairingTrying {
		return f.refusal()
	}
	return nil
}

// try counts a try before anything is said that depends on the code.
func (f *offer) try(now time.Time, address string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(now); err != nil {
		return err
	}
	if f.view.Tries >= Tries { // the last one is still under way
		return problem(palyra.ReasonPairingLocked)
	}
	f.active++
	f.move(eventTry, func(v *palyra.Pairing) { v.Tries, v.Address = v.Tries+1, address })
	return nil
}

// miss ends a try that failed and returns what to say of it, and how many there were.
func (f *offer) miss(why palyra.Reason) (palyra.Reason, int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active--
	if f.active > 0 || f.view.State != palyra.PairingTrying {
		return why, f.view.Tries
	}
	if f.view.Tries < Tries {
		f.move(eventMiss, nil)
		return why, f.view.Tries
	}
	f.move(eventLock, withReason(palyra.ReasonPairingLocked, "the code was tried too often, the last time from "+f.view.Address))
	return palyra.ReasonPairingLocked, f.view.Tries
}

// prove ends a try that succeeded and with it the code. Of two devices that both know it the second comes too late.
func (f *offer) prove(now time.Time, c Candidate, cancel context.CancelCauseFunc) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active--
	if err := f.usable(now); err != nil {
		return err
	}
	f.cancel = cancel
	f.move(eventProve, func(v *palyra.Pairing) {
		v.Name, v.KeyID, v.Print, v.Address = c.Name, c.KeyID, c.Fingerprint, c.Address
	})
	return nil
}

// asked adds the question's id to the reports.
func (f *offer) asked(approval palyra.ApprovalID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.view.State == palyra.PairingProven && f.view.Approval == "" {
		f.view.Approval = approval
		f.report()
	}
}

// settle is move for events after the proof.
func (f *offer) settle(e offerEvent, change func(*palyra.Pairing)) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.move(e, change)
}

func (f *offer) snapshot() palyra.Pairing {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view
}
