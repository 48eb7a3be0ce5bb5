package registry

import (
	"context"
	"time"

	"palyra"
	"palyra/internal/skill"
)

// underway is a call of a skill's tool that runs now.
type underway struct {
	skill skill.Skill // as it was when the call began
	end   context.CancelCauseFunc
	over  chan struct{}
}

// enter notes that a call runs, until leave. Its context ends, with the reason as its cause, when the skill is taken away or
// is granted less. A skill of which that happened since it was looked up is refused.
func (r *Registry) enter(ctx context.Context, s skill.Skill) (_ context.Context, leave func(), _ error) {
	ctx, end := context.WithCancelCause(ctx)
	u := &underway{skill: s, end: end, over: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := taken(s, r.known[s.ID]); err != nil {
		end(nil)
		return ctx, nil, err
	}
	r.running[u] = true
	return ctx, func() {
		end(nil)
		r.mu.Lock()
		delete(r.running, u)
		r.mu.Unlock()
		close(u.over)
	}, nil
}

// taken says why a skill is not what it was any more, for a call that began then; nil: it still is. An update that may do as
// much lets calls of the version before come to their end.
func taken(was skill.Skill, now *skill.Skill) error {
	say := func(format string, args ...any) error {
		return palyra.Errorf(palyra.Denied, skill.ReasonTaken, format, args...).
			WithRemedy("have an operator look at it: 'palyra skills show %s'", was.ID)
	}
	switch {
	case now == nil || now.State == removed:
		return say("the skill %s was removed while it ran", was.ID)
	case now.State == skill.Revoked:
		return say("the key that signed the skill %s was revoked while it ran", was.ID)
	case now.State != skill.Active:
		return say("the skill %s was put into quarantine while it ran", was.ID)
	case len(was.Granted.Missing(now.Granted)) > 0:
		return say("the skill %s was granted less while it ran", was.ID)
	}
	return nil
}

// endWithin is how long whoever takes a skill away waits for its calls to be over.
const endWithin = 10 * time.Second

// endTaken ends the calls of skills that were taken away, and waits for that: whoever did it can rely on it.
func (r *Registry) endTaken() {
	var over []chan struct{}
	r.mu.Lock()
	for u := range r.running {
		if err := taken(u.skill, r.known[u.skill.ID]); err != nil {
			u.end(err)
			over = append(over, u.over)
		}
	}
	r.mu.Unlock()
	late := time.NewTimer(endWithin)
	defer late.Stop()
	for _, o := range over {
		select {
		case <-o:
		case <-late.C:
			r.Log.Warn("a call of a skill that was taken away is not over yet")
			return
		}
	}
}
