package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/rpc/rpctest"
)

func TestDevices(t *testing.T) {
	b := newBench(t)
	c, ctx := b.operator(), t.Context()
	list, err := c.Devices(ctx)
	same(t, "devices", err, list, []palyra.Device{rpctest.Laptop})
	d, err := c.Device(ctx, "laptop")
	same(t, "device", err, d, rpctest.Laptop)
	d, err = c.RevokeDevice(ctx, d.ID)
	if err != nil || d.Live() || d.RevokedBy != "user:alice" {
		t.Errorf("%+v %v", d, err)
	}
	url, ends, err := c.OpenConsole(ctx)
	if err != nil || url != "http://127.0.0.1:7142/login?code=once" || !ends.Equal(rpctest.At.Add(2*time.Minute)) {
		t.Errorf("%s %v %v", url, ends, err)
	}
	// Whatever changes something is signed, or not sent.
	bare := b.open(client.Config{Door: client.OperatorDoor})
	b.parts.Seen()
	for what, err := range map[string]error{
		"revoke": errOf(bare.RevokeDevice(ctx, d.ID)), "pair": bare.PairDevice(ctx, "", "", nil), "user": errOf(bare.AddUser(ctx, palyra.User{})),
		"change": errOf(bare.ChangeUser(ctx, palyra.User{})), "remove": bare.RemoveUser(ctx, "user:x"), "token": bare.RevokeToken(ctx, "tok-1"),
	} {
		if reason(err) != palyra.ReasonSignatureRequired {
			t.Errorf("%s: %v", what, err)
		}
	}
	if seen := b.parts.Seen(); len(seen) != 0 {
		t.Errorf("sent all the same: %v", seen)
	}
}

// The code is in the first message only, and is withdrawn when nobody listens.
func TestPairDevice(t *testing.T) {
	b := newBench(t)
	c := b.operator()
	var all []palyra.Pairing
	must(t, c.PairDevice(t.Context(), "user:alice", palyra.RoleApprover, func(p palyra.Pairing) error {
		all = append(all, p)
		return nil
	}))
	if len(all) != 3 || all[0].PIN != "12345678" || all[1].PIN+all[1].Code+all[2].PIN != "" || all[2].Device == nil ||
		all[2].Device.Name != "laptop" {
		t.Errorf("%+v", all)
	}
	enough := errors.New("enough")
	if err := c.PairDevice(t.Context(), "", palyra.RoleViewer, func(palyra.Pairing) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := c.PairDevice(ctx, "", palyra.RoleViewer, func(palyra.Pairing) error {
		cancel()
		return nil
	})
	if reason(err) != palyra.ReasonCancelled {
		t.Errorf("%v", err)
	}
}

func TestPeopleAndTokens(t *testing.T) {
	b := newBench(t)
	c, ctx := b.operator(), t.Context()
	u, err := c.AddUser(ctx, palyra.User{Principal: "user:bob", Role: palyra.RoleViewer, Workspaces: []string{"/w"}})
	if err != nil || u.Principal != "user:bob" || u.AddedBy != "user:alice" || len(u.Workspaces) != 1 {
		t.Errorf("%+v %v", u, err)
	}
	u, err = c.ChangeUser(ctx, palyra.User{Principal: "user:bob", Role: palyra.RoleApprover})
	if err != nil || u.Role != palyra.RoleApprover || len(u.Workspaces) != 0 {
		t.Errorf("%+v %v", u, err)
	}
	if list, err := c.Users(ctx); err != nil || len(list) != 2 {
		t.Errorf("%+v %v", list, err)
	}
	entry, token, err := c.AddToken(ctx, palyra.Token{Name: "dash", Principal: "user:bob", Scopes: []palyra.Permission{"status.view"}},
		time.Hour)
	if err != nil || token.Empty() || entry.Name != "dash" || entry.ExpiresAt.Sub(entry.AddedAt) != time.Hour {
		t.Errorf("%+v %v", entry, err)
	}
	me, err := b.open(client.Config{Door: client.OperatorDoor, AgentToken: token}).WhoAmI(ctx)
	if err != nil || me.Principal != "user:bob" || len(me.Permissions) != 1 {
		t.Errorf("%+v %v", me, err)
	}
	must(t, c.RevokeToken(ctx, entry.ID))
	if list, err := c.Tokens(ctx); err != nil || len(list) != 1 || list[0].RevokedAt.IsZero() {
		t.Errorf("%+v %v", list, err)
	}
	if _, err := b.open(client.Config{Door: client.OperatorDoor, AgentToken: token}).WhoAmI(ctx); reason(err) != palyra.ReasonBadCredential {
		t.Errorf("%v", err)
	}
	must(t, c.RemoveUser(ctx, "user:bob"))
	roles, err := c.Roles(ctx)
	if err != nil || len(roles) < 6 {
		t.Errorf("%+v %v", roles, err)
	}
	for _, r := range roles {
		if r.Permissions == nil {
			t.Errorf("%s has no list", r.Role)
		}
	}
	if _, _, err := c.AddToken(ctx, palyra.Token{Name: "x", Scopes: []palyra.Permission{"king"}},
		time.Hour); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("%v", err)
	}
}

func errOf[T any](_ T, err error) error { return err }
