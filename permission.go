package palyra

// Permission is the right to use one group of methods: what it is about, and what is done with that.
type Permission string

// The permissions that only look.
const (
	PermitStatusView    Permission = "status.view"
	PermitApprovalsView Permission = "approvals.view"
	PermitRunsView      Permission = "runs.view"
	PermitToolsList     Permission = "tools.list"
	PermitGrantsView    Permission = "grants.view"
	PermitPolicyRead    Permission = "policy.read"
	PermitJournalRead   Permission = "journal.read"
	PermitVaultList     Permission = "vault.list"
)

// The permissions that change or disclose something.
const (
	PermitApprovalsDecide  Permission = "approvals.decide"
	PermitApprovalsExport  Permission = "approvals.export"
	PermitRunsStart        Permission = "runs.start"
	PermitRunsCancel       Permission = "runs.cancel"
	PermitGrantsRevoke     Permission = "grants.revoke"
	PermitVaultUse         Permission = "vault.use"
	PermitVaultReveal      Permission = "vault.reveal"
	PermitVaultWrite       Permission = "vault.write"
	PermitPolicyWrite      Permission = "policy.write"
	PermitDevicesManage    Permission = "devices.manage"
	PermitSkillsManage     Permission = "skills.manage"
	PermitMCPManage        Permission = "mcp.manage"
	PermitWorkspacesManage Permission = "workspaces.manage"
	PermitSandboxManage    Permission = "sandbox.manage"
	PermitJournalExport    Permission = "journal.export"
	PermitCronManage       Permission = "cron.manage"
	PermitChannelsManage   Permission = "channels.manage"
	PermitNodesManage      Permission = "nodes.manage"
	PermitKeysManage       Permission = "keys.manage"
	PermitAccessManage     Permission = "access.manage"
	PermitDaemonStop       Permission = "daemon.stop"
)
