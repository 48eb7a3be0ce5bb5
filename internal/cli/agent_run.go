package cli

import "github.com/spf13/cobra"

// agentRun is exec for a program that is an agent itself.
func (a *app) agentRun() *cobra.Command {
	o := execOptions{agent: true, tier: "c"}
	cmd := &cobra.Command{
		Use: "run [flags] -- CMD [ARG]...", Short: "Run an agent inside the full sandbox, with a door to Palyra", Args: o.check,
		Long: "Runs a command that is an agent itself in tier C, like 'palyra exec', and gives it a\n" +
			"socket of its own at which it may call tools: nothing else of Palyra, no key, no\n" +
			"token and no other socket is in its reach. There it is the agent that this command\n" +
			"is: the one of " + tokenVariable + ", or agent:local. Every call it makes walks\n" +
			"the gate, and runs in a sandbox of its own.\n\n" +
			"The palyra command is in its PATH and finds the socket by PALYRA_HOME. Name the\n" +
			"hosts of its model with --egress; others are asked for when it wants them. It may\n" +
			"run as long as a run may (tool_call.run_timeout_ms), and be fed while it runs.",
		Example: "  palyra agent run --egress api.example.com:443 -t -- my-agent\n" +
			"  palyra agent run -- palyra tools call palyra.echo --input '{\"text\":\"hello\"}'",
		RunE: func(cmd *cobra.Command, argv []string) error {
			if o.tier != "c" {
				return usage("an agent runs in tier c only")
			}
			if err := o.conflicts(a); err != nil {
				return err
			}
			return execError(a.execute(cmd.Context(), o, argv))
		},
		ValidArgsFunction: completeNothing,
	}
	o.flags(cmd)
	for _, name := range []string{"tier", "script"} {
		_ = cmd.Flags().MarkHidden(name) // there is no choice
	}
	o.tier = "c" // the flag's default has just been set
	_ = cmd.RegisterFlagCompletionFunc("session", a.completeSessions)
	return cmd
}
