package palyra_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/canon"
)

// The bytes of a proposal are those of every record, whichever way they are written: as a call's document, with HTML
// characters escaped, or as they are.
func TestProposalOnRecord(t *testing.T) {
	full := palyra.Proposal{
		Proposer: palyra.Proposer{
			Principal: "agent:a", Owner: "user:<é>", PeerUID: 7, Surface: palyra.SurfaceMCP, Session: "S", Run: "R", CallsUsed: 2, CallsMax: 9,
			Labels: []string{"l"}, Parent: "P", Purpose: "a & b", Within: []string{"/w"}, Room: "M", Line: []palyra.CallID{"O", "P"},
			Origin: "agent:o", Credential: "token:t", Scopes: []palyra.Permission{"call"}, Inside: true,
		},
		Key: "k", Workspace: "/w/x", Tool: "palyra.echo", Arguments: json.RawMessage(`{ "b": 1.50, "a": "<\u2028>" }`),
		NoWait: true, Check: true, TimeoutMS: 5,
	}
	const empty = `{"principal":"","peer_uid":0,"door":"","session":"","tool":"","arguments":null}`
	const plain = `{"key":"k","principal":"agent:a","owner":"user:<é>","peer_uid":7,"door":"mcp","session":"S","run":"R",` +
		`"workspace":"/w/x","tool":"palyra.echo","arguments":{"b":1.50,"a":"<\u2028>"},"no_wait":true,"check":true,"timeout_ms":5,` +
		`"calls_used":2,"calls_max":9,"labels":["l"],"parent":"P","purpose":"a & b","within":["/w"],` +
		`"room":"M","line":["O","P"],"origin":"agent:o","credential":"token:t","scopes":["call"]}`
	const escaped = `{"key":"k","principal":"agent:a","owner":"user:\u003cé\u003e","peer_uid":7,"door":"mcp","session":"S","run":"R",` +
		`"workspace":"/w/x","tool":"palyra.echo","arguments":{"b":1.50,"a":"\u003c\u2028\u003e"},"no_wait":true,"check":true,"timeout_ms":5,` +
		`"calls_used":2,"calls_max":9,"labels":["l"],"parent":"P","purpose":"a \u0026 b","within":["/w"],` +
		`"room":"M","line":["O","P"],"origin":"agent:o","credential":"token:t","scopes":["call"]}`
	for name, c := range map[string]struct {
		write func(any) ([]byte, error)
		word  palyra.Proposal
		want  string
	}{
		"nothing":  {json.Marshal, palyra.Proposal{}, empty},
		"escaped":  {json.Marshal, full, escaped},
		"as it is": {canon.JSON, full, plain},
	} {
		for _, v := range []any{c.word, &c.word} {
			if got, err := c.write(v); err != nil || string(got) != c.want {
				t.Errorf("%s: %v\n%s\n%s", name, err, got, c.want)
			}
		}
		if got, err := c.write(palyra.Call{Proposal: c.word}); err != nil || !strings.Contains(string(got), `"proposal":`+c.want+`,"state"`) {
			t.Errorf("%s, in a call: %v\n%s", name, err, got)
		}
	}
	var back palyra.Proposal
	if err := json.Unmarshal([]byte(plain), &back); err != nil {
		t.Fatal(err)
	}
	want := full
	want.Inside, want.Arguments = false, json.RawMessage(`{"b":1.50,"a":"<\u2028>"}`)
	if d := cmp.Diff(want, back); d != "" {
		t.Error(d)
	}
}

// Every member of both halves is written, also one that is added later.
func TestProposalWritesAll(t *testing.T) {
	full := filled[palyra.Proposal](t)
	raw, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var back palyra.Proposal
	if err := canon.Strict(raw, &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(full, back); d != "" {
		t.Error(d)
	}
	var names map[string]json.RawMessage
	if err := json.Unmarshal(raw, &names); err != nil {
		t.Fatal(err)
	}
	n := 0
	tags(reflect.TypeFor[palyra.Proposal](), map[reflect.Type]bool{}, func(_ reflect.Type, f reflect.StructField, name string) {
		n++
		if names[name] == nil {
			t.Errorf("%s is not on record as %s", f.Name, name)
		}
	})
	if n != len(names) {
		t.Errorf("%d members of %d", len(names), n)
	}
}

// The document of a call is its JSON.
func TestCallDocument(t *testing.T) {
	odd := filled[palyra.Call](t)
	odd.Proposal.Purpose, odd.Proposal.Arguments = "<a & b>", json.RawMessage(`{ "b": 1.50, "a": "<\u2028>" }`)
	for _, c := range []palyra.Call{{}, odd} {
		want, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Document()
		if d := cmp.Diff(string(want), string(got)); err != nil || d != "" {
			t.Error(err, d)
		}
	}
}

// What comes out of a call is its proposer's, one call further in.
func TestChild(t *testing.T) {
	parent := &palyra.Call{ID: "P", Proposal: filled[palyra.Proposal](t)}
	parent.Proposal.Line = []palyra.CallID{"O"}
	want := parent.Proposal.Proposer
	want.Line, want.Parent, want.Purpose, want.Labels, want.Scopes = []palyra.CallID{"O", "P"}, "P", "npm", nil, nil
	if d := cmp.Diff(want, parent.Proposal.Child(parent, "npm")); d != "" {
		t.Error(d)
	}
	parent.Plan.AgentSocket, want.Inside = true, true
	if d := cmp.Diff(want, parent.Proposal.Child(parent, "npm")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]palyra.CallID{"O"}, parent.Proposal.Line); d != "" {
		t.Error(d)
	}
}
