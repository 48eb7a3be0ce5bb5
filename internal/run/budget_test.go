package run

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/internal/run/calllog"
	"palyra/internal/store"
)

func outcomes(tape []palyra.TapeEntry) (kinds []palyra.OutcomeKind) {
	for _, e := range tape {
		if e.ToolFinished != nil {
			kinds = append(kinds, e.ToolFinished.Outcome)
		}
	}
	return kinds
}

// The first call over the budget is refused on record and the run is told; the
// second ends it.
func TestBudgetOfCalls(t *testing.T) {
	w := newWorldWith(t, calls(`{}`, `{}`, `{}`, `{}`, `{}`))
	q := w.request("x")
	q.Budget.Calls = 2
	run := w.start(q)
	tape := w.attach(run.ID, 0)
	want := "[finished finished refused refused]"
	if got := fmt.Sprint(outcomes(tape)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := w.ended(run.ID); got.State != palyra.RunFailed || got.ReasonCode != palyra.ReasonBudgetSpent || got.Calls != 4 ||
		got.Remedy == "" {
		t.Errorf("%+v", got)
	}
}

func TestOneCallTooManyIsNotTheEnd(t *testing.T) {
	w := newWorldWith(t, calls(`{}`, `{}`))
	q := w.request("x")
	q.Budget.Calls = 1
	if got := w.ended(w.start(q).ID); got.State != palyra.RunDone || got.Calls != 2 {
		t.Errorf("%+v", got)
	}
}

func TestBudgetIsOnlyLowered(t *testing.T) {
	w := newWorldWith(t, calls())
	q := w.request("x")
	q.Budget = palyra.Budget{Calls: 1, WallMS: 1 << 40, Parallel: 9}
	run := w.start(q)
	if want := (palyra.Budget{Calls: 1, WallMS: w.limits.WallMS, OutputBytes: w.limits.OutputBytes, Parallel: 4}); run.Budget != want {
		t.Errorf("%+v, want %+v", run.Budget, want)
	}
	w.ended(run.ID)
}

func TestBudgetOfTime(t *testing.T) {
	w := newWorldWith(t, calls(`{"hold":true}`, `{}`))
	run := w.start(w.request("x"))
	<-w.parts.started
	w.runs.lives(run.ID).cancel(errRunTimedOut) // as its timer does
	tape := w.attach(run.ID, 0)
	if got := fmt.Sprint(outcomes(tape)); got != "[cancelled]" {
		t.Errorf("calls: %s", got)
	}
	if got := w.ended(run.ID); got.State != palyra.RunFailed || got.ReasonCode != palyra.ReasonTimedOut || got.Remedy == "" {
		t.Errorf("%+v", got)
	}
	if w.calls.InFlight() != 0 {
		t.Error("a call goes on")
	}
}

// Wherever a run stands when its time is up, it ends.
func TestTimeIsUpAnywhere(t *testing.T) {
	for wall := int64(1); wall < 60; wall += 12 {
		w := newWorldWith(t, driver(func(ctx context.Context, l *Live) error {
			for turn := int64(1); ; turn++ {
				if _, err := l.Call(ctx, turn, 1, ToolCall{Tool: "palyra.echo"}); err != nil {
					return err
				}
			}
		}))
		q := w.request("x")
		q.Budget.WallMS = wall
		if got := w.ended(w.start(q).ID); got.State != palyra.RunFailed || (got.ReasonCode != palyra.ReasonTimedOut &&
			got.ReasonCode != palyra.ReasonBudgetSpent) {
			t.Errorf("%d ms: %+v", wall, got)
		}
	}
}

func TestBudgetOfOutput(t *testing.T) {
	w := newWorldWith(t, calls(`{"size":600}`, `{"size":600}`, `{}`))
	q := w.request("x")
	q.Budget.OutputBytes = 1000
	run := w.ended(w.start(q).ID)
	if run.State != palyra.RunFailed || run.ReasonCode != palyra.ReasonBudgetSpent || run.Calls != 2 || run.Output < 1200 {
		t.Errorf("%+v", run)
	}
	talk := newWorldWith(t, driver(func(ctx context.Context, l *Live) error {
		for i := range int64(100) {
			if err := l.Text(ctx, i+1, strings.Repeat("é", 500), true); err != nil {
				return err
			}
		}
		return nil
	}))
	q = talk.request("x")
	q.Budget.OutputBytes = 2500
	if run := talk.ended(talk.start(q).ID); run.ReasonCode != palyra.ReasonBudgetSpent || run.Output != 3000 {
		t.Errorf("%+v", run)
	}
}

func TestLongTextComesInPieces(t *testing.T) {
	long := strings.Repeat("aé", calllog.MaxPiece)
	w := newWorldWith(t, driver(func(ctx context.Context, l *Live) error {
		if err := l.Text(ctx, 1, "", false); err != nil { // nothing is nothing
			return err
		}
		if err := l.Text(ctx, 1, "\xff", false); err != nil {
			return err
		}
		return l.Text(ctx, 1, long, true)
	}))
	var got strings.Builder
	done := 0
	for _, e := range w.attach(w.start(w.request("x")).ID, 0) {
		if e.ModelText == nil {
			continue
		}
		if len(e.ModelText.Text) > calllog.MaxPiece || e.ModelText.Text == "" {
			t.Errorf("a piece of %d bytes", len(e.ModelText.Text))
		}
		if got.WriteString(e.ModelText.Text); e.ModelText.Done {
			done++
		}
	}
	if got.String() != "\uFFFD"+long || done != 1 {
		t.Errorf("%d bytes, want %d; %d ends", got.Len(), len(long)+3, done)
	}
}

func TestCancelRun(t *testing.T) {
	for name, args := range map[string]string{"running": `{"hold":true}`, "pending": `{"ask":true}`} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWith(t, calls(args, `{}`))
			run := w.start(w.request("x"))
			select {
			case <-w.parts.started:
			case <-w.parts.asked:
			}
			if err := w.runs.Cancel(t.Context(), run.ID, "user:me"); err != nil {
				t.Fatal(err)
			}
			got, err := w.runs.Get(t.Context(), run.ID)
			if err != nil || got.State != palyra.RunCancelled || got.ReasonCode != palyra.ReasonCancelled ||
				!strings.Contains(got.Reason, "user:me") {
				t.Errorf("%+v, %v", got, err)
			}
			tape := w.attach(run.ID, 0)
			if got := fmt.Sprint(outcomes(tape)); got != "[cancelled]" {
				t.Errorf("calls: %s", got)
			}
			if last := tape[len(tape)-1]; last.RunFinished == nil {
				t.Errorf("%s follows the end of the run", kindOf(last))
			}
			if w.calls.InFlight() != 0 {
				t.Error("a call goes on")
			}
			if err := w.runs.Cancel(t.Context(), run.ID, "user:me"); palyra.CodeOf(err) != palyra.Conflict ||
				palyra.AsError(err).Reason != palyra.ReasonRunEnded {
				t.Errorf("cancelled twice: %v", err)
			}
		})
	}
	w := newWorld(t)
	if err := w.runs.Cancel(t.Context(), "x", "user:me"); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("no run: %v", err)
	}
}

// Several who cancel at once all see it end, once.
func TestCancelAtOnce(t *testing.T) {
	w := newWorldWith(t, calls(`{"hold":true}`))
	run := w.start(w.request("x"))
	<-w.parts.started
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := w.runs.Cancel(t.Context(), run.ID, "user:me"); err != nil && palyra.CodeOf(err) != palyra.Conflict {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if w.tape.count("run.ended") != 1 {
		t.Errorf("it ended %d times", w.tape.count("run.ended"))
	}
}

// A wish to cancel that a crash cut short is not forgotten: the run does not go
// on after the restart.
func TestCancelOutlivesACrash(t *testing.T) {
	w := newWorldWith(t, calls(`{"ask":true}`, `{}`))
	run := w.start(w.request("x"))
	<-w.parts.asked
	w.runs.Stop() // so that only the wish is on record
	err := w.db.Write(t.Context(), "test", func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE runs SET cancel_by='user:me' WHERE id=?`, string(run.ID))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.runs.Cancel(t.Context(), run.ID, "user:me"); palyra.AsError(err).Reason != palyra.ReasonStopping {
		t.Errorf("while the daemon stops: %v", err)
	}
	w.restart()
	if got := w.ended(run.ID); got.State != palyra.RunCancelled || got.Calls != 1 {
		t.Errorf("%+v", got)
	}
	calls, _, _ := w.calls.List(t.Context(), palyra.CallFilter{Reach: operator, Run: run.ID})
	if len(calls) != 1 || calls[0].State != palyra.Cancelled {
		t.Errorf("%+v", calls)
	}
	if len(w.parts.withdrew) != 1 {
		t.Error("the question was not withdrawn")
	}
}

// A call that does not stop does not hold up the end of its run for ever, and
// what it tells later is not on the tape.
func TestADeafCallDoesNotHoldUpTheEnd(t *testing.T) {
	w := newWorldWith(t, calls(`{"deaf":true}`))
	w.runs.grace = 20 * time.Millisecond
	run := w.start(w.request("x"))
	id := <-w.parts.started
	if err := w.runs.Cancel(t.Context(), run.ID, ""); err != nil {
		t.Fatal(err)
	}
	before := w.attach(run.ID, 0)
	close(w.parts.proceed)
	w.calls.Stop()
	if c, err := w.calls.Get(t.Context(), id); err != nil || c.State != palyra.Finished {
		t.Errorf("%+v, %v", c, err)
	}
	if after := w.attach(run.ID, 0); len(after) != len(before) || after[len(after)-1].RunFinished.State != palyra.RunCancelled {
		t.Errorf("%d entries, then %d", len(before), len(after))
	}
}

func TestTapeIsClosed(t *testing.T) {
	w := newWorldWith(t, calls(`{}`))
	run := w.start(w.request("x"))
	before := w.ended(run.ID)
	late := &palyra.Call{ID: "LATE", Proposal: palyra.Proposal{Proposer: palyra.Proposer{
		Session: run.Session, Run: run.ID,
		Principal: "agent:test",
	}}, State: palyra.Proposed}
	if _, err := w.ledger.Record(t.Context(), late, palyra.CallProposed{Call: "LATE"}); err != nil {
		t.Fatal(err)
	}
	after, err := w.runs.Get(t.Context(), run.ID)
	if err != nil || after.LastSeq != before.LastSeq || after.Calls != before.Calls {
		t.Errorf("%+v, %v", after, err)
	}
}

// What a call prints is on the tape in order and whole, before the call's end,
// however much at once.
func TestOutputOnTape(t *testing.T) {
	var pieces []string
	var want bytes.Buffer
	for i := range 50 {
		s := strings.Repeat(string(rune('a'+i%26)), 1+i*137)
		pieces = append(pieces, s)
		want.WriteString(s)
	}
	args, _ := json.Marshal(map[string]any{"print": pieces})
	w := newWorldWith(t, calls(string(args)))
	tape := w.attach(w.start(w.request("x")).ID, 0)
	var got bytes.Buffer
	over := false
	for _, e := range tape {
		switch {
		case e.ToolFinished != nil:
			over = true
		case e.ToolOutput != nil:
			if over || e.ToolOutput.Offset != int64(got.Len()) || len(e.ToolOutput.Data) > calllog.MaxPiece {
				t.Errorf("%d bytes at %d, after the end: %t", len(e.ToolOutput.Data), e.ToolOutput.Offset, over)
			}
			got.Write(e.ToolOutput.Data)
		}
	}
	if got.String() != want.String() {
		t.Errorf("%d bytes, want %d", got.Len(), want.Len())
	}
	story(t, 0, tape)
}

// Output that a failed write took is not lost, and not told twice.
func TestOutputOfAFailedWriteComesAgain(t *testing.T) {
	w := newWorldWith(t, calls(`{"hold":true}`))
	run := w.start(w.request("x"))
	id := <-w.parts.started
	w.calls.mu.Lock()
	f := w.calls.byID[id]
	f.log.Print(palyra.Chunk{Stream: "stdout", Data: []byte("kept")}) // past the pump
	w.calls.mu.Unlock()
	err := w.db.Write(t.Context(), "test", func(tx *store.Tx) error {
		if err := w.calls.tapeOutput(tx, id); err != nil {
			return err
		}
		return errFull
	})
	if palyra.AsError(err).Reason != palyra.ReasonDiskFull {
		t.Fatal(err)
	}
	close(w.parts.proceed)
	var got []string
	for _, e := range w.attach(run.ID, 0) {
		if e.ToolOutput != nil {
			got = append(got, string(e.ToolOutput.Data))
		}
	}
	if len(got) != 1 || got[0] != "kept" {
		t.Errorf("%q", got)
	}
}

// Output is told while the call runs, not only at its end.
func TestOutputIsTapedWhileItRuns(t *testing.T) {
	w := newWorldWith(t, calls(`{"print":["first"],"hold":true}`))
	run := w.start(w.request("x"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := w.runs.Attach(ctx, run.ID, 0, func(e palyra.TapeEntry) error {
		if e.ToolOutput != nil {
			close(w.parts.proceed)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTapedOutputIsCapped(t *testing.T) {
	w := newWorldWith(t, calls(`{"hold":true}`))
	run := w.start(w.request("x"))
	id := <-w.parts.started
	pieces := []calllog.Item{}
	for i := range int64(12) {
		pieces = append(pieces, calllog.Item{Out: palyra.Chunk{Stream: "stdout", Offset: i << 20, Data: make([]byte, 1<<20)}})
	}
	for range 2 { // the second time nothing is added
		if err := w.db.Write(t.Context(), "test", func(tx *store.Tx) error { return w.ledger.tape.output(tx, run.ID, id, pieces) }); err != nil {
			t.Fatal(err)
		}
	}
	close(w.parts.proceed)
	total := int64(0)
	tape := w.attach(run.ID, 0)
	for _, e := range tape {
		if e.ToolOutput != nil {
			total += int64(len(e.ToolOutput.Data))
		}
	}
	if total > maxTapedOut || total < maxTapedOut*9/10 {
		t.Errorf("%d bytes on the tape", total)
	}
	if last := tape[len(tape)-1]; last.RunFinished == nil || last.RunFinished.State != palyra.RunDone {
		t.Errorf("%+v", last)
	}
}

// Two calls that wait for each other only end when they are made at once.
func TestCallsOfATurnCanBeMadeAtOnce(t *testing.T) {
	w := newWorldWith(t, driver(func(ctx context.Context, l *Live) error {
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i := range errs {
			wg.Go(func() {
				_, errs[i] = l.Call(ctx, 1, int64(i)+1, ToolCall{Tool: "palyra.echo", Arguments: json.RawMessage(`{"meet":true}`)})
			})
		}
		wg.Wait()
		if errs[0] != nil {
			return errs[0]
		}
		return errs[1]
	}))
	w.parts.meet = &sync.WaitGroup{}
	w.parts.meet.Add(2)
	tape := w.attach(w.start(w.request("x")).ID, 0)
	story(t, 0, tape)
	if got := fmt.Sprint(outcomes(tape)); got != "[finished finished]" {
		t.Error(got)
	}
}

// Arguments that are large or not clean are left out of the tape; they never
// keep a record from being written.
func TestTapeOfOddArguments(t *testing.T) {
	for name, args := range map[string]string{
		"large": `{"x":"` + strings.Repeat("x", 8<<10) + `"}`, "broken": `{"x":`, "not utf-8": "{\"x\":\"\xff\"}",
	} {
		w := newWorldWith(t, calls(args))
		for _, e := range w.attach(w.start(w.request("x")).ID, 0) {
			if e.ToolProposed != nil && e.ToolProposed.Arguments != nil {
				t.Errorf("%s: %.40s", name, e.ToolProposed.Arguments)
			}
			if e.RunFinished != nil && e.RunFinished.Calls > 1 {
				t.Errorf("%s: %+v", name, e.RunFinished)
			}
		}
	}
}

// A run that proposes too fast waits and goes on; one that is cancelled while it
// waits ends.
func TestPace(t *testing.T) {
	w := newWorldWith(t, calls(`{}`, `{}`))
	var mu sync.Mutex
	asked := map[palyra.RunID]int{}
	w.runs.Pace = func(id palyra.RunID) (time.Duration, bool) {
		mu.Lock()
		defer mu.Unlock()
		asked[id]++
		return time.Millisecond, asked[id] > 3
	}
	run := w.start(w.request("x"))
	if got := w.ended(run.ID); got.State != palyra.RunDone || got.Calls != 2 {
		t.Errorf("%+v", got)
	}
	if asked[run.ID] != 5 {
		t.Errorf("asked %d times", asked[run.ID])
	}
	waits := make(chan struct{}, 100)
	w.runs.Pace = func(palyra.RunID) (time.Duration, bool) {
		waits <- struct{}{}
		return time.Hour, false
	}
	run = w.start(w.request("y"))
	<-waits
	if err := w.runs.Cancel(t.Context(), run.ID, "user:x"); err != nil {
		t.Fatal(err)
	}
	if got := w.ended(run.ID); got.State != palyra.RunCancelled || got.Calls != 0 {
		t.Errorf("%+v", got)
	}
}
