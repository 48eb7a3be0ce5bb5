package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/show"
)

func (a *app) policy() *cobra.Command {
	all := append([]*cobra.Command{a.policyShow(), a.policyWhy(), a.policySnapshot(), a.policyTest()}, a.bundles()...)
	return parent("policy", "See the policy in force, why it answers as it does, and put others into force", all...)
}

func (a *app) policyShow() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "show", Short: "Show the policy bundle in force", Args: takes(),
		Example: "  palyra policy show\n  palyra policy show --file approval.cedar",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			p, err := c.Policy(ctx)
			if err != nil {
				return err
			}
			p.Files = some(p.Files)
			if file != "" {
				return a.printPolicyFile(p, file)
			}
			return a.emit(p, func(w io.Writer) {
				fields(w, pair{"Preset", p.Preset}, pair{"Bundle", string(p.Bundle)}, pair{"Snapshot", string(p.Snapshot)})
				for _, f := range p.Files {
					fmt.Fprintf(w, "\n%s  %s\n", show.Line(f.Name), show.Line(string(f.Digest)))
					block(w, "", f.Text)
				}
			})
		}),
	}
	cmd.Flags().StringVar(&file, "file", "", "only the text of this file")
	return cmd
}

func (a *app) printPolicyFile(p client.Policy, name string) error {
	for _, f := range p.Files {
		if f.Name == name {
			return a.emit(f, func(w io.Writer) { a.printStream(w, f.Text, "") })
		}
	}
	return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "the bundle has no file %s", name)
}

func (a *app) policyWhy() *cobra.Command {
	var r client.WhyRequest
	var principal, input string
	cmd := &cobra.Command{
		Use: "why [CALL]", Short: "Explain policy's answer to a call, on record or imagined", Args: takes("[CALL]"),
		Long:    "With CALL, the id of a call, explains the answer it got. With --tool, explains the\nanswer a call would get; nothing runs and nothing is recorded.",
		Example: "  palyra policy why 01J9Z8Q2V5T6Y7W8X9A0B1C2D3\n  palyra policy why --tool palyra.fs.write --input '{\"path\":\"a.txt\",\"content\":\"x\"}'",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, args []string) error {
			if (len(args) == 1) == (r.Tool != "") {
				return usage("give either the id of a call or --tool")
			}
			if len(args) == 1 {
				r = client.WhyRequest{Call: palyra.ID(args[0])}
			} else if err := a.imagine(&r, principal, input); err != nil {
				return err
			}
			why, err := c.Why(ctx, r)
			if err != nil {
				return err
			}
			return a.emit(why, func(w io.Writer) { printWhy(w, why) })
		}),
	}
	f := cmd.Flags()
	f.StringVar(&r.Tool, "tool", "", "the tool of an imagined call")
	f.StringVarP(&input, "input", "i", "{}", "its arguments: JSON, @FILE, or - for stdin")
	f.StringVar(&principal, "principal", "", "who would call (default agent:local)")
	f.StringVarP(&r.Workspace, "workspace", "w", "", "directory it would work in (default: the current one; with --remote it must be given)")
	_ = cmd.RegisterFlagCompletionFunc("tool", a.completeTools)
	return cmd
}

// imagine fills in a call that is only thought of.
func (a *app) imagine(r *client.WhyRequest, principal, input string) (err error) {
	r.Principal, r.Door = palyra.Principal(principal), palyra.DoorCLI
	if r.Arguments, err = a.readInput(input, maxInput); err != nil {
		return err
	}
	r.Workspace, err = a.workspaceOf(r.Workspace)
	return err
}

func printWhy(w io.Writer, e client.Explanation) {
	v := e.Verdict
	fields(w, pair{"Verdict", v.Effect.String()}, pair{"Reason", v.Reason}, pair{"Remedy", v.Remedy}, pair{"Risk", string(v.Risk.Level)},
		pair{"Factors", joined(v.Risk.Factors)}, pair{"Plan digest", string(e.PlanDigest)}, pair{"Bundle", string(v.Bundle)})
	for _, line := range e.Lines {
		if line != v.Reason && line != v.Remedy && line != "" {
			fmt.Fprintf(w, "  %s\n", show.Line(line))
		}
	}
	printHits(w, v)
	for _, text := range v.Errors {
		fmt.Fprintf(w, "  error: %s\n", show.Line(text))
	}
}

// printHits lists the policies that decided, with the reasons that the verdict
// does not give itself.
func printHits(w io.Writer, v palyra.Verdict) {
	header, reasoned := []string{"POLICY", "EFFECT", "AT"}, false
	var rows [][]string
	for _, p := range v.Policies {
		row := []string{p.ID, effectOf(v, p), place(p)}
		if !strings.Contains(v.Reason, p.Reason) {
			row, reasoned = append(row, p.Reason), true
		}
		rows = append(rows, row)
	}
	if reasoned {
		header = append(header, "REASON")
	}
	if rows != nil {
		table(w, header, rows)
	}
}

// effectOf is what a policy said. One that permits only what was approved says
// permit as well, which alone would be half of it.
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

func place(p palyra.PolicyHit) string {
	if p.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

func (a *app) policySnapshot() *cobra.Command {
	return &cobra.Command{
		Use: "snapshot [DIGEST]", Short: "Show the security configuration that was in force", Args: takes("[DIGEST]"),
		Example: "  palyra policy snapshot\n  palyra policy snapshot sha256:…",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, args []string) error {
			var d palyra.Digest
			if len(args) == 1 {
				if d = palyra.Digest(args[0]); !d.Valid() {
					return usage("%q is not a digest: sha256: and 64 hex digits", args[0])
				}
			}
			s, err := c.Snapshot(ctx, d)
			if err != nil {
				return err
			}
			return a.emit(s, func(w io.Writer) {
				b, err := encode(s)
				if err == nil {
					fmt.Fprintln(w, show.Block(indented(b)))
				}
			})
		}),
	}
}
