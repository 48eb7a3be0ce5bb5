package palyra_test

import (
	"strings"
	"testing"

	"palyra"
)

// The whole machine, drawn. A row is where a call stands, a column where it
// may go; anything not marked is refused.
const machine = `
          proposed judged pending granted running settling refused finished cancelled unknown checked observed
proposed  .        x      .       .       .       .        x       .        x         .       .       x
judged    .        .      x       x       .       .        x       .        x         .       x       x
pending   .        .      .       x       .       .        x       .        x         .       x       .
granted   .        .      .       .       x       .        x       .        x         x       .       .
running   .        .      .       .       .       x        .       x        x         x       .       .
settling  .        .      .       .       .       .        .       x        .         x       .       .
refused   .        .      .       .       .       .        .       .        .         .       .       .
finished  .        .      .       .       .       .        .       .        .         .       .       .
cancelled .        .      .       .       .       .        .       .        .         .       .       .
unknown   .        .      .       .       .       .        .       .        .         .       .       .
checked   .        .      .       .       .       .        .       .        .         .       .       .
observed  .        .      .       .       .       .        .       .        .         .       .       .
`

func TestStateTableOverAllPairs(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(machine), "\n")
	columns := strings.Fields(lines[0])
	if len(columns) != len(palyra.States()) || len(lines)-1 != len(columns) {
		t.Fatalf("the drawing has %d columns and %d rows for %d states", len(columns), len(lines)-1, len(palyra.States()))
	}
	seen := map[palyra.State]bool{}
	for _, line := range lines[1:] {
		cells := strings.Fields(line)
		from := palyra.State(cells[0])
		seen[from] = true
		moves := 0
		for i, cell := range cells[1:] {
			to, want := palyra.State(columns[i]), cell == "x"
			if from.MayBecome(to) != want {
				t.Errorf("%s may become %s: %t, want %t", from, to, !want, want)
			}
			if want {
				moves++
			}
		}
		if from.Ended() != (moves == 0) {
			t.Errorf("%s ended: %t, but %d moves lead out", from, from.Ended(), moves)
		}
	}
	for _, s := range palyra.States() {
		if !seen[s] {
			t.Errorf("%s is not in the drawing", s)
		}
	}
}

func TestUnknownWordsAreNoStates(t *testing.T) {
	for _, s := range []palyra.State{"", "Granted", "done"} {
		for _, to := range palyra.States() {
			if s.MayBecome(to) || to.MayBecome(s) {
				t.Errorf("%q takes part in the machine by way of %s", s, to)
			}
		}
	}
}

// Nothing reaches running except by granted: drop granted from the graph and
// running is out of reach. The same for judged, except that nothing but a
// refusal or a cancel leaves proposed without it.
func TestNoWayAroundTheGrant(t *testing.T) {
	for _, must := range []palyra.State{palyra.Judged, palyra.Granted} {
		reached := reach(palyra.Proposed, must)
		if reached[palyra.Running] || reached[palyra.Finished] {
			t.Errorf("running or finished can be reached without %s", must)
		}
	}
	all := reach(palyra.Proposed, "")
	for _, s := range palyra.States() {
		if !all[s] {
			t.Errorf("%s cannot be reached from proposed", s)
		}
	}
}

func reach(from, without palyra.State) map[palyra.State]bool {
	seen := map[palyra.State]bool{from: true}
	for todo := []palyra.State{from}; len(todo) > 0; {
		s := todo[0]
		todo = todo[1:]
		for _, n := range palyra.States() {
			if n != without && s.MayBecome(n) && !seen[n] {
				seen[n] = true
				todo = append(todo, n)
			}
		}
	}
	return seen
}

// A crash never grants, never runs, never finishes; it moves along the table or
// not at all, and a second crash changes nothing more.
func TestAfterCrash(t *testing.T) {
	want := map[palyra.State]palyra.State{
		palyra.Proposed: palyra.Refused, palyra.Judged: palyra.Refused, palyra.Pending: palyra.Pending,
		palyra.Granted: palyra.Unknown, palyra.Running: palyra.Unknown,
	}
	for _, s := range palyra.States() {
		w, listed := want[s]
		if !listed {
			w = s // an ended call stays as it ended
		}
		got := s.AfterCrash()
		if got != w {
			t.Errorf("%s becomes %s after a crash, want %s", s, got, w)
		}
		if got != s && !s.MayBecome(got) {
			t.Errorf("%s may not become %s, yet a crash makes it so", s, got)
		}
		if got.AfterCrash() != got {
			t.Errorf("a second crash moves %s to %s", got, got.AfterCrash())
		}
	}
}
