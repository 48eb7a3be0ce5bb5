// Package workspaces serves WorkspaceService: the directories that people register for agents to work in.
package workspaces

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

// Workspaces keeps the registered directories.
type Workspaces interface {
	// Add registers a directory; name may be empty.
	Add(ctx context.Context, path, name string, by palyra.Principal, sig palyra.Signature) (palyra.Workspace, error)
	// List returns all of them.
	List(ctx context.Context) ([]palyra.Workspace, error)
	// Remove forgets one; NotFound when it is not registered.
	Remove(ctx context.Context, path string, by palyra.Principal, sig palyra.Signature) error
}

// Service serves WorkspaceService.
type Service struct{ workspaces Workspaces }

// New returns the service.
func New(w Workspaces) *Service { return &Service{w} }

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewWorkspaceServiceHandler(s, opts...)
}

// AddWorkspace implements the method.
func (s *Service) AddWorkspace(ctx context.Context, req *v1.AddWorkspaceRequest) (*v1.AddWorkspaceResponse, error) {
	who := rpc.CallerOf(ctx)
	w, err := s.workspaces.Add(ctx, req.GetPath(), req.GetName(), who.Principal, who.Evidence)
	res := &v1.AddWorkspaceResponse{Workspace: &v1.Workspace{}}
	return wire.Answer(res, res.GetWorkspace(), w, err)
}

// ListWorkspaces implements the method.
func (s *Service) ListWorkspaces(ctx context.Context, _ *v1.ListWorkspacesRequest) (*v1.ListWorkspacesResponse, error) {
	all, err := s.workspaces.List(ctx)
	res := &v1.ListWorkspacesResponse{}
	return wire.Answer(res, res, map[string]any{"workspaces": all}, err)
}

// RemoveWorkspace implements the method.
func (s *Service) RemoveWorkspace(ctx context.Context, req *v1.RemoveWorkspaceRequest) (*v1.RemoveWorkspaceResponse, error) {
	who := rpc.CallerOf(ctx)
	return &v1.RemoveWorkspaceResponse{}, s.workspaces.Remove(ctx, req.GetPath(), who.Principal, who.Evidence)
}
