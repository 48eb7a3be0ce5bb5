package approval

import (
	"palyra"
	"palyra/internal/store"
)

// isStanding reports whether a lease is for any number of later calls: it names no plan, and its uses are not
// counted.
func (l leaseRow) isStanding() bool { return l.Terms.PlanDigest == "" && l.UsesLeft < 0 }

// overtake closes the open questions that a new lease covers, in the transaction that makes it: nobody has to
// say the same thing twice, and waiting calls go on under the lease. It does not answer those questions,
// which would take a signature: each is settled without a vote, by the desk, and names the lease. The check
// is Cover's, so that a question stays open that needs a fresh answer, or more than was given here.
func (d *Desk) overtake(tx *store.Tx, l leaseRow, dec palyra.Decision, m moment) error {
	if !l.isStanding() {
		return nil
	}
	open, err := ids[palyra.ApprovalID](tx,
		`SELECT id FROM approvals WHERE decision = '' AND (? = '' OR session_id = ?) AND principal = ? ORDER BY requested_at, id`,
		l.Terms.Session, l.Terms.Session, l.Terms.Principal)
	if err != nil {
		return err
	}
	dec.Reused = true
	for _, id := range open {
		r, _, err := withDocuments(tx, id)
		if err != nil {
			return err
		}
		if d.clock.passed(r.ends, m) || !d.coversQuestion(l, r) || !d.suffices(dec, r.asCall()) {
			continue
		}
		err = d.settle(tx, r, palyra.Decision{
			Answer: palyra.AnswerError, Reason: "covered by lease " + string(l.ID), Lease: l.ID, By: bySystem, Method: palyra.MethodSystem,
			At: m.time(),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// suffices reports whether the answer behind a lease that covers a call is all that policy needs for it.
func (d *Desk) suffices(dec palyra.Decision, c *palyra.Call) bool {
	return !c.Verdict.Need.Fresh && needMet(c.Verdict.Need, d.Facts(c.Proposal.Owner, dec))
}

// asCall is the call that a question is about, with the parts that a lease looks at.
func (r record) asCall() *palyra.Call {
	return &palyra.Call{
		Proposal: palyra.Proposal{
			Proposer: palyra.Proposer{Principal: r.Principal, Session: r.Session, Owner: r.Owner, Room: r.Room, Within: r.Within},
		},
		Plan: r.Plan, Digest: r.PlanDigest, Verdict: palyra.Verdict{Need: r.Need, Risk: r.Prompt.Risk},
	}
}

// overtaken refuses to open a question that a lease has come to cover since the desk was asked: Cover finds it now.
func (d *Desk) overtaken(tx *store.Tx, c *palyra.Call) error {
	dec, ok, err := d.leaseDecision(tx, c, leaseRow.isStanding)
	if err != nil || !ok {
		return err
	}
	return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "lease %s covers this plan already", dec.Lease)
}
