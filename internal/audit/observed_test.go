package audit

import (
	"testing"
	"time"

	"palyra"
)

// Calls are observed while a person's signature says so, for 7 days at most, and none of them is granted.
func TestObservedCallsAreSignedFor(t *testing.T) {
	at := began
	signed := func(until time.Time) *palyra.ObservationChanged {
		return &palyra.ObservationChanged{Until: until, By: "user:ada", Signature: &palyra.Signature{}}
	}
	proposed, observed := &palyra.CallProposed{Call: "C"}, &palyra.CallObserved{Call: "C"}
	for name, c := range map[string]struct {
		lines []palyra.Event
		after time.Duration // when the last of them was written
		bad   bool
	}{
		"signed for":            {[]palyra.Event{signed(at.Add(time.Hour)), proposed, observed}, time.Minute, false},
		"by nobody":             {[]palyra.Event{proposed, observed}, 0, true},
		"when its time is over": {[]palyra.Event{signed(at.Add(time.Hour)), proposed, observed}, 63 * time.Minute, true},
		"ended before":          {[]palyra.Event{signed(at.Add(time.Hour)), signed(at), proposed, observed}, 30 * time.Minute, true},
		"for too long":          {[]palyra.Event{signed(at.Add(palyra.MaxObserved + time.Hour))}, 0, true},
		"without a signature":   {[]palyra.Event{&palyra.ObservationChanged{Until: at.Add(time.Hour), By: "user:ada"}}, 0, true},
		"ended by the clock":    {[]palyra.Event{signed(at.Add(time.Hour)), &palyra.ObservationChanged{Until: at, By: "system:clock"}}, 0, false},
		"and granted": {
			[]palyra.Event{signed(at.Add(time.Hour)), proposed, observed, &palyra.CallGranted{Call: "C"}}, time.Minute, true,
		},
	} {
		a := New(at)
		var found *palyra.Finding
		for i, e := range c.lines {
			when := at
			if i >= len(c.lines)-1 {
				when = at.Add(c.after)
			}
			if f := a.Hear(int64(i+1), when, e); f != nil {
				found = f
			}
		}
		if f, _ := a.holdObserved(nil); f != nil {
			found = f
		}
		if (found != nil) != c.bad {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
