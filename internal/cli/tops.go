package cli

import (
	"github.com/spf13/cobra"

	"palyra/internal/cli/access"
	"palyra/internal/cli/acp"
	"palyra/internal/cli/changes"
	"palyra/internal/cli/configuration"
	"palyra/internal/cli/connect"
	"palyra/internal/cli/doctor"
	"palyra/internal/cli/evidence"
	"palyra/internal/cli/execute"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/hook"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/leases"
	"palyra/internal/cli/mcp"
	"palyra/internal/cli/observe"
	"palyra/internal/cli/policy"
	"palyra/internal/cli/root"
	"palyra/internal/cli/service"
	"palyra/internal/cli/setup"
	"palyra/internal/cli/skills"
	"palyra/internal/cli/tui"
	"palyra/internal/cli/wholeagent"
)

// tops are all of them.
func tops() []root.Top {
	return []root.Top{
		{Names: "up", Make: service.Up},
		{Names: "down", Make: service.Down},
		{Names: "status", Make: service.Status},
		{Names: "version", Make: versionCommand},
		{Names: "exec", Make: execute.ExecCommand},
		{Names: "check", Make: execute.CheckCommand},
		{Names: "hook", Make: func(inv *invocation.Invocation) *cobra.Command {
			return hook.Command(inv, connect.HookInstall(inv), connect.HookUninstall(inv), doctor.Command(inv, settings()), doctor.Server(inv))
		}},
		{Names: "acp", Make: acp.Command},
		{Names: "run", Make: execute.RunCommand},
		{Names: "runs", Make: execute.RunsCommand},
		{Names: "processes", Make: execute.ProcessesCommand},
		{Names: "tools", Make: toolsCommand},
		{Names: "approvals", Make: approvalsCommand},
		{Names: "leases grants", Make: leases.Command},
		{Names: "sessions", Make: sessionsCommand},
		{Names: "calls", Make: callsCommand},
		{Names: "workspace", Make: workspacesCommand},
		{Names: "vault", Make: vaultCommand},
		{Names: "changes", Make: changes.Command},
		{Names: "keep", Make: execute.KeepCommand},
		{Names: "drop", Make: execute.DropCommand},
		{Names: "undo", Make: changes.Undo},
		{Names: "redo", Make: changes.Redo},
		{Names: "agent", Make: func(inv *invocation.Invocation) *cobra.Command {
			return access.Agents(inv, execute.AgentRunCommand(inv, new(wholeagent.Options)))
		}},
		{Names: "operator", Make: access.Operators},
		{Names: "access", Make: access.Command},
		{Names: "device", Make: devicesCommand},
		{Names: "console", Make: func(inv *invocation.Invocation) *cobra.Command { return access.Console(inv, consolePairCommand(inv)) }},
		{Names: "keys", Make: evidence.Keys},
		{Names: "journal", Make: evidence.Journal},
		{Names: "attest", Make: evidence.Attest},
		{Names: "sandbox", Make: func(inv *invocation.Invocation) *cobra.Command {
			return evidence.Sandbox(inv, configuration.Profiles(inv))
		}},
		{Names: "policy", Make: policy.Command},
		{Names: "observe", Make: func(inv *invocation.Invocation) *cobra.Command { return observe.Command(inv, hooksHere(inv)) }},
		{Names: "mcp", Make: func(inv *invocation.Invocation) *cobra.Command {
			return mcp.Command(inv, connect.MCPInstall(inv), connect.MCPUninstall(inv))
		}},
		{Names: "skills", Make: skills.Command},
		{Names: "setup", Make: func(inv *invocation.Invocation) *cobra.Command { return setup.Command(inv, another(inv)) }},
		{Names: "config", Make: configuration.Command},
		{Names: "tui", Make: func(inv *invocation.Invocation) *cobra.Command { return tui.Command(inv, inside, false) }},
		{Names: manName, Make: manCommand, All: true},
		{Names: "exit-codes", Make: func(*invocation.Invocation) *cobra.Command { return exit.Topic() }},
		{Names: "environment", Make: func(*invocation.Invocation) *cobra.Command { return configuration.EnvironmentTopic() }},
	}
}

// manName is the command that tells of all others.
const manName = "man"
