package approval

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"palyra"
)

// watching follows the desk in the background and keeps what it is told.
type watching struct {
	mu   sync.Mutex
	list []Change
	hold chan struct{} // nil: never slow
	stop func()
}

func watch(t *testing.T, w *world, f palyra.ApprovalFilter, slow bool) *watching {
	t.Helper()
	s := &watching{}
	if slow {
		s.hold = make(chan struct{})
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- w.desk.Watch(ctx, f, func(c Change) error {
			s.mu.Lock()
			s.list = append(s.list, c)
			s.mu.Unlock()
			if s.hold != nil && c.Kind == ChangeUpdated {
				<-s.hold
			}
			return nil
		})
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("watch ended with %v", err)
		}
	})
	t.Cleanup(s.stop)
	synctest.Wait()
	return s
}

// told returns what came since the last time: kinds and files.
func (s *watching) told() (list []string) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.list {
		text := string(c.Kind)
		if c.Approval.ID != "" {
			text += " " + c.Approval.Plan.Writes[0] + " " + string(c.Approval.Decision.Answer)
		}
		list = append(list, text)
	}
	s.list = nil
	return list
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, onRealTime)
		a := w.ask(call(t, "src/a"))
		w.decide(w.ask(call(t, "src/old")), palyra.AnswerAllow)
		all := watch(t, w, palyra.ApprovalFilter{}, false)
		one := watch(t, w, palyra.ApprovalFilter{Principal: "agent:other", Answer: "ignored here"}, false)
		same := func(s *watching, want ...string) {
			t.Helper()
			if got := s.told(); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
				t.Errorf("told %q, want %q", got, want)
			}
		}
		same(all, "open src/a ", "ready")
		same(one, "ready")
		b := w.ask(call(t, "src/b", by("agent:other"), withNeed(palyra.Need{Votes: 2})))
		same(all, "updated src/b ")
		same(one, "updated src/b ")
		w.decide(a, palyra.AnswerDeny)
		same(all, "updated src/a deny")
		same(one)
		w.decide(b, palyra.AnswerAllow)
		same(one, "updated src/b ")
		w.ask(call(t, "src/b", by("agent:other")))
		same(one, "updated src/b ")
		w.decide(b, palyra.AnswerAllow, from("user:bob"))
		same(one, "updated src/b allow")
		all.stop()
		one.stop()
		if len(w.desk.hub.watchers) != 0 {
			t.Error("a watcher that left is still told")
		}
	})
}

// A watcher that stands still slows nobody, and finds out what it missed.
func TestASlowWatcherIsToldThatItLagged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, onRealTime, func(c *Config) { c.MaxPending = 5000 })
		slow, quick := watch(t, w, palyra.ApprovalFilter{}, true), watch(t, w, palyra.ApprovalFilter{}, false)
		var last palyra.Approval
		const many = watchQueue + 50
		for i := range many {
			last = w.ask(call(t, fmt.Sprintf("src/%d", i)))
			synctest.Wait() // the quick one keeps up
		}
		w.decide(last, palyra.AnswerDeny)
		if got := quick.told(); len(got) != 1+many+1 {
			t.Errorf("the quick one was told %d things", len(got))
		}
		if got := slow.told(); len(got) != 2 {
			t.Fatalf("the slow one was told %q", got)
		}
		close(slow.hold)
		got := slow.told()
		if len(got) != 1+many-1+1 || got[0] != "lagged" || got[1] != "open src/0 " || got[len(got)-1] != "ready" {
			t.Errorf("told %d things: %.3q … %q", len(got), got, got[len(got)-1])
		}
		w.decide(w.ask(call(t, "src/after")), palyra.AnswerDeny)
		if got := slow.told(); len(got) == 0 || got[len(got)-1] != "updated src/after deny" {
			t.Errorf("told %q after it caught up", got)
		}
		slow.stop()
		quick.stop()
	})
}

// What changes while the snapshot is being told is told after it.
func TestWatchLosesNothingAroundItsSnapshot(t *testing.T) {
	w := newWorld(t)
	a, b := w.ask(call(t, "src/a")), w.ask(call(t, "src/b"))
	done := errors.New("done")
	settled := map[palyra.ApprovalID]palyra.Answer{}
	err := w.desk.Watch(t.Context(), palyra.ApprovalFilter{}, func(c Change) error {
		switch c.Kind {
		case ChangeOpen:
			if c.Approval.ID == a.ID { // both change after they were read, before live begins
				w.decide(a, palyra.AnswerDeny)
				w.decide(b, palyra.AnswerAllow)
			}
		case ChangeUpdated:
			settled[c.Approval.ID] = c.Approval.Decision.Answer
		}
		if len(settled) == 2 {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) || settled[a.ID] != palyra.AnswerDeny || settled[b.ID] != palyra.AnswerAllow {
		t.Errorf("%v, %v", err, settled)
	}
}

func TestWatchEndsWithItsWatcher(t *testing.T) {
	w := newWorld(t)
	w.ask(call(t, "src/a"))
	stop := errors.New("enough")
	for _, kind := range []ChangeKind{ChangeOpen, ChangeReady} {
		err := w.desk.Watch(t.Context(), palyra.ApprovalFilter{}, func(c Change) error {
			if c.Kind == kind {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	long := palyra.ApprovalFilter{SubjectID: string(make([]byte, maxText+1))}
	if err := w.desk.Watch(t.Context(), long, nil); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("long filter: %v", err)
	}
}
