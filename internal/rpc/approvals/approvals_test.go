package approvals

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc"
)

func TestFilter(t *testing.T) {
	f, err := filter(nil)
	if err != nil || f.Limit != 0 || f.Pending {
		t.Errorf("%+v %v", f, err)
	}
	f, err = filter(&v1.ApprovalFilter{Answer: "deny", Limit: 3, Since: timestamppb.New(timestamppb.Now().AsTime()), OldestFirst: true})
	if err != nil || f.Answer != palyra.AnswerDeny || f.Limit != 3 || f.Since.IsZero() || !f.OldestFirst {
		t.Errorf("%+v %v", f, err)
	}
	for name, m := range map[string]*v1.ApprovalFilter{
		"negative":             {Limit: -1},
		"pending and answered": {Pending: true, Answer: "allow"},
		"no such time":         {Since: &timestamppb.Timestamp{Seconds: 1 << 60}},
	} {
		if _, err := filter(m); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Even a chain that let it through by mistake must not make a vote without
// evidence.
func TestUnsignedVoteIsImpossible(t *testing.T) {
	s := New(nil, nil, nil) // the desk must not be reached
	for _, ctx := range []rpc.Caller{{}, {Principal: "user:alice", Role: palyra.RoleOwner}} {
		_, err := s.DecideApproval(rpc.WithCaller(t.Context(), ctx), &v1.DecideApprovalRequest{ApprovalId: "A", Answer: "allow"})
		if palyra.AsError(err).Reason != palyra.ReasonSignatureRequired {
			t.Errorf("%v", err)
		}
	}
}

// desk is five questions: in a workspace, in another, in none, and two about agents
// that would reach into others from the first.
type desk struct{ voted []palyra.ApprovalID }

func (*desk) all() []palyra.Approval {
	in := func(path string) palyra.Plan { return palyra.Plan{Workspace: palyra.WorkspaceRef{Path: path}} }
	both, all := in("/w"), in("/w")
	both.AgentWithin, all.AgentWithin = []string{"/other"}, []string{palyra.AnyWorkspace}
	return []palyra.Approval{
		{ID: "here", Plan: in("/w")},
		{ID: "there", Plan: in("/other")},
		{ID: "nowhere"},
		{ID: "both", Plan: both},
		{ID: "all", Plan: all},
	}
}

func (d *desk) List(context.Context, palyra.ApprovalFilter) (palyra.ApprovalPage, error) {
	return palyra.ApprovalPage{Approvals: d.all()}, nil
}

func (d *desk) Get(_ context.Context, id palyra.ApprovalID) (palyra.Approval, error) {
	all := d.all()
	return all[slices.IndexFunc(all, func(a palyra.Approval) bool { return a.ID == id })], nil
}

func (d *desk) Decide(_ context.Context, v palyra.Vote) (palyra.Approval, error) {
	d.voted = append(d.voted, v.Approval)
	return palyra.Approval{ID: v.Approval}, nil
}

func (d *desk) Watch(_ context.Context, f func(palyra.Approval) error) error { return nil }

func (d *desk) Export(context.Context, io.Writer, string, palyra.ApprovalFilter, palyra.Principal) error {
	return nil
}

// Somebody who is bound to workspaces sees and answers what is in them, and learns
// of nothing else.
func TestBoundToWorkspaces(t *testing.T) {
	for _, c := range []struct {
		within []string
		want   []palyra.ApprovalID
	}{
		{nil, []palyra.ApprovalID{"here", "there", "nowhere", "both", "all"}},
		{[]string{"/w"}, []palyra.ApprovalID{"here"}},
		{[]string{"/w", "/other"}, []palyra.ApprovalID{"here", "there", "both"}},
		{[]string{"/"}, nil},
	} {
		d := &desk{}
		s := New(d, nil, time.Now)
		ctx := rpc.WithCaller(t.Context(), rpc.Caller{Principal: "user:bob", Role: palyra.RoleApprover, Signed: true, Within: c.within})
		page, err := s.ListApprovals(ctx, &v1.ListApprovalsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var listed, got []palyra.ApprovalID
		for _, a := range page.GetApprovals() {
			listed = append(listed, palyra.ApprovalID(a.GetApprovalId()))
		}
		for _, id := range []palyra.ApprovalID{"here", "there", "nowhere", "both", "all"} {
			if _, err := s.GetApproval(ctx, &v1.GetApprovalRequest{ApprovalId: string(id)}); err == nil {
				got = append(got, id)
			} else if palyra.CodeOf(err) != palyra.NotFound {
				t.Error(err)
			}
			_, err := s.DecideApproval(ctx, &v1.DecideApprovalRequest{ApprovalId: string(id), Answer: "allow"})
			if err != nil && palyra.CodeOf(err) != palyra.NotFound {
				t.Error(err)
			}
		}
		for what, list := range map[string][]palyra.ApprovalID{"listed": listed, "got": got, "voted": d.voted} {
			if !slices.Equal(list, c.want) {
				t.Errorf("within %v %s %v, want %v", c.within, what, list, c.want)
			}
		}
	}
}
