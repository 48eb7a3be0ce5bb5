package policy

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// maxSuggested is the most rules that a daemon suggests.
const maxSuggested = 100

func suggestCommand(inv *invocation.Invocation) *cobra.Command {
	var out string
	var rules int64
	var when period
	cmd := &cobra.Command{
		Use: "suggest", Short: "Suggest rules that would have saved questions", Args: syntax.Takes(),
		Long: "Looks at the calls that people were asked about and allowed, and at those that were\n" +
			"observed (see 'palyra observe'), and suggests the narrowest rules that would have let\n" +
			"the most of them run without a question. Of what was only observed no rule is made for\n" +
			"a host, for what cannot be taken back, or for more than its workspace. No rule\n" +
			"is suggested that opens anything else on record: what policy or a person denied, what\n" +
			"nobody answered, and what needs an answer of its own stays as it is. With --out the\n" +
			"policies in force are written to a new directory with the rules in one file more.\n" +
			"Nothing comes into force; read the rules, then use 'palyra policy apply DIR'.",
		Example: "  palyra policy suggest\n  palyra policy suggest --since 30d --out policies\n  palyra policy replay --candidate " +
			"policies && palyra policy apply policies",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			q, err := when.query()
			if err != nil {
				return err
			}
			if rules < 1 || rules > maxSuggested {
				return exit.Usagef("--rules %d: from 1 to %d", rules, maxSuggested)
			}
			tell, done := counting(inv, "looked at")
			s, err := c.SuggestPolicy(ctx, q, rules, tell)
			done()
			if err != nil {
				return err
			}
			wrote := out != "" && len(s.Rules) > 0
			if wrote {
				if err := writeBundle(out, s.Files); err != nil {
					return err
				}
			}
			s.Rules, s.Report = screen.Some(s.Rules), wholeReport(s.Report)
			return inv.Emit(s, func(w io.Writer) {
				printSuggestion(w, s)
				if out != "" && !wrote {
					fmt.Fprintf(w, "nothing was written to %s\n", show.Line(out))
				}
				if wrote {
					fmt.Fprintf(w, "\nwritten to %s; nothing is in force by that. Read %s, then:\n  palyra policy replay --candidate %s\n  "+
						"palyra policy apply %s\n",
						show.Line(out), show.Line(s.File), show.Arg(out), show.Arg(out))
				}
			})
		}),
	}
	cmd.Flags().StringVar(&out, "out", "", "write a bundle with the rules to this new directory")
	cmd.Flags().Int64Var(&rules, "rules", 10, "at most so many, up to "+strconv.Itoa(maxSuggested))
	_ = cmd.MarkFlagDirname("out")
	when.flags(cmd)
	return cmd
}

func printSuggestion(w io.Writer, s client.PolicySuggestion) {
	p := s.Report.Prompts
	if len(s.Rules) == 0 {
		fmt.Fprintf(w, "nothing to suggest: of %s, %d were asked about, or would have been while calls were observed, and no narrow rule\n"+
			"would have saved a question. Of what was observed none is ever made for a host, for what lies outside of the workspace or\n"+
			"for what cannot be taken back\n", screen.Count(s.Report.Records, "call"), p.Before)
		return
	}
	saved := int64(0)
	for _, r := range s.Rules {
		saved += r.Saves
		fmt.Fprintf(w, "// saves %s (%s)\n", screen.Count(r.Saves, "question"), show.Line(firstOf(r.Calls)))
		fmt.Fprintf(w, "%s\n\n", show.Block(r.Text))
	}
	// Other policies may have been in force when the calls were made, so the savings are counted
	// from the questions that today's would ask.
	fmt.Fprintf(w, "%s looked at: today's policies would ask %s of them, with these rules %d (%d fewer)\n",
		screen.Count(s.Report.Records, "call"), screen.Count(p.After+saved, "question"), p.After, saved)
	if p.Before != p.After+saved {
		fmt.Fprintf(w, "when they were made, people were asked %s\n", screen.Count(p.Before, "question"))
	}
}
