package past

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"palyra"
)

// sameRow holds what a desk knows of a row against what is read part by part, and reports whether the desk knows it.
func sameRow(t interface {
	Helper()
	Fatalf(string, ...any)
}, d *desk, text string,
) bool {
	t.Helper()
	if !d.known(text) {
		return false
	}
	got, slow := d.now, newDesk(d.tools)
	if err := slow.slowly([]byte(text)); err != nil || slow.now.bad != nil {
		t.Fatalf("%s\nis read, and part by part it is not: %v %v", text, err, slow.now.bad)
	}
	if diff := cmp.Diff(slow.now, got, cmp.AllowUnexported(told{}, numberedTool{}), cmpopts.IgnoreFields(told{}, "bad")); diff != "" {
		t.Fatalf("%s\n%s", text, diff)
	}
	return true
}

// someRow is the row of a call with anything in its plan.
func someRow(t *rapid.T) string {
	word := rapid.SampledFrom([]string{"", "a", "a<b", "é\n\"\\", "}", `","plan":{`})
	c := palyra.Call{
		ID: palyra.CallID(word.Draw(t, "id")), Plan: somePlan(t),
		Tool: palyra.Tool{Name: palyra.ToolName("t" + word.Draw(t, "name")), Description: word.Draw(t, "description")},
		Verdict: palyra.Verdict{
			Errors: rapid.SliceOfN(word, 0, 2).Draw(t, "errors"), Need: palyra.Need{Votes: rapid.IntRange(0, 3).Draw(t, "votes")},
		},
		Proposal: palyra.Proposal{
			Proposer: palyra.Proposer{Principal: palyra.Principal(word.Draw(t, "who")), CallsUsed: rapid.Int64().Draw(t, "used")},
		},
	}
	if rapid.Bool().Draw(t, "decided") {
		c.Decision = palyra.Decision{Answer: palyra.AnswerAllow, By: palyra.Principal(word.Draw(t, "by"))}
	}
	c.Digest, _ = c.Plan.Digest()
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Rows that one desk reads one after the other are what they are part by part, whatever stood in earlier ones, and
// whatever is changed in them.
func TestRowsAreReadAsTheirParts(t *testing.T) {
	d := newDesk(new(tools))
	rapid.Check(t, func(t *rapid.T) {
		text := someRow(t)
		for range 3 { // it is known then
			if !sameRow(t, d, text) {
				t.Fatalf("is not read: %s", text)
			}
		}
		for range 20 {
			at, n := rapid.IntRange(0, len(text)-1).Draw(t, "at"), rapid.IntRange(0, 3).Draw(t, "less")
			with := rapid.SampledFrom([]string{"", "x", `"`, ",", "{", "}", "[", "]", ":", "1", " ", `\`, "\xff", "null"}).Draw(t, "with")
			sameRow(t, d, text[:at]+with+text[min(len(text), at+n):])
		}
	})
}

// rowTexts are rows, good and bad.
var rowTexts = []string{
	`{"plan":{"tool":"a","argv":["x"]},"tool":{"name":"a"},"proposal":{"principal":"p"},"plan_digest":"d"}`,
	`{"plan":{"tool":"a","argv":["x"]},"tool":{"name":"a"},"proposal":{"principal":"p"},"plan_digest":"d","verdict":{"need":{"votes":1}}}`,
	`{"plan":{"tool":"a","tool":"b"},"tool":{"name":"a"},"proposal":{}}`, `{"plan":{},"plan":{},"tool":{"name":"a"},"proposal":{}}`,
	`{"plan":{},"tool":{"name":"a"},"proposal":{},"tool":{"name":"b"}}`, `{"plan":null,"tool":{"name":"a"},"proposal":{}}`,
	`{"plan":{},"tool":null,"proposal":{}}`, `{"plan":{} ,"tool":{"name":"a"},"proposal":{}}`, `{"plan":{"argv":7},"tool":{"name":"a"},"proposal":{}}`,
	`{"plan":{"limits":{"b":1,"a":2}},"tool":{"name":"a"},"proposal":{},"verdict":null}`, `{"plan":{"a":12},"tool":{"name":"a"},"proposal":{}}`,
	`{"plan":{"a":123},"tool":{"name":"a"},"proposal":{}}`, `{"plan":{"a":1.0},"tool":{"name":"a"},"proposal":{}}`,
	`{"plan":{"\u0061":1},"tool":{"name":"a"},"proposal":{}}`, `{"plan":{"é":1,"z":2,"":3},"tool":{"name":"a"},"proposal":{}}`, `{}`, ``, `{"plan"`,
	`{"plan":{"tool":"\ud800"},"tool":{"name":"a"},"proposal":{}}`, "{\"plan\":{\"x\":\"\xff\"},\"tool\":{\"name\":\"a\"},\"proposal\":{}}",
	"{\"plan\":{\"\xff\":1},\"tool\":{\"name\":\"a\"},\"proposal\":{}}",
}

func TestRowsGoodAndBad(t *testing.T) {
	d, known := newDesk(new(tools)), 0
	for range 3 {
		for _, text := range rowTexts {
			if sameRow(t, d, text) {
				known++
			}
		}
	}
	if known != 3*6 {
		t.Errorf("%d are known", known)
	}
}

// FuzzRow takes any two rows: that the first one is known changes nothing in what the second is.
func FuzzRow(f *testing.F) {
	for i, text := range rowTexts {
		f.Add(text, rowTexts[(i+1)%len(rowTexts)])
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		d := newDesk(new(tools))
		for _, text := range []string{first, first, first, second, first} {
			sameRow(t, d, text)
		}
	})
}
