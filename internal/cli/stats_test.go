package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/cli/question"
)

// Figures are of the answers that people gave; what nobody answered, and what another answer covered, is counted apart.
func TestQuestionStats(t *testing.T) {
	now := time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	ask := func(daysAgo int, answer palyra.Answer, after time.Duration, lease palyra.LeaseID) palyra.Approval {
		at := now.AddDate(0, 0, -daysAgo)
		return palyra.Approval{
			RequestedAt: at, Plan: palyra.Plan{Tool: "palyra.process.run"},
			Decision: palyra.Decision{Answer: answer, At: at.Add(after), Lease: lease},
		}
	}
	s, err := statsPeriod("7d", "", now)
	if err != nil {
		t.Fatal(err)
	}
	s.count([]palyra.Approval{
		ask(1, palyra.AnswerAllow, time.Second, ""), ask(1, palyra.AnswerAllow, 10*time.Second, ""),
		ask(2, palyra.AnswerAllow, -time.Hour, ""),
		ask(3, palyra.AnswerDeny, time.Minute, ""), ask(3, palyra.AnswerTimeout, time.Hour, ""),
		ask(3, palyra.AnswerError, 0, "lease"),
		ask(0, palyra.AnswerPending, 0, ""),
	})
	got := *s
	if got.Asked != 7 || got.PerDay != 1 || got.Busiest != "2026-03-05" || got.MostADay != 3 || got.Allowed != 3 || got.Denied != 1 ||
		got.Expired != 1 || got.Covered != 1 || got.Pending != 1 || got.Hasty != 2 || got.MedianMS != 10_000 ||
		got.P90MS != 60_000 ||
		got.ByTool["palyra.process.run"] != 7 {
		t.Errorf("%+v", got)
	}
	var text strings.Builder
	s.print(&text)
	for _, want := range []string{
		"1.0 a day", "75 % of the answers", "50 % of the answers: hardly", "half within 10s, nine of ten within 1m0s",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	saving := func(name, label string, saves int64) palyra.Approval {
		return palyra.Approval{Prompt: palyra.Prompt{Options: []palyra.Widening{
			{Name: palyra.WidenExact, Saves: 99}, {Name: name, Label: label, Saves: saves},
		}}}
	}
	best := bestAnswers([]palyra.Approval{
		saving("group:npm:sha256:00", "npm", 3), saving("group:npm:sha256:00", "npm", 2), saving(palyra.WidenHost, "pages", 5),
		saving(palyra.WidenReadRoot, "reads", 0), saving(palyra.WidenPathRoot, "no word of its own", 9),
	})
	want := []question.WideAnswer{{Word: "allow-host", Covers: "pages", Saves: 5}, {Word: "allow-group", Covers: "npm", Saves: 3, Of: "npm"}}
	if !slices.Equal(best, want) {
		t.Errorf("the best answers are %+v", best)
	}
	for _, bad := range [][2]string{{"yesterday-ish", ""}, {"1d", "2d"}, {"", "1d"}, {"", ""}} {
		if _, err := statsPeriod(bad[0], bad[1], now); err == nil {
			t.Errorf("since %q until %q is taken", bad[0], bad[1])
		}
	}
}
