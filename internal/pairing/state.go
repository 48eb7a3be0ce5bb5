package pairing

import "palyra"

// offerEvent is something that happens to an offer.
type offerEvent string

const (
	eventTry      offerEvent = "try"      // a device begins to prove
	eventMiss     offerEvent = "miss"     // the last try under way failed; there may be more
	eventLock     offerEvent = "lock"     // the same, and there may not
	eventProve    offerEvent = "prove"    // a try was right
	eventExpire   offerEvent = "expire"   // the code's time is over
	eventWithdraw offerEvent = "withdraw" // who showed the code took it back
	eventIssue    offerEvent = "issue"    // the person said yes and the certificate was made
	eventDeny     offerEvent = "deny"     // the person or policy said no
	eventSilence  offerEvent = "silence"  // nobody answered
	eventLose     offerEvent = "lose"     // the device or the offer's owner went away after the proof
	eventAck      offerEvent = "ack"      // the device stored what it got
)

// moves is the whole state machine; a move that it does not name cannot happen. A code is good in the first
// two states only. After the proof the person's answer ends the offer, and not time; a withdrawal there ends
// the question, and the question's end moves the offer, since the answer may have come first.
var moves = map[palyra.PairingState]map[offerEvent]palyra.PairingState{
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
func next(s palyra.PairingState, e offerEvent) (palyra.PairingState, bool) {
	to, ok := moves[s][e]
	return to, ok
}

// final reports whether nothing follows s.
func final(s palyra.PairingState) bool { return len(moves[s]) == 0 }
