package observe

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"palyra"
)

// book is a journal in memory.
type book struct {
	lines  []palyra.ObservationChanged
	err    error
	before time.Time
}

func (b *book) Before() time.Time { return b.before }

func (b *book) Record(_ context.Context, events ...palyra.Event) (palyra.Position, error) {
	if b.err != nil {
		return palyra.Position{}, b.err
	}
	for _, e := range events {
		b.lines = append(b.lines, e.(palyra.ObservationChanged))
	}
	return palyra.Position{}, nil
}

func (b *book) Bodies(_ context.Context, kind string, f func([]byte) error) error {
	for _, l := range b.lines {
		raw, _ := json.Marshal(l)
		if err := f(raw); err != nil || kind != l.Kind() {
			return err
		}
	}
	return nil
}

// Calls are observed for as long as somebody signed for, at most 7 days, also by the next daemon, and not a moment longer.
func TestObservationEndsByItself(t *testing.T) {
	now := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	b := &book{}
	c := Config{Journal: b, Now: clock, Boot: func() (string, time.Duration) { return "", 0 }}
	m, err := Open(t.Context(), c)
	if err != nil || m.Permit() == nil {
		t.Fatalf("observed without a signature: %v", err)
	}
	for _, span := range []time.Duration{-1, palyra.MaxObserved + 1} {
		if _, err := m.Set(t.Context(), span, "user:ada", palyra.Signature{}); palyra.CodeOf(err) != palyra.Invalid || m.Permit() == nil {
			t.Errorf("%s: %v", span, err)
		}
	}
	b.err = errors.New("the disk is full")
	if _, err := m.Set(t.Context(), time.Hour, "user:ada", palyra.Signature{}); err == nil || m.Permit() == nil || m.Problems() != nil {
		t.Errorf("observed without a record: %v", err)
	}
	b.err = nil
	o, err := m.Set(t.Context(), palyra.MaxObserved, "user:ada", palyra.Signature{})
	if err != nil || !o.On || !o.Until.Equal(now.Add(palyra.MaxObserved)) || m.Permit() != nil || len(m.Problems()) != 1 {
		t.Fatalf("%+v, %v", o, err)
	}
	again, err := Open(t.Context(), c)
	if err != nil || again.Permit() != nil {
		t.Errorf("the next daemon: %v, %v", err, again.Permit())
	}
	now = now.Add(palyra.MaxObserved)
	for _, m := range []*Mode{m, again} {
		if err := m.Permit(); palyra.AsError(err).Reason != palyra.ReasonNotObserving {
			t.Errorf("after its time: %v", err)
		}
	}
	lines := len(b.lines)
	if _, err := m.Set(t.Context(), 0, "user:ada", palyra.Signature{}); err != nil || len(b.lines) != lines {
		t.Errorf("ended twice: %v, %d lines", err, len(b.lines))
	}
	if _, err := m.Set(t.Context(), time.Hour, "user:ada", palyra.Signature{}); err != nil || m.Permit() != nil {
		t.Fatal(err)
	}
	if o, err := m.Set(t.Context(), 0, "user:ada", palyra.Signature{}); err != nil || o.On || m.Permit() == nil {
		t.Errorf("held again: %+v, %v", o, err)
	}
}

// A wall clock that is set back prolongs nothing: not while the daemon runs, and not by a new start.
func TestObservationAndAClockSetBack(t *testing.T) {
	start := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	now, up := start, time.Hour
	b := &book{}
	c := Config{Journal: b, Now: func() time.Time { return now }, Boot: func() (string, time.Duration) { return "boot-1", up }}
	m, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Set(t.Context(), time.Hour, "user:ada", palyra.Signature{}); err != nil || m.Permit() != nil {
		t.Fatal(err)
	}
	now, up = start.Add(-24*time.Hour), up+59*time.Minute
	if m.Permit() != nil {
		t.Error("it ended before its time")
	}
	if up += time.Minute; m.Permit() == nil {
		t.Error("set back, and observed after its time")
	}
	b.before = start.Add(30 * time.Minute) // the last line that this daemon leaves
	again, err := Open(t.Context(), c)
	if err != nil || again.Permit() == nil {
		t.Errorf("started anew with the clock set back: %v", err)
	}
	if last := b.lines[len(b.lines)-1]; last.By != palyra.SystemClock || last.Signature != nil {
		t.Errorf("not on record: %+v", last)
	}
	b.before = now // two starts later the journal's last line is of the wrong time as well
	if third, err := Open(t.Context(), c); err != nil || third.Permit() == nil {
		t.Errorf("started twice with the clock set back: %v", err)
	}
	now = start
	if fourth, err := Open(t.Context(), c); err != nil || fourth.Permit() == nil {
		t.Errorf("the clock is right again: %v", err)
	}
}

// A clock that is put right by a little ends nothing.
func TestObservationAndAClockPutRight(t *testing.T) {
	now := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	b := &book{before: now.Add(slack / 2)}
	b.lines = []palyra.ObservationChanged{{Until: now.Add(time.Hour), By: "user:ada"}}
	none := func() (string, time.Duration) { return "", 0 }
	m, err := Open(t.Context(), Config{Journal: b, Now: func() time.Time { return now }, Boot: none})
	if err != nil || m.Permit() != nil || len(b.lines) != 1 {
		t.Errorf("%v, %d lines", err, len(b.lines))
	}
}
