// Package approvals serves ApprovalsService: where people look at questions,
// answer them, and look after the grants that answers left.
//
// A vote is made from the signed request and the key that signed it; nothing in
// it is what the client says of itself but the surface it used.
package approvals

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

// Desk is where questions are kept and answered.
type Desk interface {
	// List returns a page of approvals.
	List(ctx context.Context, f palyra.ApprovalFilter) (palyra.ApprovalPage, error)
	// Get returns one, whole.
	Get(ctx context.Context, id palyra.ApprovalID) (palyra.Approval, error)
	// Decide takes one signed vote and returns the approval as it then stands.
	Decide(ctx context.Context, v palyra.Vote) (palyra.Approval, error)
	// Watch tells what is pending, then what is asked and settled, until ctx ends or f fails.
	Watch(ctx context.Context, f func(palyra.Approval) error) error
	// Export writes the approvals that the filter selects, sealed; that they
	// leave is journaled. It refuses a filter that it cannot follow.
	Export(ctx context.Context, w io.Writer, format string, f palyra.ApprovalFilter, by palyra.Principal) error
}

// Leases are the durable grants.
type Leases interface {
	// Leases returns a page of them.
	Leases(ctx context.Context, f palyra.LeaseFilter) (palyra.LeasePage, error)
	// Lease returns one.
	Lease(ctx context.Context, id palyra.LeaseID) (palyra.Lease, error)
	// Revoke ends one at once and returns it as it then stands.
	Revoke(ctx context.Context, id palyra.LeaseID, by palyra.Principal, sig palyra.Signature) (palyra.Lease, error)
}

// Service serves ApprovalsService.
type Service struct {
	desk   Desk
	leases Leases
	now    func() time.Time
}

// New returns the service.
func New(desk Desk, leases Leases, now func() time.Time) *Service { return &Service{desk, leases, now} }

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewApprovalsServiceHandler(s, opts...)
}

// ListApprovals implements the method.
func (s *Service) ListApprovals(ctx context.Context, req *v1.ListApprovalsRequest) (*v1.ListApprovalsResponse, error) {
	f, err := filter(req.GetFilter())
	if err != nil {
		return nil, err
	}
	page, err := s.desk.List(ctx, f)
	if err != nil {
		return nil, err
	}
	who := rpc.CallerOf(ctx)
	page.Approvals = slices.DeleteFunc(page.Approvals, func(a palyra.Approval) bool { return !who.Reaches(a.Plan.Places()...) })
	res := &v1.ListApprovalsResponse{}
	return res, wire.FromWord(page, res)
}

func filter(m *v1.ApprovalFilter) (palyra.ApprovalFilter, error) {
	var f palyra.ApprovalFilter
	if m == nil {
		return f, nil
	}
	if err := wire.ToWord(m, &f); err != nil {
		return f, invalid("the filter does not make sense")
	}
	if f.Limit < 0 {
		return f, invalid("the limit is negative")
	}
	if f.Pending && f.Answer != palyra.AnswerPending {
		return f, invalid("an approval cannot be pending and answered")
	}
	return f, nil
}

// GetApproval implements the method.
func (s *Service) GetApproval(ctx context.Context, req *v1.GetApprovalRequest) (*v1.GetApprovalResponse, error) {
	a, err := s.reached(ctx, palyra.ApprovalID(req.GetApprovalId()))
	res := &v1.GetApprovalResponse{Approval: &v1.Approval{}}
	return wire.Answer(res, res.GetApproval(), a, err)
}

// reached returns an approval that the caller may know of.
func (s *Service) reached(ctx context.Context, id palyra.ApprovalID) (palyra.Approval, error) {
	a, err := s.desk.Get(ctx, id)
	if err == nil && !rpc.CallerOf(ctx).Reaches(a.Plan.Places()...) {
		return palyra.Approval{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no approval %s in your workspaces",
			palyra.Clip(string(id), 64))
	}
	return a, err
}

// DecideApproval implements the method.
func (s *Service) DecideApproval(ctx context.Context, req *v1.DecideApprovalRequest) (*v1.DecideApprovalResponse, error) {
	who := rpc.CallerOf(ctx)
	if !who.Signed { // the chain has checked; a vote without evidence must not be possible at all
		return nil, palyra.Errorf(palyra.Denied, palyra.ReasonSignatureRequired, "a decision must be signed")
	}
	if len(who.Within) > 0 {
		if _, err := s.reached(ctx, palyra.ApprovalID(req.GetApprovalId())); err != nil {
			return nil, err
		}
	}
	method := palyra.Method(req.GetMethod())
	method = cmp.Or(method, palyra.MethodAPI)
	a, err := s.desk.Decide(ctx, palyra.Vote{
		Approval: palyra.ApprovalID(req.GetApprovalId()), Answer: palyra.Answer(req.GetAnswer()), Scope: palyra.Scope(req.GetScope()),
		TTLMS: req.GetTtlMs(), Widen: req.GetWiden(), Uses: req.GetUses(), Reason: req.GetReason(),
		By: who.Principal, Method: method, PeerUID: who.PeerUID, At: s.now().UTC(), Digest: palyra.Digest(req.GetPlanDigest()),
		Separation: who.Operator.Separation, Device: who.Operator.Device != "" && !who.Device.Browser(), Signature: who.Evidence,
	})
	res := &v1.DecideApprovalResponse{Approval: &v1.Approval{}}
	return wire.Answer(res, res.GetApproval(), a, err)
}

// WatchApprovals implements the method.
func (s *Service) WatchApprovals(ctx context.Context, _ *v1.WatchApprovalsRequest,
	stream *connect.ServerStream[v1.WatchApprovalsResponse],
) error {
	if err := stream.Send(nil); err != nil { // headers: the watch is on
		return err
	}
	who := rpc.CallerOf(ctx)
	return s.desk.Watch(ctx, func(a palyra.Approval) error {
		if !who.Reaches(a.Plan.Places()...) {
			return nil
		}
		m := &v1.WatchApprovalsResponse{Approval: &v1.Approval{}}
		if err := wire.FromWord(a, m.GetApproval()); err != nil {
			return err
		}
		return stream.Send(m)
	})
}

// ExportApprovals implements the method.
func (s *Service) ExportApprovals(ctx context.Context, req *v1.ExportApprovalsRequest,
	stream *connect.ServerStream[v1.ExportApprovalsResponse],
) error {
	f, err := filter(req.GetFilter())
	if err != nil {
		return err
	}
	w := wire.Chunks(func(b []byte) error { return stream.Send(&v1.ExportApprovalsResponse{Chunk: b}) })
	if err := s.desk.Export(ctx, w, req.GetFormat(), f, rpc.CallerOf(ctx).Principal); err != nil {
		return err
	}
	return w.Flush()
}

// ListGrants implements the method.
func (s *Service) ListGrants(ctx context.Context, req *v1.ListGrantsRequest) (*v1.ListGrantsResponse, error) {
	var f palyra.LeaseFilter
	if err := wire.ToWord(req, &f); err != nil || f.Limit < 0 {
		return nil, invalid("the filter does not make sense")
	}
	page, err := s.leases.Leases(ctx, f)
	res := &v1.ListGrantsResponse{}
	return wire.Answer(res, res, page, err)
}

// GetGrant implements the method.
func (s *Service) GetGrant(ctx context.Context, req *v1.GetGrantRequest) (*v1.GetGrantResponse, error) {
	l, err := s.leases.Lease(ctx, palyra.LeaseID(req.GetGrantId()))
	res := &v1.GetGrantResponse{Grant: &v1.Grant{}}
	return wire.Answer(res, res.GetGrant(), l, err)
}

// RevokeGrant implements the method.
func (s *Service) RevokeGrant(ctx context.Context, req *v1.RevokeGrantRequest) (*v1.RevokeGrantResponse, error) {
	who := rpc.CallerOf(ctx)
	l, err := s.leases.Revoke(ctx, palyra.LeaseID(req.GetGrantId()), who.Principal, who.Evidence)
	res := &v1.RevokeGrantResponse{Grant: &v1.Grant{}}
	return wire.Answer(res, res.GetGrant(), l, err)
}

func invalid(why string) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%s", why)
}
