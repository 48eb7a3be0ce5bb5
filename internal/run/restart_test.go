package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/run/tapeline"
	"palyra/internal/store"
)

var errFull = palyra.Errorf(palyra.Unavailable, palyra.ReasonDiskFull, "the disk is full")

// dying lets a daemon make n commits; after that nothing is kept any more, as if
// it had died there.
type dying struct {
	mu   sync.Mutex
	left int
	dead chan struct{}
}

func (d *dying) commit() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		select {
		case <-d.dead:
		default:
			close(d.dead)
		}
		return errFull
	}
	d.left--
	return nil
}

// A daemon that dies after any of its commits leaves a run that the next one
// takes to the same end: nothing runs twice, the tape has no gap, and what may
// have run is unknown.
func TestDyingAfterEveryCommit(t *testing.T) {
	drive := driver(func(ctx context.Context, l *Live) error {
		for turn, args := range []string{`{"print":["one"]}`, `{"ask":true}`, `{"deny":true}`} {
			n := int64(turn) + 1
			if err := l.Text(ctx, n, fmt.Sprintf("turn %d", n), true); err != nil {
				return err
			}
			if _, err := l.Call(ctx, n, 1, ToolCall{Tool: "palyra.echo", Arguments: json.RawMessage(args)}); err != nil {
				return err
			}
		}
		return nil
	})
	for n := 0; ; n++ {
		d := &dying{left: n + 1, dead: make(chan struct{})} // the session is there already
		w := newWorldWith(t, drive)
		w.close()
		w.commit = d.commit
		w.open()
		stop := w.approve(t.Context())
		run, err := w.runs.Start(t.Context(), w.request("x"))
		if err != nil {
			stop()
			if n > 0 {
				t.Fatalf("after %d commits: %v", n, err)
			}
			continue // it never was
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = w.runs.Attach(t.Context(), run.ID, 0, func(palyra.TapeEntry) error { return nil })
		}()
		finished := false
		select {
		case <-d.dead:
		case <-over:
			finished = true
		}
		w.close()
		stop()
		<-over
		w.commit = nil
		w.open()
		stop = w.approve(t.Context())
		w.recover()
		checkSurvivor(t, w, run.ID, n)
		stop()
		if finished {
			if n < 10 {
				t.Errorf("only %d commits", n)
			}
			return
		}
	}
}

func checkSurvivor(t *testing.T, w *world, id palyra.RunID, n int) {
	t.Helper()
	tape := w.attach(id, 0)
	kinds := story(t, 0, tape)
	run := w.ended(id)
	if run.State != palyra.RunDone || run.Calls != 3 || kinds[len(kinds)-1] != "ended" {
		t.Errorf("after %d commits: %+v\n%v", n, run, kinds)
	}
	count := map[string]int{}
	for _, k := range kinds {
		count[k]++
	}
	if count["accepted"] != 1 || count["text"] != 3 || count["proposed"] != 3 || count["finished"] != 3 || count["ended"] != 1 {
		t.Errorf("after %d commits: %v", n, kinds)
	}
	for turn := range int64(3) {
		if times := w.ran.times(tapeline.CallKey(id, turn+1, 1)); times > 1 {
			t.Errorf("after %d commits: turn %d ran %d times", n, turn+1, times)
		}
	}
	for _, kind := range outcomes(tape) {
		if !slices.Contains([]palyra.OutcomeKind{palyra.OutcomeFinished, palyra.OutcomeRefused, palyra.OutcomeUnknown}, kind) {
			t.Errorf("after %d commits: a call is %s", n, kind)
		}
	}
	if d := cmp.Diff(tape, w.attach(id, 0)); d != "" {
		t.Error(d)
	}
	if open, err := w.ledger.openOf(t.Context(), id); err != nil || len(open) != 0 {
		t.Errorf("after %d commits: open calls %v, %v", n, open, err)
	}
}

// A full disk holds a run up; it goes on by itself when there is room.
func TestAFullDiskHoldsARunUp(t *testing.T) {
	for n := 0; n < 12; n += 3 {
		w := newWorldWith(t, calls(`{"deny":true}`, `{"deny":true}`))
		w.close()
		var mu sync.Mutex
		made, broke := 0, 0
		w.commit = func() error {
			mu.Lock()
			defer mu.Unlock()
			if made++; made > n+2 && broke < 3 {
				broke++
				return errFull
			}
			return nil
		}
		w.open()
		run := w.start(w.request("x"))
		if got := w.ended(run.ID); got.State != palyra.RunDone || got.Calls != 2 {
			t.Errorf("%d: %+v", n, got)
		}
		story(t, 0, w.attach(run.ID, 0))
	}
}

func TestRestartWithAnOpenQuestion(t *testing.T) {
	w := newWorldWith(t, calls(`{}`, `{"ask":true}`, `{}`))
	run := w.start(w.request("x"))
	approval := <-w.parts.asked
	before, err := w.runs.Get(t.Context(), run.ID)
	if err != nil || before.State != palyra.RunInProgress {
		t.Fatalf("%+v, %v", before, err)
	}
	w.restart()
	after, err := w.runs.Get(t.Context(), run.ID)
	if err != nil || after.State != palyra.RunInProgress {
		t.Fatalf("%+v, %v", after, err)
	}
	<-w.parts.asked // driven again, it waits again
	calls, _ := w.ledger.waitingFor(t.Context(), approval)
	if len(calls) != 1 {
		t.Fatalf("%d calls wait", len(calls))
	}
	w.allow(approval, calls[0].Digest)
	tape := w.attach(run.ID, 0)
	if d := cmp.Diff([]string{
		"accepted", "text", "proposed", "judged", "granted", "attested", "finished",
		"text", "proposed", "judged", "requested", "resolved", "judged", "granted", "attested", "finished",
		"text", "proposed", "judged", "granted", "attested", "finished", "ended",
	}, story(t, 0, tape)); d != "" {
		t.Error(d)
	}
	for turn := range int64(3) {
		if n := w.ran.times(tapeline.CallKey(run.ID, turn+1, 1)); n != 1 {
			t.Errorf("turn %d ran %d times", turn+1, n)
		}
	}
	if got := w.ended(run.ID); got.State != palyra.RunDone || got.Calls != 3 {
		t.Errorf("%+v", got)
	}
}

// The question was answered while no daemon ran.
func TestRestartWithAnAnswer(t *testing.T) {
	w := newWorldWith(t, calls(`{"ask":true}`))
	run := w.start(w.request("x"))
	approval := <-w.parts.asked
	calls, _ := w.ledger.waitingFor(t.Context(), approval)
	w.close()
	w.allow(approval, calls[0].Digest)
	w.open()
	w.recover()
	if got := w.ended(run.ID); got.State != palyra.RunDone || got.Calls != 1 || w.ran.times(tapeline.CallKey(run.ID, 1, 1)) != 1 {
		t.Errorf("%+v", got)
	}
}

// A call that may have run is unknown; the run is told so and does not run it
// again.
func TestUnknownCallIsNotRunAgain(t *testing.T) {
	var told []palyra.OutcomeKind
	w := newWorldWith(t, driver(func(ctx context.Context, l *Live) error {
		for turn := range int64(2) {
			out, err := l.Call(ctx, turn+1, 1, ToolCall{Tool: "palyra.echo", Arguments: json.RawMessage(`{}`)})
			if err != nil {
				return err
			}
			told = append(told, out.Outcome)
		}
		return nil
	}))
	w.close()
	d := &dying{left: 5, dead: make(chan struct{})} // session, run, accepted, in progress, granted
	w.commit = d.commit
	w.open()
	run := w.start(w.request("x"))
	<-d.dead
	w.close()
	w.commit = nil
	w.open()
	w.recover()
	if got := w.ended(run.ID); got.State != palyra.RunDone {
		t.Errorf("%+v", got)
	}
	if !slices.Equal(told, []palyra.OutcomeKind{palyra.OutcomeUnknown, palyra.OutcomeFinished}) {
		t.Errorf("told %v", told)
	}
	if n := w.ran.times(tapeline.CallKey(run.ID, 1, 1)); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

func TestStopLeavesRunsAsTheyAre(t *testing.T) {
	w := newWorldWith(t, calls(`{"ask":true}`))
	run := w.start(w.request("x"))
	<-w.parts.asked
	w.runs.Stop()
	w.runs.Stop() // twice is fine
	if w.runs.Running() != 0 {
		t.Error("something is driven")
	}
	if _, err := w.runs.Start(t.Context(), w.request("x")); palyra.AsError(err).Reason != palyra.ReasonStopping {
		t.Errorf("a stopped daemon: %v", err)
	}
	got, err := w.runs.Get(t.Context(), run.ID)
	if err != nil || got.State != palyra.RunInProgress || w.tape.count("run.ended") != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Calls that stop before the runs do are no reason for a run to fail.
func TestStopInTheWrongOrder(t *testing.T) {
	w := newWorldWith(t, calls(`{"ask":true}`))
	run := w.start(w.request("x"))
	<-w.parts.asked
	w.calls.Stop()
	w.runs.Stop()
	if got, err := w.runs.Get(t.Context(), run.ID); err != nil || got.State != palyra.RunInProgress {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRunThatCannotGoOn(t *testing.T) {
	refuses := refusing{}
	for name, spoil := range map[string]func(*world, palyra.RunID){
		"provider gone": func(w *world, _ palyra.RunID) { w.driver = refuses },
		"input gone": func(w *world, id palyra.RunID) {
			_ = w.db.Write(w.t.Context(), "test", func(tx *store.Tx) error {
				_, err := tx.Exec(`UPDATE runs SET input=NULL WHERE id=?`, string(id))
				return err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWith(t, calls(`{"ask":true}`))
			run := w.start(w.request("x"))
			<-w.parts.asked
			spoil(w, run.ID)
			w.restart()
			got := w.ended(run.ID)
			if got.State != palyra.RunFailed || got.ReasonCode != palyra.ReasonInterrupted || got.Remedy == "" {
				t.Errorf("%+v", got)
			}
			calls, _, _ := w.calls.List(t.Context(), palyra.CallFilter{Reach: operator, Run: run.ID})
			if len(calls) != 1 || calls[0].State != palyra.Cancelled {
				t.Errorf("its question is still open: %+v", calls)
			}
		})
	}
}

type refusing struct{}

func (refusing) Accept(palyra.Run, []byte) (Accepted, error) {
	return Accepted{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "no such provider")
}

// The clock runs on while the daemon is down.
func TestTimeIsUpAfterARestart(t *testing.T) {
	w := newWorldWith(t, calls(`{"ask":true}`))
	run := w.start(w.request("x"))
	<-w.parts.asked
	w.close()
	w.open()
	w.runs.Now = func() time.Time { return time.Now().Add(time.Hour) }
	w.recover()
	if got := w.ended(run.ID); got.State != palyra.RunFailed || got.ReasonCode != palyra.ReasonTimedOut {
		t.Errorf("%+v", got)
	}
}

// Text that streamed in pieces is taken up where the tape ends.
func TestTextIsTakenUp(t *testing.T) {
	pieces := []string{"one ", "two ", "three"}
	reach := make(chan struct{}, 10)
	var stopAt int
	w := newWorldWith(t, driver(func(ctx context.Context, l *Live) error {
		for i, p := range pieces {
			if i == stopAt {
				reach <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}
			if err := l.Text(ctx, 1, p, i == len(pieces)-1); err != nil {
				return err
			}
		}
		return nil
	}))
	stopAt = 1
	run := w.start(w.request("x"))
	<-reach
	w.close()
	stopAt, pieces = 2, []string{"on", "e two", " ", "three"} // the same words, cut differently
	w.open()
	w.recover()
	<-reach
	w.close()
	stopAt, pieces = -1, []string{"one two three"}
	w.open()
	w.recover()
	var text string
	for _, e := range w.attach(run.ID, 0) {
		if e.ModelText != nil {
			text += e.ModelText.Text
			if e.ModelText.Done != (text == "one two three") {
				t.Errorf("%q ends the turn: %t", text, e.ModelText.Done)
			}
		}
	}
	if got := w.ended(run.ID); text != "one two three" || got.Output != int64(len(text)) {
		t.Errorf("%q, %+v", text, got)
	}
}

// A turn that is taken again hears what it heard, and no more.
func TestInputIsHeardAgain(t *testing.T) {
	var mu sync.Mutex
	var heard []string
	reach := make(chan struct{}, 10)
	last := int64(2)
	w := newWorldWith(t, listening{func(ctx context.Context, l *Live) error {
		mu.Lock()
		heard = nil
		mu.Unlock()
		for turn := int64(1); turn <= last; turn++ {
			texts, err := l.Inputs(ctx, turn)
			if err != nil {
				return err
			}
			mu.Lock()
			heard = append(heard, fmt.Sprint(turn, texts))
			mu.Unlock()
			if turn < 3 {
				reach <- struct{}{}
			}
		}
		if last < 3 {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}})
	run := w.start(w.request("x"))
	<-reach
	<-reach
	if err := w.runs.Input(t.Context(), run.ID, tester, "late"); err != nil {
		t.Fatal(err)
	}
	w.close()
	last = 3
	w.open()
	w.recover()
	w.ended(run.ID)
	if want := []string{"1 []", "2 []", "3 [late]"}; !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
}
