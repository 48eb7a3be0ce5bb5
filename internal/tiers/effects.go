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
	was, done := before(c)
	s := palyra.Staged{Effects: e, Facts: effects.FactsOf(e, changes, neverKept, was)}
	done()
	s.Detail = effects.Describe(s.Facts, changes)
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

// before is the workspace of a call as its run found it: nothing of what it changed is kept yet. No link leads out of
// it.
func before(c *palyra.Call) (b effects.Before, done func()) {
	b.Path = c.Plan.Workspace.Path
	root, err := os.OpenRoot(b.Path)
	if err != nil {
		return b, func() {}
	}
	b.Exists = func(name string) bool {
		_, err := root.Lstat(name)
		return err == nil
	}
	b.Link = func(name string) (string, bool) {
		to, err := root.Readlink(name)
		return to, err == nil
	}
	return b, func() { _ = root.Close() }
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
