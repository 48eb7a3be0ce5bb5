package execute

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
	"palyra/internal/show"
)

// shownUsage is what the commands say of the list that their person saw.
const shownUsage = "only if the list is still the one with this digest (counts.list_sha256 of 'palyra changes AGENT --json')"

// KeepCommand is "keep": what an agent wrote on its stage becomes the workspace's.
func KeepCommand(inv *invocation.Invocation) *cobra.Command {
	var shown string
	cmd := &cobra.Command{
		Use: "keep AGENT [PATH]...", Short: "Keep what a staged agent wrote", Args: takesAgent,
		Long: "Makes what an agent and its calls wrote on their stage ('palyra agent run --staged') the\n" +
			"workspace's: all of it, or the paths, directories and patterns that are named, relative to\n" +
			"the workspace. AGENT is the id of the agent's call, or of its session. It is judged as the\n" +
			"changes of any run are: where policy asks, you are asked first. It is kept whole or not at\n" +
			"all, and 'palyra undo' takes it back. What somebody else changed since the agent began is\n" +
			"left out, named, and waits on.",
		Example: "  palyra changes 01J9Z8Q2V5T6Y7W8X9A0B1C2D3 --diff\n" +
			"  palyra keep 01J9Z8Q2V5T6Y7W8X9A0B1C2D3\n" +
			"  palyra keep 01J9Z8Q2V5T6Y7W8X9A0B1C2D3 src 'docs/*.md'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return review(cmd.Context(), inv, palyra.ToolStageKeep, args[0], args[1:], shown)
		},
		ValidArgsFunction: syntax.CompleteNothing,
	}
	cmd.Flags().StringVar(&shown, "digest", "", shownUsage)
	return cmd
}

// DropCommand is "drop": what an agent wrote on its stage is thrown away.
func DropCommand(inv *invocation.Invocation) *cobra.Command {
	var shown string
	cmd := &cobra.Command{
		Use: "drop AGENT [PATH]...", Short: "Throw away what a staged agent wrote", Args: takesAgent,
		Long: "Throws away what an agent and its calls wrote on their stage and nobody kept: all of it, or\n" +
			"the paths, directories and patterns that are named, relative to the workspace. It cannot be\n" +
			"taken back. AGENT is the id of the agent's call, or of its session.",
		Example: "  palyra drop 01J9Z8Q2V5T6Y7W8X9A0B1C2D3 'build/*'\n  palyra drop 01J9Z8Q2V5T6Y7W8X9A0B1C2D3",
		RunE: func(cmd *cobra.Command, args []string) error {
			return review(cmd.Context(), inv, palyra.ToolStageDrop, args[0], args[1:], shown)
		},
		ValidArgsFunction: syntax.CompleteNothing,
	}
	cmd.Flags().StringVar(&shown, "digest", "", shownUsage)
	return cmd
}

// takesAgent refuses a command line without its agent, and paths that are none.
func takesAgent(_ *cobra.Command, args []string) error {
	if len(args) == 0 || slices.Contains(args, "") {
		return exit.Usagef("AGENT is missing, or a PATH is empty; 'palyra changes --staged' lists the agents whose work waits")
	}
	return nil
}

// stagedAgent finds an agent whose work is staged, by the id of its call or session.
func stagedAgent(ctx context.Context, inv *invocation.Invocation, id string) (client.UndoEntry, error) {
	c, err := inv.Operator()
	if err != nil {
		return client.UndoEntry{}, err
	}
	defer c.Close()
	all, err := c.UndoEntries(ctx)
	if err != nil {
		return client.UndoEntry{}, err
	}
	var found []client.UndoEntry
	for _, e := range all {
		if e.State == client.UndoStaged && (string(e.Call) == id || string(e.Session) == id) {
			found = append(found, e)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return client.UndoEntry{}, exit.Failedf(palyra.ReasonNotFound, "several agents of the session are staged, %s and %s among them: name one",
			found[0].Call, found[1].Call)
	}
	return client.UndoEntry{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound,
		"nothing is staged for %s: all of it was kept or dropped, it has expired, or that is no agent with a stage", palyra.Clip(id, 64)).
		WithRemedy("'palyra changes --staged' lists what waits")
}

// review keeps or drops a part of an agent's work.
func review(ctx context.Context, inv *invocation.Invocation, tool palyra.ToolName, id string, paths []string, shown string) error {
	e, err := stagedAgent(ctx, inv, id)
	if err != nil {
		return err
	}
	args := struct {
		Agent palyra.CallID     `json:"agent"`
		Paths []palyra.PathText `json:"paths,omitempty"`
		Shown string            `json:"digest,omitempty"`
	}{Agent: e.Call, Shown: shown}
	for _, p := range paths {
		if strings.HasPrefix(p, `"`) { // quoted, as lists show it
			args.Paths = append(args.Paths, palyra.PathText(p))
			continue
		}
		if rel, err := filepath.Rel(e.Workspace, p); err == nil && filepath.IsAbs(p) {
			p = rel
		}
		args.Paths = append(args.Paths, palyra.TextOfPath(filepath.Clean(p)))
	}
	raw, err := screen.EncodePlain(args)
	if err != nil {
		return fmt.Errorf("cli: review: %w", err)
	}
	c, err := inv.ByHand()
	if err != nil {
		return err
	}
	defer c.Close()
	r := client.CallRequest{Tool: tool, Arguments: raw, Workspace: e.Workspace, Surface: palyra.SurfaceCLI}
	o, err := (&Asker{inv: inv}).follow(ctx, c, r, nil)
	if err != nil {
		return err
	}
	if inv.JSON {
		err = printOutcome(inv, o)
	} else {
		printReviewed(inv, tool, o)
	}
	if err != nil {
		return err
	}
	return exit.Error{Code: exit.OfOutcome(o)}
}

// printReviewed says what was kept or dropped, and what waits.
func printReviewed(inv *invocation.Invocation, tool palyra.ToolName, o palyra.Outcome) {
	var did struct {
		Agent     palyra.CallID     `json:"agent"`
		Paths     int64             `json:"paths"`
		Left      int64             `json:"left"`
		Conflicts []palyra.PathText `json:"conflicts"`
		More      int64             `json:"more_conflicts"`
	}
	if o.Outcome != palyra.OutcomeFinished || o.ReasonCode != "" || json.Unmarshal(o.Output, &did) != nil {
		printEnding(inv, o)
		return
	}
	verb := "dropped"
	if tool == palyra.ToolStageKeep {
		verb = "kept"
	}
	agent := show.Line(string(did.Agent))
	fmt.Fprintf(inv.Stdout, "%s: %s %s", agent, verb, screen.Count(did.Paths, "path"))
	if verb == "kept" {
		fmt.Fprintf(inv.Stdout, "; palyra undo %s takes that back", show.Line(string(o.CallID)))
	}
	fmt.Fprintln(inv.Stdout)
	for _, p := range did.Conflicts {
		fmt.Fprintln(inv.Stdout, "  changed by somebody else since, and left out  "+screen.Path(p))
	}
	if did.More > 0 {
		fmt.Fprintf(inv.Stdout, "  … and %d more\n", did.More)
	}
	if did.Left > 0 {
		fmt.Fprintf(inv.Stdout, "%s still wait: palyra changes %s; palyra keep %s [PATH]...; palyra drop %s\n",
			screen.Count(did.Left, "path"), agent, agent, agent)
	}
}

// offerReview says what an agent left on its stage, and asks the person at the terminal what is to become of it.
func offerReview(ctx context.Context, inv *invocation.Invocation, agent palyra.CallID) error {
	c, err := inv.Operator()
	if err != nil {
		return err
	}
	defer c.Close()
	x, err := c.Changes(ctx, client.ChangeFilter{Call: agent, Limit: 20})
	if err != nil {
		return err
	}
	id := show.Line(string(agent))
	if x.Counts.Total() == 0 && len(x.Conflicts) == 0 {
		inv.Say("palyra: the agent changed nothing; palyra drop %s removes its empty stage", id)
		return nil
	}
	inv.Say("palyra: the agent changed %s; nothing of it is in the workspace yet", screen.Count(x.Counts.Total(), "path"))
	for _, p := range x.Changes {
		inv.Say("  %-8s %s", show.Line(string(p.Kind)), screen.Path(p.Path))
	}
	if x.More > 0 {
		inv.Say("  … %d more", x.More)
	}
	if len(x.Conflicts) > 0 {
		inv.Say("  %s were changed by somebody else meanwhile, and will be left out", screen.Count(int64(len(x.Conflicts)), "path"))
	}
	inv.Say("  review  palyra changes %s --diff\n  keep    palyra keep %s [PATH]...\n  drop    palyra drop %s [PATH]...", id, id, id)
	for inv.Interactive() {
		answer, err := terminal.AskLine(ctx, "palyra: [k]eep all, [d]rop all, [r]eview, or Enter to decide later: ")
		if err != nil {
			return nil // it waits
		}
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "k", "keep":
			return review(ctx, inv, palyra.ToolStageKeep, string(agent), nil, string(x.Counts.Digest))
		case "d", "drop":
			return review(ctx, inv, palyra.ToolStageDrop, string(agent), nil, string(x.Counts.Digest))
		case "r", "review":
			d, err := c.ChangesDiff(ctx, agent, "")
			if err != nil {
				return err
			}
			fmt.Fprint(inv.Stderr, show.Block(d.Diff))
			for _, n := range d.Notes {
				inv.Say("%s", show.Line(n))
			}
		case "":
			return nil
		}
	}
	return nil
}
