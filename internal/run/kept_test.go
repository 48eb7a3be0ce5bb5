package run

import (
	"crypto/rand"
	"encoding/base64"
	"testing"

	"palyra"
	"palyra/internal/run/dailybytes"
	"palyra/internal/store"
)

// noise is text that cannot be packed.
func noise(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

// An agent that calls and calls keeps so much of a day and no more: then its calls
// go on, and of what they were asked only sizes and digests stay. Others keep theirs.
func TestCallsKeepSoMuchOfADay(t *testing.T) {
	const most = 256 << 10
	w := newWorld(t)
	w.ledger.Budget(most)
	call := func(who palyra.Principal) *palyra.Call {
		t.Helper()
		p := w.proposal(`{"text":"` + noise(24<<10) + `"}`)
		p.Principal = who
		out, err := w.calls.Check(t.Context(), p, palyra.Watch{})
		if err != nil || out.Outcome != palyra.OutcomeAllowed {
			t.Fatal(out, err)
		}
		c, err := w.calls.Get(t.Context(), out.CallID)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	kept := func() (n int64) {
		err := w.db.Read(t.Context(), func(tx *store.Tx) error {
			return tx.Get(`SELECT sum(length(doc) + length(outcome)) FROM calls WHERE principal='agent:test'`, nil, &n)
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if c := call("agent:test"); len(c.Proposal.Arguments) < 24<<10 {
		t.Errorf("%d bytes of the first call's arguments are kept", len(c.Proposal.Arguments))
	}
	var last *palyra.Call
	for range 30 {
		last = call("agent:test")
	}
	if string(last.Proposal.Arguments) != "null" || string(last.Plan.Arguments) != "null" ||
		last.Detail.Notes[0] != dailybytes.ArgumentsNotKept || last.Input == "" || last.Plan.Tool == "" {
		t.Errorf("%.200s %.200s %q", last.Proposal.Arguments, last.Plan.Arguments, last.Detail.Notes)
	}
	if n := kept(); n > 2*most {
		t.Errorf("%d bytes are kept", n)
	}
	if c := call("agent:other"); len(c.Proposal.Arguments) < 24<<10 {
		t.Error("another's calls are not kept")
	}
	w.restart()
	w.ledger.Budget(most)
	for range 30 {
		call("agent:test")
	}
	if n := kept(); n > 2*most {
		t.Errorf("%d bytes are kept after a restart", n)
	}
}
