package agent

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"time"

	"palyra"
)

// errTurnTime is why an attempt was given up.
var errTurnTime = errors.New("the time for an answer is up")

const (
	firstRest = time.Second      // before the second try; it doubles
	mostRest  = 30 * time.Second // between tries, when the server names no time
	mostWait  = 2 * time.Minute  // that a server may ask for; more is the run's end
)

// errSaid wraps an error of say, which is not the model's fault.
type errSaid struct{ error }

// Unwrap returns say's error.
func (e errSaid) Unwrap() error { return e.error }

// ask asks until there is an answer, or no hope of one. Each time it begins anew, again is told.
func (m *modelRun) ask(ctx context.Context, q Question, v *voice, again func() error) (Answer, error) {
	rest := m.rest
	for try := 1; ; try++ {
		a, err := m.askOnce(ctx, q, v)
		if err == nil {
			return a, nil
		}
		if ctx.Err() != nil {
			return Answer{}, context.Cause(ctx)
		}
		if said := (errSaid{}); errors.As(err, &said) {
			return Answer{}, said.error
		}
		e, times := m.source.explain(err, q.Model)
		wait := rest
		if e.After > 0 {
			wait = e.After
		}
		if try >= times || wait > mostWait {
			return Answer{}, e
		}
		m.log.Info("a model is asked again", "run", string(m.id), "provider", m.source.Name, "try", try+1, "after", wait.String(),
			"because", e.Text)
		if err := pause(ctx, jitter(wait)); err != nil {
			return Answer{}, err
		}
		rest = min(2*rest, mostRest)
		if err := again(); err != nil {
			return Answer{}, err
		}
	}
}

// askOnce asks once, for as long as an answer may take.
func (m *modelRun) askOnce(ctx context.Context, q Question, v *voice) (Answer, error) {
	timed, cancel := context.WithTimeoutCause(ctx, m.source.Timeout, errTurnTime)
	defer cancel()
	a, err := m.source.Model.Ask(timed, q, func(s string) error {
		if err := v.add(s); err != nil {
			return errSaid{err}
		}
		return nil
	})
	if err == nil {
		err = a.check()
	}
	if err != nil && timed.Err() != nil {
		err = context.Cause(timed)
	}
	return a, err
}

// check refuses an answer that says nothing.
func (a Answer) check() error {
	if a.Text == "" && len(a.Calls) == 0 && a.Stop == StopDone {
		return &Fault{Kind: "empty_answer", Message: "the answer is empty"}
	}
	return nil
}

// pause waits; it returns why ctx ended if that comes first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// jitter adds up to a quarter, so that many who were turned away together do not come back together.
func jitter(d time.Duration) time.Duration {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return d + time.Duration(binary.LittleEndian.Uint64(b[:])%uint64(d/4+1))
}

// voice puts what a model says onto the tape as it comes, in pieces of a size that a store can keep up with.
type voice struct {
	say  func(text string) error
	buf  []byte
	last time.Time
	now  func() time.Time
}

const (
	voiceEvery = 250 * time.Millisecond
	voiceBytes = 4 << 10
)

// add takes a piece.
func (v *voice) add(s string) error {
	v.buf = append(v.buf, s...)
	if len(v.buf) < voiceBytes && v.now().Sub(v.last) < voiceEvery {
		return nil
	}
	return v.flush()
}

// flush puts the rest onto the tape.
func (v *voice) flush() error {
	if len(v.buf) == 0 {
		return nil
	}
	text := string(v.buf)
	v.buf, v.last = v.buf[:0], v.now()
	return v.say(text)
}

// tokensOf is the cost of an answer, never negative.
func tokensOf(a Answer) palyra.Tokens {
	return palyra.Tokens{InputTokens: max(a.Tokens.InputTokens, 0), OutputTokens: max(a.Tokens.OutputTokens, 0)}
}
