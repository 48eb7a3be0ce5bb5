package mcp

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/terminal"
	"palyra/internal/show"
)

// approveFlags are those of mcp approve.
type approveFlags struct {
	digests  []string
	readOnly []string // tools
}

func approveCommand(inv *invocation.Invocation) *cobra.Command {
	var f approveFlags
	cmd := &cobra.Command{
		Use: "approve NAME [TOOL]...", Short: "Approve tools of an MCP server as they are now", ValidArgsFunction: completeUpstreams(inv),
		Long: "Pins tools as they are now, so that they are offered. On a terminal the tools in\n" +
			"quarantine are shown, those that are named or all, and a typed yes approves them.\n" +
			"Elsewhere name what was looked at by its digest (see 'palyra mcp show').\n\n" +
			"What a server says of its tools, that one is read-only for instance, is shown and\n" +
			"never believed. With --read-only you say it yourself: policies then see it as\n" +
			"resource.read_only. It is on record with your signature, and holds for the tool as\n" +
			"it is now; approving the tool again without it takes it back.",
		Example: "  palyra mcp approve files\n  palyra mcp approve files read_file --digest sha256:2f5…\n  palyra mcp approve files " +
			"read_file --read-only read_file",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usagef("NAME is missing")
			}
			return nil
		},
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			u, err := c.Upstream(ctx, args[0], false)
			if err != nil {
				return err
			}
			looked, err := lookedAt(ctx, inv, u, args[1:], f)
			if err != nil {
				return err
			}
			only, err := f.stated(u, looked)
			if err != nil {
				return err
			}
			if u, err = c.ApproveUpstream(ctx, args[0], looked, only...); err != nil {
				return err
			}
			return inv.Emit(wholeUpstream(u), func(w io.Writer) { printUpstreamTools(w, u) })
		}),
	}
	cmd.Flags().StringArrayVar(&f.digests, "digest", nil, "digest of a tool as it was looked at (repeatable)")
	cmd.Flags().StringArrayVar(&f.readOnly, "read-only", nil, "a tool of these that only looks, by your word (repeatable)")
	return cmd
}

// candidates are the tools that can be approved: those in quarantine, of the given names or all,
// and those named by --read-only.
func (f approveFlags) candidates(u palyra.Upstream, names []string) []palyra.UpstreamTool {
	tools := waitingTools(u, names)
	for _, t := range u.Tools {
		if t.State == palyra.UpstreamToolActive && (slices.Contains(f.readOnly, t.Name) || slices.Contains(names, t.Name) ||
			slices.Contains(names, string(t.Tool))) {
			tools = append(tools, t)
		}
	}
	return tools
}

// stated are the digests of the tools that --read-only names, which must be among the approved ones.
func (f approveFlags) stated(u palyra.Upstream, looked []palyra.Digest) (out []palyra.Digest, _ error) {
	for _, name := range f.readOnly {
		i := slices.IndexFunc(u.Tools, func(t palyra.UpstreamTool) bool { return t.Name == name || string(t.Tool) == name })
		if i < 0 || !slices.Contains(looked, u.Tools[i].Digest) {
			return nil, exit.Failedf(palyra.ReasonNotFound, "--read-only names %s, which is not one of the tools that are approved here",
				show.Arg(name)).
				WithRemedy("see 'palyra mcp show %s'", u.Name)
		}
		out = append(out, u.Tools[i].Digest)
	}
	return out, nil
}

// lookedAt returns the digests that a person has seen: the given ones, or those of the tools that
// are shown now and answered with yes.
func lookedAt(ctx context.Context, inv *invocation.Invocation, u palyra.Upstream, names []string, f approveFlags) (out []palyra.Digest,
	_ error,
) {
	tools := f.candidates(u, names)
	if len(f.digests) > 0 {
		for _, d := range f.digests {
			out = append(out, palyra.Digest(d))
			if len(names) > 0 && !slices.ContainsFunc(tools, func(t palyra.UpstreamTool) bool { return t.Digest == palyra.Digest(d) }) {
				return nil, exit.Failedf(palyra.ReasonStaleDigest, "none of these tools waits with the digest %s", show.Arg(d)).
					WithRemedy("see 'palyra mcp show %s'", u.Name)
			}
		}
		return out, nil
	}
	if len(tools) == 0 {
		return nil, exit.Failedf(palyra.ReasonNotFound, "no tool of %s waits for an approval", show.Line(u.Name)).
			WithRemedy("see 'palyra mcp show %s'", u.Name)
	}
	if inv.JSON {
		return nil, exit.Usagef("--json asks nothing: name what was looked at with --digest")
	}
	nobody := exit.Failedf(palyra.ReasonCancelled, "there is nobody to ask").
		WithRemedy("run it on a terminal, or name digests of 'palyra mcp show %s' with --digest", u.Name)
	if !inv.Interactive() { // before printing pages that nobody can answer
		return nil, nobody
	}
	what := "this tool"
	if len(tools) > 1 {
		what = fmt.Sprintf("these %d tools", len(tools))
	}
	for _, t := range tools {
		printUpstreamTool(inv.Stdout, t)
		fmt.Fprintln(inv.Stdout)
		out = append(out, t.Digest)
	}
	question := fmt.Sprintf("Offer %s to agents? Type yes: ", what)
	if n := len(f.readOnly); n > 0 {
		question = fmt.Sprintf("Offer %s to agents, %d as read-only by your word? Type yes: ", what, n)
	}
	answer, err := terminal.AskLine(ctx, question)
	if err != nil {
		return nil, nobody.WithCause(err)
	}
	if answer != "yes" {
		return nil, exit.Failedf(palyra.ReasonCancelled, "nothing was approved")
	}
	return out, nil
}
