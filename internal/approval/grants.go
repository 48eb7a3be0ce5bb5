package approval

import (
	"context"

	"palyra"
	"palyra/internal/store"
)

// LeaseFilter picks leases. Every set field must match.
type LeaseFilter struct {
	Live      *bool            `json:"live,omitempty"`
	Session   palyra.SessionID `json:"session,omitempty"`
	Principal palyra.Principal `json:"principal,omitempty"`
	Cursor    string           `json:"-"`
	Limit     int              `json:"-"` // 0: 100; at most MaxLimit
}

// Lease returns a lease and the decision behind it.
func (d *Desk) Lease(ctx context.Context, id palyra.LeaseID) (l palyra.Lease, err error) {
	err = d.cfg.DB.Read(ctx, func(tx *store.Tx) error {
		l, err = d.fullLease(tx, id)
		return err
	})
	return l, wrap("grant", err)
}

// Leases returns a page of leases, newest first, and the cursor of the next.
func (d *Desk) Leases(ctx context.Context, f LeaseFilter) (page []palyra.Lease, next string, err error) {
	q, err := f.query()
	if err != nil {
		return nil, "", err
	}
	err = d.cfg.DB.Read(ctx, func(tx *store.Tx) error {
		list, err := keysOf[palyra.LeaseID](tx, q)
		if err != nil {
			return err
		}
		for i, k := range list {
			if i == q.limit {
				last, err := getLease(tx, list[i-1])
				next = cursor{at: nanos(last.CreatedAt), id: string(last.ID), tag: q.tag}.String()
				return err
			}
			l, err := d.fullLease(tx, k)
			if err != nil {
				return err
			}
			if f.Live == nil || *f.Live == (l.Ended == "") { // one whose time has just come is not live, swept or not
				page = append(page, l)
			}
		}
		return nil
	})
	if err != nil {
		return nil, "", wrap("grants", err)
	}
	return page, next, nil
}

func (f LeaseFilter) query() (query, error) {
	if len(f.Session) > maxText || len(f.Principal) > maxText {
		return query{}, invalid(palyra.ReasonInputTooLarge, "the filter is too long")
	}
	limit, err := limitOf(f.Limit)
	if err != nil {
		return query{}, err
	}
	tag, err := tagOf("leases", f)
	if err != nil {
		return query{}, err
	}
	span := spanOf(timeOf(0), timeOf(0))
	if f.Cursor != "" {
		c, err := parseCursor(f.Cursor, tag)
		if err != nil {
			return query{}, err
		}
		span.startAfter(c, Newest)
	}
	w := listFilter{}
	switch {
	case f.Live == nil:
	case *f.Live:
		w.add("ended = ''")
	default:
		w.add("ended <> ''")
	}
	w.columns([]column{{"session_id", string(f.Session)}, {"principal", string(f.Principal)}})
	return w.query("approval_leases", "created_at", span, Newest, limit, tag), nil
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
