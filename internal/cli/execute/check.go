package execute

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// checker makes a check where a call is expected: it is followed in the same way.
type checker struct{ *client.Client }

// Call implements caller.
func (c checker) Call(ctx context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
	return c.Check(ctx, r, watch)
}

// checkOptions holds the options of check.
type checkOptions struct {
	tool, input, script, cwd string
	call                     client.CallRequest
}

// CheckCommand is "check": a question to policy that runs nothing.
func CheckCommand(inv *invocation.Invocation) *cobra.Command {
	o := checkOptions{call: client.CallRequest{Surface: palyra.SurfaceHook}}
	cmd := &cobra.Command{
		Use:   "check [flags] [--tool NAME --input JSON | --script FILE | -- CMD [ARG]...]",
		Short: "Ask whether a call may be made, and run nothing",
		Args:  o.check,
		Long: "For agents that keep their own tools. Policy judges the call, you are asked where\n" +
			"policy asks, and the answer is kept in the journal. Palyra runs nothing: whoever asks\n" +
			"runs it, outside any sandbox, and what it then does is not attested. So policy sees it\n" +
			"in the tier \"unsandboxed\", where much is asked about that runs without a question in\n" +
			"the sandbox. 'palyra exec' is the better way wherever it can be gone.\n\n" +
			"The exit code is 0: allowed. 126: refused, denied or not answered in time. 125: Palyra\n" +
			"itself failed. Only 0 is a yes. With --json there is one object, the outcome.",
		Example: "  palyra check --json -- make test\n" +
			"  palyra check --tool palyra.fs.write --input '{\"path\":\"a.txt\",\"content\":\"x\"}'\n" +
			"  palyra check --json --no-wait --script deploy.sh",
		RunE:              func(cmd *cobra.Command, argv []string) error { return exit.ForExec(ask(cmd.Context(), inv, &o, argv)) },
		ValidArgsFunction: syntax.CompleteNothing,
	}
	f := cmd.Flags()
	f.StringVar(&o.tool, "tool", "", "tool that the call is one of (default: "+string(palyra.ToolProcessRun)+")")
	f.StringVarP(&o.input, "input", "i", "{}", "arguments of --tool: JSON, @FILE, or - for stdin")
	f.StringVar(&o.script, "script", "", "file with a shell script instead of CMD; - for stdin")
	f.StringVarP(&o.call.Workspace, "workspace", "w", "", "directory to work in (default: the current one; with --remote it must be given)")
	f.StringVar(&o.cwd, "cwd", "", "directory that CMD starts in, inside the workspace (default: the workspace)")
	f.StringVar(&o.call.Session, "session", "", "a session's id, or a name of your own (default: the one of this workspace)")
	f.StringVar(&o.call.Key, "key", "", "idempotency key: a repeat returns the first outcome")
	f.BoolVar(&o.call.NoWait, "no-wait", false,
		"where policy asks, be refused at once; the question stays open where a later answer can count")
	_ = cmd.RegisterFlagCompletionFunc("session", inv.CompleteSessions)
	_ = cmd.RegisterFlagCompletionFunc("tool", inv.CompleteTools)
	_ = cmd.MarkFlagFilename("script")
	_ = cmd.MarkFlagDirname("workspace")
	return cmd
}

// check refuses a command line that does not name exactly one thing to check.
func (o *checkOptions) check(cmd *cobra.Command, args []string) error {
	given := 0
	for _, is := range []bool{cmd.Flags().Changed("tool"), cmd.Flags().Changed("script"), len(args) > 0} {
		if is {
			given++
		}
	}
	switch {
	case given == 0:
		return exit.Usagef("there is nothing to check: give --tool, --script or -- CMD")
	case given > 1:
		return exit.Usagef("--tool, --script and a command exclude each other")
	case len(args) > 0 && cmd.ArgsLenAtDash() != 0:
		return exit.Usagef("put -- before the command: palyra check -- %s", args[0])
	case len(args) > 0 && args[0] == "":
		return exit.Usagef("CMD is empty")
	case o.tool == "" && cmd.Flags().Changed("input"):
		return exit.Usagef("--input belongs to --tool")
	case o.tool != "" && o.cwd != "":
		return exit.Usagef("--cwd belongs to a command or script")
	}
	return nil
}

// request makes the call to ask about.
func (o *checkOptions) request(inv *invocation.Invocation, argv []string) (r client.CallRequest, err error) {
	r = o.call
	switch {
	case o.tool != "":
		r.Tool = palyra.ToolName(o.tool)
		r.Arguments, err = inv.ReadInput(o.input, proposal.MaxInput)
		return r, err
	case o.script != "":
		raw, err := inv.ReadInput(map[bool]string{true: "-", false: "@" + o.script}[o.script == "-"], proposal.MaxScript)
		if err != nil {
			return r, err
		}
		text, err := proposal.ScriptText(raw)
		if err != nil {
			return r, err
		}
		return processCheck(r, proposal.Arguments{Script: text, Cwd: o.cwd})
	}
	return processCheck(r, proposal.Arguments{Command: argv[0], Args: argv[1:], Cwd: o.cwd})
}

func processCheck(r client.CallRequest, args proposal.Arguments) (client.CallRequest, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return r, fmt.Errorf("cli: check: %w", err)
	}
	r.Tool, r.Arguments = palyra.ToolProcessRun, raw
	return r, nil
}

// ask proposes the check and prints its result.
func ask(ctx context.Context, inv *invocation.Invocation, o *checkOptions, argv []string) error {
	r, err := o.request(inv, argv)
	if err != nil {
		return err
	}
	if r.Workspace, err = inv.WorkspaceOf(r.Workspace); err != nil {
		return err
	}
	c, err := inv.Agent()
	if err != nil {
		return err
	}
	defer c.Close()
	out, err := (&Asker{inv: inv, noWait: r.NoWait}).follow(ctx, checker{c}, r, nil)
	if err != nil {
		return err
	}
	if inv.JSON || out.Outcome != palyra.OutcomeAllowed {
		err = printOutcome(inv, out)
	} else {
		inv.Say("palyra: call %s allowed: %s", show.Line(string(out.CallID)), show.Line(out.Reason))
	}
	if err != nil {
		return err
	}
	return exit.Error{Code: exitOfCheck(out)}
}

// exitOfCheck is the exit code of a check: only allowed is a success.
func exitOfCheck(o palyra.Outcome) int {
	switch o.Outcome {
	case palyra.OutcomeAllowed:
		return exit.OK
	case palyra.OutcomeRefused, palyra.OutcomeCancelled:
		return exit.OfExec(o)
	}
	return exit.Palyra
}
