package approval

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"palyra"
)

// onRealTime puts a world on the bubble's clock.
func onRealTime(c *Config) {
	start := time.Now()
	c.Now = time.Now
	c.Boot = func() (string, time.Duration) { return "boot-1", time.Since(start) + time.Hour }
}

// running starts the sweeper and returns how to stop it.
func (w *world) running() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.desk.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("run: %v", err)
		}
	}
}

func TestQuestionsTimeOutByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, onRealTime)
		defer w.running()()
		c := call(t, "src/a.txt")
		a := w.ask(c)
		start := time.Now()
		d, err := w.desk.Wait(t.Context(), a.ID)
		if took := time.Since(start); err != nil || d.Answer != palyra.AnswerTimeout || took < 5*time.Minute || took > 5*time.Minute+time.Second {
			t.Errorf("after %s: %+v, %v", took, d, err)
		}
		if d.By != "system:clock" || d.Method != palyra.MethodClock {
			t.Errorf("decided by %s, %s", d.By, d.Method)
		}
	})
}

func TestLeasesExpireByThemselvesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, onRealTime)
		defer w.running()()
		w.ask(call(t, "src/later.txt")) // a later deadline is already known
		synctest.Wait()
		lease := w.decide(w.ask(call(t, "src/a.txt")), palyra.AnswerAllow, scoped(palyra.ScopeTimeboxed), ttl(90*time.Second)).Decision.Lease
		time.Sleep(90*time.Second - time.Millisecond)
		synctest.Wait()
		if told := w.endedLeases(); len(told) != 0 {
			t.Fatalf("ended early: %v", told)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if told := w.endedLeases(); len(told) != 1 || told[0] != lease {
			t.Fatalf("told of %v", told)
		}
		if ended := w.lines("grant.ended"); len(ended) != 1 || ended[0].body["why"] != "expired" || ended[0].body["by"] != "system:clock" {
			t.Errorf("journal %v", ended)
		}
	})
}

// The wall clock moves while the sweeper sleeps: it notices within a second,
// though its timer does not.
func TestTheSweeperNoticesAMovedClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		w := newWorld(t, onRealTime, func(c *Config) {
			c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		})
		defer w.running()()
		a := w.ask(call(t, "src/a.txt"))
		synctest.Wait()
		ahead.Store(int64(time.Hour))
		time.Sleep(time.Second)
		synctest.Wait()
		if w.get(a.ID).Pending() {
			t.Error("still pending")
		}
	})
}

// A machine that slept: the boot's clock has gone on, timers have not.
func TestTheSweeperNoticesASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		start := time.Now()
		w := newWorld(t, onRealTime, func(c *Config) {
			c.Boot = func() (string, time.Duration) { return "b", time.Since(start) + time.Duration(slept.Load()) }
		})
		defer w.running()()
		a := w.ask(call(t, "src/a.txt"))
		synctest.Wait()
		slept.Store(int64(time.Hour))
		time.Sleep(time.Second)
		synctest.Wait()
		if w.get(a.ID).Pending() {
			t.Error("still pending")
		}
	})
}

func TestTheSweeperKeepsTheMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, onRealTime)
		defer w.running()()
		w.ask(call(t, "src/a.txt"))
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if w.desk.clock.stale(w.desk.clock.read(), markStale+2*time.Second) {
			t.Error("three minutes passed and were not kept")
		}
	})
}

// What fell due while the daemon was down is ended at once, all of it.
func TestABacklogIsSweptAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, onRealTime, func(c *Config) { c.MaxPending = 1000 })
		const many = 2*sweepBatch + 3
		for i := range many {
			w.ask(call(t, fmt.Sprintf("src/%d.txt", i)))
		}
		time.Sleep(time.Hour)
		defer w.running()()
		synctest.Wait()
		if n := len(w.lines("approval.decided")); n != many {
			t.Errorf("%d of %d settled", n, many)
		}
	})
}

// A store that fails is tried again; nothing is settled meanwhile, and it is
// said once, not every second.
func TestTheSweeperSurvivesAFailingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := newWorld(t, onRealTime, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		var broken atomic.Bool
		broken.Store(true)
		a := w.ask(call(t, "src/a.txt"))
		w.journal.fail = func(palyra.Event) error {
			if broken.Load() {
				return errors.New("disk is full")
			}
			return nil
		}
		stop := w.running()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if !w.get(a.ID).Pending() {
			t.Error("settled without its line")
		}
		broken.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if w.get(a.ID).Decision.Answer != palyra.AnswerTimeout {
			t.Error("not settled when the store came back")
		}
		stop()
		if n := strings.Count(log.String(), "disk is full"); n != 1 {
			t.Errorf("said %d times: %s", n, log.String())
		}
	})
}
