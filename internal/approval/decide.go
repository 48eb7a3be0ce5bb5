package approval

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"palyra"
	"palyra/internal/store"
)

// Decide takes one person's signed answer. The question is settled at the first deny, or when policy's need is met;
// until then the vote is kept and the approval returned is still pending. An allow leaves a lease.
//
// The answer counts only for the plan whose digest it echoes. A later answer gets Conflict with
// ReasonAlreadyDecided, together with the approval as it was settled first; one after the deadline settles it as
// timeout and gets Conflict with ReasonApprovalExpired. The door has verified the signature; a vote without one is
// refused.
func (d *Desk) Decide(ctx context.Context, v palyra.Vote) (palyra.Approval, error) {
	if err := checkVoter(v); err != nil {
		return palyra.Approval{}, d.recordAlert(ctx, v, err)
	}
	if err := checkForm(v); err != nil {
		return palyra.Approval{}, err
	}
	if d.cfg.Mask != nil && d.cfg.Mask.Has(v.Reason) { // it is signed as it is
		return palyra.Approval{}, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the reason has the value of a secret in it").
			WithRemedy("give the reason without it")
	}
	a, err := d.Get(ctx, v.Approval) // plan, prompt and need never change: read before the write begins
	if err != nil {
		return palyra.Approval{}, err
	}
	if err := d.check(v, a); err != nil {
		return palyra.Approval{}, d.recordAlert(ctx, v, err)
	}
	if !a.Pending() {
		return a, alreadyDecided(a)
	}
	v.ID = d.cfg.NewID()
	var refused error
	err = d.cfg.DB.Write(ctx, "approval.decided", func(tx *store.Tx) (err error) {
		a, refused, err = d.vote(tx, a, v)
		return err
	})
	if err != nil {
		return palyra.Approval{}, wrap("decide", err)
	}
	return a, refused
}

// check holds a vote against its question, and that against its digest. A plan with masked values has another one: that
// it is the one that was shown, this daemon knows alone.
func (d *Desk) check(v palyra.Vote, a palyra.Approval) error {
	digest, err := a.Plan.Digest()
	if a.Plan.Masked && !d.shown.is(a.ID, digest) {
		return palyra.Errorf(palyra.Conflict, palyra.ReasonStaleDigest,
			"values of secrets are masked in approval %s, and the daemon that could say which plan it is about has ended", a.ID).
			WithRemedy("have the call proposed again")
	}
	if err != nil || !a.Plan.Masked && digest != a.PlanDigest {
		return palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "the stored plan of approval %s is not the one that was asked about", a.ID).
			WithRemedy("run 'palyra journal verify'").WithCause(err)
	}
	if err := checkQuestion(v, a); err != nil {
		return err
	}
	if !a.Pending() {
		return nil // the scope does not matter any more
	}
	if err := checkScope(v, a, d.cfg.MaxTTL); err != nil || !isGroup(v.Widen) || d.groupNamed(v.Widen) >= 0 {
		return err
	}
	return palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "the group has other hosts now than when this was asked").
		WithRemedy("answer allow; the next question offers the group as it is")
}

// vote puts the answer on record and settles the question if it can. refused is the error for the voter of a
// transaction that stands all the same.
func (d *Desk) vote(tx *store.Tx, a palyra.Approval, v palyra.Vote) (after palyra.Approval, refused, err error) {
	r, err := withVotes(tx, a.ID)
	if err != nil {
		return a, nil, err
	}
	r.Plan, r.Prompt = a.Plan, a.Prompt
	m := d.clock.read()
	v.At = m.time()
	switch {
	case !r.Pending():
		return r.Approval, alreadyDecided(r.Approval), nil
	case d.clock.passed(r.ends, m): // the sweeper has not come by yet
		err = d.timeout(tx, r, m)
		refused = expired(r.Approval)
	case voted(r.Votes, v.By):
		return r.Approval, palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "%s has already voted on approval %s", v.By, a.ID), nil
	default:
		err = d.count(tx, r, v, m)
	}
	if err != nil {
		return a, nil, err
	}
	now, err := withVotes(tx, a.ID)
	now.Plan, now.Prompt = a.Plan, a.Prompt
	return now.Approval, refused, err
}

func voted(votes []palyra.Vote, who palyra.Principal) bool {
	return slices.ContainsFunc(votes, func(v palyra.Vote) bool { return v.By == who })
}

// count adds a vote to a pending question and draws the consequence.
func (d *Desk) count(tx *store.Tx, r record, v palyra.Vote, m moment) error {
	if err := putVote(tx, v); err != nil {
		return err
	}
	r.Votes = append(r.Votes, v)
	dec := palyra.Decision{
		Answer: v.Answer, Reason: v.Reason, By: v.By, Method: v.Method, At: m.time(), Separation: v.Separation,
	}
	facts := factsOf(r.Owner, r.Votes)
	switch {
	case v.Answer == palyra.AnswerDeny:
		if err := d.hold(tx, r.Principal, r.PlanDigest, m); err != nil {
			return err
		}
		if err := d.settle(tx, r, dec); err != nil {
			return err
		}
		return d.clock.stamp(tx, m)
	case needMet(r.Need, facts):
		dec.Separation = facts.Separation
		return d.allow(tx, r, dec, m)
	}
	d.changed(tx, r.ID, false)
	return d.journal(tx, palyra.ApprovalVoted{Vote: v})
}

// allow settles with an allow, makes the lease and closes the other questions that the lease covers, in that
// order in the journal.
func (d *Desk) allow(tx *store.Tx, r record, dec palyra.Decision, m moment) error {
	g := narrowest(r.Votes)
	terms, ok := d.termsFor(r.Approval, g)
	if !ok {
		return palyra.Errorf(palyra.Internal, palyra.ReasonInternal, "generalisation %q does not fit the plan", g.widen)
	}
	l := leaseRow{risk: r.Prompt.Risk.Level, Lease: palyra.Lease{
		ID: palyra.LeaseID(d.cfg.NewID()), Approval: r.ID, Scope: g.scope, Terms: terms, By: dec.By, CreatedAt: m.time(), UsesLeft: g.uses,
	}}
	switch g.scope {
	case palyra.ScopeOnce:
		l.ends = m.deadlineAfter(d.cfg.OnceTTL)
	case palyra.ScopeTimeboxed:
		l.ends = m.deadlineAfter(g.ttl)
	}
	l.ExpiresAt = timeOf(l.ends.wall)
	if err := putLease(tx, l); err != nil {
		return err
	}
	dec.Scope, dec.Lease = g.scope, l.ID
	if err := d.settle(tx, r, dec); err != nil {
		return err
	}
	d.wakeSweeper(tx)
	if err := d.clock.stamp(tx, m); err != nil {
		return err
	}
	err := d.journal(tx, palyra.GrantCreated{
		Lease: l.ID, Approval: r.ID, Scope: l.Scope, Terms: terms, Expires: l.ExpiresAt, Uses: l.UsesLeft,
	})
	if err != nil {
		return err
	}
	dec.Votes = r.Votes
	return d.overtake(tx, l, dec, m)
}

// extent is how far an allow reaches.
type extent struct {
	scope palyra.Scope
	ttl   time.Duration
	uses  int64 // -1: no count
	widen string
}

// narrowest returns the extent that every voter agreed to: the least of each part.
func narrowest(votes []palyra.Vote) extent {
	least := extent{scope: palyra.ScopeSession, uses: -1, widen: palyra.WidenWorkspace}
	for _, v := range votes {
		if scopeRank(v.Scope) < scopeRank(least.scope) {
			least.scope = v.Scope
		}
		if ttl := time.Duration(v.TTLMS) * time.Millisecond; ttl > 0 && (least.ttl == 0 || ttl < least.ttl) {
			least.ttl = ttl
		}
		if v.Uses > 0 && (least.uses < 0 || v.Uses < least.uses) {
			least.uses = v.Uses
		}
		if widenRank(v.Widen) < widenRank(least.widen) {
			least.widen = cmp.Or(v.Widen, palyra.WidenExact)
		}
	}
	if least.scope == palyra.ScopeOnce {
		least.uses, least.ttl, least.widen = 1, 0, palyra.WidenExact
	}
	return least
}

// scopeRank orders scopes by reach; an unknown one reaches least. Timeboxed
// leases are bound to their session too, so they reach less than session ones.
func scopeRank(s palyra.Scope) int {
	switch s {
	case palyra.ScopeTimeboxed:
		return 1
	case palyra.ScopeSession:
		return 2
	}
	return 0
}

// recordAlert journals a refusal that should not happen in honest use and returns it. An error of the journal
// is returned with it.
func (d *Desk) recordAlert(ctx context.Context, v palyra.Vote, refusal error) error {
	reason := palyra.AsError(refusal).Reason
	switch reason {
	case palyra.ReasonAgentMayNotDecide, palyra.ReasonRequesterDecides, palyra.ReasonStaleDigest:
	default:
		return refusal
	}
	alert := palyra.AlertRaised{
		Reason: reason, Principal: v.By, PeerUID: v.PeerUID, Method: palyra.Clip(string(v.Method), 64),
		Approval: palyra.ApprovalID(palyra.Clip(string(v.Approval), 64)), KeyID: palyra.Clip(v.Signature.Intent.KeyID, 128),
	}
	err := d.cfg.DB.Write(context.WithoutCancel(ctx), alert.Kind(), func(tx *store.Tx) error { return d.journal(tx, alert) })
	if err != nil {
		return errors.Join(refusal, err)
	}
	return refusal
}
