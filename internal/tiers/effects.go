package tiers

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"palyra"
	"palyra/internal/effects"
	"palyra/internal/sandbox"
	"palyra/internal/symlink"
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
	s, err := t.list(ctx, c, sandbox.Left{Changes: res.Changes})
	if err != nil {
		t.Log.Error("what a run changed cannot be listed", "call", c.ID, "err", err)
		return
	}
	res.Listed = &s.Effects
}

// list keeps the list of what a run changed and says in short what is in it. A
// list that cannot be kept is counted, judged and attested all the same: the call has run.
func (t *Tiers) list(ctx context.Context, c *palyra.Call, left sandbox.Left) (palyra.Staged, error) {
	e, text, err := effects.List(left.Changes)
	if err != nil {
		return palyra.Staged{}, err
	}
	was, done := t.before(ctx, c)
	if left.Before != nil && left.After != nil {
		was.Git = sync.OnceValue(func() effects.Git { return t.git(ctx, c, left) })
	}
	s := palyra.Staged{Effects: e, Facts: effects.FactsOf(e, left.Changes, left.NeverKept, was)}
	done()
	if t.Room != nil {
		s.Facts.NotUndoable, s.Facts.PushesOut = t.Room(left.Replaced)
	}
	s.Facts.NotUndoable = s.Facts.NotUndoable || left.Lasting || t.unlogged(ctx, c, left)
	s.Detail = effects.Describe(s.Facts, left.Changes)
	if t.Lists == nil {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listWithin)
	defer cancel()
	if s.Effects.List, err = t.Lists.Keep(ctx, c.Proposal.Session, c.ID, text); err != nil {
		t.Log.Error("the list of what a run changed cannot be kept", "call", c.ID, "err", err)
		s.Effects.List = ""
		// Nobody can look at what is on no list: policy is told so, and the default asks.
		s.Facts.Omitted = max(s.Facts.Omitted, e.Total())
		s.Detail = effects.Describe(s.Facts, left.Changes)
	}
	return s, nil
}

// lookWithin is how long looking through a workspace may take for what other programs obey there.
const lookWithin = 30 * time.Second

// before is the workspace of a call as its run found it: nothing of what it changed is kept yet. What others obey there
// is what they obeyed before the run: where the run changes what leads to it, that is such a name itself.
func (t *Tiers) before(ctx context.Context, c *palyra.Call) (b effects.Before, done func()) {
	b, done = effects.In(c.Plan.Workspace.Path)
	b.Obeyed = func(names []string) []string {
		return slices.Concat(t.obeyed(ctx, c.Plan.Workspace, names), t.unmasking(ctx, c.Plan.Workspace.Path, names))
	}
	closed := sync.OnceValue(t.closed)
	b.Closed = func(way string) bool { return closed()(way) }
	b.System = func(way string) bool { return c.Plan.Workspace.Owner != 0 && effects.OfSystem(way) }
	return b, done
}

// closed tells the ways to what runs leave outside of workspaces, caches and the quarantine among it, and those through
// /proc, which lead elsewhere for everybody.
func (t *Tiers) closed() func(way string) bool {
	set, err := symlink.NewSet(t.Settings.Closed(t.StateID))
	if err != nil {
		t.Log.Error("where no link may lead cannot be told, so every link counts", "err", err)
		return func(string) bool { return true }
	}
	return func(way string) bool {
		end := set.Resolve(way)
		return end.Closed || end.Proc
	}
}

// obeyed are those of the names that git's configuration and links in the place of trusted names lead to. Where nobody
// can tell, all of them are.
func (t *Tiers) obeyed(ctx context.Context, workspace palyra.WorkspaceRef, names []string) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookWithin)
	defer cancel()
	out, why, err := t.trusted.Guarded(ctx, workspace, names)
	if err != nil || why != "" {
		t.Log.Warn("what other programs obey in a workspace cannot be told, so all that a run changed counts",
			"workspace", workspace.Path, "why", why, "err", err)
		return names
	}
	return out
}

// Settle keeps or drops what a run changed that is held.
func (t *Tiers) Settle(ctx context.Context, c *palyra.Call, keep bool) palyra.Result {
	res := t.Runner.Settle(ctx, c, keep)
	if c.Plan.Workspace.Owner == int64(os.Geteuid()) {
		t.keepPrivate(ctx, c)
	}
	return res
}
