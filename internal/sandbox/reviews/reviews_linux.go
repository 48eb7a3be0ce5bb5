package reviews

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"palyra"
	"palyra/internal/agentstage"
	"palyra/internal/preimage"
	"palyra/internal/sandbox"
	"palyra/internal/stage"
)

// Desk has the work of agents. Its fields are set before it is used.
type Desk struct {
	Stages  *stage.Stages // nil: there are none
	Why     string        // there are none
	Store   agentstage.Store
	Running func(palyra.CallID) bool // an agent, or a call of it, goes on
	Log     *slog.Logger

	mu sync.Mutex // of who keeps or drops something, or looks at it
}

// Works implements sandbox.Reviewer.
func (d *Desk) Works(ctx context.Context) (out []sandbox.Work, err error) {
	all, bad, err := d.Store.List()
	for _, call := range bad {
		d.Log.Warn("the stage of an agent cannot be read", "call", call)
	}
	for i := range all {
		if d.Stages != nil && d.Store.Pending(all[i]) {
			_, _, done, err := d.review(ctx, palyra.CallID(all[i].Call))
			if palyra.CodeOf(err) == palyra.NotFound && err != nil {
				continue
			}
			if err == nil {
				done()
			}
		}
		out = append(out, d.workOf(&all[i]))
	}
	return out, err
}

func (d *Desk) workOf(n *agentstage.Note) sandbox.Work {
	agent := palyra.CallID(n.Call)
	return sandbox.Work{
		Agent: agent, Workspace: n.Workspace, Began: n.At, Ended: n.Ended, Running: d.Running(agent), Cut: n.Cut,
	}
}

// review opens the stage of an agent for one at a time. What was kept of it is not on it any more.
func (d *Desk) review(ctx context.Context, agent palyra.CallID) (n agentstage.Note, g *stage.Stage, done func(), err error) {
	if d.Stages == nil {
		return n, nil, nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "the stages of agents cannot be opened: %s", d.Why).
			WithRemedy("see the daemon's log, and start it again: what was staged is where it was")
	}
	d.mu.Lock()
	done = d.mu.Unlock
	all := d.Store
	settled := false
	if n, err = all.Read(string(agent)); err == nil && !d.Running(agent) {
		settled, err = all.Settle(ctx, n, func(call string) bool { return d.Stages.Held(call) })
	}
	if err == nil {
		g = d.Stages.Lent(agentstage.Name(n.Call), n.Workspace, n.Root(), n.Owner(), n.Mode, n.Since)
	}
	if err == nil && settled {
		if w, lookErr := d.look(ctx, &n, g, nil); lookErr == nil && len(w.Changes)+len(w.Theirs) == 0 { // all of it was kept
			g.Drop()
			err = &agentstage.NoneError{Call: n.Call}
		}
	}
	if err == nil {
		return n, g, done, nil
	}
	done()
	if errors.As(err, new(*agentstage.NoneError)) {
		err = palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound,
			"nothing is staged for %s: all of it was kept or dropped, it has expired, or that is no agent with a stage", agent).
			WithRemedy("'palyra changes --staged' lists what waits")
	}
	return n, nil, nil, err
}

// look says what is on a stage that is open.
func (d *Desk) look(ctx context.Context, n *agentstage.Note, g *stage.Stage, see stage.Weigh) (w sandbox.Work, err error) {
	w = d.workOf(n)
	out, theirs, err := g.Look(ctx, see)
	if err == nil {
		theirs, err = d.Store.Without(*n, theirs)
	}
	if w.Changes, w.Theirs = out.Changes, theirs; err != nil {
		err = palyra.Errorf(palyra.Unavailable, palyra.ReasonEffectsLost, "what the agent wrote cannot be read").
			WithRemedy("see the daemon's log; is the workspace where it was?").WithCause(err)
	}
	return w, err
}

// Work implements sandbox.Reviewer.
func (d *Desk) Work(ctx context.Context, agent palyra.CallID, see stage.Weigh) (sandbox.Work, error) {
	n, g, done, err := d.review(ctx, agent)
	if err != nil {
		return sandbox.Work{}, err
	}
	defer done()
	w, err := d.look(ctx, &n, g, see)
	return w, err
}

// Contents implements sandbox.Reviewer.
func (d *Desk) Contents(
	ctx context.Context, w sandbox.Work, pick func(stage.Change) bool, most int64, f func(sandbox.Content) bool,
) error {
	n, _, done, err := d.review(ctx, w.Agent)
	if err != nil {
		return err
	}
	defer done()
	return d.Store.Contents(ctx, n, w.Changes, pick, most, func(c preimage.Content) bool {
		return f(sandbox.Content{Change: c.Change, Before: c.Before, After: c.After, Why: c.Why})
	})
}

// Choose opens the stage of an agent that has ended, and chooses a part of what is on it.
func (d *Desk) Choose(
	ctx context.Context, p sandbox.Part,
) (n agentstage.Note, g *stage.Stage, w sandbox.Work, c agentstage.Choice, done func(), err error) {
	if n, g, done, err = d.review(ctx, p.Agent); err != nil {
		return n, nil, w, c, nil, err
	}
	if w, err = d.look(ctx, &n, g, nil); err == nil && w.Running {
		err = sandbox.StillRuns(p.Agent)
	}
	if err != nil {
		done()
		return n, nil, w, c, nil, err
	}
	theirs, listed := map[string]bool{}, make(map[string]bool, len(w.Changes))
	all := slices.Clone(w.Changes)
	for i := range all {
		listed[all[i].Path] = true
	}
	for _, path := range w.Theirs {
		theirs[path] = true
		if !listed[path] {
			all = append(all, stage.Change{Path: path})
		}
	}
	return n, g, w, agentstage.Choose(all, func(path string) bool { return p.Pick(path) && (p.Drops || !theirs[path]) }), done, nil
}

// Taken takes a part away that was kept, or is not wanted, and the stage where nothing is left of it.
func (d *Desk) Taken(ctx context.Context, n agentstage.Note, g *stage.Stage, w sandbox.Work, c agentstage.Choice) error {
	if c.Whole() {
		g.Drop()
		return nil
	}
	err := d.Store.Drop(context.WithoutCancel(ctx), n, c)
	if err != nil {
		d.Log.Error("what was kept or dropped of an agent's work is still on its stage", "call", n.Call, "err", err)
	}
	return err
}

// NothingMeant refuses to keep nothing.
func NothingMeant(agent palyra.CallID, w sandbox.Work) error {
	if len(w.Theirs) > 0 {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonEffectsConflict,
			"somebody else changed the same files since the agent began, so they wait: %s", palyra.TextOfPath(w.Theirs[0])).
			WithRemedy("look at them ('palyra changes %s'), put yours back or aside, and keep them then; or drop them", agent)
	}
	return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the agent %s changed nothing", agent).
		WithRemedy("'palyra drop %s' removes its empty stage", agent)
}

// NotDivided explains a part that cannot be one.
func NotDivided(agent palyra.CallID, err error) error {
	if whole := (*agentstage.WholeError)(nil); errors.As(err, &whole) {
		name := palyra.TextOfPath(whole.Path)
		return palyra.Errorf(palyra.Conflict, palyra.ReasonEffectsConflict,
			"%s was replaced or removed as a whole, and can only be kept or dropped so", name).
			WithRemedy("name it: %s %s", agent, name).WithCause(err)
	}
	return err
}

// DropWork implements sandbox.Reviewer.
func (d *Desk) DropWork(ctx context.Context, p sandbox.Part) (w sandbox.Work, err error) {
	p.Drops = true
	n, g, w, c, done, err := d.Choose(ctx, p)
	if err != nil {
		return w, err
	}
	defer done()
	return w, NotDivided(p.Agent, d.Taken(ctx, n, g, w, c))
}

// Past says of the agents that an earlier daemon ran that they have ended. What is on their stages waits.
func (d *Desk) Past() {
	all, bad, err := d.Store.List()
	for i := range all {
		if n := &all[i]; n.Ended.IsZero() && !d.Running(palyra.CallID(n.Call)) {
			n.Past(time.Now().UTC())
			err = errors.Join(err, d.Store.Write(*n))
		}
	}
	if err != nil || len(bad) > 0 {
		d.Log.Error("the stages of agents cannot be read", "calls", bad, "err", err)
	}
}
