// Package changes has the commands about the changes that calls made in their workspaces: palyra
// changes shows them, palyra undo takes them back, and palyra redo makes them again.
package changes

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// diffAll is the --diff that names no path.
const diffAll = "."

// Command is palyra changes.
func Command(inv *invocation.Invocation) *cobra.Command {
	var f client.ChangeFilter
	var principal, diff string
	var staged bool
	cmd := &cobra.Command{
		Use: "changes [CALL]", Short: "Show what a call changed in its workspace", Args: syntax.Takes("[CALL]"),
		Long: "Shows what a call changed: what tools will run first, then every path with what happened to it.\n" +
			"Without CALL it is the last one that changed something in the directory you stand in.\n" +
			"With --diff it shows content before and after: of changes that wait for an answer, of a write\n" +
			"that has not run, and afterwards as long as what the call replaced is kept and nobody changed\n" +
			"what it left.",
		Example: "  palyra changes\n  palyra changes 01J9Z8Q2V5T6Y7W8X9A0B1C2D3 --diff\n  palyra changes --diff=src/main.go",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			if staged {
				return listStaged(ctx, inv, c)
			}
			f.Principal = palyra.Principal(principal)
			if err := callMeant(inv, &f, args); err != nil {
				return err
			}
			x, err := c.Changes(ctx, f)
			if palyra.CodeOf(err) == palyra.NotFound && len(args) > 0 {
				if x, err = ofSession(ctx, c, f, err); err == nil {
					f.Call = x.Call
				}
			}
			if err != nil && diff != "" && f.Call != "" { // a call that has not run has a diff, and no changes yet
				x.Call, err = f.Call, nil
			}
			if err != nil {
				return err
			}
			if diff != "" {
				return showDiff(ctx, inv, c, x, diff)
			}
			x.Changes, x.RunByTools = screen.Some(x.Changes), screen.Some(x.RunByTools)
			return inv.Emit(x, func(w io.Writer) { printChanges(w, x) })
		}),
	}
	cmd.Flags().BoolVar(&staged, "staged", false, "list the agents whose work is staged and waits for you")
	cmd.Flags().StringVar(&f.Workspace, "workspace", "", "of the last call in this directory (default: where you stand)")
	cmd.Flags().StringVar(&principal, "principal", "", "of the last call of this principal")
	cmd.Flags().StringVar(&diff, "diff", "", "show content before and after: all of it, or with --diff=PATH that of a file or directory")
	cmd.Flags().Lookup("diff").NoOptDefVal = diffAll
	syntax.Paging(cmd, &f.Cursor, &f.Limit)
	return cmd
}

// callMeant finds the call that the arguments name.
func callMeant(inv *invocation.Invocation, f *client.ChangeFilter, args []string) error {
	if len(args) > 0 {
		f.Call, f.Workspace, f.Principal = palyra.CallID(args[0]), "", ""
		return nil
	}
	dir, err := inv.WorkspaceOf(f.Workspace)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil && inv.RemoteName() == "" {
		dir = real
	}
	f.Workspace = dir
	return nil
}

// ofSession returns the changes of the one agent of a session whose work is staged; otherwise the error.
func ofSession(ctx context.Context, c *client.Client, f client.ChangeFilter, missing error) (client.CallChanges, error) {
	all, err := c.UndoEntries(ctx)
	if err != nil {
		return client.CallChanges{}, missing
	}
	var found []palyra.CallID
	for _, e := range all {
		if e.State == client.UndoStaged && string(e.Session) == string(f.Call) {
			found = append(found, e.Call)
		}
	}
	if len(found) != 1 {
		return client.CallChanges{}, missing
	}
	f.Call = found[0]
	return c.Changes(ctx, f)
}

// listStaged lists the agents whose work waits.
func listStaged(ctx context.Context, inv *invocation.Invocation, c *client.Client) error {
	all, err := c.UndoEntries(ctx)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(e client.UndoEntry) bool { return e.State != client.UndoStaged })
	return invocation.Page[client.UndoEntry]{
		JSON: map[string][]client.UndoEntry{"staged": screen.Some(all)}, Things: all,
		Head: []string{"AGENT", "SESSION", "AT", "WORKSPACE", screen.SummaryColumn},
		Row: func(e client.UndoEntry) []string {
			return []string{string(e.Call), string(e.Session), screen.Stamp(e.At), e.Workspace, e.Summary}
		},
	}.Show(inv)
}

// showDiff prints content before and after a call.
func showDiff(ctx context.Context, inv *invocation.Invocation, c *client.Client, x client.CallChanges, path string) error {
	name := palyra.PathText("")
	if path != diffAll {
		if rel, err := filepath.Rel(x.Workspace, path); err == nil && filepath.IsAbs(path) {
			path = rel
		}
		name = palyra.TextOfPath(filepath.Clean(path))
		if strings.HasPrefix(path, `"`) { // quoted, as lists show it
			name = palyra.PathText(path)
		}
	}
	d, err := c.ChangesDiff(ctx, x.Call, name)
	d.Notes = screen.Some(d.Notes)
	return inv.Answer(err, d, func(w io.Writer) {
		io.WriteString(w, show.Block(d.Diff))
		for _, n := range d.Notes {
			fmt.Fprintln(w, show.Line(n))
		}
		if d.Diff == "" && len(d.Notes) == 0 {
			fmt.Fprintln(w, "No content of a file is different there.")
		}
	})
}

// printChanges prints the changes of a call, files that other programs run first.
func printChanges(w io.Writer, x client.CallChanges) {
	screen.Fields(w, screen.Pair{"Call", string(x.Call)}, screen.Pair{"Summary", x.Summary},
		screen.Pair{"Principal", string(x.Principal)}, screen.Pair{"Workspace", x.Workspace},
		screen.Pair{"Finished", screen.Stamp(x.FinishedAt)}, screen.Pair{"Effects", effectsText(x)},
		screen.Pair{"Undo", undoText(x)})
	if x.Lasting > x.Call { // ids sort by time
		fmt.Fprintf(w, "Not the last: call %s came later; %s\n", show.Line(string(x.Lasting)), show.Line(x.LastingWhy))
	}
	if len(x.Quarantined) > 0 {
		fmt.Fprintln(w, "Taken out of the workspace, which keeps it sealed")
		for _, p := range x.Quarantined {
			fmt.Fprintln(w, "  "+screen.Path(p))
		}
	}
	if !x.Expires.IsZero() {
		fmt.Fprintf(w, "It is dropped at %s unless somebody decides.\n", screen.Stamp(x.Expires))
	}
	if len(x.Conflicts) > 0 {
		fmt.Fprintln(w, "Changed by somebody else since the agent began: left out when the rest is kept")
		for _, p := range x.Conflicts {
			fmt.Fprintln(w, "  "+screen.Path(p))
		}
	}
	if len(x.RunByTools) > 0 {
		fmt.Fprintln(w, "Builds and tests will run")
		for _, p := range x.RunByTools {
			fmt.Fprintln(w, "  "+screen.Path(p))
		}
	}
	counts := countsText(x.Counts)
	switch x.Effects {
	case palyra.EffectsForeseen:
		counts = "Said to change " + counts
	case palyra.EffectsHeld:
		counts = "Would change " + counts
	case palyra.EffectsStaged:
		counts = "Staged: " + counts
	case palyra.EffectsDropped, palyra.EffectsConflict:
		counts = "Would have changed " + counts
	}
	fmt.Fprintln(w, counts)
	printList(w, x.Changes, x.More, x.Next)
}

// effectsText says what became of the changes, and of the workspace.
func effectsText(x client.CallChanges) string {
	const unchanged = "nothing in the workspace was changed"
	switch x.Effects {
	case palyra.EffectsKept:
		if x.Undo == client.UndoUndone {
			return "undone: the workspace is as before the call"
		}
		return "kept"
	case palyra.EffectsForeseen:
		if x.Undo == client.UndoUndone {
			return "undone: the workspace is as before the call"
		}
		return "foreseen: the caller makes it by itself; 'palyra undo " + string(x.Call) + " --dry-run' looks whether it is there"
	case palyra.EffectsHeld:
		text := "held: nothing in the workspace is changed until somebody answers"
		if x.Approval != "" {
			text += "; palyra approvals show " + string(x.Approval)
		}
		return text
	case palyra.EffectsStaged:
		return stagedText(x)
	case palyra.EffectsDropped:
		return "dropped: " + unchanged
	case palyra.EffectsConflict:
		return "conflict: somebody else changed the same paths, so " + unchanged
	case palyra.EffectsLost:
		return "lost: they could not be kept, or only in part"
	}
	return string(x.Effects)
}

// stagedText says what can be done about what an agent wrote.
func stagedText(x client.CallChanges) string {
	if x.Undo != client.UndoStaged { // a call of the agent
		return "staged: on the layer of its agent, until a person keeps or drops it"
	}
	id := string(x.Call)
	text := "staged: nothing in the workspace is changed until somebody keeps it; palyra keep " + id + " [PATH]..., " +
		"palyra drop " + id + " [PATH]..."
	if x.Running {
		text = "staged, and the agent still runs: it can be kept or dropped when it has ended"
	}
	return text
}

// undoText says whether the changes can be undone; empty: there is nothing to undo.
func undoText(x client.CallChanges) string {
	switch {
	case x.Undo == client.UndoKept:
		return "palyra undo " + string(x.Call)
	case x.Undo == client.UndoUndone:
		return "was undone; palyra redo " + string(x.Call)
	case x.Effects == palyra.EffectsKept || x.Effects == palyra.EffectsLost:
		return "not possible: what it replaced is not kept"
	}
	return ""
}

// countsText is a list of changes in short.
func countsText(e palyra.Effects) string {
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{{e.Created, "created"}, {e.Changed, "changed"}, {e.Removed, "removed"}, {e.Mode, "mode"}, {e.Link, "link"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return fmt.Sprintf("%s: %s; %s before, %s after",
		screen.Count(e.Total(), "path"), strings.Join(parts, ", "), screen.Size(e.BytesWas), screen.Size(e.BytesNow))
}

// printList prints a page of changes.
func printList(w io.Writer, all []palyra.Change, more int64, next string) {
	for _, c := range all {
		fmt.Fprintf(w, "  %-8s %s%s\n", show.Line(string(c.Kind)), screen.Path(c.Path), detail(c))
	}
	switch {
	case more > 0 && next != "":
		fmt.Fprintf(w, "  … %d more: --cursor %s\n", more, show.Arg(next))
	case more > 0:
		fmt.Fprintf(w, "  … %d more\n", more)
	}
}

// detail describes the change of a path.
func detail(c palyra.Change) string {
	was, now := c.Was, c.Now
	switch {
	case c.Kind == palyra.ChangeMode && was != nil && now != nil:
		return fmt.Sprintf("  %04o → %04o", was.Mode, now.Mode)
	case now != nil && now.Kind == palyra.PathLink:
		return "  → " + screen.Path(now.Target)
	}
	text := ""
	if was != nil && was.Kind == palyra.PathFile {
		text += fmt.Sprintf("  -%d", was.Size)
	}
	if now != nil && now.Kind == palyra.PathFile {
		text += fmt.Sprintf("  +%d", now.Size)
		if now.Mode&0o111 != 0 && (was == nil || was.Mode&0o111 == 0) {
			text += "  executable"
		}
	}
	for _, s := range []*palyra.PathState{now, was} {
		if s != nil && s.Kind != palyra.PathFile {
			return text + "  " + show.Line(string(s.Kind))
		}
	}
	return text
}
