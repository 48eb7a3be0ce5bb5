// Package cli is the palyra command: what people type, on top of the client.
//
// Data goes to stdout and messages to stderr. With --json stdout has one JSON object (or one per line where a
// command streams), in the words of package palyra. Exit codes are in one table (package exit). Text that comes
// from outside, names and reasons included, reaches a terminal only through package show.
//
// Promises: no command but up starts a daemon; nothing but a typed word or an echoed plan digest
// approves; a passphrase comes only from the person's terminal. The daemon decides what the command
// may do: the command holds no policy and looks into no state.
//
// Its words are those of docs/words.md.
package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/cli/connect"
	"palyra/internal/cli/doctor"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/observe"
	"palyra/internal/cli/root"
	"palyra/internal/cli/setup"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/tui"
	hooktable "palyra/internal/hook"
)

// Process is what the surrounding process gives to the command.
type Process = invocation.Process

// Main runs one command and returns the exit code.
func Main(ctx context.Context, p Process) int { return root.Main(ctx, rootCommand, p) }

// Run is the program palyra-full.
func Run(version string) int { return root.Run(version, rootCommand) }

// rootCommand builds the tree of commands: that of the command that the words call, else all.
func rootCommand(inv *invocation.Invocation, words ...string) *cobra.Command {
	top := root.New(inv, bare(inv), root.Called(tops(), inv, words)...)
	top.SetHelpCommand(help())
	page := top.HelpFunc()
	top.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if words := cmd.Flags().Args(); cmd.HasAvailableSubCommands() && len(words) > 0 { // --help of what is no command
			inv.NoHelp = syntax.Group(cmd, words)
			return
		}
		page(cmd, args)
	})
	top.InitDefaultHelpCmd()
	top.InitDefaultCompletionCmd()
	completionExamples(top)
	syntax.Strict(top)
	guarded(inv, top)
	return top
}

// another runs one more command in the same home, with what it prints written to out.
func another(inv *invocation.Invocation) setup.Runner { return root.Another(rootCommand, inv) }

// inside is another for the terminal UI, which has an invocation of its own for what it shows.
func inside(inv *invocation.Invocation) tui.Runner {
	run := another(inv)
	return func(ctx context.Context, out io.Writer, args ...string) error {
		return run(ctx, out, tui.There(inv, args)...)
	}
}

// bare is palyra without a word: at a terminal the inbox, where a daemon is there to ask, else the commands.
func bare(inv *invocation.Invocation) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && tui.Ready(inv) {
			return tui.Run(cmd.Context(), inv, inside, tui.Options{})
		}
		return syntax.Group(cmd, args)
	}
}

// help shows the page of a command, and fails for an unknown one.
func help() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]...", Short: "Show the help of a command", Args: cobra.ArbitraryArgs,
		Example: "  palyra help approvals decide\n  palyra help exit-codes",
		RunE: func(cmd *cobra.Command, args []string) error {
			page, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return exit.Usagef("there is no help on %q", strings.Join(args, " "))
			}
			return page.Help()
		},
	}
}

// settings are how the doctor of hooks reads and writes the settings of agents.
func settings() doctor.Settings {
	return doctor.Settings{
		Installed: connect.Installed, WriteProbe: connect.WriteProbe, Trusted: connect.Trusted, Trust: connect.Trust,
		OnPath: connect.OnPath, MCP: connect.MCPState,
	}
}

// hooksHere finds the hooks of the agents that are on the person's path, or whose settings name one.
func hooksHere(inv *invocation.Invocation) func() []observe.Hook {
	return func() (all []observe.Hook) {
		for _, name := range hooktable.Names() {
			agent, _ := hooktable.Find(name)
			file, found := connect.Installed(inv, agent, "")
			state := doctor.StateOf(found)
			if state != "none" || connect.OnPath(inv, agent.Program) != "" {
				all = append(all, observe.Hook{
					Agent: name, Title: agent.Title, File: file, State: state,
					Observed: state == "installed" && connect.Observes(found.Command),
				})
			}
		}
		return all
	}
}
