package question

import (
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
