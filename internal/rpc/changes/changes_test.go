package changes

import (
	"context"
	"strings"
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
	s := New(all, state{})
	ctx := rpc.WithCaller(t.Context(), rpc.Caller{Principal: "user:ann", Role: palyra.RoleOwner})
	for want, f := range map[palyra.CallID]wire.ChangeFilter{
		"C4": {}, "C3": {Workspace: "/v"}, "C1": {Workspace: "/w"},
	} {
		if c, _, err := s.wanted(ctx, f); err != nil || c.ID != want {
			t.Errorf("%+v: %v, %v", f, c, err)
		}
	}
	if c, _, err := s.wanted(ctx, wire.ChangeFilter{Workspace: "/w/sub/deep"}); err != nil || c.ID != "C4" {
		t.Errorf("below it: %v, %v", c, err)
	}
	for _, f := range []wire.ChangeFilter{{Workspace: "/nowhere"}, {Call: "C9"}} {
		if _, _, err := s.wanted(ctx, f); palyra.CodeOf(err) != palyra.NotFound {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if _, _, err := s.wanted(ctx, wire.ChangeFilter{Call: "C2"}); palyra.CodeOf(err) != palyra.Unavailable {
		t.Errorf("a changed record: %v", err)
	}
}

// state is which calls can be undone; of the others, why not.
type state struct {
	Changes
	can map[palyra.CallID]bool
	why map[palyra.CallID]string
}

func (s state) Undoable(c *palyra.Call) (bool, string) { return s.can[c.ID], s.why[c.ID] }

// A call that cannot be undone and is later than any that can be is told, also where none is on record that changed
// anything.
func TestLastThatStays(t *testing.T) {
	ctx := rpc.WithCaller(t.Context(), rpc.Caller{Principal: "user:ann", Role: palyra.RoleOwner})
	all := book{
		call("C6", "agent:a", "/w", true), call("C5", "agent:a", "/w", false), call("C4", "agent:a", "/w", true),
		call("C3", "agent:a", "/v", false), call("C1", "agent:a", "/v", true),
	}
	ids := func(id palyra.CallID) map[palyra.CallID]bool { return map[palyra.CallID]bool{id: true} }
	direct := map[palyra.CallID]string{"C5": "direct", "C3": "direct"}
	for name, c := range map[string]struct {
		in          string
		s           state
		found, stay palyra.CallID
	}{
		"the last one can be":          {"/w", state{can: ids("C6"), why: direct}, "C6", ""},
		"one before it, which was not": {"/w", state{can: ids("C4"), why: direct}, "C6", "C5"},
		"the last one cannot":          {"/v", state{can: ids("C1"), why: direct}, "C1", "C3"},
		"none can":                     {"/w", state{}, "C6", ""},
	} {
		got, stays, err := New(all, c.s).wanted(ctx, wire.ChangeFilter{Workspace: c.in})
		if err != nil || got.ID != c.found || stays.call != c.stay || (stays.why != "") != (c.stay != "") {
			t.Errorf("%s: %v, %+v, %v", name, got, stays, err)
		}
	}
	s := New(all[3:4], state{why: map[palyra.CallID]string{"C3": "it wrote directly"}})
	_, _, err := s.wanted(ctx, wire.ChangeFilter{})
	if palyra.CodeOf(err) != palyra.NotFound || !strings.Contains(err.Error(), "C3 is the last, and it wrote directly") {
		t.Errorf("%v", err)
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
