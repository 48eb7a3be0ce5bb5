package undo

import (
	"context"

	"palyra"
	"palyra/internal/tool"
)

// own finds a call that whoever calls now made: the same agent, in the same room and workspace. Others are not found.
func (u *Undo) own(ctx context.Context, env tool.Env, workspace string, id palyra.CallID) (*palyra.Call, error) {
	c, err := u.Calls(ctx, id)
	missing := palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "you have no such call in this workspace").
		WithRemedy("use the call_id of the outcome of one of your own calls; a person undoes others with 'palyra undo'")
	if palyra.CodeOf(err) == palyra.NotFound {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	p := c.Proposal
	if p.Principal != env.Principal || p.Parent != env.Parent || c.Plan.Workspace.Path != workspace || workspace == "" {
		return nil, missing
	}
	return c, nil
}

// Size is how many paths an agent's own call changed, and how many bytes on disk what it replaced takes.
func (u *Undo) Size(ctx context.Context, env tool.Env, workspace string, id palyra.CallID) (paths, bytes int64, err error) {
	if _, err := u.own(ctx, env, workspace, id); err != nil {
		return 0, 0, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	k, err := u.may(id, false)
	return k.paths, k.bytes, err
}

// Preview says what undoing an agent's own call would change, with the diff that people see.
func (u *Undo) Preview(
	ctx context.Context, env tool.Env, workspace string, id palyra.CallID,
) (all []palyra.Change, shown palyra.Detail, whole bool, err error) {
	c, err := u.own(ctx, env, workspace, id)
	if err != nil {
		return nil, shown, false, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, err := u.may(c.ID, false); err != nil {
		return nil, shown, false, err
	}
	if all, err = u.Kept.reversed(string(id)); err != nil {
		return nil, shown, false, unreadable(err)
	}
	if err := u.Kept.compare(ctx, string(id)); err != nil { // what it replaced is copied when it is undone
		return nil, shown, false, u.refused(palyra.CallReverted{Call: id}, false, err)
	}
	d := differ{notes: []string{}}
	err = u.Kept.contents(ctx, string(id), func(string) bool { return true }, mostFile, func(f content) bool {
		f.before, f.after, f.was, f.is = f.after, f.before, f.is, f.was
		return d.add(f)
	})
	if err != nil {
		return nil, shown, false, unreadable(err)
	}
	out := d.done()
	return all, palyra.Detail{Diff: out.Diff, Notes: out.Notes}, len(out.Notes) == 0, nil
}

// Undo undoes an agent's own call, through another.
func (u *Undo) Undo(ctx context.Context, env tool.Env, workspace string, id palyra.CallID) (palyra.Effects, error) {
	c, err := u.own(ctx, env, workspace, id)
	if err != nil {
		return palyra.Effects{}, err
	}
	if err := ctx.Err(); err != nil {
		return palyra.Effects{}, err
	}
	out, err := u.revert(ctx, palyra.CallReverted{
		Call: c.ID, By: env.Principal, Reversal: palyra.ReversalUndo, List: listOf(c), Through: env.Call,
	})
	return out.Counts, err
}
