package main

import (
	"strings"
	"testing"

	"palyra/internal/attest/attesttest"
)

// What was only observed is no evidence that anything was gated, also where the outcome carries somebody else's attestation.
func TestObservedOutcomesAreNoEvidence(t *testing.T) {
	check, n := check(t), 0
	for _, sample := range attesttest.Genuine() {
		text := strings.Replace(string(sample.Text), `"outcome":"finished"`, `"outcome":"observed"`, 1)
		if text == string(sample.Text) { // an envelope
			continue
		}
		n++
		if err := check([]byte(text)); err == nil || !strings.Contains(err.Error(), "observed and not held") {
			t.Errorf("%s: %v", sample.Name, err)
		}
	}
	if err := check([]byte(`{"outcome":"observed","tool":"palyra.process.run"}`)); n == 0 || !strings.Contains(err.Error(), "observed and not held") {
		t.Errorf("%d outcomes, %v", n, err)
	}
}

// A journal that says of one call that it was held and that it was not holds nothing.
func TestObservedAndGated(t *testing.T) {
	for _, c := range []struct {
		kinds string
		bad   bool
		n     any
	}{
		{"call.proposed call.observed", false, int64(1)},
		{"call.proposed call.granted call.finished", false, nil},
		{"call.observed call.granted", true, nil},
		{"call.checked call.observed", true, nil},
		{"call.finished call.observed", true, nil},
	} {
		w := watch{ends: map[string]string{}}
		err := func() (err error) {
			defer refused(&err)
			for _, kind := range strings.Fields(c.kinds) {
				w.hear(object{"call_id": "C", "kind": kind})
			}
			return nil
		}()
		if (err != nil) != c.bad || !c.bad && w.observed() != c.n {
			t.Errorf("%s: %v, %v", c.kinds, err, w.observed())
		}
	}
}
