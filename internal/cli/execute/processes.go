package execute

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// ProcessesCommand is "processes": the background processes of all sessions.
func ProcessesCommand(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("processes", "See and stop background processes, which 'palyra exec --background' and agents start",
		processesListCommand(inv), processesOutputCommand(inv), processesStopCommand(inv))
}

// shownProcess is a background process as people see it.
type shownProcess struct {
	Process   palyra.CallID    `json:"process_id"`
	Principal palyra.Principal `json:"principal"`
	Session   palyra.SessionID `json:"session_id"`
	Workspace string           `json:"workspace"`
	Started   time.Time        `json:"started_at"`
	Publish   []string         `json:"publish"`
	Summary   string           `json:"summary"`
}

func processesListCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the background processes that run now, newest first", Args: syntax.Takes(),
		Example: "  palyra processes list\n  palyra processes list --json | jq -r '.processes[].publish[]'",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := backgroundProcesses(ctx, c)
			if err != nil {
				return err
			}
			answer := struct {
				Processes []shownProcess `json:"processes"`
			}{list}
			return invocation.Page[shownProcess]{
				JSON: answer, Things: list, Head: []string{"PROCESS", "PRINCIPAL", "STARTED", "PORTS", "SUMMARY"},
				Row: func(p shownProcess) []string {
					return []string{string(p.Process), string(p.Principal), screen.Stamp(p.Started), screen.Joined(p.Publish), p.Summary}
				},
			}.Show(inv)
		}),
	}
}

// backgroundProcesses are those that run: what runs is on record as granted until it has ended.
func backgroundProcesses(ctx context.Context, c *client.Client) ([]shownProcess, error) {
	list := []shownProcess{}
	for f := (client.CallFilter{State: palyra.Granted}); ; {
		page, err := c.Calls(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, x := range page.Calls {
			if x.Proposal.Tool == palyra.ToolProcessStart {
				list = append(list, shownProcess{
					x.ID, x.Proposal.Principal, x.Proposal.Session, x.Plan.Workspace.Path, x.Proposed, screen.Some(x.Plan.Publish), x.Detail.Summary,
				})
			}
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return list, nil
		}
	}
}

// printedPiece is a piece of output, as JSON.
type printedPiece struct {
	Process    palyra.CallID `json:"process_id"`
	State      palyra.State  `json:"state"`
	Content    []byte        `json:"content_b64"`
	Offset     int64         `json:"offset"`
	NextOffset int64         `json:"next_offset"`
	Size       int64         `json:"size"`
}

func processesOutputCommand(inv *invocation.Invocation) *cobra.Command {
	var from int64
	cmd := &cobra.Command{
		Use: "output ID", Short: "Show what a background process printed last", Args: syntax.Takes("ID"),
		Long: "Shows stdout and stderr as they came: the last 64 KiB, or with --offset that much from a byte\n" +
			"on. The newest 1 MiB is there while the process runs. Of one that has ended this shows what\n" +
			"its outcome keeps, stdout first. With --json next_offset is where the next piece begins.",
		Example: "  palyra processes output 01J9Z8Q2V5T6Y7W8X9A0B1C2D3\n" +
			"  palyra processes output 01J9Z8Q2V5T6Y7W8X9A0B1C2D3 --offset 65536 --json",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			if from < -1 {
				from = 0
			}
			x, p, err := c.GetPrinted(ctx, palyra.CallID(args[0]), from)
			if err != nil {
				return err
			}
			state := palyra.Running
			if p == nil {
				state, p = x.State, endedPiece(x, from)
			}
			piece := printedPiece{x.ID, state, p.Data, p.Offset, p.Offset + int64(len(p.Data)), p.Size}
			return inv.Emit(piece, func(io.Writer) { inv.PrintStream(inv.Stdout, string(p.Data), "") })
		}),
	}
	cmd.Flags().Int64Var(&from, "offset", -1, "byte to begin at (default: so that the last is shown)")
	return cmd
}

// endedPiece is what the outcome of a process keeps, from a byte on.
func endedPiece(x palyra.Call, from int64) *client.Printed {
	if x.Outcome == nil {
		return &client.Printed{}
	}
	all := append(outcomeStream(x.Outcome.Stdout, x.Outcome.StdoutB64), outcomeStream(x.Outcome.Stderr, x.Outcome.StderrB64)...)
	from = min(max(from, 0), int64(len(all)))
	return &client.Printed{Offset: from, Data: all[from:], Size: int64(len(all))}
}

func processesStopCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "stop ID", Short: "Stop a background process, and close its published ports", Args: syntax.Takes("ID"),
		Example: "  palyra processes stop 01J9Z8Q2V5T6Y7W8X9A0B1C2D3",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			id := palyra.CallID(args[0])
			x, err := c.GetCall(ctx, id)
			if err == nil && x.Proposal.Tool != palyra.ToolProcessStart {
				err = palyra.Errorf(palyra.Invalid, palyra.ReasonNotFound, "call %s is no background process", show.Line(args[0])).
					WithRemedy("see 'palyra processes list'; 'palyra calls cancel' ends any call")
			}
			if err == nil {
				err = c.CancelCall(ctx, id)
			}
			if err == nil {
				x, err = c.GetCall(ctx, id)
			}
			if x.Outcome != nil { // how it ended says more than that it did
				x.State = palyra.State(x.Outcome.Outcome)
			}
			return inv.Answer(err, begun{x.ID, x.State, screen.Some(x.Plan.Publish)}, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %s\n", show.Line(string(x.ID)), show.Line(string(x.State)))
			})
		}),
	}
}
