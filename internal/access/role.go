package access

import (
	"slices"

	"palyra"
)

// views are the permissions that only look. Without a signature a person has these of their role and no other.
var views = []palyra.Permission{
	palyra.PermitStatusView, palyra.PermitApprovalsView, palyra.PermitRunsView, palyra.PermitToolsList, palyra.PermitGrantsView,
	palyra.PermitPolicyRead, palyra.PermitJournalRead, palyra.PermitVaultList,
}

// acts are the permissions that change or disclose something.
var acts = []palyra.Permission{
	palyra.PermitApprovalsDecide, palyra.PermitApprovalsExport, palyra.PermitRunsStart, palyra.PermitRunsCancel, palyra.PermitGrantsRevoke,
	palyra.PermitVaultUse, palyra.PermitVaultReveal, palyra.PermitVaultWrite,
	palyra.PermitPolicyWrite, palyra.PermitDevicesManage, palyra.PermitSkillsManage, palyra.PermitMCPManage, palyra.PermitWorkspacesManage,
	palyra.PermitSandboxManage, palyra.PermitJournalExport,
	palyra.PermitCronManage, palyra.PermitChannelsManage, palyra.PermitNodesManage, palyra.PermitKeysManage, palyra.PermitAccessManage,
	palyra.PermitDaemonStop,
}

var (
	viewer = []palyra.Permission{
		palyra.PermitStatusView, palyra.PermitApprovalsView, palyra.PermitRunsView, palyra.PermitToolsList,
		palyra.PermitGrantsView, palyra.PermitPolicyRead,
	}
	approver = append(slices.Clone(viewer), palyra.PermitApprovalsDecide, palyra.PermitGrantsRevoke)
)

// roles is the whole table. An agent's runs.view and runs.cancel reach its own
// calls only, which the tool service enforces.
var roles = map[palyra.Role][]palyra.Permission{
	palyra.RoleOwner: append(slices.Clone(views), acts...),
	palyra.RoleAdmin: slices.DeleteFunc(append(slices.Clone(views), acts...), func(p palyra.Permission) bool {
		return p == palyra.PermitVaultReveal || p == palyra.PermitKeysManage
	}),
	palyra.RoleOperator: append(slices.Clone(approver), palyra.PermitJournalRead, palyra.PermitVaultList, palyra.PermitVaultUse,
		palyra.PermitRunsStart, palyra.PermitRunsCancel,
		palyra.PermitWorkspacesManage, palyra.PermitSandboxManage, palyra.PermitSkillsManage, palyra.PermitMCPManage, palyra.PermitCronManage,
		palyra.PermitChannelsManage, palyra.PermitDaemonStop),
	palyra.RoleApprover: approver,
	palyra.RoleAuditor:  append(slices.Clone(viewer), palyra.PermitJournalRead, palyra.PermitJournalExport, palyra.PermitApprovalsExport),
	palyra.RoleViewer:   viewer,
	palyra.RoleAgent: {
		palyra.PermitStatusView, palyra.PermitToolsList, palyra.PermitRunsStart, palyra.PermitRunsView,
		palyra.PermitRunsCancel,
	},
	palyra.RoleNode: {},
}

// ladder is the roles of people, from the least on.
var ladder = palyra.PeopleRoles()

// Roles lists every role, the strongest first.
func (*Registry) Roles() []palyra.Role {
	out := slices.Clone(ladder)
	slices.Reverse(out)
	return append(out, palyra.RoleAgent, palyra.RoleNode)
}

// Holds lists the permissions of a role.
func (*Registry) Holds(role palyra.Role) []palyra.Permission { return slices.Clone(roles[role]) }

// Lesser returns the role that a credential and its person have together: the one that the other covers. It
// is empty where neither covers the other.
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

// Permits reports whether a role holds a permission. signed says that the request carries the person's own
// signature; without it a person may only look. Agents have no key: their role alone holds them.
func (*Registry) Permits(role palyra.Role, permission palyra.Permission, signed bool) bool {
	if !slices.Contains(roles[role], permission) {
		return false
	}
	return signed || role == palyra.RoleAgent || slices.Contains(views, permission)
}
