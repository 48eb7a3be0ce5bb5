package changes

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
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

// which holds the flags that select the calls to undo.
type which struct {
	last, list, forget, dryRun bool
	session, since, workspace  string
}

// Undo is palyra undo.
func Undo(inv *invocation.Invocation) *cobra.Command {
	var f which
	cmd := &cobra.Command{
		Use: "undo [CALL]", Short: "Put back what a call changed", Args: syntax.Takes("[CALL]"),
		Long: "Puts back what a call replaced or removed, and removes what it made: all of it, or nothing.\n" +
			"It refuses where something else is there by now than the call left, and says where.\n" +
			"Several calls are undone one after the other, the newest first; the first that cannot be\n" +
			"undone ends that. In a work tree of a repository outside the workspace only files are\n" +
			"put back: commits, branches and git's index stay, and git's own log has them.",
		Example: "  palyra undo --last\n  palyra undo 01J9Z8Q2V5T6Y7W8X9A0B1C2D3 --dry-run\n  palyra undo --since 10m\n  palyra undo --list",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			if f.list && (len(args) > 0 || f.last || f.forget || f.dryRun || f.session != "" || f.since != "" || f.workspace != "") {
				return exit.Usagef("--list lists every call that can be undone or redone; give it alone")
			}
			if f.list {
				return listUndo(ctx, inv, c)
			}
			calls, err := f.calls(ctx, inv, c, args)
			if err != nil {
				return err
			}
			if f.forget {
				return forget(ctx, inv, c, calls)
			}
			return f.revert(ctx, inv, c, calls, false)
		}),
	}
	cmd.Flags().BoolVar(&f.last, "last", false, "the last call that changed something where you stand")
	cmd.Flags().StringVar(&f.workspace, "workspace", "", "with --last: in this directory (default: where you stand)")
	cmd.Flags().StringVar(&f.session, "session", "", "every call of this session that can be undone")
	cmd.Flags().StringVar(&f.since, "since", "",
		"every call from then on: a time, a date or a duration ago, such as 2026-01-02T15:04:05Z, 2026-01-02 or 10m")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would change, and change nothing")
	cmd.Flags().BoolVar(&f.forget, "forget", false, "remove what is kept of the calls: they can then not be undone any more")
	cmd.Flags().BoolVar(&f.list, "list", false, "list the calls that can be undone or redone")
	_ = cmd.RegisterFlagCompletionFunc("session", inv.CompleteSessions)
	return cmd
}

// Redo is palyra redo.
func Redo(inv *invocation.Invocation) *cobra.Command {
	var f which
	cmd := &cobra.Command{
		Use: "redo [CALL]", Short: "Take an undo back", Args: syntax.Takes("[CALL]"),
		Long:    "Makes the workspace as a call left it that was undone. It refuses where something else is there by now.",
		Example: "  palyra redo --last\n  palyra redo 01J9Z8Q2V5T6Y7W8X9A0B1C2D3",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			call, err := f.undone(ctx, inv, c, args)
			if err != nil {
				return err
			}
			return f.revert(ctx, inv, c, []palyra.CallID{call}, true)
		}),
	}
	cmd.Flags().BoolVar(&f.last, "last", false, "the call that was undone last where you stand")
	cmd.Flags().StringVar(&f.workspace, "workspace", "", "with --last: in this directory (default: where you stand)")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would change, and change nothing")
	return cmd
}

// undone returns the call to redo.
func (f which) undone(ctx context.Context, inv *invocation.Invocation, c *client.Client, args []string) (palyra.CallID, error) {
	if f.last == (len(args) > 0) {
		return "", exit.Usagef("say which call, in one way: CALL or --last; 'palyra undo --list' has those that were undone")
	}
	if !f.last {
		return palyra.CallID(args[0]), nil
	}
	here := client.ChangeFilter{Workspace: f.workspace}
	if err := callMeant(inv, &here, nil); err != nil {
		return "", err
	}
	all, err := c.UndoEntries(ctx)
	var last client.UndoEntry
	for _, e := range all {
		if e.UndoneAt.After(last.UndoneAt) && palyra.Within(here.Workspace, []string{e.Workspace}) {
			last = e
		}
	}
	if err == nil && last.Call == "" {
		err = exit.Failedf(palyra.ReasonNotFound, "no call was undone there; 'palyra undo --list' has those that can be")
	}
	return last.Call, err
}

// calls returns the selected calls, newest first.
func (f which) calls(ctx context.Context, inv *invocation.Invocation, c *client.Client, args []string) ([]palyra.CallID, error) {
	ways := len(args)
	for _, given := range []bool{f.last, f.session != "", f.since != ""} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return nil, exit.Usagef("say which calls, in one way: CALL, --last, --session or --since; " +
			"'palyra undo --list' has those that can be undone")
	}
	if len(args) > 0 {
		return []palyra.CallID{palyra.CallID(args[0])}, nil
	}
	since, err := syntax.When(f.since, inv.Now())
	if err != nil {
		return nil, err
	}
	here := client.ChangeFilter{Workspace: f.workspace}
	if f.last {
		if err := callMeant(inv, &here, nil); err != nil {
			return nil, err
		}
	}
	all, err := c.UndoEntries(ctx)
	if err != nil {
		return nil, err
	}
	out := f.among(all, since, here.Workspace)
	if f.last {
		if err := refuseOlder(ctx, c, here, out); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, exit.Failedf(palyra.ReasonNotFound, "no such call can be undone; 'palyra undo --list' has those that can")
	}
	return out, nil
}

// refuseOlder refuses to take a call for the last one where a later one cannot be undone.
func refuseOlder(ctx context.Context, c *client.Client, here client.ChangeFilter, older []palyra.CallID) error {
	here.Limit = 1
	x, err := c.Changes(ctx, here)
	if err != nil || x.Lasting == "" {
		return err
	}
	failure := palyra.Errorf(palyra.Conflict, palyra.ReasonEffectsConflict,
		"the last call there, %s, cannot be undone: %s", x.Lasting, x.LastingWhy)
	if len(older) == 0 {
		return failure.WithRemedy("see 'palyra calls show %s' for what it did", x.Lasting)
	}
	return failure.WithRemedy("'palyra undo %s' undoes the one before it that can be", older[0])
}

// among picks calls from a list that is newest first.
func (f which) among(all []client.UndoEntry, since time.Time, here string) (out []palyra.CallID) {
	for _, e := range all {
		switch {
		case e.State != client.UndoKept && !f.forget || e.State == client.UndoStaged:
		case f.last && !palyra.Within(here, []string{e.Workspace}):
		case f.session != "" && string(e.Session) != f.session:
		case e.At.Before(since):
		default:
			out = append(out, e.Call)
		}
		if f.last && len(out) > 0 {
			break
		}
	}
	return out
}

// revert undoes, or redoes, calls one after the other, and reports the result of each.
func (f which) revert(ctx context.Context, inv *invocation.Invocation, c *client.Client, calls []palyra.CallID, redo bool) error {
	done := []client.Reverted{}
	var failed error
	for _, id := range calls {
		r, err := f.one(ctx, c, id, redo)
		if err != nil {
			failed = err
			break
		}
		r.Changes, r.Differ = screen.Some(r.Changes), screen.Some(r.Differ)
		if done = append(done, r); r.Problem != "" {
			failed = exit.Failedf(palyra.ReasonEffectsConflict, "%s", r.Problem)
			break
		}
	}
	if len(done) == 0 {
		return failed
	}
	if err := inv.Emit(map[string]any{"reverted": done, "dry_run": f.dryRun}, func(w io.Writer) {
		for _, r := range done {
			printReverted(w, r, redo, f.dryRun)
		}
	}); err != nil {
		return err
	}
	if failed == nil {
		notRepositories(ctx, inv, c, done)
	}
	return failed
}

// notRepositories says of calls in work trees that their commits stay: those are in a repository outside the workspace.
func notRepositories(ctx context.Context, inv *invocation.Invocation, c *client.Client, done []client.Reverted) {
	for _, r := range done {
		call, err := c.GetCall(ctx, r.Call)
		if err != nil || call.Plan.Workspace.Repository.Path == "" {
			continue
		}
		inv.Say("palyra: %s: only files are put back or removed; commits, branches and the index are in the repository %s and stay as "+
			"they are: see 'git reflog' and 'git reset' there", show.Line(string(r.Call)), show.Arg(call.Plan.Workspace.Repository.Path))
	}
}

func (f which) one(ctx context.Context, c *client.Client, id palyra.CallID, redo bool) (client.Reverted, error) {
	switch {
	case f.dryRun:
		return c.CheckUndo(ctx, id, redo)
	case redo:
		return c.RedoCall(ctx, id)
	}
	return c.UndoCall(ctx, id)
}

// printReverted prints what was done, or would be.
func printReverted(w io.Writer, r client.Reverted, redo, dryRun bool) {
	verb := "undone"
	if redo {
		verb = "redone"
	}
	if dryRun {
		verb = "would be " + verb
	}
	if r.Problem != "" {
		fmt.Fprintf(w, "%s: %s\n", show.Line(string(r.Call)), show.Line(r.Problem))
		for _, p := range r.Differ {
			fmt.Fprintln(w, "  differs  "+show.Line(p))
		}
		return
	}
	fmt.Fprintf(w, "%s: %s in %s\n%s\n", show.Line(string(r.Call)), verb, show.Arg(r.Workspace), countsText(r.Counts))
	printList(w, r.Changes, r.More, "")
}

// forget removes the kept content of calls.
func forget(ctx context.Context, inv *invocation.Invocation, c *client.Client, calls []palyra.CallID) error {
	for _, id := range calls {
		if err := c.ForgetUndo(ctx, id); err != nil {
			return err
		}
	}
	return inv.Emit(map[string]any{"forgotten": calls}, func(w io.Writer) {
		for _, id := range calls {
			fmt.Fprintf(w, "%s: what it replaced is not kept any longer\n", show.Line(string(id)))
		}
	})
}

// listUndo lists the calls that can be undone.
func listUndo(ctx context.Context, inv *invocation.Invocation, c *client.Client) error {
	all, err := c.UndoEntries(ctx)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(e client.UndoEntry) bool { return e.State == client.UndoStaged }) // 'palyra changes --staged'
	return invocation.Page[client.UndoEntry]{
		JSON: map[string][]client.UndoEntry{"entries": screen.Some(all)}, Things: all,
		Head: []string{"CALL", "STATE", "PATHS", "KEPT", "AT", "WORKSPACE", screen.SummaryColumn},
		Row: func(e client.UndoEntry) []string {
			return []string{
				string(e.Call), string(e.State), strconv.FormatInt(e.Paths, 10), screen.Size(e.Bytes), screen.Stamp(e.At),
				e.Workspace, e.Summary,
			}
		},
	}.Show(inv)
}
