package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"palyra/client"
	"palyra/internal/show"
)

func (a *app) policySuggest() *cobra.Command {
	var out string
	var rules int64
	var when period
	cmd := &cobra.Command{
		Use: "suggest", Short: "Suggest rules that would have saved questions", Args: takes(),
		Long: "Looks at the calls that people were asked about and allowed, and suggests the\n" +
			"narrowest rules that would have let the most of them run without a question. No rule\n" +
			"is suggested that opens anything else on record: what policy or a person denied, what\n" +
			"nobody answered, and what needs an answer of its own stays as it is. With --out the\n" +
			"policies in force are written to a new directory with the rules in one file more.\n" +
			"Nothing comes into force; read the rules, then use 'palyra policy apply DIR'.",
		Example: "  palyra policy suggest\n  palyra policy suggest --since 30d --out policies\n  palyra policy replay --candidate policies && palyra policy apply policies",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			q, err := when.query()
			if err != nil {
				return err
			}
			if rules < 0 {
				return usage("--rules %d: at least one", rules)
			}
			tell, done := a.counting("looked at")
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
			s.Rules, s.Report = some(s.Rules), wholeReport(s.Report)
			return a.emit(s, func(w io.Writer) {
				printSuggestion(w, s)
				if wrote {
					fmt.Fprintf(w, "\nwritten to %s; nothing is in force by that. Read %s, then:\n  palyra policy replay --candidate %s\n  palyra policy apply %s\n",
						show.Line(out), show.Line(s.File), show.Arg(out), show.Arg(out))
				}
			})
		}),
	}
	cmd.Flags().StringVar(&out, "out", "", "write a bundle with the rules to this new directory")
	cmd.Flags().Int64Var(&rules, "rules", 0, "at most so many, up to 100 (default 10)")
	_ = cmd.MarkFlagDirname("out")
	when.flags(cmd)
	return cmd
}

func printSuggestion(w io.Writer, s client.PolicySuggestion) {
	p := s.Report.Prompts
	if len(s.Rules) == 0 {
		fmt.Fprintf(w, "nothing to suggest: of %d calls, %d were asked about, and no narrow rule would have saved a question\n", s.Report.Records, p.Before)
		return
	}
	for _, r := range s.Rules {
		fmt.Fprintf(w, "// saves %d questions (%s)\n", r.Saves, show.Line(firstOf(r.Calls)))
		fmt.Fprintf(w, "%s\n\n", show.Block(r.Text))
	}
	fmt.Fprintf(w, "%d calls looked at; %d questions then, %d with these rules\n", s.Report.Records, p.Before, p.After)
}
