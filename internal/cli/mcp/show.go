package mcp

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

func completeUpstreams(inv *invocation.Invocation) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return invocation.Offer(cmd, inv.Operator, func(ctx context.Context, c *client.Client) ([]string, error) {
			list, err := c.Upstreams(ctx)
			return invocation.WordsOf(list, err, func(u palyra.Upstream) string { return u.Name })
		})
	}
}

func listCommand(inv *invocation.Invocation) *cobra.Command {
	return invocation.List[palyra.Upstream]{
		Short: "List the MCP servers behind the gate", Example: "  palyra mcp list",
		Name: "upstreams", Find: (*client.Client).Upstreams, Whole: wholeUpstream,
		Head: []string{"NAME", "TRANSPORT", "STATE", "TOOLS", "SERVER"},
		Row: func(u palyra.Upstream) []string {
			return []string{u.Name, string(u.Transport), string(u.State), toolCounts(u), placeOf(u)}
		},
	}.Command(inv)
}

// toolCounts is the number of tools in each state.
func toolCounts(u palyra.Upstream) string {
	of := map[palyra.UpstreamToolState]int{}
	for _, t := range u.Tools {
		of[t.State]++
	}
	var parts []string
	for _, s := range []palyra.UpstreamToolState{
		palyra.UpstreamToolActive, palyra.UpstreamToolQuarantined, palyra.UpstreamToolRefused,
		palyra.UpstreamToolGone,
	} {
		if of[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", of[s], s))
		}
	}
	return strings.Join(parts, ", ")
}

// placeOf is an upstream's command or URL.
func placeOf(u palyra.Upstream) string {
	if u.Transport == palyra.TransportHTTP {
		return u.URL
	}
	return show.Argv(u.Command)
}

func showCommand(inv *invocation.Invocation) *cobra.Command {
	var refresh bool
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show an MCP server and its tools, as they are and as they were approved", Args: syntax.Takes("NAME"),
		ValidArgsFunction: completeUpstreams(inv),
		Example:           "  palyra mcp show files\n  palyra mcp show files --refresh",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			u, err := c.Upstream(ctx, args[0], refresh)
			return inv.Answer(err, wholeUpstream(u), func(w io.Writer) { printUpstream(w, u) })
		}),
	}
	cmd.Flags().BoolVar(&refresh, "refresh", false, "ask the server again what its tools are")
	return cmd
}

func printUpstream(w io.Writer, u palyra.Upstream) {
	env := ""
	for _, name := range slices.Sorted(maps.Keys(u.Env)) {
		env += " " + show.Arg(name+"="+u.Env[name])
	}
	timeout := ""
	if u.TimeoutMS > 0 {
		timeout = (time.Duration(u.TimeoutMS) * time.Millisecond).String()
	}
	command := ""
	if len(u.Command) > 0 {
		command = show.Argv(u.Command)
	}
	screen.Fields(w, screen.Pair{"Name", u.Name}, screen.Pair{"State", string(u.State)}, screen.Pair{"Fault", u.Fault},
		screen.Pair{"Server", u.Server}, screen.Pair{"Command", command}, screen.Pair{"URL", u.URL},
		screen.Pair{"Environment", strings.TrimSpace(env)}, screen.Pair{"Workspace", u.Workspace},
		screen.Pair{"Profile", u.Profile}, screen.Pair{"Egress", strings.Join(u.Egress, ", ")},
		screen.Pair{"Secrets", strings.Join(u.Bindings, ", ")},
		screen.Pair{"Timeout", timeout}, screen.Pair{"Definition", string(u.Digest)},
		screen.Pair{"Added", screen.Stamp(u.AddedAt) + " by " + string(u.AddedBy)})
	for _, t := range u.Tools {
		fmt.Fprintln(w)
		printUpstreamTool(w, t)
	}
}

// printUpstreamTool shows a tool. Its texts come from a stranger: unusual characters in them are named.
func printUpstreamTool(w io.Writer, t palyra.UpstreamTool) {
	pinned := string(t.Pinned)
	if t.Pinned == t.Digest {
		pinned = ""
	}
	screen.Fields(w, screen.Pair{"Tool", t.Name}, screen.Pair{"State", string(t.State)}, screen.Pair{"Why", t.Why},
		screen.Pair{"Title", t.Title}, screen.Pair{"Digest", string(t.Digest)}, screen.Pair{"Approved", pinned},
		screen.Pair{"Server says", strings.Join(t.Claims, ", ")}, screen.Pair{"Operator says", operatorSays(t)},
		screen.Pair{"Unusual", strings.Join(show.Notes(t.Title+"\n"+t.Description), "; ")})
	screen.Block(w, "Description", t.Description)
	if t.State != palyra.UpstreamToolRefused {
		screen.Block(w, "Input schema", screen.Indented(t.InputSchema))
	}
}

func removeCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "End an MCP server and take its tools away", Args: syntax.Takes("NAME"),
		ValidArgsFunction: completeUpstreams(inv),
		Example:           "  palyra mcp remove files",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			err := c.RemoveUpstream(ctx, args[0])
			return inv.Answer(err, map[string]string{"name": args[0]}, func(w io.Writer) { fmt.Fprintf(w, "%s: removed\n", show.Line(args[0])) })
		}),
	}
}

// operatorSays is the operator's own statement about a tool at its approval.
func operatorSays(t palyra.UpstreamTool) string {
	if t.ReadOnly {
		return "read-only"
	}
	return ""
}
