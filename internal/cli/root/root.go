// Package root is what the programs of the command have in common: the flags before a command, how one is found among
// others, how a line is run, and how it ends.
package root

import (
	"context"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/quick"
	"palyra/internal/cli/syntax"
)

// Top is a command without one above it. It is made when it is called: to make all of them takes as long as many of them
// take to run.
type Top struct {
	Names string // its own, then its aliases
	Make  func(*invocation.Invocation) *cobra.Command
	All   bool // all others are made with it
}

// Tree makes the commands of a program: the one that words call, and all where they call none by its name, as for help
// and completion.
type Tree func(inv *invocation.Invocation, words ...string) *cobra.Command

// Called makes the command that words call, or all.
func Called(all []Top, inv *invocation.Invocation, words []string) []*cobra.Command {
	name, _ := quick.Words(words)
	at := slices.IndexFunc(all, func(t Top) bool { return slices.Contains(strings.Fields(t.Names), name) })
	if at >= 0 && !all[at].All {
		return []*cobra.Command{all[at].Make(inv)}
	}
	made := make([]*cobra.Command, len(all))
	for i, t := range all {
		made[i] = t.Make(inv)
	}
	return made
}

// New makes the command above all others. What it does without one of them is up to its program.
func New(inv *invocation.Invocation, bare func(*cobra.Command, []string) error, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   quick.CommandName,
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
		RunE:          bare,
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
	root.AddCommand(commands...)
	root.InitDefaultVersionFlag()
	syntax.Strict(root)
	return root
}

// Run runs a program until its command ends: the first signal cancels that, the second one ends the process.
func Run(version string, tree Tree) int {
	startFast()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return Main(ctx, tree, invocation.Process{
		Version: version, Args: os.Args[1:], Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout,
		Stderr: os.Stderr,
	})
}

// startFast lets the collector wait: one look at the heap is a quarter of what a command takes that answers at once. One
// that goes on has it back after a second. Who sets GOGC is obeyed.
func startFast() {
	if os.Getenv("GOGC") != "" {
		return
	}
	usual := debug.SetGCPercent(1000)
	time.AfterFunc(time.Second, func() { debug.SetGCPercent(usual) })
}

// Main runs one command and returns the exit code.
func Main(ctx context.Context, tree Tree, p invocation.Process) int {
	if p.Now == nil {
		p.Now = time.Now
	}
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	inv := &invocation.Invocation{
		Version: p.Version, Env: p.Env, Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr, Now: p.Now, Context: ctx, Interrupt: interrupt,
	}
	root := tree(inv, p.Args...)
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

// Another runs one more command of a tree in the same home, with what it prints written to out.
func Another(tree Tree, inv *invocation.Invocation) func(ctx context.Context, out io.Writer, args ...string) error {
	return func(ctx context.Context, out io.Writer, args ...string) error {
		next := &invocation.Invocation{
			Version: inv.Version, Env: inv.Env, Stdin: inv.Stdin, Stdout: out, Stderr: inv.Stderr, Now: inv.Now, Signals: inv.Signals,
			Context: ctx, Interrupt: inv.Interrupt, AskSecret: inv.AskSecret,
		}
		root := tree(next, args...)
		root.SetArgs(append(Same(inv), args...))
		root.SetIn(inv.Stdin)
		root.SetOut(out)
		root.SetErr(inv.Stderr)
		return root.ExecuteContext(ctx)
	}
}

// Same are the flags by which another command speaks to the same home, without colours where this one has none.
func Same(inv *invocation.Invocation) (flags []string) {
	if inv.Home != "" {
		flags = append(flags, "--home", inv.Home)
	}
	if inv.NoColor {
		flags = append(flags, "--no-color")
	}
	return flags
}
