package run

import (
	"context"
	"encoding/json"
	"testing"

	"palyra"
	"palyra/internal/store"
)

// outcomesOf makes works of a running call, and says how many were let run and which number the first refused one was.
func (w *world) outcomesOf(parent *palyra.Call, n int) (ran int) {
	w.t.Helper()
	for range n {
		out, err := w.calls.Work(w.t.Context(), parent, "palyra.echo", json.RawMessage(`{}`), "the skill x")
		if err != nil {
			w.t.Fatal(err)
		}
		switch {
		case out.Outcome == palyra.OutcomeFinished:
			ran++
		case out.ReasonCode != palyra.ReasonBudgetSpent:
			w.t.Fatalf("%+v", out)
		}
	}
	return ran
}

// TestWorkCountsInTheBudget: a call that storms others has no more of them than its run has calls left, and takes them from the
// calls that come after it.
func TestWorkCountsInTheBudget(t *testing.T) {
	const budget = 10
	var w *world
	var ran int
	w = newWorldWith(t, driver(func(ctx context.Context, l *Live) error {
		done := make(chan error, 1)
		go func() {
			_, err := l.Call(ctx, 1, 1, ToolCall{Tool: "palyra.echo", Arguments: json.RawMessage(`{"hold":true}`)})
			done <- err
		}()
		id := <-w.parts.started
		parent, err := w.calls.Get(ctx, id)
		if err != nil {
			return err
		}
		parent.Proposal.Scopes = []palyra.Permission{palyra.PermitRunsView}
		ran = w.outcomesOf(parent, 3*budget)
		if err := w.calls.Cancel(ctx, id); err != nil {
			return err
		}
		if err := <-done; err != nil {
			return err
		}
		out, err := l.Call(ctx, 2, 1, ToolCall{Tool: "palyra.echo", Arguments: json.RawMessage(`{}`)})
		if err == nil && out.ReasonCode != palyra.ReasonBudgetSpent {
			t.Errorf("the run goes on: %+v", out)
		}
		return err
	}))
	q := w.request("x")
	q.Budget.Calls = budget
	run := w.start(q)
	w.ended(run.ID)
	if ran != budget-1 {
		t.Errorf("%d works ran beside their parent, of a budget of %d", ran, budget)
	}
	var works int64
	err := w.db.Write(t.Context(), "test", func(tx *store.Tx) (err error) {
		if _, err = tx.Exec(`UPDATE calls SET tool='skill.x.y' WHERE parent=''`); err == nil {
			works, err = worksOf(tx, run.ID)
		}
		return err
	})
	if err != nil || works != 3*budget {
		t.Errorf("after a restart %d works are known: %v", works, err)
	}
	if len(w.calls.byID) > 0 {
		t.Error("a call is under way")
	}
}

// TestWorkOfACallAlone: works of a call of no run are numbered as well, for the catalog to bound them, and have its scopes.
func TestWorkOfACallAlone(t *testing.T) {
	w := newWorld(t)
	parent, err := w.calls.Get(t.Context(), w.parent())
	if err != nil {
		t.Fatal(err)
	}
	parent.Proposal.Scopes = []palyra.Permission{palyra.PermitRunsView}
	w.outcomesOf(parent, 20)
	var all []palyra.CallID
	err = w.db.Read(t.Context(), func(tx *store.Tx) error {
		return tx.Each(`SELECT id FROM calls WHERE parent=?`, []any{string(parent.ID)}, func(scan func(...any) error) error {
			var id palyra.CallID
			err := scan(&id)
			all = append(all, id)
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[int64]bool{}
	for _, id := range all {
		c, err := w.calls.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		p := c.Proposal
		numbers[p.CallsUsed] = true
		if len(p.Scopes) != 1 || p.CallsUsed < 1 || p.CallsUsed > 20 || p.Purpose == "" {
			t.Errorf("%+v", p)
		}
	}
	if len(numbers) != 20 {
		t.Errorf("numbers are %v", numbers)
	}
	if err := w.calls.Cancel(t.Context(), parent.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.calls.Work(t.Context(), parent, "palyra.echo", json.RawMessage(`{}`), "x"); err == nil {
		t.Error("a call that is over works on")
	}
}
