package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/run/tapeline"
	"palyra/internal/store"
)

// calls returns a driver that makes one call a turn, with a text before each.
func calls(args ...string) driver {
	return func(ctx context.Context, l *Live) error {
		for i, a := range args {
			turn := int64(i) + 1
			if err := l.Text(ctx, turn, fmt.Sprintf("turn %d", turn), true); err != nil {
				return err
			}
			if _, err := l.Call(ctx, turn, 1, ToolCall{Tool: "palyra.echo", Arguments: json.RawMessage(a)}); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestRunTellsEverything(t *testing.T) {
	w := newWorldWith(t, calls(`{"print":["hello"]}`, `{"ask":true}`, `{"deny":true}`))
	defer w.approve(t.Context())()
	run := w.start(w.request("x"))
	if run.State != palyra.RunPending || run.Budget != w.limits || run.Session == "" {
		t.Errorf("%+v", run)
	}
	tape := w.attach(run.ID, 0)
	want := []string{
		"accepted",
		"text", "proposed", "judged", "granted", "output", "attested", "finished",
		"text", "proposed", "judged", "requested", "resolved", "judged", "granted", "attested", "finished",
		"text", "proposed", "judged", "finished",
		"ended",
	}
	if d := cmp.Diff(want, story(t, 0, tape)); d != "" {
		t.Fatal(d)
	}
	if a := tape[0]; a.RunAccepted.Title != "a title" || a.RunAccepted.Budget != w.limits || a.Position == 0 ||
		a.RunAccepted.Session != run.Session {
		t.Errorf("%+v", a.RunAccepted)
	}
	if p := tape[2].ToolProposed; p.Turn != 1 || p.Tool != "palyra.echo" || string(p.Arguments) != `{"print":["hello"]}` {
		t.Errorf("%+v", p)
	}
	if o := tape[5].ToolOutput; string(o.Data) != "hello" || o.Stream != "stdout" || o.Call != tape[2].ToolProposed.Call {
		t.Errorf("%+v", o)
	}
	if r := tape[12].ApprovalResolved; r.Answer != palyra.AnswerAllow || r.Approval != tape[11].ApprovalRequested.Approval {
		t.Errorf("%+v", r)
	}
	if !tape[13].ToolJudged.Again || tape[10].ToolJudged.Again {
		t.Error("which verdict came after the answer cannot be told")
	}
	if f := tape[20].ToolFinished; f.Outcome != palyra.OutcomeRefused || f.Layer != palyra.LayerPolicy || f.ExitCode != palyra.ExitRefused ||
		f.Reason == "" {
		t.Errorf("%+v", f)
	}
	if e := tape[21]; e.RunFinished.State != palyra.RunDone || e.RunFinished.Calls != 3 || e.Position == 0 {
		t.Errorf("%+v", e.RunFinished)
	}
	for _, e := range tape {
		if security := e.ModelText == nil && e.ToolOutput == nil; security != (e.Position > 0) {
			t.Errorf("%s stands at %d", kindOf(e), e.Position)
		}
	}
	got := w.ended(run.ID)
	if got.State != palyra.RunDone || got.Calls != 3 || got.LastSeq != int64(len(tape)) || got.EndedAt.IsZero() || got.Title != "a title" ||
		got.Output == 0 {
		t.Errorf("%+v", got)
	}
	if w.tape.count("run.started") != 1 || w.tape.count("run.ended") != 1 {
		t.Errorf("journal: %v", w.tape.kinds)
	}
	calls, _, err := w.calls.List(t.Context(), palyra.CallFilter{Reach: operator, Run: run.ID})
	if err != nil || len(calls) != 3 || calls[2].Proposal.Owner != "user:me" || calls[2].Proposal.PeerUID != 7 ||
		calls[2].Proposal.Run != run.ID {
		t.Errorf("%+v, %v", calls, err)
	}
}

func TestDeniedAnswerIsTold(t *testing.T) {
	w := newWorldWith(t, calls(`{"ask":true}`))
	run := w.start(w.request("x"))
	id := <-w.parts.asked
	w.parts.channel(id) <- palyra.Decision{Approval: id, Answer: palyra.AnswerDeny, By: "user:me", Reason: "no"}
	tape := w.attach(run.ID, 0)
	want := []string{"accepted", "text", "proposed", "judged", "requested", "resolved", "finished", "ended"}
	if d := cmp.Diff(want, story(t, 0, tape)); d != "" {
		t.Fatal(d)
	}
	if r := tape[5].ApprovalResolved; r.Answer != palyra.AnswerDeny || r.By != "user:me" || r.Reason != "no" {
		t.Errorf("%+v", r)
	}
}

// An answer is told once, also when it was not enough.
func TestAnAnswerThatIsNotEnough(t *testing.T) {
	w := newWorldWith(t, calls(`{"ask":true,"strict":true}`))
	defer w.approve(t.Context())()
	want := []string{"accepted", "text", "proposed", "judged", "requested", "resolved", "judged", "finished", "ended"}
	if d := cmp.Diff(want, story(t, 0, w.attach(w.start(w.request("x")).ID, 0))); d != "" {
		t.Error(d)
	}
}

// From whatever entry somebody attaches again, they get the rest, and only that.
func TestAttachFromEverywhere(t *testing.T) {
	w := newWorldWith(t, calls(`{"print":["a"]}`, `{}`))
	run := w.start(w.request("x"))
	whole := w.attach(run.ID, 0)
	for after := range int64(len(whole)) + 2 {
		var want []palyra.TapeEntry
		if after < int64(len(whole)) {
			want = whole[after:]
		}
		if d := cmp.Diff(want, w.attach(run.ID, after)); d != "" {
			t.Errorf("after %d:\n%s", after, d)
		}
	}
	if got := w.attach(run.ID, -5); len(got) != len(whole) {
		t.Errorf("after -5: %d entries", len(got))
	}
	err := w.runs.Attach(t.Context(), "01ARZ3NDEKTSV4RRFFQ69G5FAV", 0, func(palyra.TapeEntry) error { return nil })
	if palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("no run: %v", err)
	}
}

// Two attach while it runs, one is slow, one leaves and comes back; the run does
// not wait for any of them and each gets the whole.
func TestManyAttach(t *testing.T) {
	w := newWorldWith(t, calls(`{"hold":true}`, `{}`, `{}`))
	run := w.start(w.request("x"))
	<-w.parts.started
	tapes := make([][]palyra.TapeEntry, 3)
	begun := make(chan struct{}, 3)
	free := make(chan struct{})
	var wg sync.WaitGroup
	follow := func(i int, f func() error) {
		wg.Go(func() {
			for {
				var last int64
				if n := len(tapes[i]); n > 0 {
					last = tapes[i][n-1].Seq
				}
				err := w.runs.Attach(t.Context(), run.ID, last, func(e palyra.TapeEntry) error {
					if len(tapes[i]) == 0 {
						begun <- struct{}{}
					}
					tapes[i] = append(tapes[i], e)
					return f()
				})
				if !errors.Is(err, errLeave) {
					return
				}
			}
		})
	}
	follow(0, func() error { return nil })
	follow(1, func() error { <-free; return nil }) // stuck until the run is over
	follow(2, func() error { return errLeave })    // one entry at a time
	for range 3 {
		<-begun
	}
	close(w.parts.proceed)
	whole := w.attach(run.ID, 0)
	close(free)
	wg.Wait()
	for i, tape := range tapes {
		if d := cmp.Diff(whole, tape); d != "" {
			t.Errorf("%d:\n%s", i, d)
		}
	}
	if len(w.runs.tape.readers) != 0 {
		t.Errorf("%d readers left", len(w.runs.tape.readers))
	}
}

var errLeave = errors.New("leave")

func TestAttachEndsWithItsCaller(t *testing.T) {
	w := newWorldWith(t, calls(`{"hold":true}`))
	run := w.start(w.request("x"))
	<-w.parts.started
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- w.runs.Attach(ctx, run.ID, 0, func(e palyra.TapeEntry) error {
			if e.ToolGranted != nil {
				leave()
			}
			return nil
		})
	}()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if run, err := w.runs.Get(t.Context(), run.ID); err != nil || run.State != palyra.RunInProgress {
		t.Errorf("%+v, %v", run, err)
	}
	go func() { done <- w.runs.Attach(t.Context(), run.ID, 99, func(palyra.TapeEntry) error { return nil }) }()
	w.runs.Stop()
	if err := <-done; palyra.AsError(err).Reason != palyra.ReasonStopping {
		t.Errorf("when the daemon stops: %v", err)
	}
}

func TestStateTable(t *testing.T) {
	w := newWorldWith(t, calls())
	run := w.start(w.request("x"))
	w.ended(run.ID)
	for _, from := range palyra.RunStates() {
		for _, to := range palyra.RunStates() {
			err := w.db.Write(t.Context(), "test", func(tx *store.Tx) error {
				x := run
				x.State = from
				return move(tx, &x, to, func(*palyra.Run) {})
			})
			if (err == nil) != from.MayBecome(to) {
				t.Errorf("%s → %s: %v", from, to, err)
			}
			if err == nil {
				if got, _ := w.runs.Get(t.Context(), run.ID); got.State != to {
					t.Errorf("%s → %s is %s", from, to, got.State)
				}
			}
		}
	}
}

func TestRunKey(t *testing.T) {
	w := newWorldWith(t, calls(`{}`))
	q := w.request("x")
	q.Key = "k"
	first := w.start(q)
	w.ended(first.ID)
	if again := w.start(q); again.ID != first.ID || again.State != palyra.RunDone {
		t.Errorf("%+v", again)
	}
	for name, change := range map[string]func(*StartRequest){
		"input":     func(q *StartRequest) { q.Input = []byte("y") },
		"provider":  func(q *StartRequest) { q.Provider = "other" },
		"workspace": func(q *StartRequest) { q.Workspace = "/v" },
	} {
		x := q
		change(&x)
		if _, err := w.runs.Start(t.Context(), x); palyra.AsError(err).Reason != palyra.ReasonIdempotencyReused ||
			palyra.CodeOf(err) != palyra.Conflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := q
	other.Principal = "agent:other"
	if run := w.start(other); run.ID == first.ID {
		t.Error("another principal's key found the run")
	} else {
		w.ended(run.ID)
	}
	if w.ran.times(tapeline.CallKey(first.ID, 1, 1)) != 1 {
		t.Error("it did not run once")
	}
}

// Many starts with one key at the same time are one run.
func TestRunKeyAtOnce(t *testing.T) {
	w := newWorldWith(t, calls(`{}`))
	q := w.request("x")
	q.Key = "k"
	ids := make([]palyra.RunID, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			run, err := w.runs.Start(t.Context(), q)
			if err != nil {
				t.Error(err)
			}
			ids[i] = run.ID
		})
	}
	wg.Wait()
	if len(slices.Compact(ids)) != 1 || w.tape.count("run.started") != 1 {
		t.Errorf("%v", ids)
	}
	w.ended(ids[0])
}

func TestBadStart(t *testing.T) {
	w := newWorldWith(t, calls())
	for name, change := range map[string]func(*StartRequest){
		"no principal":    func(q *StartRequest) { q.Principal = "" },
		"no door":         func(q *StartRequest) { q.Surface = "" },
		"no provider":     func(q *StartRequest) { q.Provider = "" },
		"provider":        func(q *StartRequest) { q.Provider = strings.Repeat("x", 65) },
		"key":             func(q *StartRequest) { q.Key = "a\x00" },
		"long key":        func(q *StartRequest) { q.Key = strings.Repeat("x", 257) },
		"title":           func(q *StartRequest) { q.Title = "a\nb" },
		"budget":          func(q *StartRequest) { q.Budget.WallMS = -1 },
		"session":         func(q *StartRequest) { q.Session = "a\x00" },
		"workspace":       func(q *StartRequest) { q.Workspace = "a\nb" },
		"input":           func(q *StartRequest) { q.Input = make([]byte, maxInput+1) },
		"unknown session": func(q *StartRequest) { q.Session = "01ARZ3NDEKTSV4RRFFQ69G5FAV" },
	} {
		q := w.request("x")
		change(&q)
		run, err := w.runs.Start(t.Context(), q)
		if e := palyra.AsError(err); err == nil || e.Code == palyra.Internal || e.Remedy == "" {
			t.Errorf("%s: %+v, %v", name, run, err)
		}
	}
	if w.tape.count("run.started") != 0 {
		t.Error("a bad run is on record")
	}
}

func TestRunsAreBounded(t *testing.T) {
	w := newWorldWith(t, driver(func(ctx context.Context, _ *Live) error { <-ctx.Done(); return ctx.Err() }))
	if w.runs.each != maxRunsEach || w.runs.all != maxRuns {
		t.Error("the bounds do not hold")
	}
	w.runs.each, w.runs.all = 4, 10
	for range 4 {
		w.start(w.request("x"))
	}
	_, err := w.runs.Start(t.Context(), w.request("x"))
	if e := palyra.AsError(err); e.Code != palyra.Exhausted || e.Remedy == "" {
		t.Errorf("run %d: %v", 5, err)
	}
	if err := w.runs.CancelAll(t.Context(), "agent:test", "user:me"); err != nil {
		t.Fatal(err)
	}
	page, _, _ := w.runs.List(t.Context(), palyra.RunFilter{Reach: operator})
	for _, run := range page {
		if got := w.ended(run.ID); got.State != palyra.RunCancelled {
			t.Errorf("%+v", got)
		}
	}
	for i := range 10 {
		q := w.request("x")
		q.Principal = palyra.Principal(fmt.Sprintf("agent:%d", i%3))
		w.start(q)
	}
	q := w.request("x")
	q.Principal = "agent:one-more"
	if _, err := w.runs.Start(t.Context(), q); palyra.CodeOf(err) != palyra.Exhausted {
		t.Errorf("run %d: %v", 11, err)
	}
	if n := w.runs.Running(); n != 10 {
		t.Errorf("%d run", n)
	}
}

func TestListRuns(t *testing.T) {
	w := newWorldWith(t, calls())
	var ids []palyra.RunID
	for range 5 {
		run := w.start(w.request("x"))
		w.ended(run.ID)
		ids = append(ids, run.ID)
	}
	page, more, err := w.runs.List(t.Context(), palyra.RunFilter{Reach: operator, Principal: "agent:test", State: palyra.RunDone, Limit: 2})
	if err != nil || !more || len(page) != 2 || page[0].ID != ids[4] {
		t.Fatalf("%+v, %v", page, err)
	}
	page, more, _ = w.runs.List(t.Context(), palyra.RunFilter{Reach: operator, Session: page[0].Session, Cursor: string(page[1].ID)})
	if more || len(page) != 3 || page[0].ID != ids[2] {
		t.Errorf("%+v", page)
	}
	for _, f := range []palyra.RunFilter{
		{Reach: operator, Principal: "agent:other"},
		{Reach: operator, State: palyra.RunFailed},
		{Reach: operator, Session: "x"},
		{Reach: palyra.Reach{Principal: "agent:other"}},
		{},
	} {
		if page, _, _ := w.runs.List(t.Context(), f); len(page) != 0 {
			t.Errorf("%+v: %v", f, page)
		}
	}
	if _, err := w.runs.Get(t.Context(), "x"); palyra.CodeOf(err) != palyra.NotFound {
		t.Error(err)
	}
}

func TestRunFails(t *testing.T) {
	cases := map[string]struct {
		d      driver
		input  string
		reason palyra.Reason
		kinds  []string
	}{
		"bad input": {calls(), "bad", palyra.ReasonBadScript, []string{"ended"}},
		"an error of ours": {
			func(context.Context, *Live) error {
				return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "no").WithRemedy("ask")
			},
			"x", palyra.ReasonPermission,
			[]string{"accepted", "ended"},
		},
		"another error": {func(context.Context, *Live) error { return errLeave }, "x", palyra.ReasonInternal, []string{"accepted", "ended"}},
		"a panic":       {func(context.Context, *Live) error { panic("x") }, "x", palyra.ReasonInternal, []string{"accepted", "ended"}},
		"turn 0": {
			func(ctx context.Context, l *Live) error { return l.Text(ctx, 0, "x", true) }, "x", palyra.ReasonInternal,
			[]string{"accepted", "ended"},
		},
		"call 0": {func(ctx context.Context, l *Live) error {
			_, err := l.Call(ctx, 1, 0, ToolCall{})
			return err
		}, "x", palyra.ReasonInternal, []string{"accepted", "ended"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorldWith(t, c.d)
			run := w.start(w.request(c.input))
			if d := cmp.Diff(c.kinds, story(t, 0, w.attach(run.ID, 0))); d != "" {
				t.Error(d)
			}
			if got := w.ended(run.ID); got.State != palyra.RunFailed || got.ReasonCode != c.reason || got.Reason == "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestSessionClosedUnderARun(t *testing.T) {
	w := newWorldWith(t, calls(`{"hold":true}`, `{}`))
	run := w.start(w.request("x"))
	<-w.parts.started
	if err := w.sessions.Close(t.Context(), run.Session, "user:me"); err != nil {
		t.Fatal(err)
	}
	close(w.parts.proceed)
	if got := w.ended(run.ID); got.State != palyra.RunFailed || got.ReasonCode != palyra.ReasonSessionClosed {
		t.Errorf("%+v", got)
	}
}

// A caller cannot slip a call of its own under the key of a run's.
func TestRunsCallsAreItsOwn(t *testing.T) {
	gate := make(chan struct{})
	w := newWorldWith(t, driver(func(ctx context.Context, l *Live) error {
		<-gate
		return calls(`{}`)(ctx, l)
	}))
	run := w.start(w.request("x"))
	p := w.proposal(`{}`)
	p.Session, p.Key = run.Session, tapeline.CallKey(run.ID, 1, 1)
	if _, err := w.calls.Call(t.Context(), p, palyra.Watch{}); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("the key of a run's call can be spent before it: %v", err)
	}
	for _, own := range []string{
		"01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAV/1", "01ARZ3NDEKTSV4RRFFQ69G5FAV/1/x", "a/1/1",
		"1/1",
	} {
		if p.Key = own; tapeline.IsCallKey(own) {
			t.Errorf("%s is not a run's", own)
		}
	}
	close(gate)
	if got := w.ended(run.ID); got.State != palyra.RunDone {
		t.Errorf("%+v", got)
	}
}

func TestInputIsHeardOnce(t *testing.T) {
	said := make(chan struct{})
	var heard [][]string
	w := newWorldWith(t, listening{func(ctx context.Context, l *Live) error {
		for turn := range int64(3) {
			if turn == 1 {
				<-said
			}
			texts, err := l.Inputs(ctx, turn+1)
			if err != nil {
				return err
			}
			heard = append(heard, texts)
		}
		return nil
	}})
	run := w.start(w.request("x"))
	for deadline := time.Now().Add(10 * time.Second); ; { // it listens once it was accepted
		err := w.runs.Input(t.Context(), run.ID, tester, "left, please")
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	close(said)
	w.ended(run.ID)
	if got := slices.Concat(heard...); len(heard) != 3 || !slices.Equal(got, []string{"left, please"}) || len(heard[2]) != 0 {
		t.Errorf("heard %q", heard)
	}
	if err := w.runs.Input(t.Context(), run.ID, tester, "more"); palyra.AsError(err).Reason != palyra.ReasonRunEnded {
		t.Errorf("an ended run: %v", err)
	}
	if err := w.runs.Input(t.Context(), "x", tester, "more"); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("no run: %v", err)
	}
	for _, bad := range []string{"", "\xff", strings.Repeat("x", maxSaid+1)} {
		if err := w.runs.Input(t.Context(), run.ID, tester, bad); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%.10q: %v", bad, err)
		}
	}
}

// listening is a driver that takes input.
type listening struct{ driver }

func (d listening) Accept(r palyra.Run, input []byte) (Accepted, error) {
	a, err := d.driver.Accept(r, input)
	a.Listens = true
	return a, err
}

func TestARunThatDoesNotListenSaysSo(t *testing.T) {
	w := newWorldWith(t, calls(`{"hold":true}`))
	run := w.start(w.request("x"))
	<-w.parts.started
	err := w.runs.Input(t.Context(), run.ID, tester, "left")
	if e := palyra.AsError(err); e.Code != palyra.Invalid || e.Remedy == "" {
		t.Error(err)
	}
}

func TestNewRunsWantsEverything(t *testing.T) {
	w := newWorld(t)
	good := w.runs.RunsConfig
	for i, change := range []func(*RunsConfig){
		func(c *RunsConfig) { c.DB = nil },
		func(c *RunsConfig) { c.Driver = nil },
		func(c *RunsConfig) { c.Log = nil },
		func(c *RunsConfig) { c.Limits.Parallel = 0 },
		func(c *RunsConfig) { c.Limits.WallMS = -1 },
	} {
		c := good
		change(&c)
		if _, err := NewRuns(c); err == nil {
			t.Errorf("config %d is incomplete and was taken", i)
		}
	}
}
