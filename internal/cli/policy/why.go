package policy

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/syntax"
)

// whyOptions holds the options of why.
type whyOptions struct {
	exec                                proposal.Options
	tool, input, line, batch, principal string
	full                                bool
	dash                                int // index of --; -1: none
}

func whyCommand(inv *invocation.Invocation) *cobra.Command {
	var o whyOptions
	cmd := &cobra.Command{
		Use: "why [flags] [ID | -- CMD [ARG]...]", Short: "Explain the answer to a call, on record or imagined, and what would turn it",
		Args: o.check,
		Long: "With ID, the id of a call, an approval or an attestation, says what became of the call:\n" +
			"what refused it or asked, which policies decided, and what would turn that today.\n\n" +
			"With a command after --, a line of shell after --script, or a tool after --tool, says\n" +
			"what a call would be answered that 'palyra exec' or 'palyra tools call' would propose.\n" +
			"Nothing runs and nothing is recorded.\n\n" +
			"Changes that would turn the answer come smallest first. One that is marked as tried\n" +
			"was planned and judged; the others can only be tried by doing them.\n\n" +
			"--batch reads one such question per line, {\"argv\":[…]}, {\"script\":\"…\"} or\n" +
			"{\"tool\":\"…\",\"input\":{…}}, with principal, workspace and tier where they differ, and\n" +
			"answers each with one line of JSON, in order and with the line's number. A line that is\n" +
			"empty or cannot be read is answered with what is wrong with it, and the exit code is 1\n" +
			"at the end.",
		Example: "  palyra policy why 01J9Z8Q2V5T6Y7W8X9A0B1C2D3\n" +
			"  palyra policy why --json -- git push --force\n" +
			"  palyra policy why --script 'ls | wc -l'\n" +
			"  palyra policy why --tool palyra.fs.write --input '{\"path\":\"a.txt\",\"content\":\"x\"}'\n" +
			"  palyra policy why --batch questions.ndjson",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			if o.batch != "" || o.dash >= 0 || len(args) == 0 { // not about a call on record
				if err := speaker(ctx, inv, &o); err != nil {
					return err
				}
			}
			if o.batch != "" {
				return whyBatch(ctx, inv, c, o)
			}
			r, err := whyRequest(ctx, inv, o, args)
			if err != nil {
				return err
			}
			why, err := c.Why(ctx, r)
			if err != nil {
				return err
			}
			v := whyOf(why, o.full)
			return inv.Emit(v, func(w io.Writer) { printWhy(w, v) })
		}),
		ValidArgsFunction: syntax.CompleteNothing,
	}
	o.whyFlags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("tool", inv.CompleteTools)
	return cmd
}

func (o *whyOptions) whyFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.tool, "tool", "", "the tool of an imagined call")
	f.StringVarP(&o.input, "input", "i", "{}", "its arguments: JSON, @FILE, or - for stdin")
	f.StringVar(&o.line, "script", "", "a shell line, instead of CMD")
	f.StringVar(&o.batch, "batch", "", "file with one question per line, or - for stdin")
	f.StringVar(&o.principal, "principal", "", "who would call (default: the agent of "+invocation.TokenVariable+", else your own command)")
	f.StringVarP(&o.exec.Workspace, "workspace", "w", "",
		"directory it would work in (default: the current one; with --remote it must be given)")
	f.StringVar(&o.exec.Cwd, "cwd", "", "directory to start in, inside the workspace (default: the workspace)")
	f.StringVar(&o.exec.Tier, "tier", "", "sandbox: b or c (default: the configured one)")
	f.StringVar(&o.exec.Profile, "profile", "", "what its sandbox is furnished with, or none (default: by the command)")
	f.StringArrayVar(&o.exec.Egress, "egress", nil, "host:port it may connect to; may be given again")
	f.StringArrayVarP(&o.exec.Env, "env", "e", nil, "variable NAME=VALUE it gets; may be given again")
	f.BoolVar(&o.full, "full", false, "also everything that policies looked at")
	_ = cmd.RegisterFlagCompletionFunc("tier", cobra.FixedCompletions([]string{"b", "c"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("profile", cobra.FixedCompletions(proposal.Profiles, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagDirname("workspace")
	_ = cmd.MarkFlagFilename("batch")
}

// check refuses a command line that asks about nothing, or about two things at once.
func (o *whyOptions) check(cmd *cobra.Command, args []string) error {
	o.dash = cmd.ArgsLenAtDash()
	script := cmd.Flags().Changed("script")
	forms := 0
	for _, given := range []bool{len(args) > 0, o.tool != "", script, o.batch != ""} {
		if given {
			forms++
		}
	}
	switch {
	case forms != 1 || o.dash > 0:
		return exit.Usagef("ask about one thing: an ID, -- CMD, --script, --tool or --batch")
	case o.dash < 0 && len(args) > 1:
		return exit.Usagef("put -- before the command: palyra policy why -- %s", strings.Join(args, " "))
	case cmd.Flags().Changed("input") && o.tool == "":
		return exit.Usagef("--input belongs to --tool")
	case len(args) > 0 && args[0] == "":
		return exit.Usagef("an ID or CMD that is empty")
	case script && (strings.TrimSpace(o.line) == "" || strings.ContainsRune(o.line, 0) || len(o.line) > proposal.MaxScript):
		return exit.Usagef("--script needs a line of shell, of at most %d bytes", proposal.MaxScript)
	case len(args) == 1 && o.dash < 0 && len(args[0]) > maxWhyID:
		return exit.Usagef("%q… is too long for an ID", palyra.Clip(args[0], 32))
	case o.asksAbout(cmd, "cwd", "tier", "profile", "egress", "env") && o.dash < 0 && !script && o.batch == "":
		return exit.Usagef("--cwd, --tier, --profile, --egress and --env belong to a command")
	case !utf8.ValidString(o.line + o.principal + o.tool):
		return exit.Usagef("what is not UTF-8 cannot be asked about")
	}
	return o.exec.Values(args)
}

// maxWhyID is longer than any id or digest.
const maxWhyID = 128

func (o *whyOptions) asksAbout(cmd *cobra.Command, flags ...string) bool {
	return slices.ContainsFunc(flags, func(f string) bool { return cmd.Flags().Changed(f) })
}

// whyRequest is the question that the command line asks.
func whyRequest(ctx context.Context, inv *invocation.Invocation, o whyOptions, args []string) (client.WhyRequest, error) {
	if len(args) == 1 && o.dash < 0 {
		return client.WhyRequest{ID: palyra.ID(args[0])}, nil
	}
	if o.tool != "" {
		raw, err := inv.ReadInput(o.input, proposal.MaxInput)
		if err != nil {
			return client.WhyRequest{}, err
		}
		o.exec.Workspace, err = inv.WorkspaceOf(o.exec.Workspace)
		return o.questionFor(palyra.ToolName(o.tool), raw), err
	}
	if err := settle(ctx, inv, &o); err != nil {
		return client.WhyRequest{}, err
	}
	return o.command(args, o.line)
}

// settle finds the workspace that exec would work in.
func settle(ctx context.Context, inv *invocation.Invocation, o *whyOptions) (err error) {
	if o.exec.Workspace == "" && o.exec.Cwd == "" {
		o.exec.Workspace, o.exec.Cwd = inv.Nearest(ctx)
	}
	o.exec.Workspace, err = inv.WorkspaceOf(o.exec.Workspace)
	return err
}

// questionFor is a question about a tool.
func (o whyOptions) questionFor(tool palyra.ToolName, input json.RawMessage) client.WhyRequest {
	return client.WhyRequest{
		Tool: tool, Arguments: input, Principal: palyra.Principal(o.principal), Workspace: o.exec.Workspace, Surface: palyra.SurfaceCLI,
	}
}

// command is a question about a command, or a line of shell, as exec would propose it.
func (o whyOptions) command(argv []string, line string) (client.WhyRequest, error) {
	call, err := o.exec.Request(argv, line, proposal.Input{}, nil)
	return o.questionFor(call.Tool, call.Arguments), err
}
