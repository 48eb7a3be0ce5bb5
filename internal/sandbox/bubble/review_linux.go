package bubble

import (
	"context"

	"palyra/internal/sandbox"
	"palyra/internal/sandbox/reviews"
)

var _ sandbox.Reviewer = (*Backend)(nil)

// KeepWork implements sandbox.Reviewer.
func (b *Backend) KeepWork(ctx context.Context, p sandbox.Part) (x sandbox.Exit, w sandbox.Work, err error) {
	n, from, w, c, done, err := b.Choose(ctx, p)
	if err != nil {
		return x, w, err
	}
	defer done()
	if len(c.Paths()) == 0 {
		return x, w, reviews.NothingMeant(p.Agent, w)
	}
	k, err := b.attend(ctx, sandbox.HeldRun{Call: p.Call, Workspace: n.Workspace}, true)
	if err != nil {
		return x, w, err
	}
	if k.stage, err = b.stages.all.Make(n.Workspace, n.Owner()); err == nil {
		k.want.room.UID, k.want.room.GID = n.UID, n.GID
		k.stage.Began(n.Since)
		err = b.agentStages().CopyTo(ctx, n, k.stage.Path(), c)
	}
	if err == nil {
		err = k.charge(p.Payer)
	}
	if err == nil {
		err = b.agentStages().Begin(n.Call, string(p.Call), c)
	}
	if err != nil {
		k.discard()
		return x, w, reviews.NotDivided(p.Agent, err)
	}
	k.rule = p.Weigh
	if err = k.finish(&x, true); err == nil && x.Effects.Kept > 0 && x.Effects.Lost == "" {
		err = b.Taken(ctx, n, from, w, c)
	}
	return x, w, err
}
