package past

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

func TestReadProposer(t *testing.T) {
	want := palyra.Proposer{
		Principal: "agent:a", Owner: "user:é", Session: "s", Run: "r", Parent: "p", Surface: palyra.SurfaceCLI,
		CallsUsed: 3, CallsMax: 1 << 60,
	}
	whole := palyra.Proposal{Proposer: want, Arguments: json.RawMessage(`{"a":[1]}`), Tool: "t"}
	whole.Labels = []string{"x"}
	raw, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readProposer(raw, new(scratch))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// What comes by once is not kept; what comes by again is, within bounds.
func TestMemoKeepsWhatComesAgain(t *testing.T) {
	m, s := newMemo(ReadJudgedPlan), new(scratch)
	read := func(text string) *remembered[palyra.Plan] {
		t.Helper()
		r, err := m.read([]byte(text), s)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if first := read(`{"tool":"a"}`); first.id != 0 || len(m.known) != 0 {
		t.Errorf("kept at once: %d", first.id)
	}
	second, other := read(`{"tool":"a"}`), read(`{"tool":"b"}`)
	if third := read(`{"tool":"a"}`); second.id == 0 || third != second || other.id != 0 || third.value.Tool != "a" || third.sum == other.sum {
		t.Errorf("%+v %+v %+v", second, third, other)
	}
	for i := range maxOnce + 10 {
		read(fmt.Sprintf(`{"tool":"%d"}`, i))
	}
	if len(m.once) > maxOnce || len(m.known) != 1 {
		t.Errorf("%d and %d are kept", len(m.once), len(m.known))
	}
}
