package palyra

// Kept is what the ledger keeps of a call, by plain SHA-256. It stands in the last line that was written together
// with it, so that whoever changes a text beside the daemon contradicts the journal. Lines from before it was kept do not have it.
type Kept struct {
	Document Digest `json:"document,omitempty"` // of its text; empty: it stands as an earlier line says
	Outcome  Digest `json:"outcome,omitempty"`  // of the body as it is kept, where that is less than was given
}

// With returns the event with what is kept of its call, and for the end of one that did not run with the digest of
// the outcome's body; false: the event has no place for it.
func (k Kept) With(e Event, body Digest) (Event, bool) {
	switch e := e.(type) {
	case CallJudged:
		e.Kept = k
		return e, true
	case CallGranted:
		e.Kept = k
		return e, true
	case CallSettling:
		e.Kept = k
		return e, true
	case CallFinished: // has its body from what was signed
		e.Kept = k
		return e, true
	case CallRefused:
		e.Kept, e.Body = k, body
		return e, true
	case CallCancelled:
		e.Kept, e.Body = k, body
		return e, true
	case CallUnknown:
		e.Kept, e.Body = k, body
		return e, true
	case CallChecked:
		e.Kept, e.Body = k, body
		return e, true
	case CallObserved:
		e.Kept, e.Body = k, body
		return e, true
	}
	return e, false
}
