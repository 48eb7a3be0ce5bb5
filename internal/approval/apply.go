package approval

import (
	"errors"
	"time"

	"palyra"
	"palyra/internal/store"
)

// Apply makes an event of a call real in the desk's tables, inside the gate's transaction. It ignores events
// that do not concern the desk.
//
// A Conflict error means that the world moved (a question was settled, a lease is spent, revoked or expired);
// on any error nothing of the transaction may remain.
func (d *Desk) Apply(tx *store.Tx, c *palyra.Call, e palyra.Event) error {
	return wrap("apply "+e.Kind(), d.apply(tx, c.Asked(), e))
}

func (d *Desk) apply(tx *store.Tx, c *palyra.Call, e palyra.Event) error {
	switch e := e.(type) {
	case palyra.ApprovalRequested:
		return d.open(tx, c, e)
	case palyra.ApprovalJoined:
		return d.join(tx, c, e)
	case palyra.ApprovalWithdrawn:
		return d.withdraw(tx, e.Approval, "withdrawn")
	case palyra.CallRefused:
		// A caller that does not wait leaves its question open on purpose. Any
		// other refusal of a waiting call means that nobody waits any more.
		if c.Approval != "" && e.Reason != palyra.ReasonApprovalNotAwaited {
			return d.withdraw(tx, c.Approval, "the waiting call failed")
		}
	case palyra.CallGranted:
		if e.Lease != "" {
			return d.take(tx, c, e.Lease, e.Plan)
		}
	case palyra.CallSettling:
		if e.Lease != "" {
			return d.take(tx, c, e.Lease, e.Plan)
		}
	case palyra.CallChecked:
		if e.Lease != "" {
			return d.take(tx, c, e.Lease, e.Plan)
		}
	}
	return nil
}

// open inserts a question. The flood guard is checked again here, where writes are one after the other.
func (d *Desk) open(tx *store.Tx, c *palyra.Call, e palyra.ApprovalRequested) error {
	a := e.Record
	if err := sameQuestion(c, e); err != nil {
		return err
	}
	m := d.clock.read()
	old, err := samePlan(tx, c)
	switch {
	case errors.Is(err, store.ErrNoRows):
	case err != nil:
		return err
	case d.clock.passed(old.ends, m): // not swept yet
		if err := d.timeout(tx, old, m); err != nil {
			return err
		}
	default:
		return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "approval %s already asks about this plan", old.ID)
	}
	if err := d.overtaken(tx, c); err != nil {
		return err
	}
	if err := d.mayAsk(tx, c, m); err != nil {
		return err
	}
	ends := m.deadlineAfter(min(a.ExpiresAt.Sub(m.time()), d.waits(a.Plan))) // a clock set back since Prepare gives no more
	ends.wall = nanos(a.ExpiresAt)
	a.Waiting, a.Room, a.Payer, a.Within = 1, c.Proposal.Room, c.Proposal.Payer(), c.Proposal.Within
	n, err := putRecord(tx, a, ends)
	if err != nil {
		return err
	}
	if err := d.spend(tx, a.Payer, n, m); err != nil {
		return err
	}
	if e.Shown != "" {
		d.shown.keep(tx, a.ID, e.Shown)
	}
	d.changed(tx, a.ID, false)
	d.wakeSweeper(tx)
	return d.clock.stamp(tx, m)
}

// sameQuestion refuses a record that is not about the call it came with.
func sameQuestion(c *palyra.Call, e palyra.ApprovalRequested) error {
	a := e.Record
	if a.ID == "" || a.ID != e.Approval || a.Call != c.ID || a.PlanDigest != c.Digest || !isPlan(a.Plan, c.Digest) ||
		a.Principal != c.Proposal.Principal || a.Session != c.Proposal.Session || !a.Pending() || a.Need.Votes < 1 {
		return palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "the question is not about this call")
	}
	return nil
}

// join adds a waiting call to an open question.
func (d *Desk) join(tx *store.Tx, c *palyra.Call, e palyra.ApprovalJoined) error {
	r, err := getRecord(tx, e.Approval)
	switch {
	case err != nil:
		return err
	case r.Principal != c.Proposal.Principal || r.Session != c.Proposal.Session || r.PlanDigest != c.Digest:
		return palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "the question is not about this call")
	case !r.Pending():
		return alreadyDecided(r.Approval)
	case d.clock.passed(r.ends, d.clock.read()):
		return expired(r.Approval)
	}
	if _, err := tx.Exec(`UPDATE approvals SET waiting = waiting + 1 WHERE id = ? AND decision = ''`, r.ID); err != nil {
		return err
	}
	d.changed(tx, r.ID, false)
	return nil
}

// withdraw takes a call off a question; when nobody waits any more it ends. A
// question that is already settled stays as it is.
func (d *Desk) withdraw(tx *store.Tx, id palyra.ApprovalID, why string) error {
	r, err := withVotes(tx, id)
	if err != nil || !r.Pending() {
		return err
	}
	if r.Waiting > 1 {
		_, err := tx.Exec(`UPDATE approvals SET waiting = waiting - 1 WHERE id = ? AND decision = ''`, id)
		d.changed(tx, id, false)
		return err
	}
	if _, err := tx.Exec(`UPDATE approvals SET waiting = 0 WHERE id = ? AND decision = ''`, id); err != nil {
		return err
	}
	return d.settle(tx, r, palyra.Decision{
		Answer: palyra.AnswerError, Reason: why, By: bySystem, Method: palyra.MethodSystem, At: d.clock.read().time(),
	})
}

// timeout settles a question whose deadline has passed.
func (d *Desk) timeout(tx *store.Tx, r record, m moment) error {
	votes, err := getVotes(tx, r.ID)
	if err != nil {
		return err
	}
	r.Votes = votes
	return d.settle(tx, r, palyra.Decision{
		Answer: palyra.AnswerTimeout, By: byClock, Method: palyra.MethodClock, At: m.time(),
		Reason: "nobody settled it by " + r.ExpiresAt.Format(time.RFC3339),
	})
}

// settle ends a question, once: whoever comes second gets Conflict.
func (d *Desk) settle(tx *store.Tx, r record, dec palyra.Decision) error {
	n, err := tx.Exec(`UPDATE approvals SET decision = ?, scope = ?, lease_id = ?, reason = ?, decided_by = ?, decided_method = ?,
		decided_at = ?, separation = ? WHERE id = ? AND decision = ''`,
		dec.Answer, dec.Scope, dec.Lease, dec.Reason, dec.By, dec.Method, nanos(dec.At), dec.Separation, r.ID)
	if err != nil {
		return err
	}
	if n != 1 {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "approval %s was already decided", r.ID)
	}
	var kept palyra.Digest
	if dec.Answer != palyra.AnswerAllow {
		if kept, err = d.shrink(tx, r); err != nil {
			return err
		}
	}
	d.shown.forget(tx, r.ID)
	d.changed(tx, r.ID, true)
	return d.journal(tx, palyra.ApprovalDecided{
		Approval: r.ID, Call: r.Call, Answer: dec.Answer, Scope: dec.Scope, Plan: r.PlanDigest, By: dec.By, Method: dec.Method,
		Separation: dec.Separation, Reason: dec.Reason, Votes: r.Votes, Lease: dec.Lease, Kept: kept,
	})
}

func alreadyDecided(a palyra.Approval) error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "approval %s was already decided: %s by %s at %s",
		a.ID, a.Decision.Answer, a.Decision.By, palyra.Time(a.Decision.At)).
		WithRemedy("no other answer counts any more; see 'palyra approvals show %s'", a.ID)
}

func expired(a palyra.Approval) error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonApprovalExpired, "approval %s expired at %s", a.ID, palyra.Time(a.ExpiresAt)).
		WithRemedy("have the call proposed again and decide it in time")
}
