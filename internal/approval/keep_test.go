package approval

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/store"
)

// large gives a call arguments and a diff of about n bytes each.
func large(t testing.TB, n int) callOption {
	return func(c *palyra.Call) {
		raw, err := json.Marshal(map[string]string{"path": "f", "content": strings.Repeat("x", n)})
		if err != nil {
			t.Fatal(err)
		}
		c.Plan.Arguments, c.Plan.Detail.Diff = raw, "+"+strings.Repeat("x", n)+"\n"
	}
}

// stored is how many bytes the documents of all questions have.
func (w *world) stored() (n int64) {
	w.t.Helper()
	err := w.db.Read(w.t.Context(), func(tx *store.Tx) error {
		return tx.Get(`SELECT COALESCE(SUM(length(plan) + length(prompt)), 0) FROM approval_documents`, nil, &n)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// Of a question that nobody allowed only what is short is kept, with the size and the
// digest of the rest; one that was allowed is kept whole.
func TestWhatIsKeptOfAQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(w *world, c *palyra.Call, a palyra.Approval)
		whole bool
	}{
		"withdrawn": {end: func(w *world, c *palyra.Call, a palyra.Approval) {
			if err := w.record(c, palyra.ApprovalWithdrawn{Approval: a.ID, Call: c.ID}); err != nil {
				w.t.Fatal(err)
			}
		}},
		"denied": {end: func(w *world, _ *palyra.Call, a palyra.Approval) { w.decide(a, palyra.AnswerDeny) }},
		"timed out": {end: func(w *world, _ *palyra.Call, _ palyra.Approval) {
			w.pass(time.Hour)
			if _, err := w.desk.sweep(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
		}},
		"allowed": {end: func(w *world, _ *palyra.Call, a palyra.Approval) { w.decide(a, palyra.AnswerAllow) }, whole: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			x := call(t, "f", large(t, 1<<20))
			a := w.ask(x)
			if w.stored() < 2<<20 {
				t.Fatal("it is not stored while it is open")
			}
			c.end(w, x, a)
			got, n := w.get(a.ID), w.stored()
			if got.Pending() || (n > 2<<20) != c.whole || (got.LeftOut == nil) != c.whole || !c.whole && n > maxKept {
				t.Fatalf("%q: %d bytes are kept, left out %+v", got.Decision.Answer, n, got.LeftOut)
			}
			if l := got.LeftOut; l != nil && (l.Arguments != palyra.SumBytes(x.Plan.Arguments) ||
				l.ArgumentsBytes != int64(len(x.Plan.Arguments)) || l.DiffBytes == 0) {
				t.Errorf("%+v", l)
			}
			if got.PlanDigest != x.Digest || got.Plan.Tool != x.Plan.Tool || got.Prompt.Summary == "" {
				t.Errorf("%+v", got)
			}
			key := newSigner(1)
			if _, err := VerifyExport(bytes.NewReader(export(t, w, NDJSON, key)), []string{key.public()}); err != nil {
				t.Errorf("export: %v", err)
			}
		})
	}
}

// Lists that are long stay out, too, not only arguments.
func TestALongPlanIsOutlined(t *testing.T) {
	w := newWorld(t)
	x := call(t, "f", func(c *palyra.Call) { c.Plan.Argv = []string{strings.Repeat("y", 1<<20)} })
	w.decide(w.ask(x), palyra.AnswerDeny)
	if n := w.stored(); n > maxKept {
		t.Errorf("%d bytes are kept", n)
	}
}

// Whoever asks and withdraws fills no disk; whoever is allowed much is stopped by its
// budget of the day, and nobody else is.
func TestQuestionsHaveABudget(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.DailyBytes = 8 << 20 })
	withdraw := func(n int) {
		x := call(t, "f", large(t, n))
		a := w.ask(x)
		if err := w.record(x, palyra.ApprovalWithdrawn{Approval: a.ID, Call: x.ID}); err != nil {
			t.Fatal(err)
		}
	}
	const many = 6 // more than the day's bytes, twice
	for i := range many {
		withdraw(3<<20 + i)
	}
	if n := w.stored(); n > many*maxKept {
		t.Errorf("%d bytes are kept of questions that were withdrawn", n)
	}
	w.decide(w.ask(call(t, "f", large(t, 3<<20))), palyra.AnswerAllow)
	_, err := w.tryAsk(call(t, "g", large(t, 3<<20)))
	wantErr(t, err, palyra.Exhausted, palyra.ReasonQuestionBytes)
	if palyra.AsError(err).Remedy == "" {
		t.Error("no remedy")
	}
	w.ask(call(t, "h"))
	w.ask(call(t, "g", large(t, 3<<20), by("agent:other")))
	w.pass(24 * time.Hour)
	w.ask(call(t, "g", large(t, 3<<20)))
}
