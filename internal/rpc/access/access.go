// Package access serves AccessService: people, keys, tokens and agents come and go, and everybody can ask who they
// are. A token is in the answer to the request that made it and nowhere else.
package access

import (
	"context"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

// Registry keeps who may do what. Every change names the signature behind it.
type Registry struct {
	Keys   Keys
	People People
	Tokens Tokens
	Roles  Roles
}

// Keys keeps agents and operators' keys.
type Keys interface {
	// AddAgent names an agent and returns its token; an empty owner means the signer.
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

// People keeps persons.
type People interface {
	// AddUser makes a person known.
	AddUser(ctx context.Context, u palyra.User, sig palyra.Signature) (palyra.User, error)
	// Users lists everybody ever known.
	Users(ctx context.Context) ([]palyra.User, error)
	// ChangeUser gives a person a role and workspaces in place of theirs.
	ChangeUser(ctx context.Context, u palyra.User, sig palyra.Signature) (palyra.User, error)
	// RemoveUser ends a person with all that is theirs.
	RemoveUser(ctx context.Context, p palyra.Principal, sig palyra.Signature) error
}

// Tokens keeps API tokens.
type Tokens interface {
	// AddToken makes a token; an empty principal means the signer.
	AddToken(ctx context.Context, t palyra.Token, ttl time.Duration, sig palyra.Signature) (palyra.Token, palyra.Secret, error)
	// Tokens lists every token ever made.
	Tokens(ctx context.Context) ([]palyra.Token, error)
	// RevokeToken ends a token.
	RevokeToken(ctx context.Context, id string, sig palyra.Signature) error
}

// Roles knows what roles hold.
type Roles interface {
	// Roles lists the roles.
	Roles() []palyra.Role
	// Holds lists the permissions of a role; the list is the caller's.
	Holds(role palyra.Role) []palyra.Permission
	// Permits reports whether a role holds a permission, with or without a signature.
	Permits(role palyra.Role, permission palyra.Permission, signed bool) bool
}

// Console signs browsers in.
type Console interface {
	// Login makes a link that signs one browser in to look, once.
	Login(ctx context.Context, c rpc.Caller, door string) (url string, expires time.Time, err error)
}

// Service serves AccessService.
type Service struct {
	registry Registry
	console  Console
}

// New returns the service, without a console.
func New(r Registry) *Service { return &Service{registry: r} }

// WithConsole gives the service a console; nil is none. It returns the service.
func (s *Service) WithConsole(c Console) *Service {
	s.console = c
	return s
}

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewAccessServiceHandler(s, opts...)
}

// AddAgent implements the method.
func (s *Service) AddAgent(ctx context.Context, req *v1.AddAgentRequest) (*v1.AddAgentResponse, error) {
	a, token, err := s.registry.Keys.AddAgent(ctx, req.GetName(), palyra.Principal(req.GetOwner()), rpc.CallerOf(ctx).Evidence)
	if err != nil {
		return nil, err
	}
	defer token.Destroy()
	res := &v1.AddAgentResponse{Agent: &v1.Agent{}, Token: newTokenResponse(token)}
	return res, wire.FromWord(a, res.GetAgent())
}

// newTokenResponse is a token as its one answer holds it.
func newTokenResponse(token palyra.Secret) (text string) {
	_ = token.Use(func(b []byte) error {
		text = string(b)
		return nil
	})
	return text
}

// ListAgents implements the method.
func (s *Service) ListAgents(ctx context.Context, _ *v1.ListAgentsRequest) (*v1.ListAgentsResponse, error) {
	all, err := s.registry.Keys.Agents(ctx)
	res := &v1.ListAgentsResponse{}
	return wire.Answer(res, res, map[string]any{"agents": all}, err)
}

// RemoveAgent implements the method.
func (s *Service) RemoveAgent(ctx context.Context, req *v1.RemoveAgentRequest) (*v1.RemoveAgentResponse, error) {
	return &v1.RemoveAgentResponse{}, s.registry.Keys.RemoveAgent(ctx, palyra.Principal(req.GetPrincipal()), rpc.CallerOf(ctx).Evidence)
}

// AddOperator implements the method.
func (s *Service) AddOperator(ctx context.Context, req *v1.AddOperatorRequest) (*v1.AddOperatorResponse, error) {
	o, err := s.registry.Keys.AddOperator(ctx, palyra.Operator{
		Principal: palyra.Principal(req.GetPrincipal()), Role: palyra.Role(req.GetRole()), PublicKey: req.GetPublicKey(),
		Separation: palyra.Separation(req.GetApproverSeparation()),
	}, rpc.CallerOf(ctx).Evidence)
	res := &v1.AddOperatorResponse{Operator: &v1.Operator{}}
	return wire.Answer(res, res.GetOperator(), o, err)
}

// ListOperators implements the method.
func (s *Service) ListOperators(ctx context.Context, _ *v1.ListOperatorsRequest) (*v1.ListOperatorsResponse, error) {
	all, err := s.registry.Keys.Operators(ctx)
	res := &v1.ListOperatorsResponse{}
	return wire.Answer(res, res, map[string]any{"operators": all}, err)
}

// RemoveOperator implements the method.
func (s *Service) RemoveOperator(ctx context.Context, req *v1.RemoveOperatorRequest) (*v1.RemoveOperatorResponse, error) {
	return &v1.RemoveOperatorResponse{}, s.registry.Keys.RemoveOperator(ctx, req.GetKeyId(), rpc.CallerOf(ctx).Evidence)
}
