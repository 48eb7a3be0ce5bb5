package policy

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
	"palyra/internal/show"
)

// period is the time that a replay looks at.
type period struct{ since, until string }

func (s *period) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.since, "since", "",
		"calls proposed from then on: a time, a date or a duration ago, such as 2026-01-02T15:04:05Z, 2026-01-02 or 7d")
	cmd.Flags().StringVar(&s.until, "until", "", "calls proposed before then (default: now)")
}

func (s *period) query() (q client.ReplayQuery, err error) {
	now := time.Now()
	if q.Since, err = syntax.When(s.since, now); err != nil {
		return q, err
	}
	if q.Until, err = syntax.When(s.until, now); err != nil {
		return q, err
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return q, exit.Usagef("--since must come before --until")
	}
	return q, nil
}

func replayCommand(inv *invocation.Invocation) *cobra.Command {
	var candidate string
	var when period
	cmd := &cobra.Command{
		Use: "replay", Short: "Judge the calls on record again and say what would be different", Args: syntax.Takes(),
		Long: "Judges every call on record again, as it was planned then, with the policies in the\n" +
			"directory that --candidate names, or with those in force, and counts the answers that\n" +
			"would be others. Nothing runs and nothing changes. A call that cannot be judged again\n" +
			"is counted with the reason. --json lists up to 500 calls of each kind.",
		Example: "  palyra policy replay --candidate policies\n  palyra policy replay --candidate policies --since 7d --json",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			q, err := when.query()
			if err != nil {
				return err
			}
			if candidate != "" {
				if q.Files, err = readBundle(candidate); err != nil {
					return err
				}
			}
			tell, done := counting(inv, "judged")
			r, err := c.ReplayPolicy(ctx, q, tell)
			done()
			if err != nil {
				return err
			}
			if err := inv.Emit(wholeReport(r), func(w io.Writer) { printReplay(w, r) }); err != nil {
				return err
			}
			if len(r.Problems) > 0 {
				return exit.Error{Code: exit.Failure} // printed already
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&candidate, "candidate", "", "directory of the policies to judge with (default: those in force)")
	_ = cmd.MarkFlagDirname("candidate")
	when.flags(cmd)
	return cmd
}

// counting returns a function that shows the progress of work of unknown length on a terminal, and
// one that clears that line.
func counting(inv *invocation.Invocation, verb string) (tell func(int64), done func()) {
	if inv.Quiet || inv.JSON || !terminal.Is(inv.Stderr) {
		return nil, func() {}
	}
	return func(n int64) { fmt.Fprintf(inv.Stderr, "\rpalyra: %s %d calls\x1b[K", verb, n) },
		func() { fmt.Fprint(inv.Stderr, "\r\x1b[K") }
}

// wholeReport replaces null lists by empty ones.
func wholeReport(r client.ReplayReport) client.ReplayReport {
	r.Transitions, r.Gaps, r.Short.Calls = screen.Some(r.Transitions), screen.Some(r.Gaps), screen.Some(r.Short.Calls)
	for i := range r.Transitions {
		r.Transitions[i].Calls = screen.Some(r.Transitions[i].Calls)
	}
	return r
}

// shownCalls is how many calls of a kind are shown to people.
const shownCalls = 20

func printReplay(w io.Writer, r client.ReplayReport) {
	if len(r.Problems) > 0 {
		for _, p := range r.Problems {
			fmt.Fprintf(w, "%s\n", show.Line(fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)))
		}
		fmt.Fprintln(w, "the candidate is not good; nothing was judged")
		return
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	lines := []screen.Pair{{"Bundle", string(r.Bundle)}, {"Calls", number(r.Records)}, {"Same answer", number(r.Same)}}
	for _, t := range r.Transitions {
		lines = append(lines, screen.Pair{t.From.String() + "→" + t.To.String(), number(t.Count)})
	}
	p := r.Prompts
	screen.Fields(w, append(lines,
		screen.Pair{"Questions", fmt.Sprintf("%d then, %d now: %d saved, %d added", p.Before, p.After, p.Saved, p.Added)},
		screen.Pair{"Unreplayable", number(r.Unreplayable)})...)
	if r.Short.Count > 0 {
		fmt.Fprintf(w, "%d asked then and now, but the answer that was given would not do\n", r.Short.Count)
	}
	if r.Failing > 0 {
		fmt.Fprintf(w, "%d denied because a policy could not be evaluated\n", r.Failing)
	}
	for _, g := range r.Gaps {
		fmt.Fprintf(w, "  %6d  %s (%s)\n", g.Count, show.Line(g.Reason), show.Line(firstOf(g.Calls)))
	}
	for _, t := range r.Transitions {
		printChanges(w, t, t.From.String()+"→"+t.To.String())
	}
	printChanges(w, r.Short, "the answer would not do")
}

// firstOf names the first calls of a list.
func firstOf(calls []palyra.CallID) string {
	const most = 3
	var out []string
	for _, id := range calls[:min(len(calls), most)] {
		out = append(out, string(id))
	}
	if len(calls) > most {
		out = append(out, "...")
	}
	return screen.Joined(out)
}

// printChanges lists the first calls of a kind.
func printChanges(w io.Writer, t client.ReplayTransition, title string) {
	if t.Count == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s (%d)\n", title, t.Count)
	var rows [][]string
	for _, c := range t.Calls[:min(len(t.Calls), shownCalls)] {
		what := c.Command
		what = cmp.Or(what, string(c.Tool))
		rows = append(rows, []string{string(c.Call), string(c.Principal), what, screen.Joined(c.Policies)})
	}
	screen.Table(w, []string{"CALL", "BY", "COMMAND", "POLICIES"}, rows)
	if left := t.Count - int64(len(rows)); left > 0 {
		fmt.Fprintf(w, "… and %d more\n", left)
	}
}
