package egress

import (
	"context"
	"errors"
	"sync"
	"time"

	"palyra"
)

// The questions that a run may put to people: about so many targets, and so many in all, because an
// answer that is over is asked for again.
const (
	maxTargets   = 8
	maxQuestions = 64
)

// question is one that was put to people. All connections to the same target wait for the one answer.
type question struct {
	done   chan struct{} // closed when the fields below are set
	answer Answer
	err    error
}

// over reports whether the answer is a yes that no longer holds. A no holds for the rest of the run.
func (q *question) over(now time.Time) bool {
	select {
	case <-q.done:
	default:
		return false
	}
	late := !q.answer.Until.IsZero() && !now.Before(q.answer.Until)
	return q.err == nil && (late || q.revoked())
}

// revoked reports whether the answer was taken back. It is called after the answer is known.
func (q *question) revoked() bool {
	select {
	case <-q.answer.Revoked:
		return true
	default:
		return false
	}
}

type questions struct {
	mu    sync.Mutex // guards the fields below; a leaf lock
	asked map[target]*question
	count int
}

// decide returns whether a target may be reached, by its name alone. It may wait for people. A
// client at a door gives its place up meanwhile.
func (s *Session) decide(ctx context.Context, door string, t target) (permit, error) {
	p := permit{target: t, door: door, exact: t.literal(), wild: !spelled(s.rules, t)}
	if s.guard.cfg.Mode != Strict {
		p.exact = p.exact && covered(s.rules, t)
		return p, nil
	}
	p.check = !t.literal()
	if !p.wild {
		return p, nil
	}
	if covered(s.rules, t) {
		return p, s.wildcards.admit(s.rules, t)
	}
	var err error
	if p.answer, err = s.ask(ctx, door, t); err != nil {
		return permit{}, err
	}
	p.wild = false
	return p, nil
}

// notGranted is the refusal of a target that neither the plan nor an answer allows.
func notGranted(t target) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s is not among the hosts that this run may reach", t).
		WithRemedy("propose the call with %q in its egress list", t)
}

// takenBack is the refusal of a target that people allowed and then revoked, or only for a time.
func takenBack(t target) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s is no longer allowed: the answer ran out or was taken back", t).
		WithRemedy("ask the person who answered")
}

// unanswered is the refusal of a target when the run, or the connection, ended before the answer.
func unanswered(t target) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied,
		"nobody answered in time whether %s may be reached: the connection or the run ended first", t).
		WithRemedy("propose the call with %q in its egress list, so that it is asked about before the start", t)
}

// denied is the refusal after a no. It passes on what people said, but no internal error.
func denied(t target, err error) *palyra.Error {
	var e *palyra.Error
	switch {
	case !errors.As(err, &e) || e.Code == palyra.Internal:
		return palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s was not allowed: nobody could be asked", t).WithCause(err)
	case e.Reason == palyra.ReasonEgressDenied:
		return e
	}
	return palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s was not allowed: %s", t, e.Text).WithRemedy("%s", e.Remedy).
		WithCause(err)
}

// ask puts a question to people, unless the answer is certain to be no, and waits for the answer.
func (s *Session) ask(ctx context.Context, door string, t target) (*question, error) {
	if err := s.guard.noSelf(t); err != nil {
		return nil, err
	}
	if s.guard.cfg.Ask == nil || s.call == nil || !s.guard.mayName(rule{target: t}) {
		return nil, notGranted(t)
	}
	q, ok := s.question(t)
	if !ok {
		return nil, notGranted(t)
	}
	if !s.await(ctx, door, q) {
		return nil, unanswered(t).WithCause(ctx.Err())
	}
	if q.err != nil {
		return nil, q.err
	}
	if q.over(s.guard.cfg.Now()) {
		return nil, takenBack(t)
	}
	return q, nil
}

// await waits for an answer; false means that there was none. A client that waits at a door holds
// no place that others could use.
func (s *Session) await(ctx context.Context, door string, q *question) bool {
	select {
	case <-q.done:
		return true
	default:
	}
	if door != doorFetch { // a tool's own connections have no place
		s.guard.places.give(s.seat)
		defer s.guard.places.retake(ctx, s.seat)
	}
	select {
	case <-q.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// question returns the question about a target, a new one when the last answer is over; false means
// that the run may ask no more.
func (s *Session) question(t target) (*question, bool) {
	s.questions.mu.Lock()
	defer s.questions.mu.Unlock()
	old := s.questions.asked[t]
	if old != nil && !old.over(s.guard.cfg.Now()) {
		return old, true
	}
	if s.questions.count >= maxQuestions || old == nil && len(s.questions.asked) >= maxTargets {
		return nil, false
	}
	q := &question{done: make(chan struct{})}
	if !s.spawn(func() { s.put(q, t) }) {
		return nil, false
	}
	s.questions.asked[t] = q
	s.questions.count++
	return q, true
}

// put asks, and then waits to cut the connections that the answer let through when it is taken back.
func (s *Session) put(q *question, t target) {
	answer, err := s.guard.cfg.Ask(s.ctx, s.call, t.host.String(), t.port)
	switch {
	case err != nil && s.ctx.Err() != nil:
		answer, q.err = Answer{}, unanswered(t).WithCause(err)
	case err != nil:
		answer, q.err = Answer{}, denied(t, err)
	}
	q.answer = answer
	close(q.done)
	if answer.Revoked == nil {
		return
	}
	select {
	case <-answer.Revoked:
		s.cutAll(q)
		s.guard.cfg.Log.Info("egress: taken back", "host", t.host.String(), "port", t.port)
	case <-s.ctx.Done():
	}
}
