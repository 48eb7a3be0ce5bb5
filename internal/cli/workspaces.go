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

func workspacesCommand(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("workspace", "Register directories for agents to work in",
		workspaceAddCommand(inv), workspaceListCommand(inv), workspaceRemoveCommand(inv))
}

func workspaceAddCommand(inv *invocation.Invocation) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "add DIR", Short: "Register a directory", Args: syntax.Takes("DIR"),
		Example: "  palyra workspace add . --name shop",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			dir, err := inv.Directory(args[0])
			if err != nil {
				return err
			}
			ws, err := c.AddWorkspace(ctx, dir, name)
			return inv.Answer(err, ws, func(w io.Writer) {
				fmt.Fprintf(w, "%s: registered\n", show.Line(ws.Path))
				if at := ws.Repository.Path; at != "" {
					fmt.Fprintf(w, "it is a work tree of %s: runs there may commit to that repository; its configuration and hooks stay as they are\n",
						show.Line(at))
				}
			})
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "a name for people")
	return cmd
}

func workspaceListCommand(inv *invocation.Invocation) *cobra.Command {
	return invocation.List[palyra.Workspace]{
		Short: "List the registered directories", Example: "  palyra workspace list",
		Name: "workspaces", Find: (*client.Client).Workspaces,
		Head: []string{"PATH", "NAME", "UID", "ADDED BY", "ADDED"},
		Row: func(ws palyra.Workspace) []string {
			return []string{ws.Path, ws.Name, strconv.FormatInt(ws.Owner, 10), string(ws.AddedBy), screen.Stamp(ws.AddedAt)}
		},
	}.Command(inv)
}

func workspaceRemoveCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "remove DIR", Short: "Forget a directory", Args: syntax.Takes("DIR"), ValidArgsFunction: completeWorkspaces(inv),
		Example: "  palyra workspace remove ~/project",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			dir, err := inv.Directory(args[0])
			if err != nil {
				return err
			}
			err = c.RemoveWorkspace(ctx, dir)
			return inv.Answer(err, map[string]string{"path": dir}, func(w io.Writer) { fmt.Fprintf(w, "%s: forgotten\n", show.Line(dir)) })
		}),
	}
}
