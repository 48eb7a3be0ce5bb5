package access

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

// AddUser implements the method.
func (s *Service) AddUser(ctx context.Context, req *v1.AddUserRequest) (*v1.AddUserResponse, error) {
	u, err := s.registry.People.AddUser(ctx, palyra.User{
		Principal: palyra.Principal(req.GetPrincipal()), Role: palyra.Role(req.GetRole()), Workspaces: req.GetWorkspaces(),
	}, rpc.CallerOf(ctx).Evidence)
	res := &v1.AddUserResponse{User: &v1.User{}}
	return wire.Answer(res, res.GetUser(), u, err)
}

// ListUsers implements the method.
func (s *Service) ListUsers(ctx context.Context, _ *v1.ListUsersRequest) (*v1.ListUsersResponse, error) {
	all, err := s.registry.People.Users(ctx)
	res := &v1.ListUsersResponse{}
	return wire.Answer(res, res, map[string]any{"users": all}, err)
}

// ChangeUser implements the method.
func (s *Service) ChangeUser(ctx context.Context, req *v1.ChangeUserRequest) (*v1.ChangeUserResponse, error) {
	u, err := s.registry.People.ChangeUser(ctx, palyra.User{
		Principal: palyra.Principal(req.GetPrincipal()), Role: palyra.Role(req.GetRole()), Workspaces: req.GetWorkspaces(),
	}, rpc.CallerOf(ctx).Evidence)
	res := &v1.ChangeUserResponse{User: &v1.User{}}
	return wire.Answer(res, res.GetUser(), u, err)
}

// RemoveUser implements the method.
func (s *Service) RemoveUser(ctx context.Context, req *v1.RemoveUserRequest) (*v1.RemoveUserResponse, error) {
	return &v1.RemoveUserResponse{}, s.registry.People.RemoveUser(ctx, palyra.Principal(req.GetPrincipal()), rpc.CallerOf(ctx).Evidence)
}

// AddToken implements the method.
func (s *Service) AddToken(ctx context.Context, req *v1.AddTokenRequest) (*v1.AddTokenResponse, error) {
	ttl := req.GetTtlMs()
	if most := (1<<63 - 1) / int64(time.Millisecond); ttl < 0 || ttl > most {
		ttl = 0 // the registry says what is allowed
	}
	t, token, err := s.registry.Tokens.AddToken(ctx, palyra.Token{
		Name: req.GetName(), Principal: palyra.Principal(req.GetPrincipal()), Scopes: wire.Words[palyra.Permission](req.GetScopes()),
		Workspaces: req.GetWorkspaces(),
	}, time.Duration(ttl)*time.Millisecond, rpc.CallerOf(ctx).Evidence)
	if err != nil {
		return nil, err
	}
	defer token.Destroy()
	res := &v1.AddTokenResponse{Entry: &v1.Token{}, Token: newTokenResponse(token)}
	return res, wire.FromWord(t, res.GetEntry())
}

// ListTokens implements the method.
func (s *Service) ListTokens(ctx context.Context, _ *v1.ListTokensRequest) (*v1.ListTokensResponse, error) {
	all, err := s.registry.Tokens.Tokens(ctx)
	res := &v1.ListTokensResponse{}
	return wire.Answer(res, res, map[string]any{"tokens": all}, err)
}

// RevokeToken implements the method.
func (s *Service) RevokeToken(ctx context.Context, req *v1.RevokeTokenRequest) (*v1.RevokeTokenResponse, error) {
	return &v1.RevokeTokenResponse{}, s.registry.Tokens.RevokeToken(ctx, req.GetTokenId(), rpc.CallerOf(ctx).Evidence)
}

// ListRoles implements the method.
func (s *Service) ListRoles(context.Context, *v1.ListRolesRequest) (*v1.ListRolesResponse, error) {
	var all []wire.RoleInfo
	for _, r := range s.registry.Roles.Roles() {
		all = append(all, wire.RoleInfo{Role: r, Permissions: s.registry.Roles.Holds(r)})
	}
	res := &v1.ListRolesResponse{}
	return res, wire.FromWord(map[string]any{"roles": all}, res)
}

// WhoAmI implements the method.
func (s *Service) WhoAmI(ctx context.Context, _ *v1.WhoAmIRequest) (*v1.WhoAmIResponse, error) {
	c := rpc.CallerOf(ctx)
	me := wire.Me{
		Principal: c.Principal, Owner: c.Owner, Role: c.Role, Credential: c.Credential, CredentialID: c.CredentialID,
		Permissions: s.permissionsOf(c), Workspaces: c.Within,
	}
	res := &v1.WhoAmIResponse{Me: &v1.Me{}}
	return res, wire.FromWord(me, res.GetMe())
}

// permissionsOf lists what a caller can do: what the credential's role, the person's role
// and the token's scopes hold, all of them. A credential that cannot sign looks.
func (s *Service) permissionsOf(c rpc.Caller) []palyra.Permission {
	signs := c.Credential == rpc.ByOperatorSocket || c.Credential == rpc.ByDevice
	return slices.DeleteFunc(s.registry.Roles.Holds(c.Role), func(p palyra.Permission) bool {
		return !s.registry.Roles.Permits(c.Role, p, signs) ||
			c.Cap != "" && !s.registry.Roles.Permits(c.Cap, p, signs) ||
			c.Scopes != nil && !slices.Contains(c.Scopes, p)
	})
}

// OpenConsole implements the method.
func (s *Service) OpenConsole(ctx context.Context, req *v1.OpenConsoleRequest) (*v1.OpenConsoleResponse, error) {
	c := rpc.CallerOf(ctx)
	switch {
	case s.console == nil:
		return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonDisabled, "the console is off").
			WithRemedy("turn it on in the daemon's configuration")
	case c.Principal.Kind() != "user" || c.Credential == rpc.ByToken || c.Credential == rpc.ByConsole:
		return nil, palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "a browser is signed in by a person, with a key or a device").
			WithRemedy("use the operator socket")
	}
	url, expires, err := s.console.Login(ctx, c, req.GetDoor())
	if err != nil {
		return nil, err
	}
	return &v1.OpenConsoleResponse{Url: url, ExpiresAt: timestamppb.New(expires)}, nil
}
