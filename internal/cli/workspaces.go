package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

func (a *app) workspaces() *cobra.Command {
	return parent("workspace", "Register directories for agents to work in", a.workspaceAdd(), a.workspaceList(), a.workspaceRemove())
}

func (a *app) workspaceAdd() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "add DIR", Short: "Register a directory", Args: takes("DIR"),
		Example: "  palyra workspace add . --name shop",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, args []string) error {
			dir, err := a.directory(args[0])
			if err != nil {
				return err
			}
			ws, err := c.AddWorkspace(ctx, dir, name)
			if err != nil {
				return err
			}
			return a.emit(ws, func(w io.Writer) { fmt.Fprintf(w, "%s: registered\n", show.Line(ws.Path)) })
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "a name for people")
	return cmd
}

func (a *app) workspaceList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the registered directories", Args: takes(),
		Example: "  palyra workspace list",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.Workspaces(ctx)
			if err != nil {
				return err
			}
			return a.emit(map[string][]palyra.Workspace{"workspaces": screen.Some(list)}, func(w io.Writer) {
				var rows [][]string
				for _, ws := range list {
					rows = append(rows, []string{ws.Path, ws.Name, strconv.FormatInt(ws.Owner, 10), string(ws.AddedBy), screen.Stamp(ws.AddedAt)})
				}
				screen.Table(w, []string{"PATH", "NAME", "UID", "ADDED BY", "ADDED"}, rows)
			})
		}),
	}
}

func (a *app) workspaceRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove DIR", Short: "Forget a directory", Args: takes("DIR"), ValidArgsFunction: a.completeWorkspaces,
		Example: "  palyra workspace remove ~/project",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, args []string) error {
			dir, err := a.directory(args[0])
			if err != nil {
				return err
			}
			if err := c.RemoveWorkspace(ctx, dir); err != nil {
				return err
			}
			return a.emit(map[string]string{"path": dir}, func(w io.Writer) { fmt.Fprintf(w, "%s: forgotten\n", show.Line(dir)) })
		}),
	}
}
