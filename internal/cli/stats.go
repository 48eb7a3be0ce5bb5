package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

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

// The figures of `approvals stats`: an answer within tooFast was hardly read; mostCounted approvals are looked at;
// mostShown tools and mostSaving rules are named.
const (
	tooFast     = 2 * time.Second
	mostCounted = 20_000
	mostShown   = 5
	mostSaving  = 3
)

// questionStats is how often people were asked, and how they answered.
type questionStats struct {
	Since    time.Time        `json:"since"`
	Until    time.Time        `json:"until"`
	Asked    int64            `json:"asked"`
	PerDay   float64          `json:"per_day"`
	Busiest  string           `json:"busiest_day,omitempty"`
	MostADay int64            `json:"busiest_day_asked,omitempty"`
	Allowed  int64            `json:"allowed"`
	Denied   int64            `json:"denied"`
	Expired  int64            `json:"not_answered"`
	Pending  int64            `json:"pending"`
	Covered  int64            `json:"covered"` // closed by the answer to another question
	Hasty    int64            `json:"answered_within_2s"`
	MedianMS int64            `json:"median_ms"`
	P90MS    int64            `json:"p90_ms"`
	ByTool   map[string]int64 `json:"by_tool"`
	Cut      bool             `json:"cut"` // there are more than were looked at
	Saving   []savingRule     `json:"would_have_saved"`

	Answers []question.WideAnswer `json:"answers_would_have_saved"` // offered, by what they would have saved when they were
}

// savingRule is a rule that would have saved questions.
type savingRule struct {
	Saves int64  `json:"saves"`
	Rule  string `json:"rule"`
}

func approvalsStatsCommand(inv *invocation.Invocation) *cobra.Command {
	var since, until string
	cmd := &cobra.Command{
		Use: "stats", Short: "Say how often people are asked, how they answer, and what would have saved it", Args: syntax.Takes(),
		Long: "Counts the questions of a time, how long answers took, how many came within two\n" +
			"seconds, which is hardly long enough to read one, and how many allowed the call. The\n" +
			"answers at the end were offered, by what each would have saved of the questions before it;\n" +
			"the rules are those of 'palyra policy suggest', the ones that save most first.",
		Example: "  palyra approvals stats\n  palyra approvals stats --since 24h --json",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			s, err := statsPeriod(since, until, inv.Now())
			if err != nil {
				return err
			}
			if err := s.collect(ctx, c); err != nil {
				return err
			}
			return inv.Emit(s, s.print)
		}),
	}
	cmd.Flags().StringVar(&since, "since", "7d", "questions asked from then on: a time, a date or a duration ago")
	cmd.Flags().StringVar(&until, "until", "", "questions asked before then (default: now)")
	return cmd
}

func statsPeriod(since, until string, now time.Time) (*questionStats, error) {
	from, err := syntax.When(since, now)
	if err != nil {
		return nil, err
	}
	to, err := syntax.When(until, now)
	if err != nil {
		return nil, err
	}
	if to.IsZero() {
		to = now
	}
	if from.IsZero() || !from.Before(to) {
		return nil, exit.Usagef("--since %q is not before --until", since)
	}
	return &questionStats{Since: from, Until: to}, nil
}

// collect reads the approvals of the period page by page.
func (s *questionStats) collect(ctx context.Context, c *client.Client) error {
	var all []palyra.Approval
	f := client.ApprovalFilter{Since: s.Since, Until: s.Until, Limit: 500}
	for {
		page, err := c.Approvals(ctx, f)
		if err != nil {
			return err
		}
		all = append(all, page.Approvals...)
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
		if len(all) >= mostCounted {
			s.Cut = true
			break
		}
	}
	s.count(all)
	if s.Allowed == 0 {
		return nil
	}
	found, err := c.SuggestPolicy(ctx, client.ReplayQuery{Since: s.Since, Until: s.Until}, mostSaving, nil)
	for _, r := range found.Rules {
		s.Saving = append(s.Saving, savingRule{r.Saves, r.Text})
	}
	slices.SortStableFunc(s.Saving, func(a, b savingRule) int { return cmp.Compare(b.Saves, a.Saves) })
	return err
}

func (s *questionStats) count(all []palyra.Approval) {
	s.ByTool, s.Saving, s.Answers = map[string]int64{}, []savingRule{}, bestAnswers(all)
	days := map[string]int64{}
	var took []time.Duration
	for _, p := range all {
		s.Asked++
		s.ByTool[string(p.Plan.Tool)]++
		day := p.RequestedAt.Format(time.DateOnly)
		if days[day]++; days[day] > s.MostADay || days[day] == s.MostADay && day > s.Busiest {
			s.Busiest, s.MostADay = day, days[day]
		}
		switch p.Decision.Answer {
		case palyra.AnswerPending:
			s.Pending++
			continue
		case palyra.AnswerAllow:
			s.Allowed++
		case palyra.AnswerDeny:
			s.Denied++
		default:
			if p.Decision.Overtaken() {
				s.Covered++
			} else {
				s.Expired++
			}
			continue
		}
		d := max(0, p.Decision.At.Sub(p.RequestedAt))
		if took = append(took, d); d < tooFast {
			s.Hasty++
		}
	}
	s.PerDay = float64(s.Asked) / max(1, s.Until.Sub(s.Since).Hours()/24)
	if slices.Sort(took); len(took) > 0 {
		s.MedianMS, s.P90MS = took[len(took)/2].Milliseconds(), took[len(took)*9/10].Milliseconds()
	}
}

func (s *questionStats) print(w io.Writer) {
	if s.Asked == 0 {
		fmt.Fprintf(w, "nobody was asked anything since %s\n", s.Since.Format(time.DateTime))
		return
	}
	line := func(name string, n int64, format string, args ...any) {
		fmt.Fprintf(w, "%-16s %6d   %s\n", name, n, fmt.Sprintf(format, args...))
	}
	line("questions", s.Asked, "%.1f a day since %s; most on %s: %d", s.PerDay, s.Since.Format(time.DateOnly), s.Busiest, s.MostADay)
	answered := s.Allowed + s.Denied
	line("allowed", s.Allowed, "%s of the answers", share(s.Allowed, answered))
	line("denied", s.Denied, "")
	line("not answered", s.Expired, "in time")
	line("covered", s.Covered, "by the answer to another question")
	line("pending", s.Pending, "")
	line("within 2 s", s.Hasty, "%s of the answers: hardly long enough to read the question", share(s.Hasty, answered))
	if answered > 0 {
		took := func(ms int64) string {
			return (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond).String()
		}
		fmt.Fprintf(w, "time to answer: half within %s, nine of ten within %s\n", took(s.MedianMS), took(s.P90MS))
	}
	tools := slices.SortedFunc(maps.Keys(s.ByTool), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.ByTool[b], s.ByTool[a]), cmp.Compare(a, b))
	})
	for _, name := range tools[:min(len(tools), mostShown)] {
		fmt.Fprintf(w, "  %s: %s\n", show.Line(name), screen.Count(s.ByTool[name], "question"))
	}
	for _, a := range s.Answers {
		fmt.Fprintf(w, "%s would have saved %s: %s\n", a.Word, screen.Count(a.Saves, "question"), show.Line(a.Covers))
	}
	for _, r := range s.Saving {
		fmt.Fprintf(w, "\n// would have saved %s\n%s\n", screen.Count(r.Saves, "question"), show.Block(r.Rule))
	}
	if len(s.Saving) > 0 {
		fmt.Fprintf(w, "\n'palyra policy suggest --out DIR' writes policies with such rules\n")
	}
	if s.Cut {
		fmt.Fprintf(w, "only the last %d questions were looked at\n", mostCounted)
	}
}

// bestAnswers are the wide answers that questions offered and that would have saved most, as the desk found when it asked.
func bestAnswers(all []palyra.Approval) []question.WideAnswer {
	best := map[[2]string]question.WideAnswer{}
	for _, a := range all {
		for _, w := range question.Wide(a) {
			if key := [2]string{w.Word, w.Covers}; w.Saves > best[key].Saves {
				best[key] = w
			}
		}
	}
	list := slices.SortedFunc(maps.Values(best), func(a, b question.WideAnswer) int {
		return cmp.Or(cmp.Compare(b.Saves, a.Saves), cmp.Compare(a.Word, b.Word), cmp.Compare(a.Covers, b.Covers))
	})
	return append([]question.WideAnswer{}, list[:min(len(list), mostSaving)]...)
}

// share is a part in percent.
func share(part, of int64) string {
	if of == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%d %%", (100*part+of/2)/of)
}
