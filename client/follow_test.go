package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra"
	"palyra/client"
)

// scripted is a daemon that does as a test says, and keeps what it was asked.
type scripted struct {
	call   func(ctx context.Context, tell func(client.CallEvent)) (palyra.Outcome, error)
	watch  func(ctx context.Context, tell func(client.CallEvent)) (palyra.Outcome, error)
	cancel func(ctx context.Context) error

	mu   sync.Mutex
	seen []string
}

func (d *scripted) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, fmt.Sprintf(format, args...))
}

func (d *scripted) asked() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.seen)
}

func (d *scripted) Call(ctx context.Context, r client.CallRequest, tell func(client.CallEvent)) (palyra.Outcome, error) {
	d.note("call %s", r.Key)
	return d.call(ctx, tell)
}

func (d *scripted) WatchCall(ctx context.Context, id palyra.CallID, tell func(client.CallEvent)) (palyra.Outcome, error) {
	d.note("watch %s", id)
	return d.watch(ctx, tell)
}

func (d *scripted) CancelCall(ctx context.Context, id palyra.CallID) error {
	d.note("cancel %s", id)
	if d.cancel == nil {
		return nil
	}
	return d.cancel(ctx)
}

var (
	onRecord = client.CallEvent{Accepted: &client.CallAccepted{CallID: "C1"}}
	question = client.CallEvent{ApprovalRequested: &client.ApprovalRequested{ApprovalID: "A1"}}
	answered = client.CallEvent{ApprovalResolved: &client.ApprovalResolved{ApprovalID: "A1", Answer: palyra.AnswerAllow}}
	runsNow  = client.CallEvent{Running: &client.CallRunning{}}
	wentWell = palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: "C1"}
)

// lasts is a call that goes on until its follower hangs up.
func lasts(after time.Duration, news ...client.CallEvent) func(context.Context, func(client.CallEvent)) (palyra.Outcome, error) {
	return func(ctx context.Context, tell func(client.CallEvent)) (palyra.Outcome, error) {
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return palyra.Outcome{}, ctx.Err()
		}
		for _, e := range news {
			tell(e)
		}
		<-ctx.Done()
		return palyra.Outcome{}, ctx.Err()
	}
}

// What is heard is known by then: the id, the question, that it runs.
func TestFollow(t *testing.T) {
	d := &scripted{call: func(_ context.Context, tell func(client.CallEvent)) (palyra.Outcome, error) {
		for _, e := range []client.CallEvent{onRecord, question, answered, runsNow, question} {
			tell(e)
		}
		return wentWell, nil
	}}
	var f *client.Following
	var got []string
	made := make(chan struct{})
	f = client.Follow(d, client.CallRequest{Key: "k"}, client.FollowOptions{Watch: func(client.CallEvent) {
		<-made
		p := f.Progress()
		got = append(got, fmt.Sprintf("%s %t %t", p.ID, p.Question != nil, p.Running))
	}})
	close(made)
	out, err := f.Wait(t.Context())
	if err != nil || out.CallID != "C1" || f.ID() != "C1" {
		t.Errorf("%+v %v", out, err)
	}
	want := []string{"C1 false false", "C1 true false", "C1 false false", "C1 false true", "C1 true true"}
	if !slices.Equal(got, want) {
		t.Errorf("known %v, want %v", got, want)
	}
	for name, ch := range map[string]<-chan struct{}{"known": f.Known(), "running": f.Running(), "done": f.Done()} {
		select {
		case <-ch:
		default:
			t.Errorf("%s is open", name)
		}
	}
}

// The end of the context cancels the call, with patience: for its id, and for its outcome.
func TestFollowCancels(t *testing.T) {
	cancelled := palyra.Outcome{Outcome: palyra.OutcomeCancelled, CallID: "C1"}
	refuses := func(context.Context) error { return errors.New("no") }
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	const left = time.Minute // when the context ends
	for name, c := range map[string]struct {
		known   time.Duration                   // when the call gets its id
		ends    time.Duration                   // when the call says that it is cancelled; 0: never
		cancel  func(ctx context.Context) error // nil: it is
		took    time.Duration                   // after the end of the context
		asked   []string
		outcome bool
	}{
		"at once":                     {0, left + 1, nil, 1, []string{"call k", "cancel C1"}, true},
		"with an outcome in time":     {0, left + 9*time.Second, nil, 9 * time.Second, []string{"call k", "cancel C1"}, true},
		"without an outcome":          {0, 0, nil, 10 * time.Second, []string{"call k", "cancel C1"}, false},
		"refused":                     {0, 0, refuses, time.Second, []string{"call k", "cancel C1"}, false},
		"refused, but it ends":        {0, left + time.Second/2, refuses, time.Second / 2, []string{"call k", "cancel C1"}, true},
		"not answered":                {0, 0, hangs, 11 * time.Second, []string{"call k", "cancel C1"}, false},
		"with an id in time":          {left + time.Second, left + 3*time.Second, nil, 3 * time.Second, []string{"call k", "cancel C1"}, true},
		"without an id":               {left + time.Hour, 0, nil, 2 * time.Second, []string{"call k"}, false},
		"while it ends without an id": {left + time.Hour, left + time.Second, nil, time.Second, []string{"call k"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &scripted{cancel: c.cancel}
				began := time.Now()
				d.call = func(ctx context.Context, tell func(client.CallEvent)) (palyra.Outcome, error) {
					known, ends := time.After(c.known), time.After(c.ends)
					if c.ends == 0 {
						ends = nil
					}
					for {
						select {
						case <-known:
							tell(onRecord)
						case <-ends:
							return cancelled, nil
						case <-ctx.Done():
							return palyra.Outcome{}, ctx.Err()
						}
					}
				}
				ctx, leave := context.WithTimeout(t.Context(), left)
				defer leave()
				said := palyra.CallID("")
				f := client.Follow(d, client.CallRequest{Key: "k"}, client.FollowOptions{Cancelling: func(id palyra.CallID) { said = id }})
				out, err := f.Wait(ctx)
				if took := time.Since(began) - left; took != c.took {
					t.Errorf("it took %s, want %s", took, c.took)
				}
				if (err == nil) != c.outcome || c.outcome && out.Outcome != palyra.OutcomeCancelled {
					t.Errorf("%+v %v", out, err)
				}
				if got := d.asked(); !slices.Equal(got, c.asked) || (said == "C1") != (len(got) == 2) {
					t.Errorf("asked %v, said %q", got, said)
				}
			})
		})
	}
}

// Whoever cancels says how long an id is worth waiting for; what has ended is not cancelled.
func TestFollowingCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &scripted{call: lasts(30*time.Second, onRecord)}
		f := client.Follow(d, client.CallRequest{}, client.FollowOptions{})
		ctx, done := context.WithTimeout(t.Context(), time.Minute)
		defer done()
		if err := f.Cancel(ctx); err != nil || !slices.Contains(d.asked(), "cancel C1") {
			t.Errorf("%v, asked %v", err, d.asked())
		}
		f.Close()
		d = &scripted{call: func(_ context.Context, tell func(client.CallEvent)) (palyra.Outcome, error) {
			tell(onRecord)
			return wentWell, nil
		}}
		f = client.Follow(d, client.CallRequest{}, client.FollowOptions{})
		<-f.Done()
		if err := f.Cancel(ctx); err != nil || len(d.asked()) != 1 {
			t.Errorf("after the end: %v, asked %v", err, d.asked())
		}
	})
}

// Hanging up leaves the call.
func TestFollowingHangsUp(t *testing.T) {
	d := &scripted{call: lasts(0, onRecord, question)}
	f := client.Follow(d, client.CallRequest{}, client.FollowOptions{Lost: func(error) { t.Error("lost") }})
	<-f.Known()
	f.Close()
	if _, err := f.Outcome(); err == nil || len(d.asked()) != 1 {
		t.Errorf("%v, asked %v", err, d.asked())
	}
}

// A call is found again after a restart of the daemon, and never proposed twice.
func TestFollowOverARestart(t *testing.T) {
	gone := func(r palyra.Reason) error { return palyra.Errorf(palyra.Unavailable, r, "away") }
	for name, c := range map[string]struct {
		key     string
		known   bool    // the call was on record before the daemon went
		fails   []error // of the tries, in order; then it goes well
		deaf    bool    // nobody wants to hear of lost connections
		asked   []string
		outcome bool
	}{
		"on record": {
			"k", true,
			[]error{gone(palyra.ReasonStopping), gone(client.ReasonNoDaemon)},
			false,
			[]string{"call k", "watch C1", "watch C1"},
			true,
		},
		"without a key": {"", true, []error{gone(client.ReasonConnectionLost)}, false, []string{"call ", "watch C1"}, true},
		"perhaps on record": {
			"k", false,
			[]error{gone(client.ReasonConnectionLost), gone(client.ReasonNoDaemon)},
			false,
			[]string{"call k", "call k", "call k"},
			true,
		},
		"and no key":      {"", false, []error{gone(client.ReasonConnectionLost)}, false, []string{"call "}, false},
		"not wanted":      {"k", true, []error{gone(client.ReasonConnectionLost)}, true, []string{"call k"}, false},
		"refused":         {"k", true, []error{gone("no_space")}, false, []string{"call k"}, false},
		"gone for long":   {"k", true, slices.Repeat([]error{gone(client.ReasonNoDaemon)}, 200), false, nil, true},
		"and never there": {"k", false, slices.Repeat([]error{gone(client.ReasonNoDaemon)}, 200), false, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &scripted{}
				tries, began := 0, time.Now()
				d.call = func(_ context.Context, tell func(client.CallEvent)) (palyra.Outcome, error) {
					if tries++; tries > len(c.fails) {
						return wentWell, nil
					}
					if c.known {
						tell(onRecord)
					}
					return palyra.Outcome{}, c.fails[tries-1]
				}
				d.watch = d.call
				lost := 0
				var f *client.Following
				o := client.FollowOptions{Lost: func(error) {
					lost++
					if !f.Progress().Away {
						t.Error("the daemon is said to be there")
					}
				}}
				if c.deaf {
					o = client.FollowOptions{}
				}
				made := make(chan struct{})
				run := d.call
				d.call = func(ctx context.Context, tell func(client.CallEvent)) (palyra.Outcome, error) {
					<-made
					return run(ctx, tell)
				}
				f = client.Follow(d, client.CallRequest{Key: c.key}, o)
				close(made)
				out, err := f.Wait(t.Context())
				if (err == nil) != c.outcome || c.outcome && out.CallID != "C1" {
					t.Errorf("%+v %v", out, err)
				}
				if got := d.asked(); c.asked != nil && (!slices.Equal(got, c.asked) || !c.deaf && lost != len(got)-1) {
					t.Errorf("asked %v, lost %d times", got, lost)
				}
				switch took := time.Since(began); {
				case name == "gone for long" && (took < 5*time.Minute || took > 7*time.Minute):
					t.Errorf("200 tries took %s", took)
				case name == "and never there" && (took < 5*time.Second || took > 8*time.Second):
					t.Errorf("looked for for %s", took)
				}
			})
		})
	}
}

// A pause between two tries ends when nobody follows any more.
func TestFollowHangsUpBetweenTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := func(context.Context, func(client.CallEvent)) (palyra.Outcome, error) {
			return palyra.Outcome{}, palyra.Errorf(palyra.Unavailable, client.ReasonNoDaemon, "away")
		}
		f := client.FollowKnown(&scripted{watch: away}, "C1", client.FollowOptions{Lost: func(error) {}})
		time.Sleep(time.Hour)
		began := time.Now()
		f.Close()
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %s", took)
		}
	})
}

// One that was made before is watched, and known from the beginning.
func TestFollowKnown(t *testing.T) {
	b := newBench(t)
	b.parts.OnWatch = func(_ context.Context, id palyra.CallID, w palyra.Watch) (palyra.Outcome, error) {
		w.Running(&palyra.Call{ID: id}) // long before, and told again
		return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: id}, nil
	}
	f := client.FollowKnown(b.agent(), "C7", client.FollowOptions{})
	if f.ID() != "C7" {
		t.Errorf("it is %q", f.ID())
	}
	out, err := f.Wait(t.Context())
	if err != nil || out.CallID != "C7" || !f.Progress().Running {
		t.Errorf("%+v %v, %+v", out, err, f.Progress())
	}
}

// A call at a real door is one request: nothing is asked while it is followed.
func TestFollowAsksNothing(t *testing.T) {
	b := newBench(t)
	goOn := make(chan struct{})
	b.parts.OnCall = func(_ context.Context, _ palyra.Proposal, w palyra.Watch) (palyra.Outcome, error) {
		c := &palyra.Call{ID: "C1"}
		w.Event(c, palyra.CallProposed{Call: "C1", Session: "S1"})
		w.Running(c)
		<-goOn
		return wentWell, nil
	}
	f := client.Follow(b.agent(), client.CallRequest{Tool: "x"}, client.FollowOptions{})
	<-f.Running()
	close(goOn)
	if out, err := f.Wait(t.Context()); err != nil || out.CallID != "C1" {
		t.Errorf("%+v %v", out, err)
	}
	if seen := b.parts.Seen(); !slices.Equal(seen, []string{"call x"}) {
		t.Errorf("the daemon was asked %v", seen)
	}
}

// taped is a daemon with one run.
type taped struct {
	attach func(ctx context.Context, f func(palyra.TapeEntry) error) error
	cancel func() error
	asked  int
}

func (d *taped) AttachRun(ctx context.Context, _ palyra.RunID, _ int64, f func(palyra.TapeEntry) error, lost ...func(int64, error)) error {
	for _, tell := range lost {
		tell(3, errors.New("lost"))
	}
	return d.attach(ctx, f)
}

func (d *taped) CancelRun(context.Context, palyra.RunID) error {
	d.asked++
	return d.cancel()
}

// The end of the context cancels a run with patience, or only hangs up.
func TestFollowRun(t *testing.T) {
	const left = time.Minute
	for name, c := range map[string]struct {
		cancels bool
		fails   error         // of the cancel
		ends    time.Duration // when the tape is told to its end; 0: never
		took    time.Duration
		asked   int
		told    bool
	}{
		"to its end": {true, nil, time.Second, time.Second - left, 0, true},
		"cancelled":  {true, nil, left + 9*time.Second, 9 * time.Second, 1, true},
		"too slow":   {true, nil, 0, 10 * time.Second, 1, false},
		"refused":    {true, errors.New("no"), 0, time.Second, 1, false},
		"left":       {false, nil, 0, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, leaving := time.Now(), 0
				d := &taped{cancel: func() error { return c.fails }, attach: func(ctx context.Context, _ func(palyra.TapeEntry) error) error {
					ends := time.After(c.ends)
					if c.ends == 0 {
						ends = nil
					}
					select {
					case <-ends:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}}
				ctx, leave := context.WithTimeout(t.Context(), left)
				defer leave()
				err := client.FollowRun(ctx, d, "R1", client.FollowRunOptions{Cancels: c.cancels, Leaving: func() { leaving++ }})
				if took := time.Since(began) - left; took != c.took || (err == nil) != c.told || d.asked != c.asked {
					t.Errorf("it took %s, %v, cancelled %d times", took, err, d.asked)
				}
				if (leaving == 1) != (c.took >= 0) {
					t.Errorf("it was left %d times", leaving)
				}
			})
		})
	}
}
