package rpc_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"palyra"
	"palyra/internal/rpc"
	rpcaccess "palyra/internal/rpc/access"
	"palyra/internal/rpc/rpctest"
)

// column is one way to come to one door.
type column struct {
	name string // door/credential
	by   *device
	head func(m method, msg proto.Message) http.Header
	// whose says who made what there is, and where; nil: whoever asks for it
	whose func(rpc.Caller) (palyra.Proposal, string)
}

var everyRole = []palyra.Role{
	palyra.RoleOwner, palyra.RoleAdmin, palyra.RoleOperator, palyra.RoleApprover, palyra.RoleAuditor,
	palyra.RoleViewer,
}

// roleplay lets a token stand for the role that no credential gives yet.
type roleplay struct{ rpc.Access }

func (r roleplay) Bearer(ctx context.Context, token palyra.Secret) (palyra.Bearer, error) {
	node := false
	_ = token.Use(func(b []byte) error { node = string(b) == "plyr_node"; return nil })
	if node {
		return palyra.Bearer{Principal: "node:n1", Role: palyra.RoleNode, Cap: palyra.RoleNode, CredentialID: "token:node"}, nil
	}
	return r.Access.Bearer(ctx, token)
}

// registryStub is behind AccessService: whoever gets to it was let in.
type registryStub struct{ rpctestRegistry }

// crowded is a world with everybody in it who can come to a door.
type crowded struct {
	*world
	keys    map[palyra.Role]key
	columns []column
}

func newCrowded(t *testing.T) *crowded {
	t.Helper()
	question := rpctest.Question // it is asked where everybody reaches
	rpctest.Question.Plan.Workspace.Path = "/w"
	t.Cleanup(func() { rpctest.Question = question })
	var parts *rpctest.Parts
	w := newWorld(t, nil, func(c *rpc.Config) {
		parts = &rpctest.Parts{Registry: rpcaccess.Registry{
			Keys: registryStub{}, People: registryStub{}, Tokens: registryStub{},
			Roles: registryStub{},
		}, Entries: []palyra.Entry{{Seq: 1, Kind: "daemon.started"}}}
		c.Access, c.Services = roleplay{c.Access}, parts.Services()
	})
	w.parts = parts
	c := &crowded{world: w, keys: map[palyra.Role]key{palyra.RoleOwner: w.owner}}
	for _, r := range everyRole[1:] {
		c.keys[r] = w.person(string(r), r)
	}
	c.signers()
	c.tokens()
	c.devices()
	c.browsers()
	c.neighbours()
	w.journal.alerts()
	return c
}

func (c *crowded) add(name string, by *device, head func(m method, msg proto.Message) http.Header) {
	c.columns = append(c.columns, column{name: name, by: by, head: head})
}

func (c *crowded) signed(k key) func(m method, msg proto.Message) http.Header {
	return func(m method, msg proto.Message) http.Header {
		return intent(k.intent(c.t, m, msg, rpctest.StateID, time.Now()))
	}
}

func with(h http.Header) func(method, proto.Message) http.Header {
	return func(method, proto.Message) http.Header { return h.Clone() }
}

// both joins headers.
func both(a, b func(method, proto.Message) http.Header) func(method, proto.Message) http.Header {
	return func(m method, msg proto.Message) http.Header {
		h := a(m, msg)
		for k, v := range b(m, msg) {
			h[k] = append(h[k], v...)
		}
		return h
	}
}

func (c *crowded) signers() {
	for _, door := range []string{"agent", "operator"} {
		c.add(door+"/none", nil, with(nil))
		for _, r := range everyRole {
			c.add(door+"/signed by "+string(r), nil, c.signed(c.keys[r]))
		}
		c.add(door+"/signed by stranger", nil, c.signed(newKey()))
	}
	capped := c.person("capped", palyra.RoleOperator)
	_, err := c.registry.ChangeUser(c.t.Context(), palyra.User{Principal: "user:capped", Role: palyra.RoleViewer}, c.by())
	c.must(err)
	c.add("operator/signed by operator, now viewer", nil, c.signed(capped))
	bound := c.person("bound", palyra.RoleOwner)
	_, err = c.registry.ChangeUser(c.t.Context(),
		palyra.User{Principal: "user:bound", Role: palyra.RoleOwner, Workspaces: []string{"/w"}}, c.by())
	c.must(err)
	c.add("operator/signed by owner of one workspace", nil, c.signed(bound))
	gone := c.person("gone", palyra.RoleOwner)
	c.must(c.registry.RemoveUser(c.t.Context(), "user:gone", c.by()))
	c.add("operator/signed by removed person", nil, c.signed(gone))
}

var (
	allAgents = []palyra.Permission{"status.view", "tools.list", "runs.start", "runs.view", "runs.cancel"}
	allViews  = []palyra.Permission{
		"status.view", "approvals.view", "runs.view", "tools.list",
		"grants.view", "policy.read", "journal.read", "vault.list",
	}
)

func (c *crowded) tokens() {
	heads := map[string]http.Header{
		"agent's own token": bearer(c.token), "removed agent's token": bearer(c.removed),
		"unknown token": bearer("plyr_nonsense"), "node": bearer("plyr_node"),
	}
	make := func(name string, who palyra.Principal, ago time.Duration, scopes ...palyra.Permission) string {
		id, token := c.apiToken(who, ago, time.Hour, scopes...)
		heads[name] = bearer(token)
		return id
	}
	make("agent token, every scope", "agent:ci", 0, allAgents...)
	make("agent token, status.view", "agent:ci", 0, "status.view")
	make("owner token, every scope", "user:alice", 0, allViews...)
	make("owner token, status.view", "user:alice", 0, "status.view")
	make("viewer token, every scope", "user:viewer", 0, "status.view", "approvals.view", "runs.view", "tools.list", "grants.view",
		"policy.read")
	make("expired token", "user:alice", 2*time.Hour, allViews...)
	c.must(c.registry.RevokeToken(c.t.Context(), make("revoked token", "user:alice", 0, allViews...), c.by()))
	d := c.pair("carrier", palyra.RoleOwner)
	for _, name := range sortedKeys(heads) {
		for _, door := range []string{"agent", "operator", "remote", "console"} {
			c.add(door+"/"+name, d, with(heads[name]))
		}
	}
	c.add("operator/owner token, every scope, and signed by owner", nil, both(with(heads["owner token, every scope"]), c.signed(c.owner)))
}

func (c *crowded) devices() {
	agent := with(http.Header{rpc.DoorHeader: {"agent"}})
	var some *device
	for _, r := range everyRole {
		d := c.pair("d"+string(r), r)
		c.add("remote/device of role "+string(r), d, with(nil))
		c.add("remote/device of role "+string(r)+", signed", d, c.signed(d.key))
		some = d
	}
	d, other := c.pair("big", palyra.RoleOwner), some
	c.add("remote/device's agent", d, agent)
	c.add("remote/device's agent, signed by it", d, both(agent, c.signed(d.key)))
	c.add("remote/device, signed by owner's key", d, c.signed(c.owner))
	c.add("remote/device, signed by another device", d, c.signed(other.key))
	c.add("remote/device, two doors", d, with(http.Header{rpc.DoorHeader: {"agent", "agent"}}))
	c.add("remote/device, another door", d, with(http.Header{rpc.DoorHeader: {"operator"}}))
	c.add("operator/signed by device", nil, c.signed(d.key))
	c.add("agent/signed by device", nil, c.signed(d.key))
	gone := c.pair("gone", palyra.RoleOwner)
	_, err := c.registry.RevokeDevice(c.t.Context(), gone.ID, c.by())
	c.must(err)
	c.add("remote/revoked device", gone, with(nil))
	c.add("remote/revoked device, signed", gone, c.signed(gone.key))
	c.add("operator/signed by revoked device", nil, c.signed(gone.key))
}

func (c *crowded) browsers() {
	cookies := map[palyra.Role]string{}
	for _, r := range everyRole {
		who := palyra.Principal("user:" + string(r))
		if r == palyra.RoleOwner {
			who = "user:alice"
		}
		cookies[r] = c.cookie(c.keys[r], who, r)
		c.add("console/cookie of "+string(r), nil, with(cookieHead(cookies[r])))
	}
	mine := cookies[palyra.RoleOwner]
	c.add("console/none", nil, with(nil))
	c.add("console/unknown cookie", nil, with(cookieHead("nonsense")))
	c.add("console/two cookies", nil, with(cookieHead(mine, mine)))
	c.add("console/cookie and signature", nil, both(with(cookieHead(mine)), c.signed(c.owner)))
	c.add("console/signature", nil, c.signed(c.owner))
	own, others := c.paired("b1", "user:alice", 0), c.paired("b2", "user:admin", 0)
	aged, gone := c.paired("b3", "user:alice", -1), c.paired("b4", "user:alice", 0)
	_, err := c.registry.RevokeDevice(c.t.Context(), gone.ID, c.by())
	c.must(err)
	c.add("console/browser, signed", nil, both(with(cookieHead(mine)), c.signed(own.key)))
	c.add("console/revoked browser, signed", nil, both(with(cookieHead(mine)), c.signed(gone.key)))
	c.add("console/cookie and another person's browser", nil, both(with(cookieHead(mine)), c.signed(others.key)))
	c.add("console/cookie and a browser of long ago", nil, both(with(cookieHead(mine)), c.signed(aged.key)))
	c.add("console/cookie and a machine's key", nil, both(with(cookieHead(mine)), c.signed(c.pair("m1", palyra.RoleOwner).key)))
	c.add("console/signed by a browser, no cookie", nil, c.signed(own.key))
	c.add("operator/signed by browser", nil, c.signed(own.key))
	c.add("agent/signed by browser", nil, c.signed(own.key))
	bare, other := cookieHead(mine), cookieHead(mine)
	bare.Del(rpc.PageHeader)
	other.Set(rpc.PageHeader, strings.Repeat("B", 42)+"A")
	c.add("console/cookie alone", nil, with(bare))
	c.add("console/cookie, another page's secret", nil, with(other))
	c.add("console/cookie alone, signed by its browser", nil, both(with(bare), c.signed(own.key)))
	key := c.passkey("p1", "user:alice")
	c.add("console/passkey, signed", nil, both(with(cookieHead(mine)), c.asserted(key)))
	c.add("console/signed by a passkey, no cookie", nil, c.asserted(key))
	c.add("operator/signed by passkey", nil, c.asserted(key))
	h := cookieHead(mine)
	h.Set(rpc.DoorHeader, "agent")
	c.add("console/cookie, another door", nil, with(h))
	c.shift.Store(int64(-13 * time.Hour))
	old := c.cookie(c.owner, "user:alice", palyra.RoleOwner)
	c.shift.Store(0)
	c.add("console/expired cookie", nil, with(cookieHead(old)))
}

// cell tries one method in one column.
func (c *crowded) cell(col column, m method) palyra.Reason {
	c.t.Helper()
	msg := m.request(c.t)
	head := col.head(m, msg)
	c.parts.Whose = col.whose
	defer func() { c.parts.Whose = nil }()
	door, _, _ := strings.Cut(col.name, "/")
	switch door {
	case "remote":
		why, err := c.sendTo(col.by.http, col.by.base, m, msg, head)
		if err != nil {
			return "no_connection"
		}
		return why
	case "console":
		why, err := c.sendTo(c.browser(), "http://"+c.world.console, m, msg, head)
		c.must(err)
		return why
	}
	return c.send(door, m, msg, head)
}
