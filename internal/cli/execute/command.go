package execute

import (
	"context"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
)

// ExecCommand is "exec": a command through the gate.
func ExecCommand(inv *invocation.Invocation) *cobra.Command {
	var o proposal.Options
	var from adopted
	cmd := &cobra.Command{
		Use: "exec [flags] -- CMD [ARG]...", Short: "Run a command through the gate", Args: o.Check,
		Long: "Proposes the command as a call of " + string(palyra.ToolProcessRun) + " on the agent's door. Policy judges\n" +
			"it, you are asked where policy asks, and it runs in its sandbox. Its output comes as\n" +
			"it is printed; on a terminal, control sequences in it are shown rather than obeyed,\n" +
			"unless -t gives the command a terminal of its own.\n\n" +
			"Standard input is passed on when it is a file or a pipe: up to 1 MiB of it is read\n" +
			"first and bound by the approval, more is fed while the command runs. Signals are\n" +
			"passed on; while an answer is awaited Ctrl-C cancels the call, and so does a second\n" +
			"Ctrl-C within two seconds. Nothing of your environment is passed on but --env.\n" +
			"Shells and other programs that take instructions from their input cannot be fed\n" +
			"while they run. --script runs a script instead of a command, with /bin/sh or with what\n" +
			"its #! line names; whoever approves it sees it.\n\n" +
			"In tier C the command sees the system's programs, the workspace and what its profile\n" +
			"mounts, and nothing else of your home: see 'palyra setup' and 'palyra sandbox\n" +
			"profiles'. It reaches the hosts of its profile and of --egress or, without that, those\n" +
			"whose URLs one plain command of curl, wget or git goes to. Any other host is asked\n" +
			"about when it is reached for, where the guard may ask, and refused elsewhere.\n" +
			"What it writes to the workspace goes to a layer of its own, is judged when it has\n" +
			"ended, and is seen by others from then on ('palyra changes', 'palyra undo'); with\n" +
			"--live, with a terminal and with input that comes while it runs it is seen at once,\n" +
			"and hooks, CI and editor settings stay as they are.\n" +
			"In tier B it has no network, and a script of the workspace that is run by its own\n" +
			"name does not find files beside itself: call it by its interpreter.\n\n" +
			"With --background it is a call of " + string(palyra.ToolProcessStart) + ": its id is printed when it\n" +
			"runs, and it goes on until it is stopped ('palyra processes'), its session ends, or 24\n" +
			"hours are over. --publish 8080 leads 127.0.0.1:8080 to it, and localhost:8080 in other\n" +
			"calls of its session.\n\n" +
			"The exit code is the command's own, or 128+n where signal n ended it. 126: refused,\n" +
			"denied or not answered in time, or nothing that it changed was kept. 6: the credential\n" +
			"may not call. 124: it took too long. 130: cancelled. 125: Palyra\n" +
			"itself failed, or a file or pipe did not get all of the output. With --json there is\n" +
			"one object, the outcome, and nothing else; it keeps tool_call.output_bytes of output.",
		Example: "  palyra exec -- make test\n" +
			"  palyra exec --timeout 30s --memory 512M --env CI=1 -- make -j2 check\n" +
			"  palyra exec --workspace ~/project --cwd src -- ls -la\n" +
			"  git diff | palyra exec -- wc -l\n" +
			"  palyra exec --profile node --egress example.org:443 -- npm install\n" +
			"  palyra exec --script build.sh\n" +
			"  palyra exec -t -- less README.md\n" +
			"  palyra exec --background --publish 5173 -- npm run dev\n" +
			"  palyra exec --json --no-wait --no-stdin -- git status | jq .outcome",
		RunE: func(cmd *cobra.Command, argv []string) error {
			if err := o.Conflicts(inv.JSON, terminal.Is(inv.Stdin)); err != nil {
				return err
			}
			if o.Background {
				return exit.ForExec(execInBackground(cmd.Context(), inv, o, argv))
			}
			return exit.ForExec(execute(cmd.Context(), inv, o, argv, from))
		},
		ValidArgsFunction: syntax.CompleteNothing,
	}
	o.Flags(cmd)
	o.BackgroundFlags(cmd)
	from.flags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("session", inv.CompleteSessions)
	return cmd
}

// execute runs a command through the gate. Signals do not end it: they are the command's, so it
// uses a context that they do not end.
func execute(ctx context.Context, inv *invocation.Invocation, o proposal.Options, argv []string, from adopted) error {
	patient, interrupt := context.WithCancel(context.WithoutCancel(ctx))
	defer interrupt()
	stop := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); cause == context.Canceled || cause == context.DeadlineExceeded {
			interrupt() // our caller gives up; a signal has a cause of its own
		}
	})
	defer stop()
	inv.Context, inv.Interrupt = patient, interrupt
	door := inv.ByHand
	if o.AsAgent {
		door, inv.ForAgent = inv.Agent, true
	}
	if from.connection != "" {
		answer, err := from.open()
		if err != nil {
			return err
		}
		door = func() (*client.Client, error) { return inv.Continuing(answer) }
	}
	c, err := door()
	if err != nil {
		return err
	}
	defer c.Close()
	x := &execution{inv: inv, client: c, asker: &Asker{inv: inv, noWait: o.NoWait}, staged: o.Staged, parks: o.Park}
	x.adopted, x.state.early = from.connection != "", from.signal
	defer x.listen()()
	if x.adopted {
		if ctx.Err() != nil { // a signal came before exec listened
			x.state.isEarly("SIGINT")
		}
		return x.run(patient, client.CallRequest{})
	}
	if err := x.place(patient, &o); err != nil {
		return err
	}
	for i, w := range o.Within {
		if w == palyra.AnyWorkspace {
			continue
		}
		if o.Within[i], err = inv.Directory(w); err != nil {
			return err
		}
	}
	script, err := x.readScript(patient, c, &o)
	if err != nil {
		return err
	}
	if err := x.prepare(patient, c, o); err != nil {
		return err
	}
	r, err := o.Request(argv, script, x.input, x.size)
	if err != nil {
		return err
	}
	return x.run(patient, r)
}
