package access

import (
	"slices"

	"palyra"
)

// views are the permissions that only look. Without a signature a person has
// these of their role and no other.
var views = []string{
	"status.view", "approvals.view", "runs.view", "tools.list", "grants.view", "policy.read", "journal.read", "vault.list",
}

// acts are the permissions that change or disclose something.
var acts = []string{
	"approvals.decide", "approvals.export", "runs.start", "runs.cancel", "grants.revoke", "vault.use", "vault.reveal", "vault.write",
	"policy.write", "devices.manage", "skills.manage", "mcp.manage", "workspaces.manage", "sandbox.manage", "journal.export",
	"cron.manage", "channels.manage", "nodes.manage", "keys.manage", "access.manage", "daemon.stop",
}

var (
	viewer   = []string{"status.view", "approvals.view", "runs.view", "tools.list", "grants.view", "policy.read"}
	approver = append(slices.Clone(viewer), "approvals.decide", "grants.revoke")
)

// roles is the whole table. An agent's runs.view and runs.cancel reach its own
// calls only, which the tool service enforces.
var roles = map[palyra.Role][]string{
	palyra.RoleOwner: append(slices.Clone(views), acts...),
	palyra.RoleAdmin: slices.DeleteFunc(append(slices.Clone(views), acts...), func(p string) bool {
		return p == "vault.reveal" || p == "keys.manage"
	}),
	palyra.RoleOperator: append(slices.Clone(approver), "journal.read", "vault.list", "vault.use", "runs.start", "runs.cancel",
		"workspaces.manage", "sandbox.manage", "skills.manage", "mcp.manage", "cron.manage", "channels.manage", "daemon.stop"),
	palyra.RoleApprover: approver,
	palyra.RoleAuditor:  append(slices.Clone(viewer), "journal.read", "journal.export", "approvals.export"),
	palyra.RoleViewer:   viewer,
	palyra.RoleAgent:    {"status.view", "tools.list", "runs.start", "runs.view", "runs.cancel"},
	palyra.RoleNode:     {},
}

// ladder is the roles of people, from the least on.
var ladder = palyra.PeopleRoles()

// Roles lists every role there is, the one that may most first.
func (*Registry) Roles() []palyra.Role {
	out := slices.Clone(ladder)
	slices.Reverse(out)
	return append(out, palyra.RoleAgent, palyra.RoleNode)
}

// Holds lists the permissions of a role.
func (*Registry) Holds(role palyra.Role) []string { return slices.Clone(roles[role]) }

// Permissions lists every permission there is.
func Permissions() []string { return append(slices.Clone(views), acts...) }

// Lesser returns the role that a credential's and its person's come to: the one
// that the other covers. Where neither does there is none.
func (*Registry) Lesser(a, b palyra.Role) palyra.Role { return lesser(a, b) }

func lesser(a, b palyra.Role) palyra.Role {
	covers := func(a, b palyra.Role) bool { return giver{palyra.Operator{Role: a}, palyra.User{Role: a}}.covers(b) }
	switch {
	case covers(a, b):
		return b
	case covers(b, a):
		return a
	}
	return ""
}

// Permits reports whether a role holds a permission. signed says that the
// request carries the person's own signature; without it a person may only
// look. Agents have no key: their role alone holds them.
func (*Registry) Permits(role palyra.Role, permission string, signed bool) bool {
	if !slices.Contains(roles[role], permission) {
		return false
	}
	return signed || role == palyra.RoleAgent || slices.Contains(views, permission)
}
