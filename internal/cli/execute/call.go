package execute

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// CallCommand is "tools call": a call by hand.
func CallCommand(inv *invocation.Invocation) *cobra.Command {
	var r client.CallRequest
	var input string
	var limit screen.SpanFlag
	cmd := &cobra.Command{
		Use: "call NAME", Short: "Call a tool, as an agent would", Args: syntax.Takes("NAME"), ValidArgsFunction: inv.CompleteTools,
		Long: "Proposes the call on the agent's door and waits for its outcome. Where policy asks,\n" +
			"the call waits for an answer; on a terminal you can give it in place with your\n" +
			"operator key. Ctrl-C cancels the call.",
		Example: "  palyra tools call palyra.echo --input '{\"text\":\"hello\"}'\n" +
			"  palyra tools call palyra.fs.write --input @args.json --workspace ~/project --json\n" +
			"  jq -n '{path:\"a.txt\"}' | palyra tools call palyra.fs.read --input -",
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := inv.ReadInput(input, proposal.MaxInput)
			if err != nil {
				return err
			}
			r.Tool, r.Arguments, r.Timeout, r.Surface = palyra.ToolName(args[0]), raw, time.Duration(limit), palyra.SurfaceCLI
			if r.Workspace, err = inv.WorkspaceOf(r.Workspace); err != nil {
				return err
			}
			return call(cmd.Context(), inv, r)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&input, "input", "i", "{}", "the arguments: JSON, @FILE, or - for stdin")
	f.StringVarP(&r.Workspace, "workspace", "w", "", "directory to work in (default: the current one; with --remote it must be given)")
	f.StringVar(&r.Session, "session", "", "a session's id, or a name of your own (default: the one of this workspace)")
	f.StringVar(&r.Key, "key", "", "idempotency key: a repeat returns the first outcome")
	f.BoolVar(&r.NoWait, "no-wait", false, "where policy asks, be refused at once; the question stays open where a later answer can count")
	f.Var(&limit, "timeout", "how long the tool may run, at most tool_call.execution_timeout_ms")
	_ = cmd.RegisterFlagCompletionFunc("session", inv.CompleteSessions)
	return cmd
}

// call proposes a call and prints its result.
func call(ctx context.Context, inv *invocation.Invocation, r client.CallRequest) error {
	c, err := inv.ByHand()
	if err != nil {
		return err
	}
	defer c.Close()
	if r.Tool == palyra.ToolProcessStart {
		return startInBackground(ctx, inv, c, r)
	}
	outcome, err := (&Asker{inv: inv, noWait: r.NoWait}).follow(ctx, c, r, nil)
	if err != nil {
		return err
	}
	if err := printOutcome(inv, outcome); err != nil {
		return err
	}
	ruled(ctx, inv, c, outcome)
	return exit.Error{Code: exit.OfOutcome(outcome)}
}

// printOutcome prints the outcome of a call. As JSON it is the outcome's own bytes, which the attestation binds.
func printOutcome(inv *invocation.Invocation, o palyra.Outcome) error {
	if inv.JSON {
		raw, err := o.Marshal()
		if err != nil {
			return fmt.Errorf("cli: outcome: %w", err)
		}
		_, err = inv.Stdout.Write(append(raw, '\n'))
		return err
	}
	inv.PrintStream(inv.Stdout, o.Stdout, o.StdoutB64)
	inv.PrintStream(inv.Stderr, o.Stderr, o.StderrB64)
	if len(o.Output) > 0 && string(o.Output) != "null" {
		inv.PrintStream(inv.Stdout, screen.Indented(o.Output)+"\n", "")
	}
	if o.Truncated {
		inv.Say("palyra: the output was longer than the limit and is not whole")
	}
	printEnding(inv, o)
	return nil
}

// printEnding prints on stderr how the call ended.
func printEnding(inv *invocation.Invocation, o palyra.Outcome) {
	if o.Outcome == palyra.OutcomeFinished && exit.OfOutcome(o) == exit.OK {
		inv.Say("palyra: finished, call %s, journal position %d", show.Line(string(o.CallID)), o.JournalPosition)
		return
	}
	if o.ReasonCode == palyra.ReasonApprovalNotAwaited && o.ApprovalID != "" {
		id := show.Arg(string(o.ApprovalID))
		fmt.Fprintf(inv.Stderr, "palyra: asked, not waiting: approval %s is open, and call %s did not run (%s)\n", id,
			show.Line(string(o.CallID)), show.Line(string(o.ReasonCode)))
		if inv.Person() {
			fmt.Fprintf(inv.Stderr, "  remedy: answer with `%s approvals decide %s allow`, then call again; without --no-wait the call waits\n",
				inv.Own(), id)
		} else {
			fmt.Fprintf(inv.Stderr, "  remedy: have a person answer it in another terminal (%s approvals watch), then call again; without "+
				"--no-wait the call waits\n", inv.Own())
		}
		return
	}
	text := string(o.Outcome)
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	if o.ReasonCode != "" {
		text += " (" + string(o.ReasonCode) + ")"
	}
	fmt.Fprintf(inv.Stderr, "palyra: call %s %s\n", show.Line(string(o.CallID)), show.Line(text))
	if o.Remedy != "" {
		fmt.Fprintf(inv.Stderr, "  remedy: %s\n", show.Line(o.Remedy))
	}
}
