package run_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
	"palyra/internal/agent"
	"palyra/internal/run"
)

type writes struct{ reads }

func (writes) List() []palyra.Tool {
	return []palyra.Tool{{Name: "palyra.fs.write", InputSchema: []byte(`{"type":"object"}`)}}
}

// moody never gives the same answer twice.
type moody struct{ asked atomic.Int64 }

func (m *moody) Ask(_ context.Context, q agent.Question, say func(string) error) (agent.Answer, error) {
	n := m.asked.Add(1)
	a := agent.Answer{
		Text: fmt.Sprintf("turn %d, mood %d", len(q.Talk), n), Stop: agent.StopDone,
		Tokens: palyra.Tokens{InputTokens: 1, OutputTokens: 1},
	}
	switch len(q.Talk) {
	case 1:
		a.Calls = []agent.Asked{{Name: "palyra_fs_write", Arguments: fmt.Sprintf(`{"print":["<mood %d>"]}`, n)}}
	case 2:
		a.Calls = []agent.Asked{{Name: "palyra_fs_write", Arguments: fmt.Sprintf(`{"ask":true,"print":["mood %d"]}`, n)}}
	}
	return a, say(a.Text)
}

// A daemon that dies after any of its commits leaves a run of a model that the
// next one takes to its end: the model is asked at most once more, for a turn of
// which nothing was done; no call is made twice, and the tokens of kept turns are
// counted once.
func TestAModelsRunDyingAfterEveryCommit(t *testing.T) {
	for n := 1; ; n++ {
		m := &moody{}
		models, err := agent.NewModels(agent.ModelsConfig{
			Sources: []agent.Source{{Name: "moody", Model: m, Timeout: time.Minute}}, Default: "moody/x", Tools: writes{},
			Log:          slog.New(slog.DiscardHandler),
			ContextBytes: 1 << 20, ResultBytes: 1000, MaxTurns: 9, AnswerTokens: 9,
		})
		if err != nil {
			t.Fatal(err)
		}
		loop, err := agent.New(agent.Config{Providers: models.Providers(), Tools: writes{}})
		if err != nil {
			t.Fatal(err)
		}
		w := run.NewWorld(t, loop)
		id, finished := w.Die(n, w.Request("moody", `{"prompt":"x"}`))
		if id == "" {
			continue
		}
		r, story := end(t, w, id)
		if r.State != palyra.RunDone || r.Model != "x" || r.Calls != 2 || r.Tokens != (palyra.Tokens{InputTokens: 3, OutputTokens: 3}) ||
			m.asked.Load() > 4 {
			t.Errorf("after %d commits: %+v, asked %d times\n%s", n, r, m.asked.Load(), story)
		}
		last := map[int64]string{}
		for i, e := range w.Tape(id) {
			if e.Seq != int64(i)+1 {
				t.Fatalf("after %d commits: a gap at %d", n, i)
			}
			if x := e.ModelText; x != nil {
				if x.Again {
					last[x.Turn] = ""
				}
				last[x.Turn] += x.Text
			}
		}
		for turn := range int64(3) {
			if text := last[turn+1]; strings.Count(text, "mood") != 1 || w.Ran(id, turn+1, 1) > 1 {
				t.Errorf("after %d commits: turn %d said %q and ran %d times", n, turn+1, text, w.Ran(id, turn+1, 1))
			}
		}
		if finished {
			if n < 10 {
				t.Errorf("only %d commits", n)
			}
			return
		}
	}
}
