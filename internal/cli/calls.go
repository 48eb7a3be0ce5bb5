package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/question"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

func callsCommand(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("calls", "See and cancel tool calls", callsListCommand(inv), callsShowCommand(inv), callsCancelCommand(inv))
}

func callsListCommand(inv *invocation.Invocation) *cobra.Command {
	var f client.CallFilter
	var of invocation.Selection
	cmd := &cobra.Command{
		Use: "list", Short: "List calls, newest first", Args: syntax.Takes(),
		Example: "  palyra calls list --state pending",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			if of.State != "" && !slices.Contains(of.States, of.State) {
				return exit.Usagef("there is no state %q; the states are %s", of.State, strings.Join(of.States, ", "))
			}
			f.Principal, f.Session, f.State = palyra.Principal(of.Principal), palyra.SessionID(of.Session), palyra.State(of.State)
			if f.State == palyra.Running {
				f.State = palyra.Granted // what runs is on record as granted until it has ended
			}
			page, err := c.Calls(ctx, f)
			if err != nil {
				return err
			}
			page.Calls = screen.Some(page.Calls)
			for i := range page.Calls {
				page.Calls[i] = fillLists(page.Calls[i])
			}
			return invocation.Page[palyra.Call]{
				JSON: page, Things: page.Calls, Next: page.Next, Head: []string{"CALL", "STATE", "TOOL", "PRINCIPAL", "PROPOSED", "SUMMARY"},
				Row: func(x palyra.Call) []string {
					return []string{
						string(x.ID), stateShown(x), string(x.Proposal.Tool), string(x.Proposal.Principal), screen.Stamp(x.Proposed),
						x.Detail.Summary,
					}
				},
			}.Show(inv)
		}),
	}
	invocation.Select(inv, cmd, &of, "only those in this state, such as pending or finished", palyra.States())
	syntax.Paging(cmd, &f.Cursor, &f.Limit)
	return cmd
}

// stateShown is where a call stands, in the word that says most: a granted one runs, and an end that was not its own is named.
func stateShown(x palyra.Call) string {
	switch {
	case x.State == palyra.Granted:
		return string(palyra.Running)
	case x.State == palyra.Finished && x.Outcome != nil:
		return string(x.Outcome.Outcome)
	}
	return string(x.State)
}

func callsShowCommand(inv *invocation.Invocation) *cobra.Command {
	var full bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a call: what became of it, and what it printed", Args: syntax.Takes("ID"),
		Example: "  palyra calls show 01J9Z8Q2V5T6Y7W8X9A0B1C2D3\n  palyra calls show 01J9Z8Q2V5T6Y7W8X9A0B1C2D3 --full\n" +
			"  palyra calls show 01J9Z8Q2V5T6Y7W8X9A0B1C2D3 --json | jq .outcome",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			x, err := c.GetCall(ctx, palyra.CallID(args[0]))
			return inv.Answer(err, fillLists(x), func(w io.Writer) { printCall(w, x, attestationOf(ctx, c, x), full) })
		}),
	}
	cmd.Flags().BoolVar(&full, "full", false, "also its plan, and the ids of everything about it")
	return cmd
}

// fillLists gives a call's lists their JSON form.
func fillLists(x palyra.Call) palyra.Call {
	x.Tool.Capabilities = screen.Some(x.Tool.Capabilities)
	if x.Outcome != nil {
		o := *x.Outcome
		o.Policies, o.Quarantined = screen.Some(o.Policies), screen.Some(o.Quarantined) // as it was signed
		x.Outcome = &o
	}
	return x
}

// attestationOf finds the attestation of a call that ran; "" if it has none.
func attestationOf(ctx context.Context, c *client.Client, x palyra.Call) palyra.ID {
	if x.Outcome == nil || x.Grant == "" {
		return ""
	}
	at, err := c.Attestation(ctx, client.AttestationRef{Call: x.ID})
	if err != nil {
		return ""
	}
	return at.ID
}

// shownOutput is how much of a call's output is shown; --json has all of it.
const shownOutput = 4096

// printCall describes a call: what became of it first, the plan and further ids on demand.
func printCall(w io.Writer, x palyra.Call, attestation palyra.ID, full bool) {
	var o palyra.Outcome
	exit := ""
	if x.Outcome != nil {
		o = *x.Outcome
	}
	if o.Outcome == palyra.OutcomeFinished {
		exit = strconv.Itoa(o.ExitCode)
	}
	pairs := []screen.Pair{
		{"Call", string(x.ID)},
		{screen.SummaryField, x.Detail.Summary},
		{"State", stateShown(x)},
		{"Outcome", string(o.Outcome)},
		{"Exit code", exit},
		{"Signal", o.Signal},
		{"Reason code", string(o.ReasonCode)},
		{"Reason", o.Reason},
		{"Remedy", o.Remedy},
		{"Changes", changesLine(x)},
		{"Verdict", verdict(x)},
		{"Approval", string(x.Approval)},
		{"Decision", string(x.Decision.Answer)},
		{"Principal", string(x.Proposal.Principal)},
		{"Workspace", x.Proposal.Workspace},
		{"Proposed", screen.Stamp(x.Proposed)},
		{"Finished", screen.Stamp(x.Finished)},
	}
	if full {
		pairs = append(pairs, []screen.Pair{
			{"Tool", string(x.Proposal.Tool)},
			{"Owner", string(x.Proposal.Owner)},
			{"Surface", string(x.Proposal.Surface)},
			{"Session", string(x.Proposal.Session)},
			{"Run", string(x.Proposal.Run)},
			{"Plan digest", string(x.Digest)},
			{"Grant", string(x.Grant)},
			{"Attestation", string(attestation)},
		}...)
	}
	screen.Fields(w, pairs...)
	for _, n := range x.Detail.Notes {
		if strings.HasPrefix(n, "over tool_call.daily_bytes") {
			fmt.Fprintln(w, show.Line(n))
		}
	}
	for _, l := range o.Left {
		fmt.Fprintln(w, show.Line(l))
	}
	screen.Block(w, "Stdout", bounded(o.Stdout))
	screen.Block(w, "Stderr", bounded(o.Stderr))
	if len(o.Output) > 0 && string(o.Output) != "null" {
		screen.Block(w, "Output", bounded(screen.Indented(o.Output)))
	}
	if o.StdoutB64 != "" || o.StderrB64 != "" {
		fmt.Fprintln(w, "The output is not text; --json has it as base64.")
	}
	if full {
		printPlan(w, x.Plan)
	} else {
		fmt.Fprintln(w, "--full has its plan, session, grant and attestation.")
	}
}

// changesLine says what became of a call's changes, and what shows them.
func changesLine(x palyra.Call) string {
	changed, became := x.Changed()
	if changed == nil {
		return ""
	}
	return fmt.Sprintf("%s, %s: palyra changes %s", screen.Count(changed.Total(), "path"), became, x.ID)
}

// printPlan shows a call's plan, as its approver sees it; nothing before there is a plan.
func printPlan(w io.Writer, p palyra.Plan) {
	if p.Tool == "" {
		return
	}
	fmt.Fprintln(w, "Plan")
	v := question.View{W: w, Approval: palyra.Approval{Plan: p}, Width: screen.Width(w), Brief: true}
	v.Plan()
}

// bounded keeps the start of a long output and says how much is missing.
func bounded(text string) string {
	if len(text) <= shownOutput {
		return text
	}
	head := palyra.Clip(text, shownOutput)
	return head + fmt.Sprintf("\n(of %s; --json has it whole)", screen.Size(int64(len(text))))
}

// verdict is policy's answer; "" before policy judged.
func verdict(x palyra.Call) string {
	if x.Verdict.Bundle == "" {
		return ""
	}
	return x.Verdict.Effect.String()
}

func callsCancelCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID", Short: "Cancel a call: a question is withdrawn, a run is stopped", Args: syntax.Takes("ID"),
		Example: "  palyra calls cancel 01J9Z8Q2V5T6Y7W8X9A0B1C2D3",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			id := palyra.CallID(args[0])
			if err := c.CancelCall(ctx, id); err != nil {
				return err
			}
			x, err := c.GetCall(ctx, id)
			return inv.Answer(err, fillLists(x), func(w io.Writer) { fmt.Fprintf(w, "%s: %s\n", show.Line(string(x.ID)), show.Line(stateShown(x))) })
		}),
	}
}
