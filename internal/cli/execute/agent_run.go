package execute

import (
	"github.com/spf13/cobra"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
)

// AgentRunCommand is exec for a program that is an agent itself.
func AgentRunCommand(inv *invocation.Invocation) *cobra.Command {
	o := proposal.Options{Agent: true, Tier: "c"}
	cmd := &cobra.Command{
		Use: "run [flags] -- CMD [ARG]...", Short: "Run an agent inside the full sandbox, with a door to Palyra", Args: o.Check,
		Long: "Runs a command that is an agent itself in tier C, like 'palyra exec', and gives it a\n" +
			"socket of its own at which it may call tools: nothing else of Palyra, no key, no\n" +
			"token and no other socket is in its reach. There it is the agent of\n" +
			invocation.TokenVariable + ", or agent:local, and reaches this workspace, the calls\n" +
			"and sessions that it starts there, and nothing else: no other room, no session and no\n" +
			"grant that is not its own. --reach lets it work in another registered workspace as\n" +
			"well; the question says so. Every call it makes walks the gate, and runs in a sandbox\n" +
			"of its own.\n\n" +
			"The palyra command is in its PATH and finds the socket by PALYRA_HOME. Name the\n" +
			"hosts of its model with --egress; others are asked for when it wants them. It may\n" +
			"run as long as a run may (tool_call.run_timeout_ms), and be fed while it runs.",
		Example: "  palyra agent run --egress api.example.com:443 -t -- my-agent\n" +
			"  palyra agent run -- palyra tools call palyra.echo --input '{\"text\":\"hello\"}'",
		RunE: func(cmd *cobra.Command, argv []string) error {
			if o.Tier != "c" {
				return exit.Usagef("an agent runs in tier c only")
			}
			if err := o.Conflicts(inv.JSON, terminal.Is(inv.Stdin)); err != nil {
				return err
			}
			return exit.ForExec(execute(cmd.Context(), inv, o, argv, adopted{}))
		},
		ValidArgsFunction: syntax.CompleteNothing,
	}
	o.Flags(cmd)
	cmd.Flags().BoolVar(&o.Staged, "staged", false, "keep what it and its calls write on a stage, for you to review: see 'palyra keep'")
	cmd.Flags().StringArrayVar(&o.Within, "reach", nil, "another registered workspace that the agent may work in; '*' for all (repeatable)")
	for _, name := range []string{"tier", "script"} {
		_ = cmd.Flags().MarkHidden(name) // there is no choice
	}
	o.Tier = "c" // the flag's default has just been set
	_ = cmd.RegisterFlagCompletionFunc("session", inv.CompleteSessions)
	return cmd
}
