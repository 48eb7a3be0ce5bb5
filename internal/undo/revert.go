package undo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"palyra"
	"palyra/internal/effects"
	"palyra/internal/rpc/wire"
)

// shown is how many changes of a reversal are told.
const shown = 500

// differing says that a workspace is not as it was left.
type differing struct {
	paths []string
	more  int
}

// Error implements error.
func (e *differing) Error() string {
	text := strings.Join(e.paths, ", ")
	if e.more > 0 {
		text += fmt.Sprintf(" and %d more", e.more)
	}
	return text
}

// list is what differs, with how many more there are.
func (e *differing) list() []string {
	if e.more == 0 {
		return e.paths
	}
	return append(e.paths, fmt.Sprintf("… and %d more", e.more))
}

// entries are the names of what a reversal puts back, and of what it replaces.
func entries(id palyra.CallID, redo bool) (from, as string) {
	if redo {
		return string(id) + afterUndo, string(id) + afterRedo
	}
	return string(id), string(id) + afterUndo
}

// may refuses a reversal of what was not done. The lock is held.
func (u *Undo) may(c *palyra.Call, redo bool) (kept, error) {
	k, err := u.keptOf(c.ID)
	switch {
	case err != nil:
		return k, notKept(c, err)
	case redo && k.state != wire.UndoUndone:
		return k, palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "the call was not undone").
			WithRemedy("'palyra undo %s' does that", c.ID)
	case !redo && k.state == wire.UndoUndone:
		return k, palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "the call was undone already").
			WithRemedy("'palyra redo %s' takes that back", c.ID)
	}
	return k, nil
}

// Check says what an undo or a redo would do, and changes nothing.
func (u *Undo) Check(ctx context.Context, c *palyra.Call, redo bool) (wire.Reverted, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	k, err := u.may(c, redo)
	if err != nil {
		return wire.Reverted{}, err
	}
	out := wire.Reverted{Call: c.ID, Workspace: k.workspace, Changes: []palyra.Change{}, Differ: []string{}}
	from, _ := entries(c.ID, redo)
	all, err := u.Kept.reversed(from)
	if err != nil {
		return wire.Reverted{}, unreadable(err)
	}
	if err := fill(&out, all); err != nil {
		return wire.Reverted{}, err
	}
	r, err := u.Kept.prepare(ctx, from)
	if other := (*differing)(nil); errors.As(err, &other) {
		out.Problem, out.Differ = problem(c.ID, redo), other.list()
		return out, nil
	}
	if sealed := (*palyra.Error)(nil); errors.As(err, &sealed) {
		return out, sealed
	}
	if err != nil {
		out.Problem = "what is kept of it cannot be put back: see the daemon's log"
		u.Log.Warn("a call cannot be undone", "call", c.ID, "redo", redo, "err", err)
		return out, nil
	}
	r.drop()
	return out, nil
}

func problem(id palyra.CallID, redo bool) string {
	if redo {
		return fmt.Sprintf("the workspace is not as the undo of %s left it", id)
	}
	return fmt.Sprintf("the workspace is not as call %s left it", id)
}

// fill puts a list of changes into what is told.
func fill(out *wire.Reverted, all []palyra.Change) error {
	e, _, err := effects.List(all)
	if err != nil {
		return err
	}
	out.Counts = e
	out.Changes = append(out.Changes, all[:min(len(all), shown)]...)
	out.More = int64(len(all) - len(out.Changes))
	return nil
}

// Revert undoes a call, or redoes it: whole, or not at all.
func (u *Undo) Revert(ctx context.Context, c *palyra.Call, redo bool, by palyra.Principal, sig palyra.Signature) (wire.Reverted, error) {
	line := palyra.CallReverted{Call: c.ID, By: by, Reversal: palyra.ReversalUndo, List: listOf(c), Signature: sig}
	if redo {
		line.Reversal = palyra.ReversalRedo
	}
	return u.revert(ctx, c, line, nil)
}

// revert does what a line says that is done with a call, and tells changed, where there is one, what that changed.
func (u *Undo) revert(
	ctx context.Context, c *palyra.Call, line palyra.CallReverted, changed func([]palyra.Change),
) (out wire.Reverted, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	redo := line.Reversal == palyra.ReversalRedo
	k, err := u.may(c, redo)
	if err != nil {
		return out, err
	}
	out = wire.Reverted{Call: line.Call, Workspace: k.workspace, Changes: []palyra.Change{}, Differ: []string{}}
	from, as := entries(line.Call, redo)
	u.busyWith(line.Call)
	defer u.busyWith("")
	r, err := u.Kept.prepare(ctx, from)
	if err != nil {
		return out, u.refused(line, redo, err)
	}
	defer r.drop()
	line.Result = palyra.ReversalBegun
	if _, err := u.Journal.Record(ctx, line); err != nil {
		return out, err
	}
	ctx = context.WithoutCancel(ctx) // what has begun is finished, whoever waits for it
	all, why, err := r.keep(ctx, as)
	if err == nil && why == "" {
		u.store.Lock()
		u.settleRedone([]string{as})
		u.store.Unlock()
		err = fill(&out, all)
	}
	end := line
	end.Result, end.Paths, end.Signature = palyra.ReversalDone, int64(len(all)), palyra.Signature{}
	failure := u.failed(line, redo, why, err)
	if failure != nil {
		end.Result, end.Reason = palyra.ReversalFailed, palyra.AsError(failure).Reason
	} else if changed != nil {
		changed(all)
	}
	if _, err := u.Journal.Record(ctx, end); err != nil {
		return out, errors.Join(failure, err)
	}
	return out, failure
}

// busyWith has what is kept of a call stay, whatever needs room.
func (u *Undo) busyWith(id palyra.CallID) {
	u.store.Lock()
	defer u.store.Unlock()
	u.busy = id
}

// refused explains why nothing was begun.
func (u *Undo) refused(line palyra.CallReverted, redo bool, err error) error {
	if other := (*differing)(nil); errors.As(err, &other) {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonEffectsConflict, "%s, so nothing was changed: %s", problem(line.Call, redo), other).
			WithRemedy("look at these paths; undo what came later first, or put them back by hand")
	}
	if sealed := (*palyra.Error)(nil); errors.As(err, &sealed) {
		return sealed
	}
	u.Log.Error("the files that a call replaced cannot be put back", "call", line.Call, "redo", redo, "err", err)
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonEffectsLost,
		"what is kept of call %s cannot be put back; nothing was changed", line.Call).
		WithRemedy("see the daemon's log").WithCause(err)
}

// failed explains what became of a reversal that had begun; nil: it was done.
func (u *Undo) failed(line palyra.CallReverted, redo bool, why string, err error) error {
	none := (*NoRoomError)(nil)
	switch {
	case errors.As(err, &none):
		return noRoom(none)
	case errors.As(err, new(*palyra.Error)):
		return err
	case err != nil:
		u.Log.Error("the files that a call replaced were not put back whole", "call", line.Call, "redo", redo, "err", err)
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonEffectsLost, "call %s could not be taken back whole", line.Call).
			WithRemedy("see the daemon's log; what had begun is finished when the daemon starts again").WithCause(err)
	case why != "":
		return palyra.Errorf(palyra.Conflict, palyra.ReasonEffectsConflict, "somebody changed the workspace meanwhile: %s", why).
			WithRemedy("look at these paths, and try it again")
	}
	return nil
}
