package journal

import (
	"bytes"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/canon"
)

// Entries of calls are found by kind, in order, and read without a detour.
func TestEntriesOfCalls(t *testing.T) {
	j := newFixture(t)
	for _, e := range []palyra.Event{
		palyra.CallProposed{Call: "A"},
		palyra.CallJudged{Call: "A", Effect: palyra.Ask, Policies: []string{"p"}},
		palyra.CallJudged{Call: "A", Effect: palyra.Allow, Again: true},
		palyra.CallJudged{Call: "B", Policies: []string{strings.Repeat("x", MaxBody)}},
	} {
		if _, err := j.Record(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	got, err := j.Of(t.Context(), "call.judged", []palyra.CallID{"A", "B", "C"})
	if err != nil || len(got) != 2 || len(got["A"]) != 2 || len(got["B"]) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	first, err := got["A"][0].Body()
	if err != nil || first["effect"] != "ask" || first["again"] != nil || first["policies"].([]any)[0] != "p" {
		t.Errorf("%v, %v", first, err)
	}
	if again, err := got["A"][1].Body(); err != nil || again["again"] != true {
		t.Errorf("%v, %v", again, err)
	}
	if cut, err := got["B"][0].Body(); err != nil || cut != nil {
		t.Errorf("a body that was not kept: %v, %v", cut, err)
	}
	for _, bad := range []string{"", "z", "m0:", "m1:s4:bodyz", "m1:s4:body"} {
		if _, err := Raw(bad).Body(); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	if _, err := j.Of(t.Context(), "call.judged", make([]palyra.CallID, maxCalls+1)); err == nil {
		t.Error("too many at once")
	}
}

func TestCanonical(t *testing.T) {
	raw := []byte(`{"b":[1,"é\u003c"],"a":null}`)
	got, err := fromJSON(raw)
	want, werr := canon.FromJSON(raw)
	if err != nil || werr != nil || !bytes.Equal(got, want) {
		t.Errorf("%q, not %q: %v %v", got, want, err, werr)
	}
}
