// Package keptline puts the digests of what the ledger keeps of a call into the line that is written together with it.
package keptline

import "palyra"

// With returns the event with what is kept of its call, and for the end of one that did not run with the digest of
// the outcome's body; false: the event has no place for it.
func With(k palyra.Kept, e palyra.Event, body palyra.Digest) (palyra.Event, bool) {
	switch e := e.(type) {
	case palyra.CallJudged:
		e.Kept = k
		return e, true
	case palyra.CallGranted:
		e.Kept = k
		return e, true
	case palyra.CallSettling:
		e.Kept = k
		return e, true
	case palyra.CallFinished: // has its body from what was signed
		e.Kept = k
		return e, true
	case palyra.CallRefused:
		e.Kept, e.Body = k, body
		return e, true
	case palyra.CallCancelled:
		e.Kept, e.Body = k, body
		return e, true
	case palyra.CallUnknown:
		e.Kept, e.Body = k, body
		return e, true
	case palyra.CallChecked:
		e.Kept, e.Body = k, body
		return e, true
	case palyra.CallObserved:
		e.Kept, e.Body = k, body
		return e, true
	}
	return e, false
}
