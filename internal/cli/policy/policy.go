// Package policy is `palyra policy`: the policies in force, why they answer as they do, and others put
// into force. It judges nothing itself: the daemon explains, checks and replays.
package policy

import (
	"context"
	"fmt"
	"io"
	"slices"
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

// Command is `palyra policy`.
func Command(inv *invocation.Invocation) *cobra.Command {
	all := append([]*cobra.Command{showCommand(inv), whyCommand(inv), snapshotCommand(inv), testCommand(inv)}, bundles(inv)...)
	return syntax.Parent("policy", "See the policy in force, why it answers as it does, and put others into force", all...)
}

func showCommand(inv *invocation.Invocation) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "show", Short: "Show the policy bundle in force", Args: syntax.Takes(),
		Example: "  palyra policy show\n  palyra policy show --file approval.cedar",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			p, err := c.Policy(ctx)
			if err != nil {
				return err
			}
			p.Files = screen.Some(p.Files)
			if file != "" {
				return printPolicyFile(inv, p, file)
			}
			return inv.Emit(p, func(w io.Writer) {
				screen.Fields(w, screen.Pair{"Preset", p.Preset}, screen.Pair{"Bundle", string(p.Bundle)},
					screen.Pair{"Snapshot", string(p.Snapshot)})
				for _, f := range p.Files {
					fmt.Fprintf(w, "\n%s  %s\n", show.Line(f.Name), show.Line(string(f.Digest)))
					screen.Block(w, "", f.Text)
				}
			})
		}),
	}
	cmd.Flags().StringVar(&file, "file", "", "only the text of this file")
	return cmd
}

func printPolicyFile(inv *invocation.Invocation, p client.Policy, name string) error {
	for _, f := range p.Files {
		if f.Name == name {
			return inv.Emit(f, func(w io.Writer) { inv.PrintStream(w, f.Text, "") })
		}
	}
	return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the bundle has no file %s", name)
}

// printHits lists the policies that decided, with reasons that the verdict itself lacks.
func printHits(w io.Writer, v palyra.Verdict) {
	header, reasoned := []string{"POLICY", "EFFECT", "AT"}, false
	var rows [][]string
	for _, p := range v.Policies {
		row := []string{p.ID, effectOf(v, p), question.RulePlace(p)}
		if !strings.Contains(v.Reason, p.Reason) {
			row, reasoned = append(row, p.Reason), true
		}
		rows = append(rows, row)
	}
	if reasoned {
		header = append(header, "REASON")
	}
	if rows != nil {
		screen.Table(w, header, rows)
	}
}

// effectOf is the effect of a policy. For one that permits only approved calls it says so, because
// "permit" alone would mislead.
func effectOf(v palyra.Verdict, p palyra.PolicyHit) string {
	asks := len(v.Pairs) == 0 && v.Effect == palyra.Ask
	for _, pair := range v.Pairs {
		asks = asks || pair.Effect == palyra.Ask && slices.Contains(pair.Policies, p.ID)
	}
	if asks && p.Effect == "permit" {
		return "permit, with approval"
	}
	return p.Effect
}

func snapshotCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "snapshot [DIGEST]", Short: "Show the security configuration that was in force", Args: syntax.Takes("[DIGEST]"),
		Example: "  palyra policy snapshot\n  palyra policy snapshot sha256:…",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			var d palyra.Digest
			if len(args) == 1 {
				if d = palyra.Digest(args[0]); !d.Valid() {
					return exit.Usagef("%q is not a digest: sha256: and 64 hex digits", args[0])
				}
			}
			s, err := c.Snapshot(ctx, d)
			return inv.Answer(err, s, func(w io.Writer) {
				b, err := screen.Encode(s)
				if err == nil {
					fmt.Fprintln(w, show.Block(screen.Indented(b)))
				}
			})
		}),
	}
}
