package tiers

import (
	"context"
	"os"
	"time"

	"palyra"
	"palyra/internal/effects"
)

// Lists keeps the lists of what runs changed.
type Lists interface {
	Keep(ctx context.Context, session palyra.SessionID, call palyra.CallID, data []byte) (palyra.ID, error)
}

// listWithin is how long keeping a list may take: whoever called may be gone.
const listWithin = 30 * time.Second

// listChanges lists what a run changed that was not weighed, because none of it could be kept.
func (t *Tiers) listChanges(ctx context.Context, c *palyra.Call, res *palyra.Result) {
	if len(res.Changes) == 0 || t.Lists == nil || res.Listed != nil {
		return
	}
	s, err := t.list(ctx, c, res.Changes, 0)
	if err != nil {
		t.Log.Error("what a run changed cannot be listed", "call", c.ID, "err", err)
		return
	}
	res.Listed = &s.Effects
}

// list keeps the list of what a run changed and says in short what is in it. A
// list that cannot be kept is counted, judged and attested all the same: the call has run.
func (t *Tiers) list(ctx context.Context, c *palyra.Call, changes []palyra.Change, neverKept int64) (palyra.Staged, error) {
	e, text, err := effects.List(changes)
	if err != nil {
		return palyra.Staged{}, err
	}
	s := palyra.Staged{Effects: e, Facts: facts(e, changes, neverKept)}
	if t.Lists == nil {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listWithin)
	defer cancel()
	if s.Effects.List, err = t.Lists.Keep(ctx, c.Proposal.Session, c.ID, text); err != nil {
		t.Log.Error("the list of what a run changed cannot be kept", "call", c.ID, "err", err)
		s.Effects.List = ""
	}
	return s, nil
}

// facts are what policy is told of changes.
func facts(e palyra.Effects, changes []palyra.Change, neverKept int64) palyra.EffectFacts {
	f := palyra.EffectFacts{
		Created: e.Created, Changed: e.Changed, Removed: e.Removed, Mode: e.Mode, Link: e.Link,
		NeverKept: neverKept, Share: -1, Omitted: e.Omitted,
	}
	for _, c := range changes {
		if c.Was != nil && c.Was.Kind == palyra.PathFile && c.Now == nil {
			f.RemovedFiles++
		}
		if c.Now != nil && c.Now.Kind == palyra.PathFile && c.Kind != palyra.ChangeMode {
			f.Bytes += c.Now.Size
		}
	}
	return f
}

// Settle keeps or drops what a run changed that is held.
func (t *Tiers) Settle(ctx context.Context, c *palyra.Call, keep bool) palyra.Result {
	res := t.Runner.Settle(ctx, c, keep)
	if c.Plan.Workspace.Owner == int64(os.Geteuid()) {
		t.keepPrivate(ctx, c)
	}
	return res
}

// DropHeld forgets what runs changed that is held for calls that nobody waits for.
func (t *Tiers) DropHeld(ctx context.Context, waits func(palyra.CallID) bool) error {
	return t.Runner.DropHeld(ctx, waits)
}
