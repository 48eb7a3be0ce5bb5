package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"

	"palyra"
	"palyra/internal/journal"
)

// Claim is the statement of a kept piece of evidence about a journal: that it had an entry with
// that leaf hash, or so many entries with that root, or both.
type Claim struct {
	Form string        `json:"form"` // checkpoint, proof, export, attestation, outcome
	Seq  int64         `json:"seq"`  // the entry that the journal must have
	Root palyra.Digest `json:"root,omitempty"`
	Leaf palyra.Digest `json:"leaf,omitempty"`
}

// ReadClaim checks a kept checkpoint, proof, export, attestation or outcome, and returns its claim.
func ReadClaim(ctx context.Context, path string, t Trust) (Claim, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Claim{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%q cannot be read", path).WithCause(err)
	}
	var doc struct {
		Format string          `json:"format"`
		Note   string          `json:"note"`
		Type   string          `json:"payloadType"`
		Signed json.RawMessage `json:"attestation"`
	}
	first, _, _ := bytes.Cut(raw, []byte("\n"))
	switch {
	case json.Unmarshal(raw, &doc) == nil && (doc.Type != "" || len(doc.Signed) > 0):
		r, err := VerifyAttestation(raw, t)
		return Claim{Form: r.Form, Seq: r.Granted.Seq, Leaf: r.Granted.Leaf}, err
	case strings.HasPrefix(doc.Format, "palyra-journal-proof/"):
		r, err := VerifyProof(raw, t)
		return Claim{Form: "proof", Seq: r.Size, Root: r.Root}, err
	case doc.Note != "":
		return checkpoint(doc.Note, t)
	case json.Valid(first) && len(first) > 0:
		r, err := VerifyJournal(ctx, path, t, nil)
		return Claim{Form: "export", Seq: r.Size, Root: r.Root}, err
	}
	return checkpoint(string(raw), t)
}

func checkpoint(text string, t Trust) (Claim, error) {
	c, err := journal.OpenCheckpoint(text, t.verifiers())
	return Claim{Form: "checkpoint", Seq: c.Size, Root: c.Root}, err
}

// The results of comparing a claim with a journal.
const (
	ClaimHeld  = "held"  // the journal agrees with the claim
	ClaimOlder = "older" // the journal ends before the claimed entry: an older copy was put in place
	ClaimOther = "other" // the journal has a different entry or root there
)

// Mark is a journal as it was when an entry was its last.
type Mark = journal.Mark

// Against compares a claim with a journal of that size; m is the journal's mark at the claim's
// entry, if it has that entry.
func (c Claim) Against(size int64, m Mark) string {
	switch {
	case c.Seq > size:
		return ClaimOlder
	case m.Size != c.Seq, c.Root != "" && c.Root != m.Root, c.Leaf != "" && c.Leaf != m.Leaf:
		return ClaimOther
	}
	return ClaimHeld
}

// MarkOf checks the proof of an entry and returns the journal's mark there.
func MarkOf(proof []byte, t Trust) (Mark, error) { return journal.MarkOf(proof, t.verifiers()) }

// MarkInFile returns the mark at an entry of a copy of a state file, and the number of its entries.
// It does not check the copy: VerifyJournal does.
func MarkInFile(ctx context.Context, path string, seq int64) (Mark, int64, error) {
	return journal.MarkInFile(ctx, path, seq)
}
