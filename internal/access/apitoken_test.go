package access

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

func (b *bench) token(by person, p palyra.Principal, scopes []palyra.Permission, workspaces []string) (palyra.Token, palyra.Secret, error) {
	b.t.Helper()
	t := palyra.Token{Name: fmt.Sprintf("t%d", len(b.journal.kinds())), Principal: p, Scopes: scopes, Workspaces: workspaces}
	return b.AddToken(b.t.Context(), t, time.Hour, b.sign(by, nil))
}

func TestTokenLife(t *testing.T) {
	b := newBench(t)
	entry, secret, err := b.AddToken(t.Context(), palyra.Token{
		ID: "tok-chosen", Name: "ci", Scopes: []palyra.Permission{"status.view", "runs.view", "status.view"}, Workspaces: []string{"/w"},
		AddedBy: "user:x",
	}, time.Hour, b.sign(b.owner, nil))
	b.must(err)
	want := palyra.Token{
		ID: entry.ID, Name: "ci", Principal: "user:alice", Scopes: []palyra.Permission{"runs.view", "status.view"}, Workspaces: []string{"/w"},
		AddedAt: b.now, AddedBy: "user:alice", ExpiresAt: b.now.Add(time.Hour),
	}
	if d := cmp.Diff(want, entry); d != "" || !strings.HasPrefix(entry.ID, "tok-") || entry.ID == "tok-chosen" {
		t.Error(entry.ID, d)
	}
	b.open()
	got, err := b.Bearer(t.Context(), secret)
	bearer := palyra.Bearer{
		Principal: "user:alice", Role: palyra.RoleOwner, Cap: palyra.RoleOwner, Scopes: want.Scopes, Within: []string{"/w"},
		CredentialID: "token:" + entry.ID, ExpiresAt: want.ExpiresAt,
	}
	if err != nil || !cmp.Equal(bearer, got) {
		t.Errorf("%+v %v", got, err)
	}
	all, err := b.Tokens(t.Context())
	if err != nil || len(all) != 1 || !all[0].UsedAt.Equal(b.now.Truncate(time.Minute)) {
		t.Errorf("%+v %v", all, err)
	}
	_, _, err = b.AddToken(t.Context(), palyra.Token{Name: "ci", Scopes: []palyra.Permission{"status.view"}}, time.Hour, b.sign(b.owner, nil))
	b.wants(err, palyra.ReasonExists)
	ended := b.ends()
	b.must(b.RevokeToken(t.Context(), entry.ID, b.sign(b.owner, nil)))
	_, err = b.Bearer(t.Context(), secret)
	b.wants(err, palyra.ReasonBadCredential)
	b.wants(b.RevokeToken(t.Context(), entry.ID, b.sign(b.owner, nil)), palyra.ReasonNotFound)
	if !slices.Equal(*ended, []string{"token:" + entry.ID}) {
		t.Errorf("ended %v", *ended)
	}
	if got := b.journal.kinds(); !slices.Equal(got[2:], []string{"token.added", "token.revoked"}) {
		t.Errorf("journal: %v", got)
	}
}

func TestTokenExpires(t *testing.T) {
	b := newBench(t)
	_, secret, err := b.token(b.owner, "", []palyra.Permission{"status.view"}, nil)
	b.must(err)
	b.now = b.now.Add(time.Hour - 1)
	_, err = b.Bearer(t.Context(), secret)
	b.must(err)
	b.now = b.now.Add(1)
	_, err = b.Bearer(t.Context(), secret)
	b.wants(err, palyra.ReasonBadCredential)
}

func TestBadTokensAreRefused(t *testing.T) {
	b := newBench(t)
	good := palyra.Token{Name: "x", Scopes: []palyra.Permission{"status.view"}}
	for name, c := range map[string]struct {
		change func(*palyra.Token)
		ttl    time.Duration
	}{
		"no name":       {func(t *palyra.Token) { t.Name = "" }, time.Hour},
		"odd name":      {func(t *palyra.Token) { t.Name = "A b" }, time.Hour},
		"no scopes":     {func(t *palyra.Token) { t.Scopes = nil }, time.Hour},
		"unknown scope": {func(t *palyra.Token) { t.Scopes = []palyra.Permission{"status.view", "everything"} }, time.Hour},
		"many scopes":   {func(t *palyra.Token) { t.Scopes = slices.Repeat(t.Scopes, 100) }, time.Hour},
		"bad workspace": {func(t *palyra.Token) { t.Workspaces = []string{"w"} }, time.Hour},
		"no time":       {func(*palyra.Token) {}, 0},
		"too short":     {func(*palyra.Token) {}, time.Minute - 1},
		"too long":      {func(*palyra.Token) {}, 365*24*time.Hour + 1},
		"negative":      {func(*palyra.Token) {}, -time.Hour},
	} {
		tok := good
		c.change(&tok)
		if _, s, err := b.AddToken(t.Context(), tok, c.ttl, b.sign(b.owner, nil)); palyra.CodeOf(err) != palyra.Invalid || !s.Empty() {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, p := range []palyra.Principal{"user:none", "agent:none", "agent:local", "agent:device.x", "device:x", "system:daemon", "x"} {
		_, _, err := b.token(b.owner, p, []palyra.Permission{"status.view"}, nil)
		b.wants(err, palyra.ReasonNotFound)
	}
}

func TestTokenHoldsNoMoreThanItsPrincipal(t *testing.T) {
	b := newBench(t)
	admin := b.add("bob", palyra.RoleAdmin)
	b.add("vic", palyra.RoleViewer)
	_, _, err := b.AddAgent(t.Context(), "ci", "user:bob", b.sign(b.owner, nil))
	b.must(err)
	_, err = b.addUser(b.owner, "wes", palyra.RoleViewer, "/w", "/v")
	b.must(err)
	for name, c := range map[string]struct {
		by         person
		of         palyra.Principal
		scopes     []palyra.Permission
		workspaces []string
		ok         bool
	}{
		"a person looks":                  {admin, "", []palyra.Permission{"journal.read", "vault.list"}, nil, true},
		"a person does not act":           {b.owner, "", []palyra.Permission{"approvals.decide"}, nil, false},
		"nor start runs":                  {b.owner, "", []palyra.Permission{"runs.start"}, nil, false},
		"a viewer reads no journal":       {b.owner, "user:vic", []palyra.Permission{"journal.read"}, nil, false},
		"an owner for a viewer":           {b.owner, "user:vic", []palyra.Permission{"runs.view"}, nil, true},
		"an admin for another":            {admin, "user:vic", []palyra.Permission{"runs.view"}, nil, false},
		"one's own agent":                 {admin, "agent:ci", []palyra.Permission{"runs.start"}, nil, true},
		"an agent does not decide":        {b.owner, "agent:ci", []palyra.Permission{"approvals.decide"}, nil, false},
		"an agent reads no journal":       {b.owner, "agent:ci", []palyra.Permission{"journal.read"}, nil, false},
		"inside the person's workspaces":  {b.owner, "user:wes", []palyra.Permission{"runs.view"}, []string{"/w"}, true},
		"outside the person's workspaces": {b.owner, "user:wes", []palyra.Permission{"runs.view"}, []string{"/x"}, false},
		"beyond the person's workspaces":  {b.owner, "user:wes", []palyra.Permission{"runs.view"}, []string{"/w", "/x"}, false},
	} {
		_, _, err := b.token(c.by, c.of, c.scopes, c.workspaces)
		if c.ok != (err == nil) || !c.ok && palyra.AsError(err).Reason != palyra.ReasonPermission {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.must(b.changeUser(b.owner, "alice", palyra.RoleOwner, "/w"))
	_, _, err = b.token(b.owner, "user:wes", []palyra.Permission{"runs.view"}, nil)
	b.wants(err, palyra.ReasonPermission) // wes reaches /v, alice does not any more
	_, _, err = b.token(b.owner, "user:wes", []palyra.Permission{"runs.view"}, []string{"/w"})
	b.must(err)
}

func TestBearerFollowsItsPerson(t *testing.T) {
	b := newBench(t)
	b.add("bob", palyra.RoleAdmin)
	_, own, err := b.token(b.owner, "user:bob", []palyra.Permission{"journal.read"}, []string{"/w"})
	b.must(err)
	_, agent, err := b.AddAgent(t.Context(), "ci", "user:bob", b.sign(b.owner, nil))
	b.must(err)
	_, scoped, err := b.token(b.owner, "agent:ci", []palyra.Permission{"tools.list"}, nil)
	b.must(err)

	b.must(b.changeUser(b.owner, "bob", palyra.RoleViewer, "/w", "/v"))
	if got, err := b.Bearer(t.Context(), own); err != nil || got.Cap != palyra.RoleViewer || !slices.Equal(got.Within, []string{"/w"}) {
		t.Errorf("%+v %v", got, err)
	}
	got, err := b.Bearer(t.Context(), agent)
	want := palyra.Bearer{
		Principal: "agent:ci", Owner: "user:bob", Role: palyra.RoleAgent, Cap: palyra.RoleAgent,
		Within: []string{"/v", "/w"}, CredentialID: "agent:ci",
	}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := b.Bearer(t.Context(), scoped); err != nil || got.Owner != "user:bob" || got.Role != palyra.RoleAgent ||
		len(got.Within) != 2 || len(got.Scopes) != 1 {
		t.Errorf("%+v %v", got, err)
	}
	b.must(b.changeUser(b.owner, "bob", palyra.RoleViewer, "/v"))
	_, err = b.Bearer(t.Context(), own)
	b.wants(err, palyra.ReasonBadCredential) // it reaches nothing now, and never everything

	ended := b.ends()
	b.must(b.RemoveAgent(t.Context(), "agent:ci", b.sign(b.owner, nil)))
	if len(*ended) != 2 || (*ended)[0] != "agent:ci" {
		t.Errorf("ended %v", *ended)
	}
	for _, s := range []palyra.Secret{agent, scoped} {
		_, err = b.Bearer(t.Context(), s)
		b.wants(err, palyra.ReasonBadCredential)
	}
}

func TestWhoMayRevokeAToken(t *testing.T) {
	b := newBench(t)
	admin := b.add("bob", palyra.RoleAdmin)
	owners, _, err := b.token(b.owner, "", []palyra.Permission{"status.view"}, nil)
	b.must(err)
	b.wants(b.RevokeToken(t.Context(), owners.ID, b.sign(admin, nil)), palyra.ReasonPermission)
	own, _, err := b.token(b.owner, "user:bob", []palyra.Permission{"status.view"}, nil)
	b.must(err)
	b.must(b.RevokeToken(t.Context(), own.ID, b.sign(admin, nil)))
	b.wants(b.RevokeToken(t.Context(), "tok-none", b.sign(admin, nil)), palyra.ReasonNotFound)
}

func TestAPITokenIsNowhereInTheState(t *testing.T) {
	b := newBench(t)
	_, token, err := b.token(b.owner, "", []palyra.Permission{"status.view"}, nil)
	b.must(err)
	secret := text(token)
	for _, suffix := range []string{"", "-wal"} {
		raw, err := os.ReadFile(b.path + suffix)
		b.must(err)
		if strings.Contains(string(raw), secret) || strings.Contains(string(raw), secret[len(tokenPrefix):len(tokenPrefix)+secretChars]) {
			t.Error("the token stands in the state")
		}
	}
	for _, e := range b.journal.events {
		if line := fmt.Sprintf("%+v", e); strings.Contains(line, secret) || strings.Contains(line, string(palyra.SumBytes([]byte(secret)))) {
			t.Error("the token or its digest stands in the journal")
		}
	}
}

func TestTokensAndDevicesNeedTheirLine(t *testing.T) {
	b := newBench(t)
	c, _ := b.candidate("phone", "alice", palyra.RoleViewer)
	b.journal.fail = errors.New("the journal is down")
	if _, s, err := b.token(b.owner, "", []palyra.Permission{"status.view"}, nil); err == nil || !s.Empty() {
		t.Error("a token without a line")
	}
	if _, err := b.AddDevice(t.Context(), c, "P1"); err == nil {
		t.Error("a device without a line")
	}
	if _, err := b.addUser(b.owner, "bob", palyra.RoleViewer); err == nil {
		t.Error("a person without a line")
	}
	ended := b.ends()
	if err := b.RemoveUser(t.Context(), "user:alice", b.sign(b.owner, nil)); err == nil || len(*ended) > 0 {
		t.Error("an end without a line")
	}
	for _, table := range []string{"access_tokens", "access_devices"} {
		if n := b.count(table); n != 0 {
			t.Errorf("%d rows in %s", n, table)
		}
	}
}
