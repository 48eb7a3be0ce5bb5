package undo

import (
	"context"
	"encoding/json"
	"strconv"

	"palyra"
	"palyra/internal/effects"
	"palyra/internal/rpc/wire"
)

// Of lists what a call changed, a page at a time.
func (u *Undo) Of(ctx context.Context, c *palyra.Call, f wire.ChangeFilter) (wire.CallChanges, error) {
	if c.Plan.Staging.Review {
		return u.stagedOf(ctx, c, f)
	}
	changed, became := c.Changed()
	if changed == nil {
		if all, ok := u.remembered(c.ID); ok {
			e, _, err := effects.List(all)
			if err != nil {
				return wire.CallChanges{}, err
			}
			became = palyra.EffectsKept
			if c.Proposal.Check {
				became = palyra.EffectsForeseen
			}
			return u.page(c, all, e, became, f)
		}
		return wire.CallChanges{}, explainNoChanges(c)
	}
	all, err := u.listed(ctx, c.ID, *changed)
	if err != nil {
		return wire.CallChanges{}, err
	}
	return u.page(c, all, *changed, became, f)
}

// explainNoChanges says why no changes of a call are on record.
func explainNoChanges(c *palyra.Call) error {
	why, remedy := "it changed nothing", "see 'palyra calls show "+string(c.ID)+"' for what it did"
	switch {
	case c.State == palyra.Pending:
		why, remedy = "it waits for an answer and has not run", "'palyra approvals show "+string(c.Approval)+"' shows what it would do"
	case c.State == palyra.Running || c.State == palyra.Granted || c.State == palyra.Settling:
		why, remedy = "it is running", "ask again when it has ended"
	case c.State == palyra.Unknown:
		why = "the daemon stopped while it ran, and what it changed is not known"
	case !ran(c):
		why = "it did not run"
	case c.Outcome != nil && (c.Outcome.Effects == palyra.EffectsConflict || c.Outcome.Effects == palyra.EffectsLost):
		why = c.Outcome.Reason
	case c.Plan.Staging.Writes == palyra.WritesLive:
		why = "it wrote to its workspace directly (" + c.Plan.Staging.Why + "), and what it wrote is not known"
	}
	return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "nothing that the call changed is on record: %s", why).
		WithRemedy("%s", remedy)
}

// Undoable reports whether a call can be undone; why is set where it cannot, and changed its workspace or may have.
func (u *Undo) Undoable(c *palyra.Call) (can bool, why string) {
	_, became := c.Changed()
	direct := became == "" && ran(c) && !c.Plan.ReadOnly && c.Plan.Staging.Writes == palyra.WritesLive
	if became == "" && !direct && len(c.Plan.Writes) == 0 || c.Proposal.Tool == palyra.ToolUndo {
		return false, "" // most calls, for which nothing is looked up; an undo is taken back by redo of what it undid
	}
	state := u.state(c.ID)
	switch {
	case state == wire.UndoKept:
		return true, ""
	case state == wire.UndoUndone:
	case became == palyra.EffectsKept || became == palyra.EffectsLost:
		why = "what it replaced is not kept"
	case direct:
		why = "it wrote to the workspace directly (" + c.Plan.Staging.Why + ")"
	}
	return false, why
}

// remembered is what a call changed of which the outcome does not say it: that of a tool which works on files itself.
func (u *Undo) remembered(id palyra.CallID) ([]palyra.Change, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, err := u.keptOf(id); err != nil {
		return nil, false
	}
	all, err := u.Kept.reversed(string(id))
	for i, c := range all {
		all[i].Was, all[i].Now = c.Now, c.Was
		all[i].Kind = effects.KindOf(c.Now, c.Was)
	}
	return all, err == nil
}

// page is a part of a list of changes, with what all of it comes to.
func (u *Undo) page(
	c *palyra.Call, all []palyra.Change, e palyra.Effects, became palyra.Settlement, f wire.ChangeFilter,
) (wire.CallChanges, error) {
	out := wire.CallChanges{
		Call: c.ID, Tool: c.Proposal.Tool, Principal: c.Proposal.Principal, Workspace: c.Plan.Workspace.Path,
		Summary: c.Detail.Summary, FinishedAt: c.Finished, Effects: became, Counts: e,
		RunByTools: []palyra.PathText{}, Changes: []palyra.Change{}, More: e.Total(), Undo: u.state(c.ID),
	}
	if c.Outcome != nil {
		out.Quarantined = c.Outcome.Quarantined
	} else if c.Keep != nil {
		var brought palyra.Result // as it is kept while the question is open; else what was taken away is told later
		_ = json.Unmarshal(c.Keep.Result, &brought)
		out.Approval, out.Quarantined = c.Keep.Approval, palyra.TextOfPaths(brought.Quarantined, brought.More)
	}
	if c.Keep != nil {
		out.RunByTools = append(out.RunByTools, c.Keep.Facts.RunByTools...)
	}
	from := 0
	if f.Cursor != "" {
		var err error
		if from, err = strconv.Atoi(f.Cursor); err != nil || from < 0 || from > len(all) {
			return wire.CallChanges{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the cursor is not one of this list").
				WithRemedy("use the next_cursor of the page before")
		}
	}
	to := from + int(min(f.Limit, int64(len(all)-from)))
	out.Changes = append(out.Changes, all[from:to]...)
	if out.More = e.Total() - int64(to); to < len(all) {
		out.Next = strconv.Itoa(to)
	}
	return out, nil
}

// listed reads the list of what a call changed. One that could not be kept, or was removed in time, is empty: what it
// comes to is on record all the same.
func (u *Undo) listed(ctx context.Context, id palyra.CallID, e palyra.Effects) ([]palyra.Change, error) {
	if e.List == "" {
		return nil, nil
	}
	text, err := u.Lists.Of(ctx, id, e.List)
	if palyra.CodeOf(err) == palyra.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := effects.Read(e, text)
	if err != nil {
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonVerifyFailed,
			"the list of what the call changed is not the one that was recorded").
			WithRemedy("run 'palyra journal verify', and keep the state as evidence").WithCause(err)
	}
	return all, nil
}
