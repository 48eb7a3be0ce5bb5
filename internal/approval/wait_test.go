package approval

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra"
	"palyra/internal/store"
)

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, onRealTime)
		c := call(t, "src/a.txt", withNeed(palyra.Need{Votes: 2}))
		a := w.ask(c)
		answers := make(chan palyra.Decision, 2)
		for range 2 {
			go func() {
				d, err := w.desk.Wait(context.Background(), a.ID)
				if err != nil {
					t.Error(err)
				}
				answers <- d
			}()
		}
		synctest.Wait()
		w.decide(a, palyra.AnswerAllow)
		synctest.Wait()
		select {
		case d := <-answers:
			t.Fatalf("woken by a vote that did not settle: %+v", d)
		default:
		}
		w.decide(a, palyra.AnswerAllow, from("user:bob"))
		for range 2 {
			if d := <-answers; d.Answer != palyra.AnswerAllow || d.Lease == "" || len(d.Votes) != 2 || d.Digest != c.Digest {
				t.Errorf("%+v", d)
			}
		}
		if d, err := w.desk.Wait(t.Context(), a.ID); err != nil || d.Answer != palyra.AnswerAllow { // settled: at once
			t.Errorf("%+v, %v", d, err)
		}
		if len(w.desk.bells.by) != 0 {
			t.Errorf("%d bells left hanging", len(w.desk.bells.by))
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, onRealTime)
		a := w.ask(call(t, "src/a.txt"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.desk.Wait(ctx, a.ID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if _, err := w.desk.Wait(ctx, a.ID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v with a context that has ended", err)
		}
		if !w.get(a.ID).Pending() || len(w.desk.bells.by) != 0 {
			t.Error("the question or a bell changed with its waiter")
		}
		_, err := w.desk.Wait(t.Context(), palyra.ApprovalID(newID()))
		wantErr(t, err, palyra.NotFound, palyra.ReasonNotFound)
	})
}

// A commit that fails wakes nobody and tells nobody.
func TestNobodyHearsOfWhatIsNotDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, onRealTime)
		var broken bool
		w.db.Use(store.GroupHook{Commit: func(*store.Tx) error {
			if broken {
				return errors.New("no commit")
			}
			return nil
		}})
		a := w.ask(call(t, "src/a.txt"))
		lease := w.decide(w.ask(call(t, "src/b.txt")), palyra.AnswerAllow).Decision.Lease
		ctx, cancel := context.WithCancel(t.Context())
		heard := make(chan string, 10)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := w.desk.Wait(ctx, a.ID); err == nil {
				heard <- "waiter"
			}
		})
		wg.Go(func() {
			_ = w.desk.Watch(ctx, palyra.ApprovalFilter{}, func(c Change) error {
				if c.Kind == ChangeUpdated {
					heard <- "watcher"
				}
				return nil
			})
		})
		synctest.Wait()
		broken = true
		if _, err := w.desk.Decide(t.Context(), vote(a, palyra.AnswerAllow)); err == nil {
			t.Error("decided without a commit")
		}
		if _, err := w.desk.Revoke(t.Context(), lease, "user:bob", vote(a, palyra.AnswerDeny).Signature); err == nil {
			t.Error("revoked without a commit")
		}
		synctest.Wait()
		if len(heard) != 0 || len(w.endedLeases()) != 0 {
			t.Errorf("%s and %v heard of what did not happen", <-heard, w.endedLeases())
		}
		broken = false
		w.decide(a, palyra.AnswerAllow)
		synctest.Wait()
		if len(heard) != 2 {
			t.Errorf("%d heard of what did", len(heard))
		}
		cancel()
		wg.Wait()
	})
}

// Waiters that arrive while the answer does never sleep through it.
func TestNoWakeUpIsMissed(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxPending = 1000 })
	for i := range 100 {
		a := w.ask(call(t, fmt.Sprintf("src/%d.txt", i)))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if d, err := w.desk.Wait(ctx, a.ID); err != nil || d.Answer != palyra.AnswerDeny {
					t.Errorf("%+v, %v", d, err)
				}
			})
		}
		wg.Go(func() { w.decide(a, palyra.AnswerDeny) })
		wg.Wait()
		cancel()
	}
}

func TestFacts(t *testing.T) {
	w := newWorld(t)
	c := call(t, "src/a.txt")
	v := func(who palyra.Principal, s palyra.Separation, device bool) palyra.Vote {
		return palyra.Vote{By: who, Answer: palyra.AnswerAllow, Separation: s, Device: device}
	}
	allow := func(votes ...palyra.Vote) palyra.Decision {
		return palyra.Decision{Answer: palyra.AnswerAllow, Scope: palyra.ScopeSession, Votes: votes}
	}
	reused := allow(v("user:alice", "none", false))
	reused.Reused = true
	for name, test := range map[string]struct {
		d    palyra.Decision
		want palyra.ApprovalFacts
	}{
		"deny":    {palyra.Decision{Answer: palyra.AnswerDeny, Votes: []palyra.Vote{v("user:bob", "device", true)}}, palyra.ApprovalFacts{}},
		"nothing": {palyra.Decision{}, palyra.ApprovalFacts{}},
		"owner": {allow(v("user:alice", "none", false)), palyra.ApprovalFacts{
			Votes: 1, Separation: "none", Scope: "session",
			Fresh: true,
		}},
		"lease": {reused, palyra.ApprovalFacts{Votes: 1, Separation: "none", Scope: "session"}},
		"other": {allow(v("user:bob", "device", true)), palyra.ApprovalFacts{
			Votes: 1, OtherPerson: true, Device: true,
			Separation: "device", Scope: "session", Fresh: true,
		}},
		"weakest": {
			allow(v("user:alice", "other_uid", true), v("user:bob", "passphrase", false)),
			palyra.ApprovalFacts{Votes: 2, OtherPerson: true, Separation: "passphrase", Scope: "session", Fresh: true},
		},
		"same twice": {
			allow(v("user:bob", "none", true), v("user:bob", "none", true)),
			palyra.ApprovalFacts{Votes: 1, OtherPerson: true, Device: true, Separation: "none", Scope: "session", Fresh: true},
		},
		"nobody voted": {allow(), palyra.ApprovalFacts{Separation: "none", Scope: "session", Fresh: true}},
	} {
		if got := w.desk.Facts(c.Proposal.Owner, test.d); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
