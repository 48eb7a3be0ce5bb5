package execute

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/question"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// RunsCommand is "runs": the runs on record, and how to attach to one.
func RunsCommand(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("runs", "See, follow and cancel runs",
		runsListCommand(inv), runsShowCommand(inv), runsAttachCommand(inv), runsCancelCommand(inv))
}

func runsListCommand(inv *invocation.Invocation) *cobra.Command {
	var f client.RunFilter
	var of invocation.Selection
	cmd := &cobra.Command{
		Use: "list", Short: "List runs, newest first", Args: syntax.Takes(),
		Example: "  palyra runs list --state in_progress\n  palyra runs list --json | jq '.runs[].run_id'",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			f.Principal, f.Session, f.State = palyra.Principal(of.Principal), palyra.SessionID(of.Session), palyra.RunState(of.State)
			page, err := c.Runs(ctx, f)
			if err != nil {
				return err
			}
			return printRuns(inv, page)
		}),
	}
	invocation.Select(inv, cmd, &of, "only those in this state", palyra.RunStates())
	syntax.Paging(cmd, &f.Cursor, &f.Limit)
	return cmd
}

// printRuns prints a page of runs.
func printRuns(inv *invocation.Invocation, page client.RunPage) error {
	page.Runs = screen.Some(page.Runs)
	return invocation.Page[palyra.Run]{
		JSON: page, Things: page.Runs, Next: page.Next,
		Head: []string{"RUN", "STATE", "PROVIDER", "PRINCIPAL", "CALLS", "STARTED", "ENDED", "TITLE"},
		Row: func(r palyra.Run) []string {
			return []string{
				string(r.ID), string(r.State), r.Provider, string(r.Principal), strconv.FormatInt(r.Calls, 10),
				screen.Stamp(r.CreatedAt), screen.Stamp(r.EndedAt), r.Title,
			}
		},
	}.Show(inv)
}

func runsShowCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a run", Args: syntax.Takes("ID"), ValidArgsFunction: completeRuns(inv),
		Example: "  palyra runs show 01J9Z8Q2V5T6Y7W8X9A0B1C2D3",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			r, err := c.GetRun(ctx, palyra.RunID(args[0]))
			return inv.Answer(err, r, func(w io.Writer) { printRun(w, r) })
		}),
	}
}

// printRun describes a run.
func printRun(w io.Writer, r palyra.Run) {
	screen.Fields(w, screen.Pair{"Run", string(r.ID)}, screen.Pair{"State", string(r.State)},
		screen.Pair{"Title", r.Title}, screen.Pair{"Provider", r.Provider}, screen.Pair{"Model", r.Model},
		screen.Pair{"Principal", string(r.Principal)}, screen.Pair{"Owner", string(r.Owner)},
		screen.Pair{"Surface", string(r.Surface)}, screen.Pair{"Session", string(r.Session)},
		screen.Pair{"Workspace", r.Workspace}, screen.Pair{"Key", r.Key}, screen.Pair{"Input digest", string(r.Input)},
		screen.Pair{"Budget", budget(r.Budget)}, screen.Pair{"Calls", strconv.FormatInt(r.Calls, 10)},
		screen.Pair{"Tokens", tokens(r.Tokens)}, screen.Pair{"Output", screen.Size(r.Output)},
		screen.Pair{"Asks", asks(r.NoWait)}, screen.Pair{"Started", screen.Stamp(r.CreatedAt)},
		screen.Pair{"Ended", screen.Stamp(r.EndedAt)}, screen.Pair{"Reason code", string(r.ReasonCode)},
		screen.Pair{"Reason", r.Reason}, screen.Pair{"Remedy", r.Remedy},
		screen.Pair{"Tape", strconv.FormatInt(r.LastSeq, 10) + " entries"})
}

// asks says what becomes of a call that policy asks about.
func asks(noWait bool) string {
	if noWait {
		return "refused at once"
	}
	return ""
}

// budget puts the bounds of a run on one line.
func budget(b palyra.Budget) string {
	return question.Limits(palyra.Limits{WallMS: b.WallMS, OutputBytes: b.OutputBytes}) +
		fmt.Sprintf(", calls %d, at once %d", b.Calls, b.Parallel)
}

func runsAttachCommand(inv *invocation.Invocation) *cobra.Command {
	var after int64
	cmd := &cobra.Command{
		Use: "attach ID", Short: "Follow a run to its end", Args: syntax.Takes("ID"), ValidArgsFunction: completeRuns(inv),
		Long: "Prints the tape of a run, from its start or from the entry after SEQ on, and goes on\n" +
			"until the run ends; the exit code is then that of `palyra run`. Ctrl-C only leaves:\n" +
			"the run goes on. With --json there is one object per line.",
		Example: "  palyra runs attach 01J9Z8Q2V5T6Y7W8X9A0B1C2D3\n  palyra runs attach 01J9Z8Q2V5T6Y7W8X9A0B1C2D3 --after 12 --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if after < 0 {
				return exit.Usagef("--after must not be negative")
			}
			return inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
				return attachRun(ctx, inv, c, palyra.RunID(args[0]), after)
			})(cmd, args)
		},
	}
	cmd.Flags().Int64Var(&after, "after", 0, "the last entry that you have seen")
	return cmd
}

// attachRun follows a run that is under way, or prints one that is over.
func attachRun(ctx context.Context, inv *invocation.Invocation, c *client.Client, id palyra.RunID, after int64) error {
	run, err := c.GetRun(ctx, id)
	if err != nil {
		return err
	}
	if after > run.LastSeq {
		return exit.Failedf(palyra.ReasonMalformedInput, "the tape of run %s ends with entry %d so far", id, run.LastSeq)
	}
	t := newTape(inv, c, run)
	t.asker.noWait, t.asker.what = run.NoWait, "leaves; the run goes on"
	err = t.follow(ctx, after, false)
	if ctx.Err() != nil && t.end == nil && !inv.JSON {
		inv.Say("palyra: left; the run goes on. `palyra runs attach %s --after %d` follows it again", show.Arg(string(id)), t.seen)
	}
	return err
}

func runsCancelCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID", Short: "Cancel a run: what runs is stopped, questions are withdrawn", Args: syntax.Takes("ID"),
		ValidArgsFunction: completeRuns(inv),
		Example:           "  palyra runs cancel 01J9Z8Q2V5T6Y7W8X9A0B1C2D3",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			id := palyra.RunID(args[0])
			if err := c.CancelRun(ctx, id); err != nil {
				return err
			}
			r, err := c.GetRun(ctx, id)
			return inv.Answer(err, r, func(w io.Writer) { fmt.Fprintf(w, "%s: %s\n", show.Line(string(r.ID)), show.Line(string(r.State))) })
		}),
	}
}

func completeRuns(inv *invocation.Invocation) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return invocation.Offer(cmd, inv.Operator, func(ctx context.Context, c *client.Client) ([]string, error) {
			page, err := c.Runs(ctx, client.RunFilter{Limit: 50})
			return invocation.WordsOf(page.Runs, err, func(r palyra.Run) string { return string(r.ID) })
		})
	}
}
