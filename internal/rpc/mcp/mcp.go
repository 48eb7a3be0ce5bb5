// Package mcp serves McpService: the MCP servers whose tools are offered behind the gate.
package mcp

import (
	"context"
	"net/http"
	"slices"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

// Addition is an upstream to be.
type Addition struct {
	Name       string
	Definition palyra.UpstreamDefinition
	Approve    bool // its tools, as they are found
	Replace    bool // the server of that name
	By         palyra.Principal
	Signature  palyra.Signature
}

// Upstreams keeps the servers.
type Upstreams interface {
	// Add starts a server, looks at its tools and keeps both, or neither.
	Add(ctx context.Context, a Addition) (palyra.Upstream, error)
	// List returns all, by name, without the texts of their tools.
	List(ctx context.Context) ([]palyra.Upstream, error)
	// Get returns one; refresh asks its server again.
	Get(ctx context.Context, name string, refresh bool) (palyra.Upstream, error)
	// Remove ends one and forgets it.
	Remove(ctx context.Context, name string, by palyra.Principal, sig palyra.Signature) error
	// Approve pins tools by their digests; the names of pins are not looked at.
	Approve(ctx context.Context, name string, pins []palyra.UpstreamPin, by palyra.Principal, sig palyra.Signature) (palyra.Upstream, error)
}

// Service serves McpService.
type Service struct{ upstreams Upstreams }

// New returns the service.
func New(u Upstreams) *Service { return &Service{u} }

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewMcpServiceHandler(s, opts...)
}

// AddUpstream implements the method.
func (s *Service) AddUpstream(ctx context.Context, req *v1.AddUpstreamRequest) (*v1.AddUpstreamResponse, error) {
	who := rpc.CallerOf(ctx)
	u, err := s.upstreams.Add(ctx, Addition{
		Name: req.GetName(), Approve: req.GetApprove(), Replace: req.GetReplace(), By: who.Principal, Signature: who.Evidence,
		Definition: palyra.UpstreamDefinition{
			Transport: palyra.Transport(req.GetTransport()), Command: req.GetCommand(), URL: req.GetUrl(), Env: req.GetEnv(),
			Workspace: req.GetWorkspace(), Profile: req.GetProfile(), Egress: req.GetEgress(), TimeoutMS: req.GetTimeoutMs(),
			Bindings: req.GetBindings(),
		},
	})
	res := &v1.AddUpstreamResponse{Upstream: &v1.Upstream{}}
	return wire.Answer(res, res.GetUpstream(), u, err)
}

// ListUpstreams implements the method.
func (s *Service) ListUpstreams(ctx context.Context, _ *v1.ListUpstreamsRequest) (*v1.ListUpstreamsResponse, error) {
	all, err := s.upstreams.List(ctx)
	res := &v1.ListUpstreamsResponse{}
	return wire.Answer(res, res, map[string]any{"upstreams": all}, err)
}

// GetUpstream implements the method.
func (s *Service) GetUpstream(ctx context.Context, req *v1.GetUpstreamRequest) (*v1.GetUpstreamResponse, error) {
	u, err := s.upstreams.Get(ctx, req.GetName(), req.GetRefresh())
	res := &v1.GetUpstreamResponse{Upstream: &v1.Upstream{}}
	return wire.Answer(res, res.GetUpstream(), u, err)
}

// RemoveUpstream implements the method.
func (s *Service) RemoveUpstream(ctx context.Context, req *v1.RemoveUpstreamRequest) (*v1.RemoveUpstreamResponse, error) {
	who := rpc.CallerOf(ctx)
	return &v1.RemoveUpstreamResponse{}, s.upstreams.Remove(ctx, req.GetName(), who.Principal, who.Evidence)
}

// ApproveUpstream implements the method.
func (s *Service) ApproveUpstream(ctx context.Context, req *v1.ApproveUpstreamRequest) (*v1.ApproveUpstreamResponse, error) {
	who := rpc.CallerOf(ctx)
	pins, err := pinsOf(req)
	if err != nil {
		return nil, err
	}
	u, err := s.upstreams.Approve(ctx, req.GetName(), pins, who.Principal, who.Evidence)
	res := &v1.ApproveUpstreamResponse{Upstream: &v1.Upstream{}}
	return wire.Answer(res, res.GetUpstream(), u, err)
}

// pinsOf is what an approval names. What it says of tools that it does not approve says nothing, and is refused.
func pinsOf(req *v1.ApproveUpstreamRequest) ([]palyra.UpstreamPin, error) {
	var pins []palyra.UpstreamPin
	for _, d := range req.GetDigests() {
		pins = append(pins, palyra.UpstreamPin{Digest: palyra.Digest(d), ReadOnly: slices.Contains(req.GetReadOnly(), d)})
	}
	for _, d := range req.GetReadOnly() {
		if !slices.Contains(req.GetDigests(), d) {
			return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "read_only names %s, which digests does not", palyra.Clip(d, 80)).
				WithRemedy("name it in both: what a tool is said to be holds for what is approved")
		}
	}
	return pins, nil
}
