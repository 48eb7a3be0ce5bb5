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
	"time"

	"github.com/spf13/cobra"

	"palyra/internal/cli/connect"
	"palyra/internal/cli/doctor"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/observe"
	"palyra/internal/cli/quick"
	"palyra/internal/cli/setup"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
	"palyra/internal/cli/tui"
	hooktable "palyra/internal/hook"
)

// Process is what the surrounding process gives to the command.
type Process = invocation.Process

// Main runs one command and returns the exit code.
func Main(ctx context.Context, p Process) int {
	if p.Now == nil {
		p.Now = time.Now
	}
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	inv := &invocation.Invocation{
		Version: p.Version, Env: p.Env, Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr, Now: p.Now, Context: ctx, Interrupt: interrupt,
	}
	root := rootCommand(inv, p.Args...)
	root.SetArgs(p.Args)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	inv.Command = cmd.CommandPath()
	if err == nil {
		err = inv.NoHelp
	}
	if ctx.Err() != nil && err != nil {
		err = exit.Interrupted(err)
	}
	return inv.Finish(err)
}

// rootCommand builds the tree of commands: that of the command that the words call, else all.
func rootCommand(inv *invocation.Invocation, words ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "palyra",
		Short: "The gate between agents and your machine",
		Long: "Palyra stands between LLM agents and your machine: every tool call is judged by\n" +
			"policy, shown to you where policy asks, run in its tier, and kept in a journal\n" +
			"that can be checked by others.",
		Example: "  palyra up --detach\n" +
			"  palyra exec -- make test\n" +
			"  palyra tools call palyra.echo --input '{\"text\":\"hello\"}'\n" +
			"  palyra approvals list --pending",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          bare(inv),
		Version:       quick.ThisBuild(inv.Version).String(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SuggestionsMinimumDistance = 2
	flags := root.PersistentFlags()
	flags.StringVar(&inv.Home, "home", "", "directory of state, keys and sockets (default $PALYRA_HOME, else the XDG directories)")
	flags.Var(&inv.Remote, "remote",
		"talk to the daemon on another machine that this one is paired with (default $PALYRA_REMOTE; see 'palyra device')")
	flags.BoolVar(&inv.JSON, "json", false, "print one JSON object")
	flags.BoolVarP(&inv.Quiet, "quiet", "q", false, "print results and errors only")
	flags.BoolVar(&inv.NoColor, "no-color", false, "print without colours")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if strings.Contains(cmd.Use, "-- CMD") {
			return exit.Usagef("%v; flags of the command itself come after two dashes: %s -- CMD [ARG]...", err, cmd.CommandPath())
		}
		return exit.Usagef("%v", err)
	})
	_ = root.RegisterFlagCompletionFunc("remote", inv.CompleteRemotes)
	root.AddCommand(called(tops(), inv, words)...)
	root.SetHelpCommand(help())
	page := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if words := cmd.Flags().Args(); cmd.HasAvailableSubCommands() && len(words) > 0 { // --help of what is no command
			inv.NoHelp = syntax.Group(cmd, words)
			return
		}
		page(cmd, args)
	})
	root.InitDefaultHelpCmd()
	root.InitDefaultVersionFlag()
	root.InitDefaultCompletionCmd()
	completionExamples(root)
	syntax.Strict(root)
	guarded(inv, root)
	return root
}

// another runs one more command in the same home, with what it prints written to out.
func another(inv *invocation.Invocation) setup.Runner {
	return func(ctx context.Context, out io.Writer, args ...string) error {
		next := &invocation.Invocation{
			Version: inv.Version, Env: inv.Env, Stdin: inv.Stdin, Stdout: out, Stderr: inv.Stderr, Now: inv.Now, Signals: inv.Signals,
			Context: ctx, Interrupt: inv.Interrupt, AskSecret: inv.AskSecret,
		}
		root := rootCommand(next, args...)
		if inv.Home != "" {
			args = append([]string{"--home", inv.Home}, args...)
		}
		if inv.NoColor {
			args = append(args, "--no-color")
		}
		root.SetArgs(args)
		root.SetIn(inv.Stdin)
		root.SetOut(out)
		root.SetErr(inv.Stderr)
		return root.ExecuteContext(ctx)
	}
}

// inside is another for the terminal UI, which has an invocation of its own for what it shows.
func inside(inv *invocation.Invocation) tui.Runner {
	run := another(inv)
	return func(ctx context.Context, out io.Writer, args ...string) error {
		if name := inv.RemoteName(); name != "" {
			args = append([]string{"--remote", name}, args...)
		}
		return run(ctx, out, args...)
	}
}

// bare is palyra without a word: at a terminal the inbox, where a daemon is there to ask, else the commands.
func bare(inv *invocation.Invocation) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && inv.Interactive() && terminal.Is(inv.Stdout) && running(inv) {
			return tui.Run(cmd.Context(), inv, inside, tui.Options{})
		}
		return syntax.Group(cmd, args)
	}
}

// running reports whether a daemon is there for the person.
func running(inv *invocation.Invocation) bool {
	c, err := inv.OperatorAs(nil)
	if err != nil {
		return false
	}
	defer c.Close()
	ctx, done := context.WithTimeout(inv.Context, time.Second)
	defer done()
	return c.Health(ctx) == nil
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
