package execute

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
)

// Named are the agents that can be started by name.
type Named interface {
	// Names lists them; Check refuses any other name.
	Names() []string
	Check(name string) error
	// Flags adds the flags that go with a name only, and Given reports whether one is set.
	Flags(cmd *cobra.Command)
	Given() bool
	// Prepare fills the options of the call and returns the command; none: there was only something to print.
	Prepare(ctx context.Context, inv *invocation.Invocation, given *proposal.Options, name string, args []string) (
		argv []string, headless bool, err error)
}

// agentRun is one run of 'palyra agent run'.
type agentRun struct {
	inv   *invocation.Invocation
	o     proposal.Options
	named Named
}

// AgentRunCommand is exec for a program that is an agent itself.
func AgentRunCommand(inv *invocation.Invocation, named Named) *cobra.Command {
	r := &agentRun{inv: inv, named: named, o: proposal.Options{Agent: true, Tier: "c"}}
	cmd := &cobra.Command{
		Use:   "run [flags] AGENT [ARG]... | run [flags] -- CMD [ARG]...",
		Short: "Run an agent inside the full sandbox, with a door to Palyra", Args: r.check,
		Long: "Runs a command that is an agent itself in tier C, like 'palyra exec', and gives it a\n" +
			"socket of its own at which it may call tools: nothing else of Palyra, no key, no\n" +
			"token and no other socket is in its reach. There it is the agent of\n" +
			invocation.TokenVariable + ", or agent:local, and reaches this workspace, the calls\n" +
			"and sessions that it starts there, and nothing else: no other room, no session and no\n" +
			"grant that is not its own. --reach lets it work in another registered workspace as\n" +
			"well; the question says so. Every call it makes walks the gate, and runs in a sandbox\n" +
			"of its own.\n\n" +
			"By name: " + strings.Join(r.named.Names(), ", ") + ". Palyra then finds the program, writes\n" +
			"a profile by which its room sees it, grants the hosts of its model, switches off what\n" +
			"it reports and what cannot work inside, keeps its settings for this workspace, and lends\n" +
			"it its key from the vault. What follows the name is the agent's own; --print says what\n" +
			"would be done.\n\n" +
			"The palyra command is in its PATH and finds the socket by PALYRA_HOME. Name the\n" +
			"hosts of the model of any other agent with --egress; others are asked for when it wants\n" +
			"them. It may run as long as a run may (tool_call.run_timeout_ms), and be fed while it runs.",
		Example: "  palyra agent run claude-code\n" +
			"  palyra agent run claude-code -p 'run the tests and mend what fails'\n" +
			"  palyra agent run --staged codex exec 'run the tests and mend what fails'\n" +
			"  palyra agent run --print --json opencode\n" +
			"  palyra agent run --egress api.example.com:443 -t -- my-agent\n" +
			"  palyra agent run -- palyra tools call palyra.echo --input '{\"text\":\"hello\"}'",
		RunE: func(cmd *cobra.Command, argv []string) error {
			if r.o.Tier != "c" {
				return exit.Usagef("an agent runs in tier c only")
			}
			if cmd.ArgsLenAtDash() != 0 {
				return exit.ForExec(r.byName(cmd.Context(), argv[0], argv[1:]))
			}
			return r.start(cmd.Context(), argv)
		},
		ValidArgsFunction: r.complete,
	}
	r.o.Flags(cmd)
	r.named.Flags(cmd)
	cmd.Flags().SetInterspersed(false) // what follows an agent's name is the agent's
	cmd.Flags().BoolVar(&r.o.Staged, "staged", false, "keep what it and its calls write on a stage, for you to review: see 'palyra keep'")
	cmd.Flags().BoolVar(&r.o.Park, "park", false,
		"where the start waits for a person, end with 75 and leave the question: the same line goes on")
	cmd.Flags().StringArrayVar(&r.o.Within, "reach", nil, "another registered workspace that the agent may work in; '*' for all (repeatable)")
	for _, name := range []string{"tier", "script"} {
		_ = cmd.Flags().MarkHidden(name) // there is no choice
	}
	r.o.Tier = "c" // the flag's default has just been set
	_ = cmd.RegisterFlagCompletionFunc("session", inv.CompleteSessions)
	return cmd
}

// complete offers the names of agents as the first word.
func (r *agentRun) complete(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return syntax.CompleteNothing(cmd, args, begun)
	}
	return r.named.Names(), cobra.ShellCompDirectiveNoFileComp
}

// check takes a name of an agent with its words, or a command after two dashes.
func (r *agentRun) check(cmd *cobra.Command, args []string) error {
	if cmd.ArgsLenAtDash() == 0 || len(args) == 0 || cmd.Flags().Changed("script") {
		if r.named.Given() {
			return exit.Usagef("--print, --model-url and --key-file go with the name of an agent: %s", strings.Join(r.named.Names(), ", "))
		}
		return r.o.Check(cmd, args)
	}
	if err := r.named.Check(args[0]); err != nil {
		return err
	}
	return r.o.Values(args)
}

// byName starts an agent that is known.
func (r *agentRun) byName(ctx context.Context, name string, args []string) error {
	if r.o.Profile != "" {
		return exit.Usagef("--profile goes with a command of your own: %s has one of its name, which you can change", name)
	}
	argv, headless, err := r.named.Prepare(ctx, r.inv, &r.o, name, args)
	if err != nil || argv == nil {
		return err
	}
	if !headless && !r.inv.JSON && !r.o.NoStdin && terminal.Is(r.inv.Stdin) && terminal.Is(r.inv.Stdout) {
		r.o.Terminal = true
	}
	return r.start(ctx, argv)
}

// start starts a command as an agent.
func (r *agentRun) start(ctx context.Context, argv []string) error {
	r.o.NoWait = r.o.NoWait || r.o.Park
	if err := r.o.Conflicts(r.inv.JSON, terminal.Is(r.inv.Stdin)); err != nil {
		return err
	}
	return exit.ForExec(execute(ctx, r.inv, r.o, argv, adopted{}))
}
