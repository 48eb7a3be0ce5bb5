// Package access serves AccessService: agents and operators come and go. A
// token is in the answer to AddAgent and nowhere else.
package access

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

// Registry keeps who may do what. Every change names the signature behind it.
type Registry interface {
	// AddAgent names an agent and returns its token; an empty owner means the
	// signer.
	AddAgent(ctx context.Context, name string, owner palyra.Principal, sig palyra.Signature) (palyra.Agent, palyra.Secret, error)
	// Agents lists every agent ever named.
	Agents(ctx context.Context) ([]palyra.Agent, error)
	// RemoveAgent ends an agent's token.
	RemoveAgent(ctx context.Context, p palyra.Principal, sig palyra.Signature) error
	// AddOperator makes a key known.
	AddOperator(ctx context.Context, o palyra.Operator, sig palyra.Signature) (palyra.Operator, error)
	// Operators lists every key ever known.
	Operators(ctx context.Context) ([]palyra.Operator, error)
	// RemoveOperator ends a key.
	RemoveOperator(ctx context.Context, keyID string, sig palyra.Signature) error
}

// Service serves AccessService.
type Service struct{ registry Registry }

// New returns the service.
func New(r Registry) *Service { return &Service{r} }

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewAccessServiceHandler(s, opts...)
}

// AddAgent implements the method.
func (s *Service) AddAgent(ctx context.Context, req *v1.AddAgentRequest) (*v1.AddAgentResponse, error) {
	a, token, err := s.registry.AddAgent(ctx, req.GetName(), palyra.Principal(req.GetOwner()), rpc.CallerOf(ctx).Evidence)
	if err != nil {
		return nil, err
	}
	defer token.Destroy()
	res := &v1.AddAgentResponse{Agent: &v1.Agent{}}
	_ = token.Use(func(b []byte) error {
		res.Token = string(b)
		return nil
	})
	return res, wire.FromWord(a, res.GetAgent())
}

// ListAgents implements the method.
func (s *Service) ListAgents(ctx context.Context, _ *v1.ListAgentsRequest) (*v1.ListAgentsResponse, error) {
	all, err := s.registry.Agents(ctx)
	if err != nil {
		return nil, err
	}
	res := &v1.ListAgentsResponse{}
	return res, wire.FromWord(map[string]any{"agents": all}, res)
}

// RemoveAgent implements the method.
func (s *Service) RemoveAgent(ctx context.Context, req *v1.RemoveAgentRequest) (*v1.RemoveAgentResponse, error) {
	return &v1.RemoveAgentResponse{}, s.registry.RemoveAgent(ctx, palyra.Principal(req.GetPrincipal()), rpc.CallerOf(ctx).Evidence)
}

// AddOperator implements the method.
func (s *Service) AddOperator(ctx context.Context, req *v1.AddOperatorRequest) (*v1.AddOperatorResponse, error) {
	o, err := s.registry.AddOperator(ctx, palyra.Operator{
		Principal: palyra.Principal(req.GetPrincipal()), Role: palyra.Role(req.GetRole()), PublicKey: req.GetPublicKey(),
		Separation: palyra.Separation(req.GetApproverSeparation()),
	}, rpc.CallerOf(ctx).Evidence)
	if err != nil {
		return nil, err
	}
	res := &v1.AddOperatorResponse{Operator: &v1.Operator{}}
	return res, wire.FromWord(o, res.GetOperator())
}

// ListOperators implements the method.
func (s *Service) ListOperators(ctx context.Context, _ *v1.ListOperatorsRequest) (*v1.ListOperatorsResponse, error) {
	all, err := s.registry.Operators(ctx)
	if err != nil {
		return nil, err
	}
	res := &v1.ListOperatorsResponse{}
	return res, wire.FromWord(map[string]any{"operators": all}, res)
}

// RemoveOperator implements the method.
func (s *Service) RemoveOperator(ctx context.Context, req *v1.RemoveOperatorRequest) (*v1.RemoveOperatorResponse, error) {
	return &v1.RemoveOperatorResponse{}, s.registry.RemoveOperator(ctx, req.GetKeyId(), rpc.CallerOf(ctx).Evidence)
}
