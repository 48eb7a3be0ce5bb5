package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/screen"
	"palyra/internal/show"
)

func (a *app) tools() *cobra.Command {
	return parent("tools", "List, describe and call tools", a.toolsList(), a.toolsShow(), a.toolsCall())
}

func (a *app) toolsList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the tools an agent can call", Args: takes(),
		Example: "  palyra tools list\n  palyra tools list --json",
		RunE: a.asAgent(func(ctx context.Context, c *client.Client, _ []string) error {
			tools, err := c.Tools(ctx)
			if err != nil {
				return err
			}
			for i := range tools {
				tools[i].Capabilities = screen.Some(tools[i].Capabilities)
			}
			return a.emit(map[string][]palyra.Tool{"tools": screen.Some(tools)}, func(w io.Writer) {
				printTools(w, tools, screen.Width(w))
			})
		}),
	}
}

func (a *app) toolsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Describe a tool and its input", Args: takes("NAME"), ValidArgsFunction: a.completeTools,
		Example: "  palyra tools show palyra.fs.write",
		RunE: a.asAgent(func(ctx context.Context, c *client.Client, args []string) error {
			t, err := c.Tool(ctx, args[0])
			if err != nil {
				return err
			}
			t.Capabilities = screen.Some(t.Capabilities)
			return a.emit(t, func(w io.Writer) {
				screen.Fields(w, screen.Pair{"Name", t.Name}, screen.Pair{"Title", t.Title},
					screen.Pair{"Source", string(t.Source)}, screen.Pair{"Tier", string(t.Tier)},
					screen.Pair{"Capabilities", screen.Joined(t.Capabilities)},
					screen.Pair{"Read only", screen.Yes(t.ReadOnly)},
					screen.Pair{"Workspace", screen.Yes(t.Workspace)},
					screen.Pair{"Largest input", screen.Size(t.MaxInput)})
				block(w, "Description", t.Description)
				block(w, "Input schema", screen.Indented(t.InputSchema))
			})
		}),
	}
}

// block prints a heading and outside text of several lines in a gutter.
func block(w io.Writer, heading, text string) {
	if text == "" {
		return
	}
	fmt.Fprintf(w, "%s\n%s", heading, show.Frame{Prefix: "  ", Width: screen.Width(w)}.Block(strings.TrimSuffix(text, "\n")))
}

// printTools lists tools on lines of at most columns characters; 0 is no limit
// but that of a cell. What a description loses, show has.
func printTools(w io.Writer, tools []palyra.Tool, columns int) {
	header := []string{"NAME", "TIER", "CAPABILITIES", "DESCRIPTION"}
	used := 0
	rows := make([][]string, len(tools))
	for i, t := range tools {
		rows[i] = []string{t.Name, string(t.Tier), screen.Joined(t.Capabilities), ""}
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

// firstSentence is what a list says about a tool.
func firstSentence(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	if sentence, _, more := strings.Cut(line, ". "); more {
		return sentence + "."
	}
	return line
}
