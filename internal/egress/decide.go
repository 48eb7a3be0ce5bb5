package egress

import (
	"context"
	"sync"

	"palyra"
)

// maxQuestions bounds what a run may ask people.
const maxQuestions = 8

// question is one that was put to people. Everybody who wants the same target
// waits for the one answer, which holds for the rest of the run.
type question struct {
	done chan struct{} // closed when err is set
	err  error
}

type questions struct {
	mu    sync.Mutex // guards the field below; a leaf lock
	asked map[target]*question
}

// decide says whether a target may be reached, by its name alone. It may wait
// for people.
func (s *Session) decide(ctx context.Context, t target) (permit, error) {
	if s.guard.cfg.Mode != Strict {
		return permit{target: t, exact: t.literal() && covered(s.rules, t)}, nil
	}
	if !covered(s.rules, t) {
		if err := s.ask(ctx, t); err != nil {
			return permit{}, err
		}
	}
	return permit{target: t, exact: t.literal(), check: !t.literal()}, nil
}

// notGranted is the refusal that a program's author can act on.
func notGranted(t target) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s is not among the hosts that this run may reach", t).
		WithRemedy("propose the call with %q in its egress list", t)
}

// ask puts a question to people, unless it is known that there is no point in
// it, and waits for the answer.
func (s *Session) ask(ctx context.Context, t target) error {
	if s.guard.cfg.Ask == nil || s.call == nil || !s.guard.mayName(rule{target: t}) {
		return notGranted(t)
	}
	q, ok := s.question(t)
	if !ok {
		return notGranted(t)
	}
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return notGranted(t).WithCause(ctx.Err())
	}
}

// question returns the question about a target; false means that it may not be
// asked any more.
func (s *Session) question(t target) (*question, bool) {
	s.questions.mu.Lock()
	defer s.questions.mu.Unlock()
	if q := s.questions.asked[t]; q != nil {
		return q, true
	}
	if len(s.questions.asked) >= maxQuestions {
		return nil, false
	}
	q := &question{done: make(chan struct{})}
	if !s.spawn(func() {
		defer close(q.done)
		if err := s.guard.cfg.Ask(s.ctx, s.call, t.host.String(), t.port); err != nil {
			q.err = notGranted(t).WithCause(err)
		}
	}) {
		return nil, false
	}
	s.questions.asked[t] = q
	return q, true
}
