// Package policy serves PolicyService: the bundle in force, why it answers as it does, the security configuration
// of a digest, and other bundles: checked, put into force, put back. Only the last two change anything, and those
// name the signature behind them.
package policy

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"connectrpc.com/connect"

	"palyra"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/canon"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"

	v1 "palyra/api/gen/palyra/v1"
)

// Policy is the policy in force, for looking at.
type Policy interface {
	// Policy returns the bundle in force.
	Policy(ctx context.Context) (wire.Policy, error)
	// Explain says why policy answers a call as it does: the call on record if
	// one is named by its id, its approval's or its attestation's, else the proposal.
	Explain(ctx context.Context, id palyra.ID, p palyra.Proposal) (wire.Explanation, error)
	// Snapshot returns the configuration of a digest, or the one in force.
	Snapshot(ctx context.Context, d palyra.Digest) (palyra.Digest, palyra.Snapshot, error)
}

// Service serves PolicyService.
type Service struct {
	policy  Policy
	bundles Bundles
	history History
}

// New returns the service.
func New(p Policy, b Bundles, h History) *Service { return &Service{p, b, h} }

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewPolicyServiceHandler(s, opts...)
}

// GetPolicy implements the method.
func (s *Service) GetPolicy(ctx context.Context, _ *v1.GetPolicyRequest) (*v1.GetPolicyResponse, error) {
	p, err := s.policy.Policy(ctx)
	res := &v1.GetPolicyResponse{Policy: &v1.Policy{}}
	return wire.Answer(res, res.GetPolicy(), p, err)
}

// ExplainCall implements the method.
func (s *Service) ExplainCall(ctx context.Context, req *v1.ExplainCallRequest) (*v1.ExplainCallResponse, error) {
	p, err := imagined(req)
	if err != nil {
		return nil, err
	}
	c := rpc.CallerOf(ctx)
	if err := mayAsk(c, req); err != nil {
		return nil, err
	}
	p.PeerUID, p.Within = c.PeerUID, c.Within
	e, err := s.policy.Explain(ctx, palyra.ID(req.GetCallId()), p)
	res := &v1.ExplainCallResponse{Explanation: &v1.Explanation{}}
	return wire.Answer(res, res.GetExplanation(), e, err)
}

// mayAsk refuses questions whose answers show what the caller could not see otherwise. To imagine a call is to plan
// it: whether files exist, their digests and what a write would change in them. That is for whoever could propose
// it. What is on record is for whoever may look at calls or approvals.
func mayAsk(c rpc.Caller, req *v1.ExplainCallRequest) error {
	looks := c.Scopes == nil || slices.Contains(c.Scopes, palyra.PermitRunsView) || slices.Contains(c.Scopes, palyra.PermitApprovalsView)
	switch {
	case req.GetTool() != "" && !c.Starts:
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission,
			"%s cannot propose calls with this credential, and so not ask about one that was never made", c.Principal).
			WithRemedy("ask about a call on record: palyra policy why ID; or ask on the daemon's own machine, as somebody who may start runs")
	case req.GetCallId() != "" && !looks:
		return palyra.Errorf(palyra.Denied, palyra.ReasonScopeDenied, "the token does not have the scope runs.view, and the answer shows a call").
			WithRemedy("have one made with it: palyra access token add --scope policy.read --scope runs.view")
	}
	return nil
}

// imagined returns the proposal that a request describes.
func imagined(req *v1.ExplainCallRequest) (palyra.Proposal, error) {
	if (req.GetCallId() == "") == (req.GetTool() == "") {
		return palyra.Proposal{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "name a call on record or a tool, not both")
	}
	p := palyra.Proposal{
		Proposer: palyra.Proposer{Principal: "agent:local", Surface: palyra.SurfaceAPI}, Tool: palyra.ToolName(req.GetTool()),
		Workspace: req.GetWorkspace(),
		Arguments: json.RawMessage("{}"),
	}
	if v := req.GetPrincipal(); v != "" {
		p.Principal = palyra.Principal(v)
	}
	if v := req.GetDoor(); v != "" {
		p.Surface = palyra.Surface(v)
	}
	if v := req.GetArguments(); v != "" {
		p.Arguments = json.RawMessage(v)
	}
	return p, nil
}

// GetSnapshot implements the method. The snapshot travels as the text whose
// digest it has, so that a reader can compute it again.
func (s *Service) GetSnapshot(ctx context.Context, req *v1.GetSnapshotRequest) (*v1.GetSnapshotResponse, error) {
	digest, snap, err := s.policy.Snapshot(ctx, palyra.Digest(req.GetDigest()))
	if err != nil {
		return nil, err
	}
	text, err := canon.JSON(snap)
	if err != nil {
		return nil, err
	}
	return &v1.GetSnapshotResponse{Digest: string(digest), Snapshot: string(text)}, nil
}
