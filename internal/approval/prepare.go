package approval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"palyra"
	"palyra/internal/store"
)

// Prepare makes the question about a call, or finds the open one about the same plan in the same session; joined
// says which. Nothing is written: the question becomes real when the gate records it and Apply sees it, which
// checks the same rules again.
//
// Exhausted with ReasonTooManyPending: the principal has too many open questions. Denied with ReasonRecentlyDenied:
// the plan was denied a short while ago.
func (d *Desk) Prepare(ctx context.Context, c *palyra.Call) (a palyra.Approval, joined bool, err error) {
	if !c.Digest.Valid() || c.Proposal.Session == "" || c.Proposal.Principal == "" {
		return palyra.Approval{}, false, palyra.Errorf(palyra.Internal, palyra.ReasonInternal,
			"a call without plan, session or principal cannot be asked about")
	}
	m := d.clock.read()
	var past []record
	err = d.cfg.DB.Read(ctx, func(tx *store.Tx) error {
		open, found, err := d.openQuestion(tx, c, m)
		if err != nil {
			return err
		}
		if found {
			r, _, err := withDocuments(tx, open.ID)
			a, joined = r.Approval, true
			return err
		}
		if past, err = lately(tx, c.Proposal.Principal); err != nil {
			return err
		}
		return d.mayAsk(tx, c, m)
	})
	if err != nil {
		return palyra.Approval{}, false, wrap("prepare", err)
	}
	if !joined {
		if a = d.question(c, m); d.cfg.Mask != nil {
			a = d.cfg.Mask.Approval(a)
		}
		d.rank(&a, past)
	}
	return a, joined, nil
}

func (d *Desk) question(c *palyra.Call, m moment) palyra.Approval {
	p, v := c.Proposal, c.Verdict
	a := palyra.Approval{
		ID: palyra.ApprovalID(d.cfg.NewID()), Session: p.Session, Run: p.Run, Call: c.ID, Principal: p.Principal, Owner: p.Owner,
		PeerUID: p.PeerUID,
		Surface: p.Surface, RequestedAt: m.time(), ExpiresAt: timeOf(m.deadlineAfter(d.waits(c.Plan)).wall), PlanDigest: c.Digest, Plan: c.Plan,
		Prompt: d.promptOf(c), Need: v.Need, Bundle: v.Bundle, Snapshot: v.Snapshot, Waiting: 1,
		Room: p.Room, Payer: p.Payer(), Within: p.Within,
	}
	a.SubjectType, a.SubjectID = subjectOf(c)
	a.Need.Votes = max(1, a.Need.Votes)
	for _, hit := range v.Policies {
		a.Policies = append(a.Policies, hit.ID)
	}
	return a
}

// openQuestion finds the open question about the call's plan. One whose
// deadline has passed is not open, swept or not.
func (d *Desk) openQuestion(tx *store.Tx, c *palyra.Call, m moment) (record, bool, error) {
	r, err := samePlan(tx, c)
	if errors.Is(err, store.ErrNoRows) {
		return record{}, false, nil
	}
	return r, err == nil && !d.clock.passed(r.ends, m), err
}

func samePlan(tx *store.Tx, c *palyra.Call) (record, error) {
	return scanRecord(func(dest ...any) error {
		return tx.Get(`SELECT `+recordColumns+` FROM approvals
			WHERE decision = '' AND session_id = ? AND plan_digest = ? AND principal = ?`,
			[]any{c.Proposal.Session, c.Digest, c.Proposal.Principal}, dest...)
	})
}

// mayAsk is the flood guard: a bounded number of open questions, and no nagging about a plan that was denied.
func (d *Desk) mayAsk(tx *store.Tx, c *palyra.Call, m moment) error {
	payer := c.Proposal.Payer()
	var hold deadline
	err := tx.Get(`SELECT until_at, boot_id, until_boot FROM approval_denials WHERE principal = ? AND plan_digest = ?`,
		[]any{c.Proposal.Principal, c.Digest}, &hold.wall, &hold.boot, &hold.since)
	switch {
	case err != nil && !errors.Is(err, store.ErrNoRows):
		return err
	case err == nil && d.clock.held(hold, m):
		return palyra.Errorf(palyra.Denied, palyra.ReasonRecentlyDenied, "an approver denied this very plan a short while ago").
			WithRemedy("propose something else, or ask again after %s", timeOf(hold.wall).UTC().Add(time.Second-1).Truncate(time.Second).
				Format(time.RFC3339))
	}
	var open int
	err = tx.Get(`SELECT COUNT(*) FROM (SELECT 1 AS one FROM approvals WHERE decision = '' AND payer = ? AND expires_at > ? LIMIT ?) AS open`,
		[]any{payer, m.wall, d.cfg.MaxPending}, &open)
	if err != nil || open < d.cfg.MaxPending {
		return err
	}
	return d.tooMany(tx, payer, m)
}

func (d *Desk) tooMany(tx *store.Tx, who string, m moment) error {
	var first int64
	err := tx.Get(`SELECT COALESCE(MIN(expires_at), 0) FROM approvals WHERE decision = '' AND payer = ? AND expires_at > ?`,
		[]any{who, m.wall}, &first)
	if err != nil {
		return err
	}
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonTooManyPending,
		"%s already has %d open approvals, the most that may wait", who, d.cfg.MaxPending).
		WithRemedy("have an operator decide some of them; the oldest expires at %s", palyra.Time(timeOf(first)))
}

// hold keeps a denied plan from being asked again for a while, in any session of the principal.
func (d *Desk) hold(tx *store.Tx, who palyra.Principal, plan palyra.Digest, m moment) error {
	if _, err := tx.Exec(`DELETE FROM approval_denials WHERE boot_id = ? AND until_boot <= ?`, m.boot, m.since); err != nil {
		return err
	}
	until := m.deadlineAfter(d.cfg.DenyHold)
	_, err := tx.Exec(`INSERT INTO approval_denials (principal, plan_digest, until_at, boot_id, until_boot) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (principal, plan_digest) DO UPDATE SET until_at = excluded.until_at, boot_id = excluded.boot_id, until_boot = excluded.until_boot`,
		who, plan, until.wall, until.boot, until.since)
	return err
}

// wrap gives an error its place, where it does not already speak for itself.
func wrap(op string, err error) error {
	if e := (*palyra.Error)(nil); err == nil || errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("approval: %s: %w", op, err)
}
