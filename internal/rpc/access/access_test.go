package access

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"palyra"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"

	v1 "palyra/api/gen/palyra/v1"
)

var at = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// registry remembers what it was asked. What it does not have is not called.
type registry struct {
	user  palyra.User
	token palyra.Token
	ttl   time.Duration
	id    string
	sig   palyra.Signature
	fail  error
}

func (r *registry) whole() Registry { return Registry{People: r, Tokens: r, Roles: r} }

func (r *registry) AddUser(_ context.Context, u palyra.User, sig palyra.Signature) (palyra.User, error) {
	r.user, r.sig = u, sig
	u.AddedAt = at
	return u, r.fail
}

func (r *registry) ChangeUser(ctx context.Context, u palyra.User, sig palyra.Signature) (palyra.User, error) {
	return r.AddUser(ctx, u, sig)
}

func (r *registry) Users(context.Context) ([]palyra.User, error) {
	return []palyra.User{{Principal: "user:bob", AddedAt: at}}, r.fail
}

func (r *registry) RemoveUser(_ context.Context, p palyra.Principal, sig palyra.Signature) error {
	r.id, r.sig = string(p), sig
	return r.fail
}

func (r *registry) AddToken(_ context.Context, t palyra.Token, ttl time.Duration, sig palyra.Signature) (palyra.Token, palyra.Secret,
	error,
) {
	r.token, r.ttl, r.sig = t, ttl, sig
	t.ID = "tok-1"
	if r.fail != nil {
		return palyra.Token{}, palyra.Secret{}, r.fail
	}
	return t, palyra.NewSecret([]byte("plyr_x")), nil
}

func (r *registry) Tokens(context.Context) ([]palyra.Token, error) {
	return []palyra.Token{{ID: "tok-1", Scopes: []palyra.Permission{"status.view"}, ExpiresAt: at}}, r.fail
}

func (r *registry) RevokeToken(_ context.Context, id string, sig palyra.Signature) error {
	r.id, r.sig = id, sig
	return r.fail
}

func (r *registry) Roles() []palyra.Role { return []palyra.Role{palyra.RoleOwner, palyra.RoleViewer} }

var held = map[palyra.Role][]palyra.Permission{
	palyra.RoleOwner: {"status.view", "journal.read", "access.manage"}, palyra.RoleViewer: {"status.view"},
	palyra.RoleAgent: {"status.view", "runs.start"},
}

func (r *registry) Holds(role palyra.Role) []palyra.Permission { return slices.Clone(held[role]) }

func (r *registry) Permits(role palyra.Role, p palyra.Permission, signed bool) bool {
	return slices.Contains(held[role], p) && (signed || role == palyra.RoleAgent || p != "access.manage")
}

// signed is the context of somebody whose signature is known by its key.
func signed(t *testing.T) context.Context {
	return rpc.WithCaller(t.Context(), rpc.Caller{
		Principal: "user:alice", Signed: true, Evidence: palyra.Signature{Intent: palyra.Intent{KeyID: "op-a"}},
	})
}

func TestPeople(t *testing.T) {
	r := &registry{}
	s := New(r.whole())
	add, err := s.AddUser(signed(t), &v1.AddUserRequest{Principal: "user:bob", Role: "viewer", Workspaces: []string{"/w"}})
	if err != nil || add.GetUser().GetPrincipal() != "user:bob" || r.user.Role != palyra.RoleViewer || r.user.Workspaces[0] != "/w" ||
		r.sig.Intent.KeyID != "op-a" {
		t.Errorf("%v %v %+v", add, err, r)
	}
	change, err := s.ChangeUser(signed(t), &v1.ChangeUserRequest{Principal: "user:bob", Role: "admin"})
	if err != nil || change.GetUser().GetRole() != "admin" || len(r.user.Workspaces) != 0 {
		t.Errorf("%v %v", change, err)
	}
	if all, err := s.ListUsers(t.Context(), nil); err != nil || len(all.GetUsers()) != 1 ||
		!all.GetUsers()[0].GetAddedAt().AsTime().Equal(at) {
		t.Errorf("%v %v", all, err)
	}
	if _, err := s.RemoveUser(signed(t), &v1.RemoveUserRequest{Principal: "user:bob"}); err != nil || r.id != "user:bob" ||
		r.sig.Intent.KeyID != "op-a" {
		t.Errorf("%v %+v", err, r)
	}
}

func TestTokenIsShownOnce(t *testing.T) {
	r := &registry{}
	s := New(r.whole())
	res, err := s.AddToken(signed(t), &v1.AddTokenRequest{
		Name: "ci", Principal: "agent:ci", Scopes: []string{"runs.start"},
		Workspaces: []string{"/w"}, TtlMs: 60_000,
	})
	if err != nil || res.GetToken() != "plyr_x" || res.GetEntry().GetTokenId() != "tok-1" || r.ttl != time.Minute ||
		r.token.Principal != "agent:ci" {
		t.Errorf("%v %v %+v", res, err, r)
	}
	for _, ms := range []int64{-1, 1<<63 - 1, -1 << 63, (1<<63-1)/1_000_000 + 1} {
		if _, err := s.AddToken(signed(t), &v1.AddTokenRequest{TtlMs: ms}); err != nil || r.ttl != 0 {
			t.Errorf("%d ms became %s", ms, r.ttl)
		}
	}
	all, err := s.ListTokens(t.Context(), nil)
	if err != nil || len(all.GetTokens()) != 1 || all.GetTokens()[0].GetTokenId() != "tok-1" {
		t.Errorf("%v %v", all, err)
	}
	if _, err := s.RevokeToken(signed(t), &v1.RevokeTokenRequest{TokenId: "tok-1"}); err != nil || r.id != "tok-1" ||
		r.sig.Intent.KeyID != "op-a" {
		t.Errorf("%v %+v", err, r)
	}
}

func TestErrorsComeThrough(t *testing.T) {
	broken := errors.New("broken")
	s := New((&registry{fail: broken}).whole())
	ctx := signed(t)
	for name, call := range map[string]func() error{
		"add user":     func() error { _, err := s.AddUser(ctx, nil); return err },
		"change user":  func() error { _, err := s.ChangeUser(ctx, nil); return err },
		"list users":   func() error { _, err := s.ListUsers(ctx, nil); return err },
		"remove user":  func() error { _, err := s.RemoveUser(ctx, nil); return err },
		"add token":    func() error { _, err := s.AddToken(ctx, nil); return err },
		"list tokens":  func() error { _, err := s.ListTokens(ctx, nil); return err },
		"revoke token": func() error { _, err := s.RevokeToken(ctx, nil); return err },
		"console": func() error {
			_, err := New(Registry{}).WithConsole(&desk{fail: broken}).OpenConsole(ctx, nil)
			return err
		},
	} {
		if err := call(); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhoAmI(t *testing.T) {
	type scopes = []palyra.Permission
	s := New((&registry{}).whole())
	for name, c := range map[string]struct {
		caller rpc.Caller
		want   scopes
	}{
		"nobody":        {rpc.Caller{}, nil},
		"owner":         {rpc.Caller{Role: palyra.RoleOwner, Cap: palyra.RoleOwner, Credential: rpc.ByOperatorSocket}, held[palyra.RoleOwner]},
		"capped":        {rpc.Caller{Role: palyra.RoleOwner, Cap: palyra.RoleViewer, Credential: rpc.ByDevice}, held[palyra.RoleViewer]},
		"lesser device": {rpc.Caller{Role: palyra.RoleViewer, Cap: palyra.RoleOwner, Credential: rpc.ByDevice}, held[palyra.RoleViewer]},
		"browser": {
			rpc.Caller{Role: palyra.RoleOwner, Cap: palyra.RoleOwner, Credential: rpc.ByConsole},
			scopes{"status.view", "journal.read"},
		},
		"token": {rpc.Caller{
			Role: palyra.RoleOwner, Cap: palyra.RoleOwner, Credential: rpc.ByToken,
			Scopes: scopes{"journal.read", "access.manage"},
		}, scopes{"journal.read"}},
		"agent": {rpc.Caller{Role: palyra.RoleAgent, Cap: palyra.RoleAgent, Credential: rpc.ByAgentSocket}, held[palyra.RoleAgent]},
		"agent's token": {
			rpc.Caller{Role: palyra.RoleAgent, Cap: palyra.RoleAgent, Credential: rpc.ByToken, Scopes: scopes{"runs.start"}},
			scopes{"runs.start"},
		},
		"without scopes": {rpc.Caller{Role: palyra.RoleAgent, Cap: palyra.RoleAgent, Credential: rpc.ByToken, Scopes: scopes{}}, nil},
	} {
		c.caller.Principal, c.caller.Owner, c.caller.CredentialID, c.caller.Within = "user:x", "user:y", "token:t", []string{"/w"}
		res, err := s.WhoAmI(rpc.WithCaller(t.Context(), c.caller), nil)
		me := res.GetMe()
		if err != nil || !slices.Equal(me.GetPermissions(), wire.Words[string](c.want)) || me.GetPrincipal() != "user:x" ||
			me.GetOwner() != "user:y" ||
			me.GetCredentialId() != "token:t" || !slices.Equal(me.GetWorkspaces(), []string{"/w"}) || me.GetCredential() != c.caller.Credential {
			t.Errorf("%s: %v %v", name, me, err)
		}
	}
	roles, err := s.ListRoles(t.Context(), nil)
	if err != nil || len(roles.GetRoles()) != 2 || roles.GetRoles()[1].GetRole() != "viewer" ||
		len(roles.GetRoles()[0].GetPermissions()) != 3 {
		t.Errorf("%v %v", roles, err)
	}
}

// desk is a console that lets everybody in.
type desk struct {
	who  palyra.Principal
	fail error
}

func (d *desk) Login(_ context.Context, c rpc.Caller, _ string) (string, time.Time, error) {
	d.who = c.Principal
	return "http://127.0.0.1:7142/login?code=x", at, d.fail
}

func TestOpenConsole(t *testing.T) {
	d := &desk{}
	s := New(Registry{}).WithConsole(d)
	ask := func(c rpc.Caller) (*v1.OpenConsoleResponse, error) {
		return s.OpenConsole(rpc.WithCaller(t.Context(), c), nil)
	}
	for _, by := range []string{rpc.ByOperatorSocket, rpc.ByDevice} {
		res, err := ask(rpc.Caller{Principal: "user:bob", Credential: by})
		if err != nil || res.GetUrl() == "" || !res.GetExpiresAt().AsTime().Equal(at) || d.who != "user:bob" {
			t.Errorf("%v %v", res, err)
		}
	}
	d.who = ""
	for _, c := range []rpc.Caller{
		{},
		{Principal: "agent:x", Credential: rpc.ByAgentSocket},
		{Principal: "user:bob", Credential: rpc.ByToken},   // a token would become a session that outlives it
		{Principal: "user:bob", Credential: rpc.ByConsole}, // and a session one without end
	} {
		if _, err := ask(c); palyra.AsError(err).Reason != palyra.ReasonPermission || d.who != "" {
			t.Errorf("%+v: %v", c, err)
		}
	}
	s = New(Registry{})
	if _, err := ask(rpc.Caller{Principal: "user:bob"}); palyra.AsError(err).Reason != palyra.ReasonDisabled {
		t.Errorf("without a console: %v", err)
	}
}
