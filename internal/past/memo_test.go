package past

import (
	"encoding/json"
	"fmt"
	"strings"
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
	d := newDesk(new(tools))
	err = d.part(raw, d.wholeProposer)
	if diff := cmp.Diff(want, d.now.who); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

// A tool has one number for each text, and what is remembered is bounded.
func TestToolsAreNumbered(t *testing.T) {
	m := new(tools)
	read := func(text string) int64 {
		t.Helper()
		tool, err := m.read([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return tool.id
	}
	a, b := read(`{"name":"a"}`), read(`{"name":"a","title":"x"}`)
	if a == 0 || a == b || read(`{"name":"a"}`) != a {
		t.Errorf("%d and %d", a, b)
	}
	if _, err := m.read([]byte(`{"name":7}`)); err == nil {
		t.Error("a number is read as a name")
	}
	long := strings.Repeat("x", 1<<20)
	for i := range 40 {
		read(fmt.Sprintf(`{"name":"%d","title":"%s"}`, i, long))
	}
	if m.bytes > maxTools || len(m.known) > 16 || read(`{"name":"a"}`) == a {
		t.Errorf("%d bytes, %d tools", m.bytes, len(m.known))
	}
}

// A plan is new once.
func TestPlansComeAgain(t *testing.T) {
	o := new(once)
	a, b := palyra.SumBytes([]byte("a")), palyra.SumBytes([]byte("b"))
	if o.again(a) || o.again(b) || !o.again(a) || !o.again(b) || o.again("") || o.again("") {
		t.Error("plans are mixed up")
	}
}
