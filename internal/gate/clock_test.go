package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
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
		if d := after(derived); d != time.Minute || !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(derived.Err(), context.DeadlineExceeded) {
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
		below, cancel := context.WithCancel(ctx)
		defer cancel()
		time.AfterFunc(10*time.Second, func() {
			first, second := Pause(below), Pause(ctx)
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
		Pause(ctx)
		if d := after(ctx); d != mostWaiting+time.Minute {
			t.Errorf("after %v", d)
		}
		Pause(ctx)() // a run that is over takes no harm
	})
}

// Who gives up ends a run whose clock stands still.
func TestClockIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopping := errors.New("stopping")
		parent, cancel := context.WithCancelCause(context.Background())
		ctx, end := startClock(parent, time.Minute)
		defer end()
		defer Pause(ctx)()
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
		defer Pause(ctx)()
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

func TestPauseWithoutARun(t *testing.T) { Pause(context.Background())() }
