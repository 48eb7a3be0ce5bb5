package gate

import (
	"testing"

	"palyra"
)

// While nothing can be signed nobody is asked and nothing runs, and the refusal says why. A check is judged all the same:
// nothing of it is attested.
func TestNothingRunsThatCannotBeSigned(t *testing.T) {
	locked := palyra.Errorf(palyra.Unavailable, palyra.ReasonVaultLocked, "the attestation key is in the vault").
		WithRemedy("palyra vault unlock")
	for _, effect := range []palyra.Effect{palyra.Allow, palyra.Ask} {
		w := newWorld(t)
		w.verdict, w.unready = always(effect), locked
		out, err := w.do(t.Context())
		w.wantRefusal(out, err, palyra.LayerJournal, palyra.ReasonVaultLocked)
		if out.Remedy != "palyra vault unlock" {
			t.Errorf("remedy %q", out.Remedy)
		}
	}
	w := newWorld(t)
	w.verdict, w.unready = always(palyra.Deny), locked
	if out, err := w.do(t.Context()); err != nil || out.Layer != palyra.LayerPolicy {
		t.Errorf("what policy denies: %+v, %v", out, err)
	}
	w = newWorld(t)
	w.unready = locked
	if out, err := w.check(t.Context(), palyra.Proposal{Check: true}); err != nil || out.Outcome == palyra.OutcomeRefused {
		t.Errorf("a check: %+v, %v", out, err)
	}
}
