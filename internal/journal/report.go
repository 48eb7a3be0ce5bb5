package journal

import (
	"fmt"

	"palyra"
)

// Report is what a verification found.
type Report struct {
	Source      string        `json:"source"` // live, database, export, proof
	Origin      string        `json:"origin"`
	From        int64         `json:"from"` // the entries looked at
	To          int64         `json:"to"`
	Size        int64         `json:"size"` // entries the signed head covers
	Root        palyra.Digest `json:"root"`
	Chain       palyra.Digest `json:"chain"`
	Time        string        `json:"time"` // of the head
	Key         string        `json:"key"`  // that signed it: <name>+<hash>
	Checkpoints int64         `json:"checkpoints"`
	Problem     *Problem      `json:"problem"`         // null: everything is as it was written
	Notes       []string      `json:"notes,omitempty"` // records that could only be checked in part
}

// Problem is the first thing found wrong.
type Problem struct {
	Seq     int64  `json:"seq"`               // the first bad entry; 0 when it is not about an entry
	Through int64  `json:"through,omitempty"` // set when the bad entry is one of Seq to Through, and it cannot be told which
	Why     string `json:"why"`
}

// String is the problem in a sentence.
func (p Problem) String() string {
	switch {
	case p.Seq == 0:
		return p.Why
	case p.Through > p.Seq:
		return fmt.Sprintf("entries %d to %d: %s", p.Seq, p.Through, p.Why)
	}
	return fmt.Sprintf("entry %d: %s", p.Seq, p.Why)
}

func problem(seq int64, format string, args ...any) *Problem {
	return &Problem{Seq: seq, Why: fmt.Sprintf(format, args...)}
}

// result turns a report into what a verification returns: a problem is an error
// too, so that nobody takes a report for a clean one by not looking.
func (r Report) result() (Report, error) {
	if r.Problem == nil {
		return r, nil
	}
	return r, palyra.Errorf(palyra.Invalid, palyra.ReasonVerifyFailed, "the journal does not verify: %s", r.Problem).
		WithRemedy("keep this copy as evidence; restore the state from a backup that verifies")
}

func (r *Report) covers(h head) {
	r.Origin, r.Size, r.Root, r.Chain, r.Time, r.Key = h.origin, h.size, digest(h.root), digest(h.chain), h.time, h.key
}
