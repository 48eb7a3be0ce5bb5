package approval

import (
	"context"
	"testing"
	"time"

	"palyra"
	"palyra/internal/store"
)

// Every action on a question in every state. The table is the definition: what
// the action returns, and the answer afterwards. "same" means untouched.
func TestStateTable(t *testing.T) {
	type rule struct {
		reason palyra.Reason // "" means success
		answer palyra.Answer
	}
	const same palyra.Answer = "same"
	var (
		settled   = rule{palyra.ReasonAlreadyDecided, same}
		untouched = rule{"", same}
		late      = rule{palyra.ReasonApprovalExpired, palyra.AnswerTimeout}
	)
	states := map[string]func(*world, *palyra.Call, palyra.Approval){
		"pending": func(*world, *palyra.Call, palyra.Approval) {},
		"overdue": func(w *world, _ *palyra.Call, _ palyra.Approval) { w.pass(5 * time.Minute) },
		"allowed": func(w *world, _ *palyra.Call, a palyra.Approval) { w.decide(a, palyra.AnswerAllow) },
		"denied":  func(w *world, _ *palyra.Call, a palyra.Approval) { w.decide(a, palyra.AnswerDeny) },
		"timeout": func(w *world, _ *palyra.Call, _ palyra.Approval) {
			w.pass(5 * time.Minute)
			if _, err := w.desk.sweep(context.Background()); err != nil {
				w.t.Fatal(err)
			}
		},
		"error": func(w *world, c *palyra.Call, a palyra.Approval) {
			if err := w.record(c, palyra.ApprovalWithdrawn{Approval: a.ID, Call: c.ID}); err != nil {
				w.t.Fatal(err)
			}
		},
	}
	decide := func(answer palyra.Answer) func(*world, *palyra.Call, palyra.Approval) error {
		return func(w *world, _ *palyra.Call, a palyra.Approval) error {
			_, err := w.desk.Decide(context.Background(), vote(a, answer, from("user:bob")))
			return err
		}
	}
	actions := map[string]func(*world, *palyra.Call, palyra.Approval) error{
		"allow": decide(palyra.AnswerAllow),
		"deny":  decide(palyra.AnswerDeny),
		"join": func(w *world, c *palyra.Call, a palyra.Approval) error {
			return w.record(c, palyra.ApprovalJoined{Approval: a.ID, Call: c.ID})
		},
		"withdraw": func(w *world, c *palyra.Call, a palyra.Approval) error {
			return w.record(c, palyra.ApprovalWithdrawn{Approval: a.ID, Call: c.ID})
		},
		"refused": func(w *world, c *palyra.Call, _ palyra.Approval) error {
			return w.record(c, palyra.CallRefused{Call: c.ID, Layer: palyra.LayerApproval, Reason: palyra.ReasonInternal})
		},
		"not awaited": func(w *world, c *palyra.Call, _ palyra.Approval) error {
			return w.record(c, palyra.CallRefused{Call: c.ID, Layer: palyra.LayerApproval, Reason: palyra.ReasonApprovalNotAwaited})
		},
		"sweep": func(w *world, _ *palyra.Call, _ palyra.Approval) error {
			_, err := w.desk.sweep(context.Background())
			return err
		},
		"close session": func(w *world, _ *palyra.Call, _ palyra.Approval) error {
			return w.db.Write(context.Background(), "session.closed", func(tx *store.Tx) error {
				return w.desk.EndSession(tx, session1, "user:alice")
			})
		},
		"other event": func(w *world, c *palyra.Call, _ palyra.Approval) error {
			return w.record(c, palyra.CallProposed{Call: c.ID})
		},
		"grant by policy alone": func(w *world, c *palyra.Call, _ palyra.Approval) error {
			return w.record(c, palyra.CallGranted{Call: c.ID, Plan: c.Digest})
		},
	}
	ends := func(pending, overdue rule, after rule) map[string]rule {
		return map[string]rule{"pending": pending, "overdue": overdue, "allowed": after, "denied": after, "timeout": after, "error": after}
	}
	table := map[string]map[string]rule{
		"allow":                 ends(rule{"", palyra.AnswerAllow}, late, settled),
		"deny":                  ends(rule{"", palyra.AnswerDeny}, late, settled),
		"join":                  ends(untouched, rule{palyra.ReasonApprovalExpired, same}, settled),
		"withdraw":              ends(rule{"", palyra.AnswerError}, rule{"", palyra.AnswerError}, untouched),
		"refused":               ends(rule{"", palyra.AnswerError}, rule{"", palyra.AnswerError}, untouched),
		"not awaited":           ends(untouched, untouched, untouched),
		"sweep":                 ends(untouched, rule{"", palyra.AnswerTimeout}, untouched),
		"close session":         ends(rule{"", palyra.AnswerError}, rule{"", palyra.AnswerError}, untouched),
		"other event":           ends(untouched, untouched, untouched),
		"grant by policy alone": ends(untouched, untouched, untouched),
	}
	for action, do := range actions {
		for state, reach := range states {
			w := newWorld(t)
			c := call(t, "src/a.txt")
			a := w.ask(c)
			reach(w, c, a)
			before := w.get(a.ID)
			err := do(w, c, a)
			after := w.get(a.ID)
			want, ok := table[action][state]
			if !ok {
				t.Fatalf("no rule for %s on %s", action, state)
			}
			if want.answer == same {
				want.answer = before.Decision.Answer
			}
			var reason palyra.Reason
			if err != nil {
				reason = palyra.AsError(err).Reason
				if palyra.CodeOf(err) != palyra.Conflict {
					t.Errorf("%s on %s: code %s", action, state, palyra.CodeOf(err))
				}
			}
			if reason != want.reason || after.Decision.Answer != want.answer {
				t.Errorf("%s on %s: reason %q (%v), answer %q; want %q, %q", action, state, reason, err, after.Decision.Answer, want.reason,
					want.answer)
			}
			if !before.Pending() && (before.Decision.At != after.Decision.At || before.Decision.By != after.Decision.By ||
				before.Waiting != after.Waiting) {
				t.Errorf("%s on %s: a settled question changed", action, state)
			}
			if n := len(w.lines("approval.decided")); n > 1 || (n == 1) == after.Pending() {
				t.Errorf("%s on %s: %d decided lines for answer %q", action, state, n, after.Decision.Answer)
			}
		}
	}
}

func TestWithdrawal(t *testing.T) {
	w := newWorld(t)
	one, two := call(t, "src/a.txt"), call(t, "src/a.txt")
	a := w.ask(one)
	w.ask(two)
	if err := w.record(one, palyra.ApprovalWithdrawn{Approval: a.ID, Call: one.ID}); err != nil {
		t.Fatal(err)
	}
	if got := w.get(a.ID); !got.Pending() || got.Waiting != 1 {
		t.Fatalf("one of two withdrew: %+v", got)
	}
	if err := w.record(two, palyra.ApprovalWithdrawn{Approval: a.ID, Call: two.ID}); err != nil {
		t.Fatal(err)
	}
	got := w.get(a.ID)
	if d := got.Decision; d.Answer != palyra.AnswerError || d.Reason != "withdrawn" || d.By != "system:desk" ||
		d.Method != palyra.MethodSystem || got.Waiting != 0 {
		t.Errorf("the last one withdrew: %+v", got)
	}
	lines := w.lines("approval.decided")
	if len(lines) != 1 || lines[0].body["by"] != "system:desk" {
		t.Errorf("journal %v", lines)
	}
	w.ask(call(t, "src/a.txt")) // a withdrawal is no denial
}

func TestOverdueQuestionMakesRoomForANewOne(t *testing.T) {
	w := newWorld(t)
	old := w.ask(call(t, "src/a.txt"))
	w.pass(5 * time.Minute)
	fresh := w.ask(call(t, "src/a.txt"))
	if fresh.ID == old.ID || w.get(old.ID).Decision.Answer != palyra.AnswerTimeout || !w.get(fresh.ID).Pending() {
		t.Errorf("old %+v, new %+v", w.get(old.ID).Decision, w.get(fresh.ID).Decision)
	}
}

func TestClosingASession(t *testing.T) {
	w := newWorld(t)
	mine, other := call(t, "src/a.txt"), call(t, "src/a.txt", inSession(session2))
	kept := w.decide(w.ask(other), palyra.AnswerAllow, scoped(palyra.ScopeSession)).Decision.Lease
	gone := w.decide(w.ask(mine), palyra.AnswerAllow, scoped(palyra.ScopeSession)).Decision.Lease
	open := w.ask(call(t, "src/b.txt"))
	elsewhere := w.ask(call(t, "src/b.txt", inSession(session2)))
	end := func() error {
		return w.db.Write(t.Context(), "session.closed", func(tx *store.Tx) error { return w.desk.EndSession(tx, session1, "") })
	}
	w.journal.fail = func(e palyra.Event) error {
		if e.Kind() == "approval.decided" {
			return context.Canceled
		}
		return nil
	}
	if err := end(); err == nil || len(w.endedLeases()) != 0 {
		t.Fatalf("ended without its lines: %v, told %v", err, w.endedLeases())
	}
	w.journal.fail = nil
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if d := w.get(open.ID).Decision; d.Answer != palyra.AnswerError || d.Reason != "session closed" || d.By != "system:desk" {
		t.Errorf("open question: %+v", d)
	}
	if !w.get(elsewhere.ID).Pending() {
		t.Error("a question of another session was settled")
	}
	if _, ok := w.covered(mine); ok {
		t.Error("the closed session's lease still covers")
	}
	if d, ok := w.covered(other); !ok || d.Lease != kept {
		t.Error("another session's lease was ended")
	}
	if l, _ := w.desk.Lease(t.Context(), gone); l.Ended != "session_closed" {
		t.Errorf("lease %+v", l)
	}
	wantErr(t, w.grant(mine, gone), palyra.Conflict, palyra.ReasonSessionClosed)
	if got := w.endedLeases(); len(got) != 1 || got[0] != gone {
		t.Errorf("told of %v", got)
	}
}

// The compare-and-set holds by itself, whatever its caller read before.
func TestSettleOnce(t *testing.T) {
	w := newWorld(t)
	a := w.ask(call(t, "src/a.txt"))
	stale := record{Approval: w.get(a.ID)}
	w.decide(a, palyra.AnswerAllow)
	err := w.db.Write(t.Context(), "approval.decided", func(tx *store.Tx) error {
		return w.desk.settle(tx, stale, palyra.Decision{Answer: palyra.AnswerDeny, By: "user:bob"})
	})
	wantErr(t, err, palyra.Conflict, palyra.ReasonAlreadyDecided)
	if d := w.get(a.ID).Decision; d.Answer != palyra.AnswerAllow || len(w.lines("approval.decided")) != 1 {
		t.Errorf("settled twice: %+v", d)
	}
	lease := w.get(a.ID).Decision.Lease
	err = w.db.Write(t.Context(), "grant.ended", func(tx *store.Tx) error {
		l, err := getLease(tx, lease)
		if err != nil {
			return err
		}
		if err := w.desk.end(tx, l, palyra.LeaseRevoked, "user:bob", nil); err != nil {
			return err
		}
		return w.desk.end(tx, l, palyra.LeaseExpired, byClock, nil)
	})
	if palyra.CodeOf(err) != palyra.Conflict {
		t.Errorf("a lease ended twice: %v", err)
	}
}
