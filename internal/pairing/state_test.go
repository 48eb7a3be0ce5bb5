package pairing

import (
	"strings"
	"testing"

	"palyra"
)

// everyMove is the machine as a person reads it: a row for each state, a column
// for each event, "-" for what cannot happen.
const everyMove = `
            try     miss     lock    prove   expire   withdraw   issue   deny     silence  lose       ack
offered     trying  -        -       -       expired  withdrawn  -       -        -        -          -
trying      trying  offered  locked  proven  expired  withdrawn  -       -        -        -          -
proven      -       -        -       -       -        -          issued  refused  expired  withdrawn  -
issued      -       -        -       -       -        -          -       -        -        withdrawn  paired
paired      -       -        -       -       -        -          -       -        -        -          -
refused     -       -        -       -       -        -          -       -        -        -          -
expired     -       -        -       -       -        -          -       -        -        -          -
locked      -       -        -       -       -        -          -       -        -        -          -
withdrawn   -       -        -       -       -        -          -       -        -        -          -
`

var (
	everyState = []palyra.PairingState{
		palyra.PairingOffered, palyra.PairingTrying, palyra.PairingProven, palyra.PairingIssued, palyra.PairingDone,
		palyra.PairingRefused, palyra.PairingExpired, palyra.PairingLocked, palyra.PairingGone,
	}
	everyEvent = []offerEvent{
		eventTry, eventMiss, eventLock, eventProve, eventExpire, eventWithdraw, eventIssue, eventDeny, eventSilence, eventLose, eventAck,
	}
)

func TestEveryMove(t *testing.T) {
	lines := strings.Split(strings.Trim(everyMove, "\n"), "\n")
	events := strings.Fields(lines[0])
	if len(events) != len(everyEvent) || len(lines)-1 != len(everyState) {
		t.Fatal("the table here does not have every state and event")
	}
	for n, line := range lines[1:] {
		cells := strings.Fields(line)
		from := everyState[n]
		if cells[0] != string(from) {
			t.Fatalf("row %d is %s, want %s", n, cells[0], from)
		}
		for k, e := range everyEvent {
			want := cells[k+1]
			to, ok := next(from, offerEvent(events[k]))
			if !ok {
				to = "-"
			}
			if string(e) != events[k] || string(to) != want {
				t.Errorf("%s on %s = %s, want %s", from, e, to, want)
			}
			f := &offer{view: palyra.Pairing{State: from}, notify: make(chan struct{}, 1)}
			if moved := f.settle(e, nil); moved != (want != "-") || moved && string(f.view.State) != want || !moved && f.view.State != from {
				t.Errorf("settle: %s on %s = %v, %s", from, e, moved, f.view.State)
			}
			if n := len(f.take()); n != 0 != (want != "-") {
				t.Errorf("%s on %s reports %d times", from, e, n)
			}
		}
	}
}

func TestFinalStates(t *testing.T) {
	for n, s := range everyState {
		if final(s) != (n >= 4) { // as the words say: from paired on
			t.Errorf("final(%s) = %v", s, final(s))
		}
	}
	for from, row := range moves {
		for e, to := range row {
			if to == palyra.PairingProven && (from != palyra.PairingTrying || e != eventProve) {
				t.Errorf("%s becomes proven by %s", from, e)
			}
			if to == palyra.PairingIssued && from != palyra.PairingProven || to == palyra.PairingDone && from != palyra.PairingIssued {
				t.Errorf("%s becomes %s", from, to)
			}
		}
	}
}
