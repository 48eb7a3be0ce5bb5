package execute

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// maxScript is the largest script that a daemon takes.
const maxScript = 1 << 20

// runOptions holds the options of run.
type runOptions struct {
	script, workspace, session, key string
	maxCalls                        int64
	wall                            screen.SpanFlag
	noWait, detach                  bool
	modelOptions
}

// scriptForm is the help on scripts.
const scriptForm = "A script is YAML, read strictly, at most 1 MiB:\n\n" +
	"  title: Tidy up\n" +
	"  workspace: /home/me/project      # for its calls; left out: the run's\n" +
	"  turns:\n" +
	"    - say: Looking around.\n" +
	"      calls:\n" +
	"        - tool: palyra.fs.read\n" +
	"          with: {path: README.md}\n" +
	"          expect: finished         # any other outcome fails the run\n" +
	"        - tool: palyra.process.run\n" +
	"          with: {command: make, args: [test]}\n" +
	"          stop_on: refused         # this outcome fails the run, others do not\n\n" +
	"Outcomes are finished, refused, cancelled, timed_out and unknown."

// RunCommand is "run", which starts a run and follows it.
func RunCommand(inv *invocation.Invocation) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use: "run [PROMPT | - | --script FILE]", Short: "Start a run and follow it", Args: syntax.Takes("[PROMPT]"),
		Long: "Starts a run: the turns of a model, or of a script in its place, and the tool calls\n" +
			"they propose, each of which goes through the gate. The daemon owns the run: it goes on\n" +
			"when you leave with --detach, and `palyra runs attach` follows it again. Where policy\n" +
			"asks, you can answer in place on a terminal. Ctrl-C cancels the run. With --json there\n" +
			"is one object per line, the entries of the run's tape.\n\n" +
			"With a PROMPT a model takes the turns: the one of models.default, or --model. A model is\n" +
			"sent the prompt, the descriptions of the tools and the results of its calls, and nothing\n" +
			"else of your workspace. Runs of one session are one conversation: `palyra run \"and now\n" +
			"the tests\"` goes on with it, and --session NAME begins another. Models are configured\n" +
			"under [providers.NAME] and [models], see `palyra config show`.\n\n" + scriptForm,
		Example: "  palyra run \"what does this project do?\"\n" +
			"  palyra run \"and run its tests\" --model ollama/qwen3 --max-turns 10\n" +
			"  git diff | palyra run - --session review\n" +
			"  palyra run --script demo/first.yaml\n" +
			"  palyra run --script - --workspace ~/project --max-calls 10 --wall 5m < steps.yaml\n" +
			"  palyra run --script steps.yaml --detach",
		RunE: func(cmd *cobra.Command, args []string) error {
			return noModel(inv, startRun(cmd.Context(), inv, o, args))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.script, "script", "", "file with the turns to take, or - for stdin")
	f.StringVarP(&o.model, "model", "m", "", "the model that takes the turns, as MODEL or PROVIDER/MODEL (default: models.default)")
	f.StringVar(&o.provider, "provider", "", "the provider of the model, by its name in the configuration")
	f.StringVar(&o.system, "system", "", "file with instructions for the model, beside Palyra's own")
	f.Int64Var(&o.maxTurns, "max-turns", 0, "how many turns the model may take (it only lowers the limit)")
	f.StringVarP(&o.workspace, "workspace", "w", "", "directory to work in (default: the current one; with --remote it must be given)")
	f.StringVar(&o.session, "session", "", "a session's id, or a name of your own (default: the one of this workspace)")
	f.StringVar(&o.key, "key", "", "idempotency key: a repeat follows the first run")
	f.Int64Var(&o.maxCalls, "max-calls", 0, "how many calls it may make (this and the next only lower the limits)")
	f.Var(&o.wall, "wall", "how long it may last")
	f.BoolVar(&o.noWait, "no-wait", false, "where policy asks, be refused at once; the question stays open where a later answer can count")
	f.BoolVar(&o.detach, "detach", false, "print the run's id and leave it to the daemon")
	_ = cmd.RegisterFlagCompletionFunc("session", inv.CompleteSessions)
	_ = cmd.RegisterFlagCompletionFunc("provider", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return providerNames(inv), cobra.ShellCompDirectiveNoFileComp
	})
	_ = cmd.MarkFlagFilename("script", "yaml", "yml")
	_ = cmd.MarkFlagFilename("system")
	_ = cmd.MarkFlagDirname("workspace")
	return cmd
}

// runRequest makes the run to start.
func runRequest(inv *invocation.Invocation, o runOptions, prompt []string) (client.RunRequest, error) {
	if o.maxCalls < 0 {
		return client.RunRequest{}, exit.Usagef("--max-calls must not be negative")
	}
	provider, input, err := runInput(inv, o, prompt)
	if err != nil {
		return client.RunRequest{}, err
	}
	workspace, err := inv.WorkspaceOf(o.workspace)
	return client.RunRequest{
		Provider: provider, Input: input, Workspace: workspace, Session: o.session, Key: o.key, NoWait: o.noWait,
		Budget: palyra.Budget{Calls: o.maxCalls, WallMS: time.Duration(o.wall).Milliseconds()}, Surface: palyra.SurfaceCLI,
	}, err
}

// startRun starts a run and follows it, unless it is to be left.
func startRun(ctx context.Context, inv *invocation.Invocation, o runOptions, prompt []string) error {
	r, err := runRequest(inv, o, prompt)
	if err != nil {
		return err
	}
	c, err := inv.Agent()
	if err != nil {
		return err
	}
	defer c.Close()
	run, err := c.StartRun(ctx, r)
	if err != nil {
		return err
	}
	if o.detach {
		return inv.Emit(run, func(w io.Writer) {
			fmt.Fprintln(w, show.Line(string(run.ID)))
			inv.Say("palyra: the run goes on; follow it with `palyra runs attach %s`", show.Arg(string(run.ID)))
		})
	}
	t := newTape(inv, c, run)
	t.asker.noWait, t.asker.what = o.noWait, "cancels the run"
	return t.follow(ctx, 0, true)
}

// follow prints the run's tape after an entry, and ends as the run did. When ctx ends the run is
// cancelled or left to go on.
func (t *tapePrinter) follow(ctx context.Context, after int64, cancels bool) error {
	t.seen = after
	err := client.FollowRun(ctx, t.runs, t.run.ID, client.FollowRunOptions{
		After: after, Cancels: cancels, Entry: func(e palyra.TapeEntry) error { return t.entry(ctx, e) }, Lost: t.noteReconnect,
		Leaving: func() { t.leaving(cancels) },
	})
	t.asker.End()
	t.release()
	switch {
	case err != nil:
		return err
	case t.end == nil:
		return palyra.Errorf(palyra.Unavailable, client.ReasonConnectionLost, "the tape of run %s ended before the run", t.run.ID).
			WithRemedy("palyra runs attach %s --after %d", t.run.ID, t.seen)
	}
	return exit.Error{Code: exitOfRun(t.end.State)}
}

// exitOfRun is the exit code of a run that ended.
func exitOfRun(s palyra.RunState) int {
	switch s {
	case palyra.RunDone:
		return exit.OK
	case palyra.RunCancelled:
		return exit.Cancelled
	}
	return exit.Failure
}

// leaving removes the question from the screen and says what becomes of the run.
func (t *tapePrinter) leaving(cancels bool) {
	t.asker.stopAsking()
	if cancels && !t.inv.JSON {
		t.inv.Say("palyra: cancelling run %s", show.Line(string(t.run.ID)))
	}
}

// noteReconnect reports that the connection was lost and is being made again.
func (t *tapePrinter) noteReconnect(after int64, err error) {
	if t.missed == after+1 {
		return // reported already
	}
	t.missed = after + 1
	if !t.inv.JSON {
		t.inv.Say("palyra: %s; going on after entry %d as soon as a daemon answers", show.Line(palyra.AsError(err).Text), after)
	}
}
