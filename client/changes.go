package client

import (
	"context"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc/wire"
)

// What calls changed, and what is kept of it.
type (
	// CallChanges is what a call changed in its workspace.
	CallChanges = wire.CallChanges
	// ChangeFilter selects what a call changed.
	ChangeFilter = wire.ChangeFilter
	// ChangeDiff is content before and after a call.
	ChangeDiff = wire.ChangeDiff
	// UndoEntry is what is kept of one call.
	UndoEntry = wire.UndoEntry
	// UndoState says whether what a call changed can be taken back.
	UndoState = wire.UndoState
	// Reverted is what an undo or a redo did, or would do.
	Reverted = wire.Reverted
)

// The states of what is kept of a call.
const (
	UndoNone   = wire.UndoNone
	UndoKept   = wire.UndoKept
	UndoUndone = wire.UndoUndone
	UndoStaged = wire.UndoStaged
)

// Changes lists what a call changed, a page at a time.
func (c *Client) Changes(ctx context.Context, f ChangeFilter) (CallChanges, error) {
	req := &v1.GetChangesRequest{}
	if err := wire.FromWord(f, req); err != nil {
		return CallChanges{}, failure(err)
	}
	res, err := c.changes().GetChanges(ctx, req)
	return word[CallChanges](res.GetChanges(), err)
}

// ChangesDiff shows content before and after a call: of one path, of a directory, or of all.
func (c *Client) ChangesDiff(ctx context.Context, id palyra.CallID, path palyra.PathText) (ChangeDiff, error) {
	res, err := c.changes().DiffChanges(ctx, &v1.DiffChangesRequest{CallId: string(id), Path: string(path)})
	return word[ChangeDiff](res, err)
}

// UndoEntries lists calls that can be undone or redone, newest first.
func (c *Client) UndoEntries(ctx context.Context) ([]UndoEntry, error) {
	res, err := c.changes().ListUndo(ctx, &v1.ListUndoRequest{})
	return words[UndoEntry](res, err, "entries")
}

// CheckUndo says what an undo or a redo would do, and changes nothing.
func (c *Client) CheckUndo(ctx context.Context, id palyra.CallID, redo bool) (Reverted, error) {
	res, err := c.changes().CheckUndo(ctx, &v1.CheckUndoRequest{CallId: string(id), Redo: redo})
	return word[Reverted](res.GetReverted(), err)
}

// UndoCall puts back what a call replaced, and removes what it made (signed).
func (c *Client) UndoCall(ctx context.Context, id palyra.CallID) (Reverted, error) {
	res, err := c.changes().UndoCall(ctx, &v1.UndoCallRequest{CallId: string(id)})
	return word[Reverted](res.GetReverted(), err)
}

// RedoCall takes an undo back (signed).
func (c *Client) RedoCall(ctx context.Context, id palyra.CallID) (Reverted, error) {
	res, err := c.changes().RedoCall(ctx, &v1.RedoCallRequest{CallId: string(id)})
	return word[Reverted](res.GetReverted(), err)
}

// ForgetUndo removes what is kept of a call, which can then not be undone any more (signed).
func (c *Client) ForgetUndo(ctx context.Context, id palyra.CallID) error {
	_, err := c.changes().ForgetUndo(ctx, &v1.ForgetUndoRequest{CallId: string(id)})
	return failure(err)
}
