package undo

import (
	"context"

	"palyra"
	"palyra/internal/effects"
	"palyra/internal/rpc/wire"
	"palyra/internal/sandbox"
	"palyra/internal/stage"
	"palyra/internal/tool"
)

// stagedOf lists what an agent and its calls wrote, which waits for its person: what somebody else changed meanwhile
// stands beside it.
func (u *Undo) stagedOf(ctx context.Context, c *palyra.Call, f wire.ChangeFilter) (wire.CallChanges, error) {
	w, err := u.work(ctx, c.ID)
	if err != nil {
		return wire.CallChanges{}, err
	}
	all := sandbox.ChangesOf(w.Changes)
	e, _, err := effects.List(all)
	if err != nil {
		return wire.CallChanges{}, err
	}
	out, err := u.page(c, all, e, palyra.EffectsStaged, f)
	was, done := effects.In(w.Workspace)
	defer done()
	out.RunByTools = append(out.RunByTools, effects.FactsOf(e, all, 0, was).RunByTools...)
	for _, p := range w.Theirs[:min(len(w.Theirs), shown)] {
		out.Conflicts = append(out.Conflicts, palyra.TextOfPath(p))
	}
	out.Running, out.Undo = w.Running, wire.UndoStaged
	if u.For > 0 && !w.Ended.IsZero() {
		out.Expires = w.Ended.Add(u.For)
	}
	return out, err
}

func (u *Undo) work(ctx context.Context, agent palyra.CallID) (sandbox.Work, error) {
	r, err := u.reviewer()
	if err != nil {
		return sandbox.Work{}, err
	}
	return r.Work(ctx, agent, nil)
}

func (u *Undo) reviewer() (sandbox.Reviewer, error) {
	if u.Staged == nil {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "no agent's work is staged here").
			WithRemedy("run palyrad on Linux")
	}
	return u.Staged()
}

// stagedContents is contents of what an agent wrote.
func (u *Undo) stagedContents(ctx context.Context, c *palyra.Call, pick func(string) bool, f func(content) bool) error {
	r, err := u.reviewer()
	if err != nil {
		return err
	}
	w, err := r.Work(ctx, c.ID, nil)
	if err != nil {
		return err
	}
	return r.Contents(ctx, w, func(x stage.Change) bool { return pick(x.Path) }, mostFile, func(x sandbox.Content) bool {
		return f(content{x.Path, x.Was.Kind == stage.File, x.Now.Kind == stage.File, x.Before, x.After, x.Why})
	})
}

// stagedWorks are the agents whose work waits, among what can be undone.
func (u *Undo) stagedWorks(ctx context.Context) (out []wire.UndoEntry, err error) {
	r, err := u.reviewer()
	if err != nil {
		return nil, nil
	}
	all, err := r.Works(ctx)
	for _, w := range all {
		e := wire.UndoEntry{Call: w.Agent, Workspace: w.Workspace, At: w.Began, State: wire.UndoStaged}
		c, err := u.Calls(ctx, w.Agent)
		if err != nil && palyra.CodeOf(err) != palyra.NotFound {
			return nil, err
		}
		if err == nil {
			e.Session, e.Principal, e.Summary = c.Proposal.Session, c.Proposal.Principal, c.Detail.Summary
		}
		out = append(out, e)
	}
	return out, err
}

// Meant returns how many of the changed paths of an agent a choice means, how many there are, and the digest of the list of
// those that are meant.
func (u *Undo) Meant(
	ctx context.Context, env tool.Env, workspace string, agent palyra.CallID, paths []palyra.PathText, shown palyra.Digest,
) (meant, all int, list palyra.Digest, err error) {
	c, err := u.Calls(ctx, agent)
	if err != nil && palyra.CodeOf(err) != palyra.NotFound {
		return 0, 0, "", err
	}
	if err != nil || !env.Reach.May(palyra.ActCancel, c.Reached()) || c.Plan.Workspace.Path != workspace || !c.Plan.Staging.Review {
		return 0, 0, "", palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "no agent %s of yours is staged in this workspace", agent).
			WithRemedy("'palyra changes --staged' lists those whose work waits")
	}
	w, err := u.work(ctx, agent)
	if err == nil && w.Running {
		err = sandbox.StillRuns(agent)
	}
	if err != nil {
		return 0, 0, "", err
	}
	whole, _, err := w.List(func(string) bool { return true })
	if err == nil && shown != "" && shown != whole {
		err = palyra.Errorf(palyra.Conflict, palyra.ReasonEffectsConflict, "what waits of agent %s is no more what was shown", agent).
			WithRemedy("look at it again: palyra changes %s", agent)
	}
	if err != nil {
		return 0, 0, "", err
	}
	pick, err := sandbox.Picker(paths, w)
	if err != nil {
		return 0, 0, "", err
	}
	list, meant, err = w.List(pick)
	return meant, len(w.Changes), list, err
}

// expire drops the work of agents that nobody decided about in time. Where it cannot be put on record, it stays.
func (u *Undo) expire(ctx context.Context) error {
	r, err := u.reviewer()
	if err != nil || u.For <= 0 {
		return nil
	}
	all, err := r.Works(ctx)
	for _, w := range all {
		if w.Running || w.Ended.IsZero() || u.Now().Sub(w.Ended) <= u.For {
			continue
		}
		line := palyra.CallReverted{Call: w.Agent, By: palyra.SystemDaemon, Reversal: palyra.ReversalForget, Result: palyra.ReversalDone}
		if _, err := u.Journal.Record(ctx, line); err != nil {
			return err
		}
		_, err := r.DropWork(ctx, sandbox.Part{Agent: w.Agent, Pick: func(string) bool { return true }})
		u.Log.Warn("what an agent had staged has expired, and was dropped", "call", w.Agent, "workspace", w.Workspace, "err", err)
	}
	return err
}
