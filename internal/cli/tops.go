package cli

import (
	"slices"
	"strings"

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
	"palyra/internal/cli/mcp"
	"palyra/internal/cli/observe"
	"palyra/internal/cli/policy"
	"palyra/internal/cli/service"
	"palyra/internal/cli/setup"
	"palyra/internal/cli/skills"
	"palyra/internal/cli/tui"
	"palyra/internal/cli/wholeagent"
)

// top is a command without one above it. It is made when it is called: to make all of them takes as long as many of them
// take to run.
type top struct {
	names string // its own, then its aliases
	make  func(*invocation.Invocation) *cobra.Command
}

// called makes the command that words call, and all where they call none by its name, as for help and completion.
func called(all []top, inv *invocation.Invocation, words []string) []*cobra.Command {
	name := firstWord(words)
	at := slices.IndexFunc(all, func(t top) bool { return slices.Contains(strings.Fields(t.names), name) })
	if at >= 0 && name != manName {
		return []*cobra.Command{all[at].make(inv)}
	}
	made := make([]*cobra.Command, len(all))
	for i, t := range all {
		made[i] = t.make(inv)
	}
	return made
}

// firstWord is the first word that is no flag; "" where it cannot be told without the flags of commands.
func firstWord(words []string) string {
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case w == "--home" || w == "--remote":
			i++
		case w == "--json" || w == "--quiet" || w == "-q" || w == "--no-color" ||
			strings.HasPrefix(w, "--home=") || strings.HasPrefix(w, "--remote="):
		case strings.HasPrefix(w, "-"):
			return ""
		default:
			return w
		}
	}
	return ""
}

// tops are all of them.
func tops() []top {
	return []top{
		{"up", service.Up},
		{"down", service.Down},
		{"status", service.Status},
		{"version", versionCommand},
		{"exec", execute.ExecCommand},
		{"check", execute.CheckCommand},
		{"hook", func(inv *invocation.Invocation) *cobra.Command {
			return hook.Command(inv, connect.HookInstall(inv), connect.HookUninstall(inv), doctor.Command(inv, settings()), doctor.Server(inv))
		}},
		{"acp", acp.Command},
		{"run", execute.RunCommand},
		{"runs", execute.RunsCommand},
		{"processes", execute.ProcessesCommand},
		{"tools", toolsCommand},
		{"approvals", approvalsCommand},
		{"leases grants", leasesCommand},
		{"sessions", sessionsCommand},
		{"calls", callsCommand},
		{"workspace", workspacesCommand},
		{"vault", vaultCommand},
		{"changes", changes.Command},
		{"keep", execute.KeepCommand},
		{"drop", execute.DropCommand},
		{"undo", changes.Undo},
		{"redo", changes.Redo},
		{"agent", func(inv *invocation.Invocation) *cobra.Command {
			return access.Agents(inv, execute.AgentRunCommand(inv, new(wholeagent.Options)))
		}},
		{"operator", access.Operators},
		{"access", access.Command},
		{"device", devicesCommand},
		{"console", func(inv *invocation.Invocation) *cobra.Command { return access.Console(inv, consolePairCommand(inv)) }},
		{"keys", evidence.Keys},
		{"journal", evidence.Journal},
		{"attest", evidence.Attest},
		{"sandbox", func(inv *invocation.Invocation) *cobra.Command {
			return evidence.Sandbox(inv, configuration.Profiles(inv))
		}},
		{"policy", policy.Command},
		{"observe", func(inv *invocation.Invocation) *cobra.Command { return observe.Command(inv, hooksHere(inv)) }},
		{"mcp", func(inv *invocation.Invocation) *cobra.Command {
			return mcp.Command(inv, connect.MCPInstall(inv), connect.MCPUninstall(inv))
		}},
		{"skills", skills.Command},
		{"setup", func(inv *invocation.Invocation) *cobra.Command { return setup.Command(inv, another(inv)) }},
		{"config", configuration.Command},
		{"tui", func(inv *invocation.Invocation) *cobra.Command { return tui.Command(inv, inside) }},
		{manName, manCommand},
		{"exit-codes", func(*invocation.Invocation) *cobra.Command { return exit.Topic() }},
		{"environment", func(*invocation.Invocation) *cobra.Command { return configuration.EnvironmentTopic() }},
	}
}

// manName is the command that tells of all others.
const manName = "man"
