package policy

import (
	"bytes"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// What came from agents is shown, not obeyed, and lists end where people stop
// reading.
func TestPrintReplay(t *testing.T) {
	hostile := client.ReplayChange{Call: "C1", Principal: "agent:local", Tool: "t", Command: "rm \x1b[2J\nx", Policies: []string{"p"}}
	r := client.ReplayReport{
		Bundle: "sha256:1", Records: 40, Same: 1, Failing: 2, Unreplayable: 4,
		Transitions: []client.ReplayTransition{{From: palyra.Ask, To: palyra.Allow, Count: 30}, {From: palyra.Deny, To: palyra.Allow}},
		Short:       client.ReplayTransition{From: palyra.Ask, To: palyra.Ask, Count: 1, Calls: []client.ReplayChange{{Call: "C9", Tool: "t"}}},
		Prompts:     client.ReplayPrompts{Before: 5, After: 3, Saved: 3, Added: 1},
		Gaps:        []client.ReplayGap{{Reason: "lost\x1b", Count: 4, Calls: []palyra.CallID{"A", "B", "C", "D"}}},
	}
	for range 25 {
		r.Transitions[0].Calls = append(r.Transitions[0].Calls, hostile)
	}
	var b bytes.Buffer
	printReplay(&b, r)
	text := b.String()
	for _, want := range []string{
		"ask→allow     30\n", "5 then, 3 now: 3 saved, 1 added", "A, B, C, ...", "… and 10 more", "ask→allow (30)",
		"C9", "2 denied because",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") || strings.Contains(text, "deny→allow (") || strings.Count(text, "C1 ") != shownCalls {
		t.Errorf("%q", text)
	}
	b.Reset()
	printReplay(&b, client.ReplayReport{Problems: []client.PolicyProblem{{File: "a.cedar", Line: 3, Column: 7, Text: "wrong\x1b"}}})
	if text := b.String(); !strings.HasPrefix(text, "a.cedar:3:7: wrong") || !strings.Contains(text, "nothing was judged") ||
		strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
}

func TestPrintSuggestion(t *testing.T) {
	var b bytes.Buffer
	printSuggestion(&b, client.PolicySuggestion{Report: client.ReplayReport{Records: 7, Prompts: client.ReplayPrompts{Before: 2, After: 2}}})
	if text := b.String(); !strings.Contains(text, "nothing to suggest: of 7 calls, 2 were asked about, or would have been") ||
		!strings.Contains(text, "none is ever made for a host") {
		t.Error(text)
	}
	b.Reset()
	printSuggestion(&b, client.PolicySuggestion{
		Rules:  []client.SuggestedRule{{ID: "s", Text: "permit (\x1b);", Saves: 2, Calls: []palyra.CallID{"A"}}},
		Report: client.ReplayReport{Records: 7, Prompts: client.ReplayPrompts{Before: 2}},
	})
	if text := b.String(); !strings.Contains(text, "saves 2 questions (A)") || strings.Contains(text, "\x1b") ||
		strings.Contains(text, "when they were made") ||
		!strings.Contains(text, "7 calls looked at: today's policies would ask 2 questions of them, with these rules 0 (2 fewer)\n") {
		t.Errorf("%q", text)
	}
	// Other policies were in force then: what is saved is counted from today's.
	b.Reset()
	printSuggestion(&b, client.PolicySuggestion{
		Rules:  []client.SuggestedRule{{ID: "s", Saves: 1, Calls: []palyra.CallID{"A"}}},
		Report: client.ReplayReport{Records: 1, Prompts: client.ReplayPrompts{Before: 13, After: 13, Saved: 1, Added: 1}},
	})
	if text := b.String(); !strings.Contains(text, "saves 1 question (A)") ||
		!strings.HasSuffix(text, "1 call looked at: today's policies would ask 14 questions of them, with these rules 13 (1 "+
			"fewer)\nwhen they were made, people were asked 13 questions\n") {
		t.Errorf("%q", text)
	}
}

// A daemon elsewhere names files; none of them lies outside of the directory.
func TestWriteBundleStaysInside(t *testing.T) {
	for _, name := range []string{"../a.cedar", "/tmp/a.cedar", "tests/../../a.yaml", ""} {
		if err := writeBundle(t.TempDir(), map[string]string{name: "x"}); err == nil {
			t.Errorf("%q was written", name)
		}
	}
	if err := writeBundle(t.TempDir(), map[string]string{"a.cedar": "x", "tests/a.yaml": "y"}); err != nil {
		t.Error(err)
	}
}
