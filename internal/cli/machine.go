package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/show"
)

// ownMachine are the commands about this machine, which cannot be meant for another. Those that
// read only their arguments are not among them.
var ownMachine = map[string]string{
	"palyra up":               "it starts the daemon of this machine; start one elsewhere there",
	"palyra down":             "it stops the daemon of this machine; stop one elsewhere there, where it can be started again",
	"palyra hook install":     "it is about the settings of agents on this machine",
	"palyra hook uninstall":   "it is about the settings of agents on this machine",
	"palyra hook claude-code": "it is asked about files and commands of this machine",
	"palyra hook codex":       "it is asked about files and commands of this machine",
	"palyra hook copilot":     "it is asked about files and commands of this machine",
	"palyra hook cursor":      "it is asked about files and commands of this machine",
	"palyra hook gemini":      "it is asked about files and commands of this machine",
	"palyra hook opencode":    "it is asked about files and commands of this machine",
	"palyra hook doctor":      "it runs the agents of this machine",

	"palyra config toolchains":  "it is about the toolchains of this machine",
	"palyra hook doctor-server": "it is started by agents of this machine",

	"palyra setup":            "it is about the agents of this machine",
	"palyra config check":     "it is about the configuration of this machine",
	"palyra config show":      "it is about the configuration of this machine",
	"palyra config path":      "it is about the directories of this machine",
	"palyra config groups":    "it is about the configuration of this machine",
	"palyra vault adopt":      "it moves keys that the configuration of this machine names",
	"palyra operator show":    "it is about your key on this machine; elsewhere you sign with the key of the device ('palyra device remotes')",
	"palyra operator protect": "it is about your key on this machine",
	"palyra sandbox profiles": "it is about the profiles of this machine",
	"palyra device join":      "it pairs this machine; the daemon is named by its address",
}

// refuseRemote refuses a command about this machine when another one is named.
func refuseRemote(inv *invocation.Invocation, cmd *cobra.Command) error {
	why, ok := ownMachine[cmd.CommandPath()]
	if name := inv.RemoteName(); ok && name != "" {
		how := "leave --remote out"
		if !inv.Remote.Given {
			how = "unset " + invocation.RemoteVariable + " or give --remote ''"
		}
		return exit.Usagef("%s cannot be meant for %s: %s; %s", strings.TrimPrefix(cmd.CommandPath(), "palyra "), show.Arg(name), why, how)
	}
	return nil
}

// guarded makes every command below cmd refuse --remote first, where it is about this machine.
func guarded(inv *invocation.Invocation, cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		guarded(inv, sub)
	}
	check := cmd.Args
	if _, ok := ownMachine[cmd.CommandPath()]; !ok {
		return
	}
	cmd.Args = func(c *cobra.Command, args []string) error {
		if err := refuseRemote(inv, c); err != nil {
			return err
		}
		return check(c, args)
	}
}

// noTerminal adds how to do the same without a terminal.
func noTerminal(err error, text, remedy string) error {
	if e := (*palyra.Error)(nil); errors.As(err, &e) && e.Reason == palyra.ReasonUnsupported {
		return exit.Failedf(palyra.ReasonUnsupported, "%s", text).WithRemedy("%s", remedy).WithCause(err)
	}
	return err
}

// completeRemote is completeRemotes for a command's one argument.
func completeRemote(inv *invocation.Invocation) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return inv.CompleteRemotes(cmd, args, begun)
	}
}
