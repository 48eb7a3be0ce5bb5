package undo

import (
	"context"
	"fmt"

	"palyra"
	"palyra/internal/effects"
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
	c, err := u.own(ctx, env, workspace, id)
	if err != nil {
		return 0, 0, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	k, err := u.may(c, false)
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
	if _, err := u.may(c, false); err != nil {
		return nil, shown, false, err
	}
	if all, err = u.Kept.reversed(string(id)); err != nil {
		return nil, shown, false, unreadable(err)
	}
	if err := u.Kept.compare(ctx, string(id)); err != nil { // what it replaced is copied when it is undone
		return nil, shown, false, u.refused(palyra.CallReverted{Call: id}, false, err)
	}
	d := u.differ(ctx, workspace)
	err = u.Kept.contents(ctx, string(id), func(string) bool { return true }, mostFile, func(f content) bool {
		f.before, f.after, f.was, f.is = f.after, f.before, f.is, f.was
		return d.add(f)
	})
	if err != nil {
		return nil, shown, false, unreadable(err)
	}
	out := d.done()
	more, whole := notInDiff(workspace, all)
	return all, palyra.Detail{Diff: out.Diff, Notes: append(out.Notes, more...)}, whole && len(out.Notes) == 0, nil
}

// mostTarget bounds the text of a link in a note.
const mostTarget = 256

// notInDiff says what of an undo no diff shows: links, modes, and directories in the place of something else. It is
// not the whole where a note is cut, and where a link would lead out of the workspace or nobody can tell.
func notInDiff(workspace string, all []palyra.Change) (notes []string, whole bool) {
	was, done := effects.In(workspace)
	defer done()
	f := effects.FactsOf(palyra.Effects{}, all, 0, was)
	whole = len(f.Outward) == 0 && f.Omitted == 0
	for _, n := range f.Outward {
		notes = append(notes, fmt.Sprintf("%s would lead out of the workspace, or can come to", n))
	}
	for _, c := range all {
		if plain(c) {
			continue
		}
		if len(notes) >= mostNotes {
			return append(notes, "more links and modes are not shown"), false
		}
		for _, s := range []*palyra.PathState{c.Was, c.Now} {
			whole = whole && (s == nil || len(s.Target) <= mostTarget)
		}
		notes = append(notes, fmt.Sprintf("%s: %s becomes %s", c.Path, inWords(c.Was), inWords(c.Now)))
	}
	return notes, whole
}

// plain reports whether a diff, or the names of paths, show a change: files, and directories that come or go.
func plain(c palyra.Change) bool {
	switch {
	case c.Was == nil:
		return c.Now.Kind != palyra.PathLink
	case c.Now == nil:
		return c.Was.Kind != palyra.PathLink
	}
	return c.Was.Kind == palyra.PathFile && c.Now.Kind == palyra.PathFile && c.Was.Mode == c.Now.Mode
}

func inWords(s *palyra.PathState) string {
	switch {
	case s == nil:
		return "nothing"
	case s.Kind == palyra.PathLink:
		return "a link to " + palyra.Clip(string(s.Target), mostTarget)
	}
	return fmt.Sprintf("a %s of mode %o", s.Kind, s.Mode)
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
	out, err := u.revert(ctx, c, palyra.CallReverted{
		Call: c.ID, By: env.Principal, Reversal: palyra.ReversalUndo, List: listOf(c), Through: env.Call,
	}, env.Changed)
	return out.Counts, err
}
