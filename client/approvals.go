package client

import (
	"cmp"
	"context"
	"io"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc/wire"
)

// Approvals lists approvals.
func (c *Client) Approvals(ctx context.Context, f ApprovalFilter) (ApprovalPage, error) {
	req := &v1.ListApprovalsRequest{Filter: &v1.ApprovalFilter{}}
	if err := wire.FromWord(f, req.GetFilter()); err != nil {
		return ApprovalPage{}, failure(err)
	}
	res, err := c.approvals().ListApprovals(ctx, req)
	return word[ApprovalPage](res, err)
}

// Approval returns one approval, whole.
func (c *Client) Approval(ctx context.Context, id palyra.ApprovalID) (palyra.Approval, error) {
	res, err := c.approvals().GetApproval(ctx, &v1.GetApprovalRequest{ApprovalId: string(id)})
	return word[palyra.Approval](res.GetApproval(), err)
}

// Decide answers an approval (signed) and returns it as it then stands.
func (c *Client) Decide(ctx context.Context, r DecideRequest) (palyra.Approval, error) {
	res, err := c.approvals().DecideApproval(ctx, r.message())
	return word[palyra.Approval](res.GetApproval(), err)
}

// message is the answer as it is signed.
func (r DecideRequest) message() *v1.DecideApprovalRequest {
	if r.Answer == palyra.AnswerAllow && r.Scope == "" {
		r.Scope = palyra.ScopeOnce
	}
	r.Method = cmp.Or(r.Method, palyra.MethodCLI)
	return &v1.DecideApprovalRequest{
		ApprovalId: string(r.ID), Answer: string(r.Answer), Scope: string(r.Scope), TtlMs: r.TTL.Milliseconds(),
		Widen: r.Widen, Uses: r.Uses, Reason: r.Reason, PlanDigest: string(r.Digest), Method: string(r.Method),
	}
}

// WatchApprovals calls f with every pending approval, then with each one that
// is asked or settled, until ctx ends or f returns an error, which it returns.
func (c *Client) WatchApprovals(ctx context.Context, f func(palyra.Approval) error) error {
	stream, err := c.approvals().WatchApprovals(ctx, &v1.WatchApprovalsRequest{})
	return receiveAll(stream, err, func(m *v1.WatchApprovalsResponse) error {
		a, err := word[palyra.Approval](m.GetApproval(), nil)
		if err != nil {
			return err
		}
		return f(a)
	})
}

// ExportApprovals writes approvals to w (signed); format is "ndjson" or "json".
func (c *Client) ExportApprovals(ctx context.Context, format string, f ApprovalFilter, w io.Writer) error {
	req := &v1.ExportApprovalsRequest{Format: format, Filter: &v1.ApprovalFilter{}}
	if err := wire.FromWord(f, req.GetFilter()); err != nil {
		return failure(err)
	}
	stream, err := c.approvals().ExportApprovals(ctx, req)
	return receiveAll(stream, err, func(m *v1.ExportApprovalsResponse) error {
		_, err := w.Write(m.GetChunk())
		return err
	})
}

// Leases lists leases.
func (c *Client) Leases(ctx context.Context, f LeaseFilter) (LeasePage, error) {
	req := &v1.ListGrantsRequest{}
	if err := wire.FromWord(f, req); err != nil {
		return LeasePage{}, failure(err)
	}
	res, err := c.approvals().ListGrants(ctx, req)
	return word[LeasePage](res, err)
}

// Lease returns one lease.
func (c *Client) Lease(ctx context.Context, id palyra.LeaseID) (palyra.Lease, error) {
	res, err := c.approvals().GetGrant(ctx, &v1.GetGrantRequest{GrantId: string(id)})
	return word[palyra.Lease](res.GetGrant(), err)
}

// RevokeLease ends a lease (signed) and returns it as it then stands.
func (c *Client) RevokeLease(ctx context.Context, id palyra.LeaseID) (palyra.Lease, error) {
	res, err := c.approvals().RevokeGrant(ctx, &v1.RevokeGrantRequest{GrantId: string(id)})
	return word[palyra.Lease](res.GetGrant(), err)
}
