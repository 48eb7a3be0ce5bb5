package limit

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func (c *clock) pass(d time.Duration) { c.at = c.at.Add(d) }

func newClock() *clock { return &clock{time.Unix(1_800_000_000, 0)} }

func TestTake(t *testing.T) {
	c := newClock()
	l := New(Config{Propose: 50, Decide: 20, Now: c.now})
	let := func(kind Kind, key string, n int) (got int) {
		for range n {
			if _, ok := l.Take(kind, key); ok {
				got++
			}
		}
		return got
	}
	if n := let(Propose, "a", 500); n != 100 {
		t.Errorf("a burst let %d in", n)
	}
	if n := let(Propose, "b", 10); n != 10 {
		t.Errorf("another credential was let in %d times", n)
	}
	if n := let(Decide, "a", 10); n != 10 {
		t.Errorf("another kind was let in %d times", n)
	}
	if n := let(Request, "a", 5000); n != 5000 {
		t.Errorf("without a limit %d got in", n)
	}
	after, ok := l.Take(Propose, "a")
	if ok || after <= 0 || after > time.Second {
		t.Fatalf("%v %v", after, ok)
	}
	c.pass(after)
	if _, ok := l.Take(Propose, "a"); !ok {
		t.Error("who waited as long as told is not let in")
	}
	c.pass(time.Second)
	if n := let(Propose, "a", 500); n < 49 || n > 51 {
		t.Errorf("after a second %d got in", n)
	}
	if got := l.Counters(); got["propose"] == 0 || got["decide"] != 0 || got["requests"] != 0 {
		t.Errorf("%v", got)
	}
}

// Property: however requests come, no key gets more than its burst and its rate.
func TestNobodyGetsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		per := rapid.Int64Range(1, 100).Draw(t, "rate")
		l := New(Config{Requests: per, Most: 4, Now: c.now})
		begun := c.at
		let := 0
		for range rapid.IntRange(1, 300).Draw(t, "requests") {
			c.pass(time.Duration(rapid.IntRange(0, 100).Draw(t, "ms")) * time.Millisecond)
			if _, ok := l.Take(Request, "k"); ok {
				let++
			}
		}
		if most := float64(2*per) + float64(per)*c.at.Sub(begun).Seconds() + 1; float64(let) > most {
			t.Fatalf("%d of at most %.1f", let, most)
		}
	})
}

// A million keys cost no more than the few that are remembered.
func TestMemoryIsBounded(t *testing.T) {
	l := New(Config{Requests: 1, Most: 1000})
	before := heap()
	for i := range 1_000_000 {
		l.Take(Request, fmt.Sprintf("key-%d", i))
		if i%10 == 0 {
			l.Try(fmt.Sprintf("address-%d", i))
		}
	}
	if n := l.order.Len(); n != 1000 || len(l.buckets) != n {
		t.Errorf("%d buckets", n)
	}
	if n := len(l.tries.by); n > 1000 {
		t.Errorf("%d addresses", n)
	}
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("%d bytes", grown)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestTriesBackOffAndLock(t *testing.T) {
	c := newClock()
	l := New(Config{Logins: 5, Now: c.now})
	var waits []time.Duration
	tries := 0
	for range 200 {
		_, after, ok := l.Try("192.0.2.1")
		if ok {
			tries++
			continue
		}
		waits = append(waits, after)
		if after >= lockFor {
			break
		}
		c.pass(after)
	}
	if tries != lockAfter {
		t.Errorf("%d tries before the lock, want %d", tries, lockAfter)
	}
	if last := waits[len(waits)-1]; last != lockFor {
		t.Errorf("locked for %v", last)
	}
	c.pass(lockFor - time.Second)
	if _, _, ok := l.Try("192.0.2.1"); ok {
		t.Error("let in before the lock ended")
	}
	if done, _, ok := l.Try("192.0.2.2"); !ok {
		t.Error("another address pays for it")
	} else {
		done(true)
	}
	c.pass(2 * time.Second)
	done, _, ok := l.Try("192.0.2.1")
	if !ok {
		t.Fatal("still locked")
	}
	done(true) // knows the code after all
	c.pass(time.Minute)
	if _, _, ok := l.Try("192.0.2.1"); !ok {
		t.Error("a success did not clear the failures")
	}
}

// Five a minute hold also for those who succeed, and hanging up is a failure.
func TestTriesPerMinute(t *testing.T) {
	c := newClock()
	l := New(Config{Logins: 5, Now: c.now})
	n := 0
	for range 20 {
		if done, _, ok := l.Try("a"); ok {
			done(true)
			n++
		}
	}
	if n != 5 {
		t.Errorf("%d in a minute", n)
	}
	for range freeFailures + 1 {
		c.pass(time.Minute)
		l.Try("b") // and nobody says how it ended
	}
	if _, after, ok := l.Try("b"); ok || after <= 0 {
		t.Errorf("who hangs up does not wait: %v %v", after, ok)
	}
}

// Many addresses together get little more than a few.
func TestTriesOfEverybody(t *testing.T) {
	c := newClock()
	l := New(Config{Logins: 5, Now: c.now})
	n := 0
	for i := range 5000 {
		if _, _, ok := l.Try(fmt.Sprint("address ", i)); ok {
			n++
		}
	}
	if n != 5*everybody {
		t.Errorf("%d tries at once", n)
	}
}

// A flood of new addresses does not push out one that is locked, and once they
// were quiet there is room again.
func TestAFloodForgetsNoLock(t *testing.T) {
	c := newClock()
	l := New(Config{Logins: 5, Most: 50, Now: c.now})
	for {
		if _, after, ok := l.Try("bad"); !ok {
			if after == lockFor {
				break
			}
			c.pass(after)
		}
	}
	for i := range 1000 {
		l.Try(fmt.Sprint("new ", i))
	}
	if _, after, ok := l.Try("bad"); ok || after < lockFor-time.Minute {
		t.Errorf("%v %v", after, ok)
	}
	c.pass(2 * forgetAfter)
	if _, _, ok := l.Try("honest"); !ok {
		t.Error("no room after the flood")
	}
}

func TestConcurrent(t *testing.T) {
	l := New(Config{Requests: 10, Logins: 5, Most: 16})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 2000 {
				l.Take(Request, fmt.Sprint((i+j)%40))
				if done, _, ok := l.Try(fmt.Sprint(j % 30)); ok {
					done(j%2 == 0)
				}
				l.Counters()
			}
		})
	}
	wg.Wait()
	if len(l.buckets) > 16 || l.order.Len() != len(l.buckets) {
		t.Errorf("%d buckets, %d in order", len(l.buckets), l.order.Len())
	}
}
