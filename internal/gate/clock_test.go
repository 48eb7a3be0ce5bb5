package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"palyra"
)

// after reports how long it takes until ctx ends.
func after(ctx context.Context) time.Duration {
	begun := time.Now()
	<-ctx.Done()
	return time.Since(begun)
}

func TestClockEndsLikeATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := startClock(context.Background(), time.Minute)
		defer end()
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		if d := after(derived); d != time.Minute || !errors.Is(ctx.Err(), context.DeadlineExceeded) ||
			!errors.Is(derived.Err(), context.DeadlineExceeded) {
			t.Errorf("after %v: %v, %v", d, ctx.Err(), derived.Err())
		}
	})
}

// The time in which answers are awaited is not the run's, however many there are
// at once.
func TestClockStandsStillForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := startClock(context.Background(), time.Minute)
		defer end()
		time.AfterFunc(10*time.Second, func() {
			first, second := ctx.pause(), ctx.pause()
			time.AfterFunc(2*time.Minute, first)
			time.AfterFunc(5*time.Minute, second)
			time.AfterFunc(6*time.Minute, first) // a second time: it changes nothing
		})
		if d := after(ctx); d != 6*time.Minute || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("after %v: %v", d, ctx.Err())
		}
	})
}

// A program that asks for ever does not live for ever.
func TestClockDoesNotStandStillForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := startClock(context.Background(), time.Minute)
		defer end()
		ctx.pause()
		if d := after(ctx); d != mostWaiting+time.Minute {
			t.Errorf("after %v", d)
		}
		ctx.pause()() // a run that is over takes no harm
	})
}

// Who gives up ends a run whose clock stands still.
func TestClockIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopping := errors.New("stopping")
		parent, cancel := context.WithCancelCause(context.Background())
		ctx, end := startClock(parent, time.Minute)
		defer end()
		defer ctx.pause()()
		time.AfterFunc(time.Second, func() { cancel(stopping) })
		if d := after(ctx); d != time.Second || !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), stopping) {
			t.Errorf("after %v: %v, %v", d, ctx.Err(), context.Cause(ctx))
		}
	})
}

// Who derives a time of its own from a run's gets that, whether the clock stands
// still or not.
func TestClockDeadlineIsTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		ctx, end := startClock(context.Background(), time.Minute)
		defer end()
		defer ctx.pause()()
		if d, ok := ctx.Deadline(); !ok || d.Sub(begun) != time.Minute+mostWaiting {
			t.Errorf("%v, %v", d.Sub(begun), ok)
		}
		shorter, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		if d := after(shorter); d != 2*time.Minute || ctx.Err() != nil {
			t.Errorf("after %v: %v", d, ctx.Err())
		}
		sooner, cancelled := context.WithTimeout(context.Background(), time.Second)
		defer cancelled()
		other, stop := startClock(sooner, time.Minute)
		defer stop()
		if d, _ := other.Deadline(); time.Until(d) != time.Second {
			t.Errorf("the caller's own deadline is sooner, not %v", time.Until(d))
		}
	})
}

// Whoever watches a call can stop its clock while it runs, and hears when that is over,
// also of a tool that panics.
func TestWatcherOfARun(t *testing.T) {
	for name, c := range map[string]struct {
		result palyra.Result
		panics bool
	}{"it ends": {}, "it fails": {result: palyra.Result{ExitCode: 1}}, "it panics": {panics: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var pause func() (resume func())
				running := false
				w.execute = func(ctx context.Context, _ palyra.Launch) palyra.Result {
					if !running {
						t.Error("it runs, and nobody was told")
					}
					resume := pause()
					time.Sleep(5 * time.Second) // five times what the plan gives it
					if ctx.Err() != nil {
						t.Error("the clock went on")
					}
					resume()
					if c.panics {
						panic("tool")
					}
					return c.result
				}
				_, err := w.gate().Do(t.Context(), callID, palyra.Proposal{Tool: "t"}, Watcher{
					Running: func(c *palyra.Call, stop func() func()) func() {
						pause, running = stop, c.ID == callID && c.State == palyra.Running
						return func() { running = false }
					},
				})
				if err != nil || running || pause == nil {
					t.Errorf("running: %v, %v", running, err)
				}
			})
		})
	}
}
