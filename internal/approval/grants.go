package approval

import (
	"context"

	"palyra"
	"palyra/internal/store"
)

// Lease returns a lease and the decision behind it.
func (d *Desk) Lease(ctx context.Context, id palyra.LeaseID) (l palyra.Lease, err error) {
	err = d.cfg.DB.Read(ctx, func(tx *store.Tx) error {
		l, err = d.fullLease(tx, id)
		return err
	})
	return l, wrap("grant", err)
}

// Leases returns a page of leases, newest first, and the cursor of the next.
func (d *Desk) Leases(ctx context.Context, f palyra.LeaseFilter) (palyra.LeasePage, error) {
	q, err := leaseQuery(f)
	if err != nil {
		return palyra.LeasePage{}, err
	}
	var page palyra.LeasePage
	err = d.cfg.DB.Read(ctx, func(tx *store.Tx) error {
		list, err := keysOf[palyra.LeaseID](tx, q)
		if err != nil {
			return err
		}
		for i, k := range list {
			if i == q.limit {
				last, err := getLease(tx, list[i-1])
				page.Next = cursor{at: nanos(last.CreatedAt), id: string(last.ID), tag: q.tag}.String()
				return err
			}
			l, err := d.fullLease(tx, k)
			if err != nil {
				return err
			}
			if f.Ended || l.Ended == "" { // one whose time has just come is not live, swept or not
				page.Leases = append(page.Leases, l)
			}
		}
		return nil
	})
	if err != nil {
		return palyra.LeasePage{}, wrap("grants", err)
	}
	return page, nil
}

func leaseQuery(f palyra.LeaseFilter) (query, error) {
	if len(f.Session) > maxText || len(f.Principal) > maxText {
		return query{}, invalid(palyra.ReasonInputTooLarge, "the filter is too long")
	}
	limit, err := limitOf(f.Limit)
	if err != nil {
		return query{}, err
	}
	tagged := f
	tagged.Cursor, tagged.Limit = "", 0
	tag, err := tagOf("leases", tagged)
	if err != nil {
		return query{}, err
	}
	span := spanOf(timeOf(0), timeOf(0))
	if f.Cursor != "" {
		c, err := parseCursor(f.Cursor, tag)
		if err != nil {
			return query{}, err
		}
		span.startAfter(c, false)
	}
	w := listFilter{}
	if !f.Ended {
		w.add("ended = ''")
	}
	w.columns([]column{{"session_id", string(f.Session)}, {"principal", string(f.Principal)}})
	return w.query("approval_leases", "created_at", span, false, limit, tag), nil
}

// fullLease reads a lease as it stands now: one past its deadline has ended,
// whether or not the sweeper has come by.
func (d *Desk) fullLease(tx *store.Tx, id palyra.LeaseID) (palyra.Lease, error) {
	l, err := getLease(tx, id)
	if err != nil {
		return palyra.Lease{}, err
	}
	if l.Ended == "" && d.clock.passed(l.ends, d.clock.read()) {
		l.Ended = palyra.LeaseExpired
	}
	r, err := withVotes(tx, l.Approval)
	l.Decision = r.Decision
	return l.Lease, err
}
