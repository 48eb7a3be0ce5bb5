// Package changes serves ChangeService: what calls changed in their workspaces, and taking it back.
//
// Whose calls a caller reaches is what palyra.Reach says; of others' they learn nothing, not even that they exist.
// Content is shown to people only: it comes from files that nobody has let an agent read.
package changes

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

// Record finds calls.
type Record interface {
	// Get returns a call as it stands.
	Get(ctx context.Context, id palyra.CallID) (*palyra.Call, error)
	// List returns a page of calls, newest first, and where the next one begins.
	List(ctx context.Context, f palyra.CallFilter) (page []*palyra.Call, next palyra.CallID, err error)
	// Held says why what is kept of a call is not what the journal says of it.
	Held(ctx context.Context, id palyra.CallID) error
}

// Changes knows what calls changed, and what they replaced.
type Changes interface {
	// Of lists what a call changed.
	Of(ctx context.Context, c *palyra.Call, f wire.ChangeFilter) (wire.CallChanges, error)
	// Undoable reports whether a call can be undone; why is set where it cannot, and changed its workspace or may have.
	Undoable(c *palyra.Call) (can bool, why string)
	// Diff shows content before and after; path may be empty.
	Diff(ctx context.Context, c *palyra.Call, path palyra.PathText) (wire.ChangeDiff, error)
	// List returns what can be undone or redone, newest first.
	List(ctx context.Context) ([]wire.UndoEntry, error)
	Reversals
}

// Reversals takes back what calls changed.
type Reversals interface {
	// Check says what an undo or a redo would do.
	Check(ctx context.Context, c *palyra.Call, redo bool) (wire.Reverted, error)
	// Revert undoes a call, or redoes it.
	Revert(ctx context.Context, c *palyra.Call, redo bool, by palyra.Principal, sig palyra.Signature) (wire.Reverted, error)
	// Forget removes what is kept of a call.
	Forget(ctx context.Context, c *palyra.Call, by palyra.Principal, sig palyra.Signature) error
}

// Service serves ChangeService.
type Service struct {
	record  Record
	changes Changes
}

// New returns the service.
func New(r Record, c Changes) *Service { return &Service{r, c} }

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewChangeServiceHandler(s, opts...)
}

// Pages of a list of changes.
const (
	defaultPage = 500
	largestPage = 5000
)

// GetChanges implements the method.
func (s *Service) GetChanges(ctx context.Context, req *v1.GetChangesRequest) (*v1.GetChangesResponse, error) {
	var f wire.ChangeFilter
	if err := wire.ToWord(req, &f); err != nil {
		return nil, err
	}
	if f.Limit = min(f.Limit, largestPage); f.Limit <= 0 {
		f.Limit = defaultPage
	}
	c, lasting, err := s.wanted(ctx, f)
	if err != nil {
		return nil, err
	}
	all, err := s.changes.Of(ctx, c, f)
	all.Lasting, all.LastingWhy = lasting.call, lasting.why
	res := &v1.GetChangesResponse{Changes: &v1.CallChanges{}}
	return wire.Answer(res, res.GetChanges(), all, err)
}

// lasting is a call that cannot be undone, and why.
type lasting struct {
	call palyra.CallID
	why  string
}

// wanted is the call that is asked about. Where none is named, a later one than any that can be undone, which cannot, is
// returned as well.
func (s *Service) wanted(ctx context.Context, f wire.ChangeFilter) (c *palyra.Call, stays lasting, err error) {
	if f.Call == "" {
		c, stays, err = s.last(ctx, f)
	}
	switch {
	case err != nil:
		return nil, stays, err
	case f.Call == "" && c == nil && stays.call != "":
		return nil, stays, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound,
			"no changes are on record there: call %s is the last, and %s", stays.call, stays.why).
			WithRemedy("see 'palyra calls show %s' for what it did", stays.call)
	case f.Call == "" && c == nil:
		return nil, stays, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "no call on record changed anything there").
			WithRemedy("name a call ('palyra calls list' has them), or another directory with --workspace")
	case f.Call == "":
		f.Call = c.ID
	}
	c, err = s.reached(ctx, palyra.ActSee, string(f.Call))
	return c, stays, err
}

// lookBack is how many calls are looked at for the last one that changed something.
const lookBack = 5000

// last finds the last call that changed something, and the last that cannot be undone where none is later that can be.
// Nil: there is none.
func (s *Service) last(ctx context.Context, f wire.ChangeFilter) (found *palyra.Call, stays lasting, err error) {
	q := palyra.CallFilter{Principal: f.Principal, Limit: 100, Reach: rpc.CallerOf(ctx).Reach()}
	for looked := 0; looked < lookBack; {
		page, next, err := s.record.List(ctx, q)
		if err != nil {
			return nil, stays, err
		}
		for _, c := range page {
			if f.Workspace != "" && !palyra.Within(f.Workspace, []string{c.Plan.Workspace.Path}) {
				continue
			}
			can, why := s.changes.Undoable(c)
			if changed, _ := c.Changed(); found == nil && (changed != nil || can) {
				found = c
			}
			if why != "" && stays.call == "" {
				stays = lasting{c.ID, why}
			}
			if found != nil && (can || stays.call != "") {
				return found, stays, nil
			}
		}
		if next == "" {
			break
		}
		looked, q.Cursor = looked+len(page)+1, string(next)
	}
	return found, stays, nil
}

// reached returns a call that the caller may do something with. One whose record somebody changed is not believed.
func (s *Service) reached(ctx context.Context, act palyra.Act, id string) (*palyra.Call, error) {
	c, err := s.record.Get(ctx, palyra.CallID(id))
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, errors.New("changes: no call and no error")
	}
	if !rpc.CallerOf(ctx).Reach().May(act, c.Reached()) {
		return nil, rpc.Missing("call")
	}
	return c, s.record.Held(ctx, c.ID)
}

// DiffChanges implements the method.
func (s *Service) DiffChanges(ctx context.Context, req *v1.DiffChangesRequest) (*v1.DiffChangesResponse, error) {
	c, err := s.reached(ctx, palyra.ActSee, req.GetCallId())
	if err != nil {
		return nil, err
	}
	d, err := s.changes.Diff(ctx, c, palyra.PathText(req.GetPath()))
	res := &v1.DiffChangesResponse{}
	return wire.Answer(res, res, d, err)
}

// ListUndo implements the method.
func (s *Service) ListUndo(ctx context.Context, _ *v1.ListUndoRequest) (*v1.ListUndoResponse, error) {
	all, err := s.changes.List(ctx)
	if err != nil {
		return nil, err
	}
	reach, out := rpc.CallerOf(ctx).Reach(), make([]wire.UndoEntry, 0, len(all))
	for _, e := range all {
		t := palyra.Thing{Principal: e.Principal, Origin: e.Principal, Places: []string{e.Workspace}}
		if reach.May(palyra.ActSee, t) {
			out = append(out, e)
		}
	}
	res := &v1.ListUndoResponse{}
	return res, wire.FromWord(map[string]any{"entries": out}, res)
}

// CheckUndo implements the method.
func (s *Service) CheckUndo(ctx context.Context, req *v1.CheckUndoRequest) (*v1.CheckUndoResponse, error) {
	c, err := s.reached(ctx, palyra.ActSee, req.GetCallId())
	if err != nil {
		return nil, err
	}
	r, err := s.changes.Check(ctx, c, req.GetRedo())
	res := &v1.CheckUndoResponse{Reverted: &v1.Reverted{}}
	return wire.Answer(res, res.GetReverted(), r, err)
}

// revert undoes a call of the caller's reach, or redoes it.
func (s *Service) revert(ctx context.Context, id string, redo bool) (wire.Reverted, error) {
	c, err := s.reached(ctx, palyra.ActCancel, id)
	if err != nil {
		return wire.Reverted{}, err
	}
	who := rpc.CallerOf(ctx)
	return s.changes.Revert(ctx, c, redo, who.Principal, who.Evidence)
}

// UndoCall implements the method.
func (s *Service) UndoCall(ctx context.Context, req *v1.UndoCallRequest) (*v1.UndoCallResponse, error) {
	r, err := s.revert(ctx, req.GetCallId(), false)
	res := &v1.UndoCallResponse{Reverted: &v1.Reverted{}}
	return wire.Answer(res, res.GetReverted(), r, err)
}

// RedoCall implements the method.
func (s *Service) RedoCall(ctx context.Context, req *v1.RedoCallRequest) (*v1.RedoCallResponse, error) {
	r, err := s.revert(ctx, req.GetCallId(), true)
	res := &v1.RedoCallResponse{Reverted: &v1.Reverted{}}
	return wire.Answer(res, res.GetReverted(), r, err)
}

// ForgetUndo implements the method.
func (s *Service) ForgetUndo(ctx context.Context, req *v1.ForgetUndoRequest) (*v1.ForgetUndoResponse, error) {
	c, err := s.reached(ctx, palyra.ActCancel, req.GetCallId())
	if err != nil {
		return nil, err
	}
	who := rpc.CallerOf(ctx)
	return &v1.ForgetUndoResponse{}, s.changes.Forget(ctx, c, who.Principal, who.Evidence)
}
