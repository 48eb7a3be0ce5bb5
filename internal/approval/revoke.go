package approval

import (
	"cmp"
	"context"

	"palyra"
	"palyra/internal/store"
)

// Revoke ends a lease at once. The door has verified the signature; it is kept
// with the lease. Conflict: it had already ended.
func (d *Desk) Revoke(ctx context.Context, id palyra.LeaseID, by palyra.Principal, s palyra.Signature) (palyra.Lease, error) {
	if err := checkVoter(palyra.Vote{By: by, Signature: s}); err != nil {
		return palyra.Lease{}, d.recordAlert(ctx, palyra.Vote{By: by, Signature: s}, err)
	}
	var out palyra.Lease
	err := d.cfg.DB.Write(ctx, "grant.ended", func(tx *store.Tx) error {
		l, err := getLease(tx, id)
		switch {
		case err != nil:
			return err
		case l.Ended != "":
			return palyra.AsError(notLive(l.Lease)).WithRemedy("nothing is left to revoke; to stop a run, cancel it")
		}
		if err := d.end(tx, l, palyra.LeaseRevoked, by, &s); err != nil {
			return err
		}
		out, err = d.fullLease(tx, id)
		return err
	})
	return out, wrap("revoke", err)
}

// EndSession ends the session's leases and settles its open questions as
// errors, inside the transaction that closes the session.
func (d *Desk) EndSession(tx *store.Tx, session palyra.SessionID, by palyra.Principal) error {
	by = cmp.Or(by, bySystem)
	leases, err := ids[palyra.LeaseID](tx, `SELECT id FROM approval_leases WHERE ended = '' AND session_id = ?`, session)
	if err != nil {
		return wrap("end session", err)
	}
	for _, id := range leases {
		l, err := getLease(tx, id)
		if err == nil {
			err = d.end(tx, l, palyra.LeaseSessionClosed, by, nil)
		}
		if err != nil {
			return wrap("end session", err)
		}
	}
	open, err := ids[palyra.ApprovalID](tx, `SELECT id FROM approvals WHERE decision = '' AND session_id = ?`, session)
	if err != nil {
		return wrap("end session", err)
	}
	for _, id := range open {
		r, err := withVotes(tx, id)
		if err == nil {
			err = d.settle(tx, r, palyra.Decision{
				Answer: palyra.AnswerError, Reason: "session closed", By: by, Method: palyra.MethodSystem, At: d.clock.read().time(),
			})
		}
		if err != nil {
			return wrap("end session", err)
		}
	}
	return nil
}

func ids[I ~string](tx *store.Tx, query string, args ...any) ([]I, error) {
	var list []I
	err := tx.Each(query, args, func(scan func(...any) error) error {
		var id I
		err := scan(&id)
		list = append(list, id)
		return err
	})
	return list, err
}
