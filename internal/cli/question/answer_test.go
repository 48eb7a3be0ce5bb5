package question

import (
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// A wide answer that a question does not offer is refused before anybody is asked to
// type it, with what can be answered.
func TestCheckOffered(t *testing.T) {
	reads := palyra.Approval{Prompt: palyra.Prompt{Options: []palyra.Widening{{Name: palyra.WidenReadRoot}}}}
	for word, offered := range map[palyra.Answer]bool{"allow": true, "deny": true, "allow-reads": true, "allow-edits": false} {
		r, err := Widely(client.DecideRequest{Answer: word})
		if err != nil {
			t.Fatal(err)
		}
		err = CheckOffered(reads, r)
		if (err == nil) != offered {
			t.Errorf("%s: %v", word, err)
		}
		if err != nil && !strings.Contains(palyra.AsError(err).Remedy, "allow, allow-reads, deny") {
			t.Errorf("%s: the remedy is %q", word, palyra.AsError(err).Remedy)
		}
	}
	reads.Need.Fresh = true // asked about every time, whatever is offered
	if r, _ := Widely(client.DecideRequest{Answer: "allow-reads"}); CheckOffered(reads, r) == nil {
		t.Error("a question that is asked every time took an answer for later")
	}
}

// A wide answer says what it is for and what it would have saved; where there is no room, which group it is for.
func TestWideAnswersSayWhatTheySave(t *testing.T) {
	a := palyra.Approval{Prompt: palyra.Prompt{Options: []palyra.Widening{
		{Name: palyra.WidenExact, Saves: 3},
		{Name: "group:npm:sha256:00", Label: "hosts of npm", Saves: 12},
		{Name: palyra.WidenHost, Label: "any page\x1b[2J"},
		{Name: palyra.WidenPathRoot, Label: "has no word", Saves: 1},
	}}}
	var got []string
	for _, w := range Wide(a) {
		text, brief := w.does()
		got = append(got, text, brief)
	}
	want := []string{
		"allow-group: hosts of npm, for 8h; would have saved 12 questions lately", "allow-group: npm, this workspace, 8h",
		"allow-host: any page\\x1b[2J, for 8h", "allow-host",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	r, err := Widely(client.DecideRequest{Answer: "allow-group"})
	if r = Named(a, r); err != nil || r.Widen != "group:npm:sha256:00" || r.Answer != palyra.AnswerAllow || Word(r) != "allow-group" {
		t.Errorf("%+v %v", r, err)
	}
}
