package journal

import (
	"bytes"
	"fmt"
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
	var d canon.Doc
	var buffer []byte
	for i, c := range []struct {
		raw  Raw
		want []string // members that are not empty
	}{
		{got["A"][0], []string{`effect=s3:ask`, `policies=l1:s1:p`}}, {got["A"][1], []string{`again=t`}}, {got["B"][0], nil}, {got["A"][0], []string{`effect=s3:ask`}},
	} {
		var body canon.Value
		if body, buffer, err = c.raw.Body(&d, buffer); err != nil {
			t.Fatal(err)
		}
		if (body.Kind() == canon.Nothing) != (c.want == nil) || i%3 == 0 && member(body, "again").Kind() != canon.Nothing {
			t.Errorf("%d: a body is there: %q", i, body.Raw())
		}
		for _, one := range c.want {
			name, value, _ := strings.Cut(one, "=")
			v := member(body, name)
			if text, ok := v.Text(); ok && fmt.Sprintf("s%d:%s", len(text), text) != value || !ok && v.Raw() != value {
				t.Errorf("%d: %s is %q", i, name, v.Raw())
			}
		}
	}
	for _, bad := range []string{"", "z", "m0:", "m1:s4:bodyz", "m1:s4:body"} {
		if _, _, err := Raw(bad).Body(&d, nil); err == nil {
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
