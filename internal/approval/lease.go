package approval

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"palyra"
	"palyra/internal/store"
)

// leaseRow is a lease as its row has it, without the decision behind it.
type leaseRow struct {
	palyra.Lease
	ends deadline
	risk palyra.RiskLevel
}

const leaseColumns = `id, approval_id, scope, principal, session_id, tool, plan_digest, terms, risk, granted_by, created_at,
	expires_at, boot_id, expires_boot, uses_left, ended, ended_at, ended_by`

func scanLease(scan func(...any) error) (leaseRow, error) {
	var (
		l                palyra.Lease
		out              leaseRow
		row              palyra.Terms
		terms            string
		created, endedAt int64
		endedBy          palyra.Principal
	)
	err := scan(&l.ID, &l.Approval, &l.Scope, &row.Principal, &row.Session, &row.Tool, &row.PlanDigest, &terms, &out.risk, &l.By,
		&created, &out.ends.wall, &out.ends.boot, &out.ends.since, &l.UsesLeft, &l.Ended, &endedAt, &endedBy)
	if err != nil {
		return leaseRow{}, err
	}
	if err := decode(terms, &l.Terms); err != nil {
		return leaseRow{}, err
	}
	// The columns that were searched count: the two can differ only by tampering.
	l.Terms.Principal, l.Terms.Session, l.Terms.Tool, l.Terms.PlanDigest = row.Principal, row.Session, row.Tool, row.PlanDigest
	if out.ends.wall == 0 {
		out.ends = deadline{}
	}
	l.CreatedAt, l.ExpiresAt = timeOf(created), timeOf(out.ends.wall)
	if l.Ended == palyra.LeaseRevoked {
		l.RevokedAt, l.RevokedBy = timeOf(endedAt), endedBy
	}
	out.Lease = l
	return out, nil
}

func putLease(tx *store.Tx, l leaseRow) error {
	terms, err := encode(l.Terms)
	if err != nil {
		return err
	}
	t := l.Terms
	_, err = tx.Exec(`INSERT INTO approval_leases (`+leaseColumns+`, signature)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', 0, '', '')`,
		l.ID, l.Approval, l.Scope, t.Principal, t.Session, t.Tool, t.PlanDigest, terms, l.risk, l.By, nanos(l.CreatedAt),
		l.ends.wall, l.ends.boot, l.ends.since, l.UsesLeft)
	return err
}

func getLease(tx *store.Tx, id palyra.LeaseID) (leaseRow, error) {
	l, err := scanLease(func(dest ...any) error {
		return tx.Get(`SELECT `+leaseColumns+` FROM approval_leases WHERE id = ?`, []any{id}, dest...)
	})
	if errors.Is(err, store.ErrNoRows) {
		return leaseRow{}, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no lease %q", palyra.Clip(string(id), 64)).
			WithRemedy("list them with 'palyra leases list'")
	}
	return l, err
}

// Cover finds a live lease that covers the call and returns the decision behind it, marked as reused. It takes
// nothing: the use is taken when the grant is recorded. A lease whose answer is less than policy now needs does not
// cover, so that people are asked again rather than the call refused.
func (d *Desk) Cover(ctx context.Context, c *palyra.Call) (dec palyra.Decision, ok bool, err error) {
	if c.Verdict.Need.Fresh || !c.Digest.Valid() {
		return palyra.Decision{}, false, nil
	}
	err = d.cfg.DB.Read(ctx, func(tx *store.Tx) error {
		dec, ok, err = d.leaseDecision(tx, c, func(leaseRow) bool { return true })
		return err
	})
	return dec, ok, wrap("cover", err)
}

// leaseDecision returns the decision behind the best lease that covers the call, of those that some accepts.
func (d *Desk) leaseDecision(tx *store.Tx, c *palyra.Call, some func(leaseRow) bool) (palyra.Decision, bool, error) {
	live, err := d.candidates(tx, c)
	if err != nil {
		return palyra.Decision{}, false, err
	}
	for _, l := range live {
		if !some(l) {
			continue
		}
		r, err := withVotes(tx, l.Approval)
		if err != nil {
			return palyra.Decision{}, false, err
		}
		dec := r.Decision
		dec.Reused, dec.Lease, dec.Scope, dec.Terms = true, l.ID, l.Scope, &l.Terms
		if d.suffices(dec, c) {
			return dec, true, nil
		}
	}
	return palyra.Decision{}, false, nil
}

// candidates returns the leases that cover the call, the best first: those that
// a use does not end, exact ones, older ones.
func (d *Desk) candidates(tx *store.Tx, c *palyra.Call) ([]leaseRow, error) {
	var found []leaseRow
	m := d.clock.read()
	who := []any{c.Proposal.Session, c.Proposal.Principal}
	for _, which := range []struct {
		where string
		args  []any
	}{
		{`tool = ? AND plan_digest = ?`, append(slices.Clone(who), c.Plan.Tool, c.Digest)},
		{`plan_digest = ''`, who},                             // widened ones may be for several tools
		{`plan_digest = ''`, []any{"", c.Proposal.Principal}}, // those of a workspace in any session
	} {
		err := tx.Each(`SELECT `+leaseColumns+` FROM approval_leases WHERE ended = '' AND session_id = ? AND principal = ? AND `+which.where,
			which.args,
			func(scan func(...any) error) error {
				l, err := scanLease(scan)
				if err == nil && l.UsesLeft != 0 && !d.clock.passed(l.ends, m) && d.coversCall(l, c) {
					found = append(found, l)
				}
				return err
			})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(found, func(a, b leaseRow) int {
		return cmp.Or(
			cmp.Compare(scopeRank(b.Scope), scopeRank(a.Scope)),
			cmp.Compare(min(a.UsesLeft, 0), min(b.UsesLeft, 0)),
			cmp.Compare(b.Terms.PlanDigest, a.Terms.PlanDigest),
			a.CreatedAt.Compare(b.CreatedAt),
		)
	})
	return found, nil
}

// take uses a lease for a grant or a check: one use, or Conflict.
func (d *Desk) take(tx *store.Tx, c *palyra.Call, id palyra.LeaseID, plan palyra.Digest) error {
	l, err := getLease(tx, id)
	switch {
	case palyra.CodeOf(err) == palyra.NotFound && err != nil:
		return palyra.Errorf(palyra.Conflict, palyra.ReasonGrantRevoked, "lease %s is gone", id).WithCause(err)
	case err != nil:
		return err
	case l.Ended != "":
		return notLive(l.Lease)
	case d.clock.passed(l.ends, d.clock.read()):
		l.Ended = palyra.LeaseExpired
		return notLive(l.Lease)
	case plan != c.Digest || !d.stillCovers(l, c):
		return palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "lease %s does not cover this plan", l.ID).
			WithRemedy("propose the call again")
	}
	n, err := tx.Exec(`UPDATE approval_leases SET uses_left = CASE WHEN uses_left > 0 THEN uses_left - 1 ELSE uses_left END
		WHERE id = ? AND ended = '' AND uses_left <> 0`, l.ID)
	if err != nil {
		return err
	}
	if n != 1 {
		l.Ended = palyra.LeaseSpent
		return notLive(l.Lease)
	}
	if l.UsesLeft == 1 {
		return d.end(tx, l, palyra.LeaseSpent, bySystem, nil)
	}
	return nil
}

func notLive(l palyra.Lease) error {
	reason := palyra.ReasonGrantRevoked
	switch l.Ended {
	case palyra.LeaseSpent:
		reason = palyra.ReasonGrantSpent
	case palyra.LeaseExpired:
		reason = palyra.ReasonApprovalExpired
	case palyra.LeaseSessionClosed:
		reason = palyra.ReasonSessionClosed
	}
	return palyra.Errorf(palyra.Conflict, reason, "lease %s has ended: %s", l.ID, l.Ended).
		WithRemedy("propose the call again and have it approved")
}

// end ends a lease, once. It is told to those who run work under it, except
// when it is spent: then the work is what spent it.
func (d *Desk) end(tx *store.Tx, l leaseRow, why palyra.LeaseEnd, by palyra.Principal, sig *palyra.Signature) error {
	signature := ""
	if sig != nil {
		var err error
		if signature, err = encode(*sig); err != nil {
			return err
		}
	}
	n, err := tx.Exec(`UPDATE approval_leases SET ended = ?, ended_at = ?, ended_by = ?, signature = ? WHERE id = ? AND ended = ''`,
		why, d.clock.read().wall, by, signature, l.ID)
	if err != nil {
		return err
	}
	if n != 1 {
		return notLive(l.Lease)
	}
	if why != palyra.LeaseSpent {
		tx.OnDone(func(committed bool) {
			if committed {
				d.tellEnded(l.ID)
			}
		})
	}
	return d.journal(tx, palyra.GrantEnded{Lease: l.ID, Why: why, By: by, Signature: sig})
}
