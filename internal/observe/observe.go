// Package observe lets calls that agents run by their own tools be judged without being held, for a time that a person
// signed for, and says afterwards what would have become of them.
//
// Promises: nothing is observed unless the caller asks for it and a person's signature, on record, covers the moment; a
// time is 7 days at most, and over by itself, also where the wall clock is set back. Whoever asks outside of it is
// refused, and asks as usual then. What Palyra runs itself is never observed.
//
// Its words are those of docs/words.md.
package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"palyra"
)

// signed has what people signed.
type signed interface {
	// Record makes events durable.
	Record(ctx context.Context, events ...palyra.Event) (palyra.Position, error)
	// Bodies calls f with the body of every entry of a kind, in order.
	Bodies(ctx context.Context, kind string, f func(body []byte) error) error
	// Before is when the last entry was written that an earlier daemon left.
	Before() time.Time
}

// Config wires a Mode.
type Config struct {
	Journal signed
	Now     func() time.Time
	Boot    func() (bootID string, since time.Duration) // counts through suspend, and cannot be set; empty: there is none
}

// slack is how far the wall clock may be behind what is on record: it is put right by small steps now and then.
const slack = 2 * time.Minute

// Mode is whether calls may be observed now.
type Mode struct {
	c     Config
	boot  string
	since time.Duration // of this boot, when floor was the time
	floor time.Time     // the least that the time was then

	mu   sync.Mutex
	last palyra.ObservationChanged
}

// Open reads from the journal what was said last. Where the clock is behind the journal's last line, a time that was
// signed for is over: nobody knows how much of it has passed.
func Open(ctx context.Context, c Config) (*Mode, error) {
	m := &Mode{c: c, floor: c.Now()}
	m.boot, m.since = c.Boot()
	err := c.Journal.Bodies(ctx, m.last.Kind(), func(body []byte) error {
		m.last = palyra.ObservationChanged{}
		return json.Unmarshal(body, &m.last)
	})
	if err != nil {
		return nil, fmt.Errorf("observe: open: %w", err)
	}
	if m.observation().On && m.floor.Add(slack).Before(c.Journal.Before()) {
		if err := m.put(ctx, palyra.ObservationChanged{Until: m.floor.UTC().Truncate(time.Second), By: palyra.SystemClock}); err != nil {
			return nil, fmt.Errorf("observe: open: %w", err)
		}
	}
	return m, nil
}

// time is now, on whichever of both clocks is ahead: the wall's, and that of this boot, counted from when the mode was opened.
func (m *Mode) time() time.Time {
	wall := m.c.Now()
	if boot, since := m.c.Boot(); boot != "" && boot == m.boot {
		if least := m.floor.Add(since - m.since); least.After(wall) {
			return least
		}
	}
	return wall
}

// Observation says whether calls are observed now.
func (m *Mode) Observation(context.Context) (palyra.Observation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.observation(), nil
}

func (m *Mode) observation() palyra.Observation {
	return palyra.Observation{On: m.time().Before(m.last.Until), Until: m.last.Until, By: m.last.By}
}

// Set has calls observed for a time from now on; with none they are held from now on.
func (m *Mode) Set(ctx context.Context, span time.Duration, by palyra.Principal, sig palyra.Signature) (palyra.Observation, error) {
	if span < 0 || span > palyra.MaxObserved {
		return palyra.Observation{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "calls cannot be observed for %s", span).
			WithRemedy("say for how long, up to %s", palyra.MaxObserved)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if span == 0 && !m.observation().On {
		return m.observation(), nil
	}
	e := palyra.ObservationChanged{Until: m.time().Add(span).UTC().Truncate(time.Second), By: by, Signature: &sig}
	if err := m.put(ctx, e); err != nil {
		return palyra.Observation{}, err
	}
	return m.observation(), nil
}

// put makes it so: nothing is observed that is not on record.
func (m *Mode) put(ctx context.Context, e palyra.ObservationChanged) error {
	if _, err := m.c.Journal.Record(ctx, e); err != nil {
		return err
	}
	m.last = e
	return nil
}

// Problems says that calls are observed, for whoever asks how the daemon does.
func (m *Mode) Problems() []string {
	o, _ := m.Observation(context.Background())
	if !o.On {
		return nil
	}
	return []string{fmt.Sprintf("calls of agents' own tools are observed and not held, until %s by a signature of %s; hold them with "+
		"'palyra observe enforce'", o.Until.Format(time.RFC3339), o.By)}
}

// Permit refuses to observe a call while calls are held.
func (m *Mode) Permit() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.observation().On {
		return nil
	}
	return palyra.Errorf(palyra.Conflict, palyra.ReasonNotObserving, "calls are not observed now, but held").
		WithRemedy("ask about the call as usual; an operator can have calls observed: palyra observe start")
}
