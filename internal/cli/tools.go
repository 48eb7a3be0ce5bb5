package cli

import (
	"context"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/execute"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

func toolsCommand(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("tools", "List, describe and call tools", toolsListCommand(inv), toolsShowCommand(inv), execute.CallCommand(inv))
}

func toolsListCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the tools an agent can call", Args: syntax.Takes(),
		Example: "  palyra tools list\n  palyra tools list --json",
		RunE: inv.AsAgent(func(ctx context.Context, c *client.Client, _ []string) error {
			tools, err := c.Tools(ctx)
			if err != nil {
				return err
			}
			for i := range tools {
				tools[i].Capabilities = screen.Some(tools[i].Capabilities)
			}
			return inv.Emit(map[string][]palyra.Tool{"tools": screen.Some(tools)}, func(w io.Writer) {
				printTools(w, tools, screen.Width(w))
			})
		}),
	}
}

func toolsShowCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Describe a tool and its input", Args: syntax.Takes("NAME"), ValidArgsFunction: inv.CompleteTools,
		Example: "  palyra tools show palyra.fs.write",
		RunE: inv.AsAgent(func(ctx context.Context, c *client.Client, args []string) error {
			t, err := c.Tool(ctx, palyra.ToolName(args[0]))
			if err != nil {
				return err
			}
			t.Capabilities = screen.Some(t.Capabilities)
			return inv.Emit(t, func(w io.Writer) {
				screen.Fields(w, screen.Pair{"Name", string(t.Name)}, screen.Pair{"Title", t.Title},
					screen.Pair{"Source", string(t.Source)}, screen.Pair{"Tier", string(t.Tier)},
					screen.Pair{"Capabilities", screen.Joined(t.Capabilities)},
					screen.Pair{"Read only", screen.Yes(t.ReadOnly)},
					screen.Pair{"Workspace", screen.Yes(t.Workspace)},
					screen.Pair{"Largest input", screen.Size(t.MaxInput)})
				screen.Block(w, "Description", t.Description)
				screen.Block(w, "Input schema", screen.Indented(t.InputSchema))
			})
		}),
	}
}

// printTools lists tools on lines of at most columns characters; 0: only the limit of a cell.
// `tools show` has whole descriptions.
func printTools(w io.Writer, tools []palyra.Tool, columns int) {
	header := []string{"NAME", "TIER", "CAPABILITIES", "DESCRIPTION"}
	used := 0
	rows := make([][]string, len(tools))
	for i, t := range tools {
		rows[i] = []string{string(t.Name), string(t.Tier), screen.Joined(t.Capabilities), ""}
	}
	for column := range header[:3] {
		wide := len(header[column])
		for _, row := range rows {
			wide = max(wide, utf8.RuneCountInString(show.Middle(row[column], screen.CellWidth)))
		}
		used += wide + 2
	}
	room := screen.CellWidth
	if columns > 0 {
		room = min(max(columns-used, 20), screen.CellWidth)
	}
	for i, t := range tools {
		rows[i][3] = screen.Fit(firstSentence(t.Description), room)
	}
	screen.Table(w, header, rows)
}

// firstSentence is the description of a tool in a list.
func firstSentence(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	if sentence, _, more := strings.Cut(line, ". "); more {
		return sentence + "."
	}
	return line
}
