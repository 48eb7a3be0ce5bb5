package cli

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/evidence"
	"palyra/internal/cli/execute"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/notify"
	"palyra/internal/cli/question"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

func approvalsCommand(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("approvals", "See and answer what agents ask for",
		approvalsListCommand(inv), approvalsShowCommand(inv), approvalsDecideCommand(inv), approvalsWatchCommand(inv),
		approvalsStatsCommand(inv), approvalsExportCommand(inv), evidence.ApprovalsVerify(inv))
}

// approvalJSON is an approval in JSON: the word itself and, beside it, the two fields that every list needs.
type approvalJSON struct {
	palyra.Approval
	Summary string           `json:"summary"`
	Risk    palyra.RiskLevel `json:"risk"`
}

func approvalOf(p palyra.Approval) approvalJSON {
	return approvalJSON{Approval: p, Summary: p.Prompt.Summary, Risk: p.Prompt.Risk.Level}
}

// approvalPage is one page of approvals.
type approvalPage struct {
	Approvals []approvalJSON `json:"approvals"`
	Next      string         `json:"next_cursor"`
}

// approvalFilter holds the filter flags of list and export.
type approvalFilter struct {
	client.ApprovalFilter
	subject, principal, answer, since, until string
}

func (f *approvalFilter) flags(cmd *cobra.Command) {
	set := cmd.Flags()
	set.BoolVar(&f.Pending, "pending", false, "only those that nobody has settled")
	set.StringVar(&f.answer, "decision", "", "only those settled this way: allow, deny, timeout or error")
	set.StringVar(&f.subject, "subject-type", "", "only this type: tool, channel_send, …")
	set.StringVar(&f.SubjectID, "subject-id", "", "only this subject")
	set.StringVar(&f.principal, "principal", "", "only those asked by this principal")
	set.StringVar(&f.since, "since", "", "only those asked at or after: a time, or a duration ago")
	set.StringVar(&f.until, "until", "", "only those asked before: a time, or a duration ago")
	set.BoolVar(&f.OldestFirst, "oldest-first", false, "oldest first")
	_ = cmd.RegisterFlagCompletionFunc("decision", cobra.FixedCompletions([]string{"allow", "deny", "timeout", "error"},
		cobra.ShellCompDirectiveNoFileComp))
}

// filter checks the flags and returns the filter.
func (f *approvalFilter) filter(now time.Time) (client.ApprovalFilter, error) {
	out := f.ApprovalFilter
	out.SubjectType, out.Principal, out.Answer = palyra.SubjectType(f.subject), palyra.Principal(f.principal), palyra.Answer(f.answer)
	switch out.Answer {
	case "", palyra.AnswerAllow, palyra.AnswerDeny, palyra.AnswerTimeout, palyra.AnswerError:
	default:
		return out, exit.Usagef("--decision %q is not one of allow, deny, timeout, error", f.answer)
	}
	if out.Pending && out.Answer != "" {
		return out, exit.Usagef("--pending and --decision exclude each other")
	}
	var err error
	if out.Since, err = syntax.When(f.since, now); err != nil {
		return out, err
	}
	out.Until, err = syntax.When(f.until, now)
	return out, err
}

func approvalsListCommand(inv *invocation.Invocation) *cobra.Command {
	var f approvalFilter
	cmd := &cobra.Command{
		Use: "list", Short: "List approvals", Args: syntax.Takes(),
		Example: "  palyra approvals list --pending\n  palyra approvals list --decision deny --since 24h --json",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			filter, err := f.filter(inv.Now())
			if err != nil {
				return err
			}
			page, err := c.Approvals(ctx, filter)
			if err != nil {
				return err
			}
			return printApprovals(inv, page)
		}),
	}
	f.flags(cmd)
	syntax.Paging(cmd, &f.Cursor, &f.Limit)
	return cmd
}

func printApprovals(inv *invocation.Invocation, page client.ApprovalPage) error {
	out := approvalPage{Approvals: []approvalJSON{}, Next: page.Next}
	for _, p := range page.Approvals {
		out.Approvals = append(out.Approvals, approvalOf(p))
	}
	return invocation.Page[palyra.Approval]{
		JSON: out, Things: page.Approvals, Next: page.Next, Head: []string{"APPROVAL", "STATE", "RISK", "ASKED BY", "SUMMARY"},
		Row: func(p palyra.Approval) []string {
			return []string{string(p.ID), stateOf(inv, p), string(p.Prompt.Risk.Level), string(p.Principal), p.Prompt.Summary}
		},
	}.Show(inv)
}

// stateOf is an approval's state in a word or two.
func stateOf(inv *invocation.Invocation, p palyra.Approval) string {
	if !p.Pending() {
		return question.Ending(p)
	}
	return "pending " + screen.Left(p.ExpiresAt, inv.Now())
}

func approvalsShowCommand(inv *invocation.Invocation) *cobra.Command {
	var full bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show an approval: the plan, and what became of it", Args: syntax.Takes("ID"),
		ValidArgsFunction: completeApprovals(inv),
		Long: "Shows what would run, where, what it may change and reach, and how risky it is. Long\n" +
			"lists of what is always so are counted; --full shows all of them, and --json has\n" +
			"everything as data.",
		Example: "  palyra approvals show 01J9Z8Q2V5T6Y7W8X9A0B1C2D3\n  palyra approvals show 01J9Z8Q2V5T6Y7W8X9A0B1C2D3 --full",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			p, err := c.Approval(ctx, palyra.ApprovalID(args[0]))
			return inv.Answer(err, approvalOf(p), func(w io.Writer) {
				v := execute.ViewOf(inv, w, p, inv.Separation())
				v.Short = !full
				v.Print()
			})
		}),
	}
	cmd.Flags().BoolVar(&full, "full", false, "show every mount, variable, digest and mechanism, and the whole diff")
	return cmd
}

func approvalsWatchCommand(inv *invocation.Invocation) *cobra.Command {
	var tell notices
	cmd := &cobra.Command{
		Use: "watch", Short: "Follow what is asked and answered, until Ctrl-C", Args: syntax.Takes(),
		Long: "Prints every pending approval, then each one as it is asked or settled. Answer them with\n'palyra approvals decide ID " +
			"allow', or deny. With --json there is one object per line.\n\n" +
			"--notify runs a line of yours in the shell whenever questions wait, --desktop shows a notice on\n" +
			"the desktop. The line finds what is asked in PALYRA_NOTICE, the number of questions in\n" +
			"PALYRA_NOTICE_COUNT, and PALYRA_NOTICE_RISK, PALYRA_NOTICE_ASKER and PALYRA_NOTICE_APPROVAL; on its\n" +
			"standard input it has the same as JSON. It has ten seconds. What an agent wrote is in the text:\n" +
			"quote it (\"$PALYRA_NOTICE\"), and do not hand it to what runs it. Nothing can be decided by a notice.",
		Example: "  palyra approvals watch\n  palyra approvals watch --json | jq -r .approval_id\n  palyra approvals watch --desktop\n" +
			"  palyra approvals watch --notify 'notify-send -- Palyra \"$PALYRA_NOTICE\"'",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			if err := c.Health(ctx); err != nil {
				return err
			}
			if !inv.JSON && !inv.Quiet {
				fmt.Fprintln(inv.Stderr, "palyra: answer in another terminal: palyra approvals decide ID allow, or deny; allow-edits and "+
					"allow-reads go on unasked where the question offers them")
				fmt.Fprintf(inv.Stdout, watchLine, "TIME", "APPROVAL", "STATE", "RISK", "ASKED BY", "SUMMARY")
			}
			hear, end := tell.begin(ctx, inv)
			defer end()
			return c.WatchApprovals(ctx, func(p palyra.Approval) error {
				hear(p)
				return inv.Emit(approvalOf(p), func(w io.Writer) { printWatched(inv, w, p) })
			})
		}),
	}
	cmd.Flags().StringVar(&tell.line, "notify", "", "a line for the shell that is run when a question waits")
	cmd.Flags().BoolVar(&tell.desktop, "desktop", false, "show a notice on the desktop when a question waits")
	return cmd
}

// notices says how somebody is told of questions.
type notices struct {
	line    string
	desktop bool
}

// begin begins to tell of what hear hears, until end.
func (n notices) begin(ctx context.Context, inv *invocation.Invocation) (hear func(palyra.Approval), end func()) {
	var ways []notify.Way
	if n.line != "" {
		ways = append(ways, notify.Command{Line: n.line, Env: inv.Env})
	}
	if n.desktop {
		ways = append(ways, notify.Desktop{})
	}
	if len(ways) == 0 {
		return func(palyra.Approval) {}, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	teller := notify.New(inv.Stderr, ways...)
	var done sync.WaitGroup
	done.Go(func() { teller.Run(ctx) })
	return teller.Hear, func() {
		cancel()
		done.Wait()
	}
}

// watchLine is a line of watch: time, id, state, risk, who, what.
const watchLine = "%-20s  %-26s  %-16s  %-8s  %-16s  %s\n"

// printWatched prints one line about an approval, with the time of its last event.
func printWatched(inv *invocation.Invocation, w io.Writer, p palyra.Approval) {
	at := p.RequestedAt
	if !p.Pending() {
		at = p.Decision.At
	}
	fmt.Fprintf(w, watchLine, screen.Stamp(at), show.Line(string(p.ID)), show.Line(stateOf(inv, p)), show.Line(string(p.Prompt.Risk.Level)),
		show.Line(string(p.Principal)), screen.SafeMiddle(p.Prompt.Summary, screen.CellWidth))
}

func approvalsExportCommand(inv *invocation.Invocation) *cobra.Command {
	var f approvalFilter
	var format, out string
	cmd := &cobra.Command{
		Use: "export", Short: "Export approvals, chained and sealed by a signature", Args: syntax.Takes(),
		Example: "  palyra approvals export --since 30d --out approvals.ndjson\n  palyra approvals verify approvals.ndjson --key trust.json",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			if format != "ndjson" && format != "json" {
				return exit.Usagef("--format %q is neither ndjson nor json", format)
			}
			filter, err := f.filter(inv.Now())
			if err != nil {
				return err
			}
			return inv.WriteTo(ctx, out, func(ctx context.Context, w io.Writer) error { return c.ExportApprovals(ctx, format, filter, w) })
		}),
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&format, "format", "ndjson", "ndjson or json")
	syntax.OutFlag(cmd, &out)
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"ndjson", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
