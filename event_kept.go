package palyra

// Kept is what the ledger keeps of a call, by plain SHA-256. It stands in the last line that was written together
// with it, so that whoever changes a text beside the daemon contradicts the journal. Lines from before it was kept do not have it.
type Kept struct {
	Document Digest `json:"document,omitempty"` // of its text; empty: it stands as an earlier line says
	Outcome  Digest `json:"outcome,omitempty"`  // of the body as it is kept, where that is less than was given
}
