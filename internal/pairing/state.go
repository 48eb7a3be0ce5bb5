package pairing

import "palyra"

// event is something that happens to an offer.
type event string

const (
	eventTry      event = "try"      // a device begins to prove
	eventMiss     event = "miss"     // the last try under way failed; there may be more
	eventLock     event = "lock"     // the same, and there may not
	eventProve    event = "prove"    // a try was right
	eventExpire   event = "expire"   // the code's time is over
	eventWithdraw event = "withdraw" // who showed the code took it back
	eventIssue    event = "issue"    // the person said yes and the certificate was made
	eventDeny     event = "deny"     // the person or policy said no
	eventSilence  event = "silence"  // nobody answered
	eventLose     event = "lose"     // the device or the offer's owner went away after the proof
	eventAck      event = "ack"      // the device stored what it got
)

// moves is the whole machine; what it does not name cannot happen. A code is good
// in the first two states only. After the proof it is not time that ends the
// offer but the person's answer; a withdrawal there ends the question, and the
// question's end moves the offer, since the answer may have come first.
var moves = map[palyra.PairingState]map[event]palyra.PairingState{
	palyra.PairingOffered: {
		eventTry: palyra.PairingTrying, eventExpire: palyra.PairingExpired, eventWithdraw: palyra.PairingGone,
	},
	palyra.PairingTrying: {
		eventTry: palyra.PairingTrying, eventMiss: palyra.PairingOffered, eventLock: palyra.PairingLocked,
		eventProve: palyra.PairingProven, eventExpire: palyra.PairingExpired, eventWithdraw: palyra.PairingGone,
	},
	palyra.PairingProven: {
		eventIssue: palyra.PairingIssued, eventDeny: palyra.PairingRefused, eventSilence: palyra.PairingExpired,
		eventLose: palyra.PairingGone,
	},
	palyra.PairingIssued: {eventAck: palyra.PairingDone, eventLose: palyra.PairingGone},
}

// next returns where e leads from s.
func next(s palyra.PairingState, e event) (palyra.PairingState, bool) {
	to, ok := moves[s][e]
	return to, ok
}

// final reports whether nothing follows s.
func final(s palyra.PairingState) bool { return len(moves[s]) == 0 }
