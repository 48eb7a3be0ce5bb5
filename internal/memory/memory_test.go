package memory

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func take(t *testing.T, b *Budget, who string, n int64) func() {
	t.Helper()
	release, err := b.Take(t.Context(), who, n)
	if err != nil {
		t.Fatal(err)
	}
	return release
}

func TestTakeWaitsAndGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100, 60, time.Second)
		one := take(t, b, "a", 60)
		start := time.Now()
		if _, err := b.Take(t.Context(), "a", 1); !errors.Is(err, ErrBusy) || time.Since(start) != time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		if _, err := b.Take(t.Context(), "a", 61); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%v", err)
		}
		take(t, b, "b", 40)() // another's share is its own
		time.AfterFunc(time.Second/2, one)
		take(t, b, "a", 60)()
		one() // twice is once
		if now, most := b.Held(); now != 0 || most != 100 {
			t.Errorf("%d, %d", now, most)
		}
	})
}

func TestCancelWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(10, 10, time.Hour)
		release := take(t, b, "a", 10)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { _, err := b.Take(ctx, "b", 10); done <- err }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		release()
		take(t, b, "b", 10)()
		if now, _ := b.Held(); now != 0 || len(b.line) != 0 {
			t.Errorf("%d held, %d wait", now, len(b.line))
		}
	})
}

// A large need is not passed by for ever by small ones, and one who has used up its
// share keeps nobody else waiting.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(10, 8, time.Hour)
		small := take(t, b, "a", 5)
		var order []string
		var mu sync.Mutex
		queue := func(who string, n int64) {
			go func() {
				release, err := b.Take(t.Context(), who, n)
				if err != nil {
					return
				}
				mu.Lock()
				order = append(order, who)
				mu.Unlock()
				release()
			}()
			synctest.Wait()
		}
		queue("a", 4) // would pass its share
		queue("c", 1) // goes by
		queue("b", 8) // waits for the whole
		queue("d", 3) // behind it
		if len(order) != 1 || order[0] != "c" {
			t.Fatalf("%v", order)
		}
		small()
		synctest.Wait()
		if len(order) != 4 {
			t.Fatalf("%v", order)
		}
	})
}

// Property: never more than the whole, nor than a share, and all of it comes back.
func TestBudgetHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBudget(100, 50, time.Millisecond)
		var wg sync.WaitGroup
		var mu sync.Mutex
		held := map[string]int64{}
		for range rapid.IntRange(1, 20).Draw(t, "callers") {
			who := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "who")
			n := rapid.Int64Range(0, 60).Draw(t, "n")
			wg.Go(func() {
				release, err := b.Take(context.Background(), who, n)
				if err != nil {
					return
				}
				mu.Lock()
				held[who] += n
				if held[who] > 50 || held["a"]+held["b"]+held["c"] > 100 {
					t.Errorf("%v", held)
				}
				held[who] -= n
				mu.Unlock()
				release()
			})
		}
		wg.Wait()
		if now, most := b.Held(); now != 0 || most > 100 || len(b.line) != 0 || len(b.by) != 0 {
			t.Fatalf("%d, %d, %d wait", now, most, len(b.line))
		}
	})
}
