package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

func sessionsCommand(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("sessions", "See and close agents' sessions",
		sessionsListCommand(inv), sessionsShowCommand(inv), sessionsCloseCommand(inv))
}

func sessionsListCommand(inv *invocation.Invocation) *cobra.Command {
	var f client.SessionFilter
	var principal string
	cmd := &cobra.Command{
		Use: "list", Short: "List sessions", Args: syntax.Takes(),
		Example: "  palyra sessions list\n  palyra sessions list --all --json",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			f.Principal = palyra.Principal(principal)
			page, err := c.Sessions(ctx, f)
			if err != nil {
				return err
			}
			page.Sessions = screen.Some(page.Sessions)
			return invocation.Page[palyra.Session]{
				JSON: page, Things: page.Sessions, Next: page.Next, Head: []string{
					"SESSION", "PRINCIPAL", "SURFACE", "NAME", "CALLS", "LAST USED",
					"CLOSED", "WORKSPACE",
				},
				Row: func(s palyra.Session) []string {
					return []string{
						string(s.ID), string(s.Principal), string(s.Surface), s.Name, strconv.FormatInt(s.Calls, 10), screen.Stamp(s.UsedAt),
						screen.Stamp(s.ClosedAt), s.Workspace,
					}
				},
			}.Show(inv)
		}),
	}
	cmd.Flags().BoolVar(&f.Closed, "all", false, "also those that are closed")
	cmd.Flags().StringVar(&principal, "principal", "", "only those of this principal")
	syntax.Paging(cmd, &f.Cursor, &f.Limit)
	return cmd
}

func sessionsShowCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a session", Args: syntax.Takes("ID"), ValidArgsFunction: inv.CompleteSessions,
		Example: "  palyra sessions show 01J9Z8Q2V5T6Y7W8X9A0B1C2D3",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			s, err := c.Session(ctx, palyra.SessionID(args[0]))
			return inv.Answer(err, s, func(w io.Writer) {
				screen.Fields(w, screen.Pair{"Session", string(s.ID)}, screen.Pair{"Principal", string(s.Principal)},
					screen.Pair{"Name", s.Name}, screen.Pair{"Surface", string(s.Surface)},
					screen.Pair{"Workspace", s.Workspace}, screen.Pair{"Labels", screen.Joined(s.Labels)},
					screen.Pair{"Calls", strconv.FormatInt(s.Calls, 10)},
					screen.Pair{"Opened", screen.Stamp(s.OpenedAt)}, screen.Pair{"Last used", screen.Stamp(s.UsedAt)},
					screen.Pair{"Closed", screen.Stamp(s.ClosedAt)})
			})
		}),
	}
}

func sessionsCloseCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "close ID", Short: "Close a session and end its leases", Args: syntax.Takes("ID"), ValidArgsFunction: inv.CompleteSessions,
		Example: "  palyra sessions close 01J9Z8Q2V5T6Y7W8X9A0B1C2D3",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			id := palyra.SessionID(args[0])
			if err := c.CloseSession(ctx, id); err != nil {
				return err
			}
			s, err := c.Session(ctx, id)
			return inv.Answer(err, s, func(w io.Writer) { fmt.Fprintf(w, "%s: closed\n", show.Line(string(s.ID))) })
		}),
	}
}
