package changes

import (
	"context"
	"testing"

	"palyra"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

// book is calls on record, newest first, in pages of one.
type book []*palyra.Call

func (b book) Get(_ context.Context, id palyra.CallID) (*palyra.Call, error) {
	for _, c := range b {
		if c.ID == id {
			return c, nil
		}
	}
	return nil, rpc.Missing("call")
}

func (b book) List(_ context.Context, f palyra.CallFilter) ([]*palyra.Call, palyra.CallID, error) {
	for i, c := range b {
		if f.Cursor != "" && string(c.ID) >= f.Cursor || f.Principal != "" && c.Proposal.Principal != f.Principal {
			continue
		}
		next := c.ID
		if i == len(b)-1 {
			next = ""
		}
		return []*palyra.Call{c}, next, nil
	}
	return nil, "", nil
}

func (b book) Held(_ context.Context, id palyra.CallID) error {
	if id == "C2" {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonVerifyFailed, "changed")
	}
	return nil
}

func call(id palyra.CallID, who palyra.Principal, place string, changed bool) *palyra.Call {
	c := &palyra.Call{ID: id, Proposal: palyra.Proposal{Proposer: palyra.Proposer{Principal: who}}, Outcome: &palyra.Outcome{}}
	c.Plan.Workspace.Path = place
	if changed {
		c.Outcome.Changes = &palyra.Effects{Created: 1}
	}
	return c
}

// The last call with changes is that of the place and the principal that are asked for; one whose record somebody changed
// is not believed.
func TestLast(t *testing.T) {
	all := book{
		call("C5", "agent:a", "/w", false), call("C4", "agent:b", "/w/sub", true), call("C3", "agent:a", "/v", true),
		call("C2", "agent:c", "/x", true), call("C1", "agent:a", "/w", true),
	}
	s := New(all, nil)
	ctx := rpc.WithCaller(t.Context(), rpc.Caller{Principal: "user:ann", Role: palyra.RoleOwner})
	for want, f := range map[palyra.CallID]wire.ChangeFilter{
		"C4": {}, "C3": {Workspace: "/v"}, "C1": {Workspace: "/w"},
	} {
		if c, err := s.wanted(ctx, f); err != nil || c.ID != want {
			t.Errorf("%+v: %v, %v", f, c, err)
		}
	}
	if c, err := s.wanted(ctx, wire.ChangeFilter{Workspace: "/w/sub/deep"}); err != nil || c.ID != "C4" {
		t.Errorf("below it: %v, %v", c, err)
	}
	for _, f := range []wire.ChangeFilter{{Workspace: "/nowhere"}, {Call: "C9"}} {
		if _, err := s.wanted(ctx, f); palyra.CodeOf(err) != palyra.NotFound {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if _, err := s.wanted(ctx, wire.ChangeFilter{Call: "C2"}); palyra.CodeOf(err) != palyra.Unavailable {
		t.Errorf("a changed record: %v", err)
	}
}

// Another agent's credential does not reach a call, whichever method names it.
func TestOthersCallsAreNotThere(t *testing.T) {
	s := New(book{call("C1", "agent:a", "/w", true)}, nil)
	ctx := rpc.WithCaller(t.Context(), rpc.Caller{Principal: "agent:b", Role: palyra.RoleAgent})
	for _, act := range []palyra.Act{palyra.ActSee, palyra.ActCancel} {
		if _, err := s.reached(ctx, act, "C1"); palyra.CodeOf(err) != palyra.NotFound {
			t.Errorf("%s: %v", act, err)
		}
	}
	own := rpc.WithCaller(t.Context(), rpc.Caller{Principal: "agent:a", Role: palyra.RoleAgent})
	if c, err := s.reached(own, palyra.ActSee, "C1"); err != nil || c.ID != "C1" {
		t.Errorf("its own: %v", err)
	}
}
