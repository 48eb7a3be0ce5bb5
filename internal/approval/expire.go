package approval

import (
	"context"
	"time"

	"palyra"
	"palyra/internal/store"
)

const (
	sweepBatch = 256 // most that one transaction ends
	// sweepTick bounds how long the sweeper sleeps while a deadline is open:
	// timers do not see a suspended machine or a wall clock that was moved.
	sweepTick = time.Second
)

// Run ends everything that is due, until ctx ends: questions as timeout, leases as expired. A failure (a full
// disk) is logged and tried again; meanwhile Cover, Decide and grants look at the deadlines themselves, so
// that nothing outlives its own.
func (d *Desk) Run(ctx context.Context) error {
	failing := false
	for ctx.Err() == nil {
		next, err := d.sweep(ctx)
		if err != nil && ctx.Err() == nil {
			if !failing {
				d.cfg.Log.ErrorContext(ctx, "approval: sweep failed; trying again every second", "err", err)
			}
			next = d.clock.read().deadlineAfter(sweepTick)
		}
		failing = err != nil
		d.sleep(ctx, next)
	}
	return nil
}

// sleep returns when next has come by either clock, when a deadline was added, or when ctx ends.
func (d *Desk) sleep(ctx context.Context, next deadline) {
	if next == (deadline{}) {
		select {
		case <-ctx.Done():
		case <-d.kick:
		}
		return
	}
	for {
		m := d.clock.read()
		left := min(next.wall-m.wall, next.since-m.since)
		if left <= 0 {
			return
		}
		d.keepMark(ctx, m)
		tick := time.NewTimer(min(time.Duration(left), sweepTick))
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-d.kick:
			tick.Stop()
			return
		case <-tick.C:
		}
	}
}

// keepMark makes the passing of time durable while a deadline is open.
func (d *Desk) keepMark(ctx context.Context, m moment) {
	if !d.clock.stale(m, markStale) {
		return
	}
	err := d.cfg.DB.Write(ctx, "approval.clock", func(tx *store.Tx) error { return d.clock.save(tx, m) })
	if err != nil && ctx.Err() == nil {
		d.cfg.Log.WarnContext(ctx, "approval: the time could not be kept", "err", err)
	}
}

// sweep ends all that is due and returns the next deadline, zero if none.
func (d *Desk) sweep(ctx context.Context) (deadline, error) {
	for _, some := range []func() (int, error){
		func() (int, error) { return sweepSome(ctx, d, "approval.decided", dueApprovals, d.expireApproval) },
		func() (int, error) { return sweepSome(ctx, d, "grant.ended", dueLeases, d.expireLease) },
	} {
		for more := true; more; {
			n, err := some()
			if err != nil {
				return deadline{}, err
			}
			more = n == sweepBatch
		}
	}
	return d.nextDeadline(ctx)
}

var (
	dueApprovals = []string{
		`SELECT id FROM approvals WHERE decision = '' AND expires_at <= ? ORDER BY expires_at LIMIT ?`,
		`SELECT id FROM approvals WHERE decision = '' AND boot_id = ? AND expires_boot <= ? ORDER BY expires_boot LIMIT ?`,
	}
	dueLeases = []string{
		`SELECT id FROM approval_leases WHERE ended = '' AND expires_at > 0 AND expires_at <= ? ORDER BY expires_at LIMIT ?`,
		`SELECT id FROM approval_leases WHERE ended = '' AND expires_at > 0 AND boot_id = ? AND expires_boot <= ?
			ORDER BY expires_boot LIMIT ?`,
	}
)

// sweepSome ends at most a batch and returns how many were due.
func sweepSome[I ~string](ctx context.Context, d *Desk, step string, due []string, end func(*store.Tx, I, moment) error) (int, error) {
	m := d.clock.read()
	var list []I
	err := d.cfg.DB.Read(ctx, func(tx *store.Tx) (err error) {
		if list, err = ids[I](tx, due[0], m.wall, sweepBatch); err != nil || len(list) == sweepBatch {
			return err
		}
		more, err := ids[I](tx, due[1], m.boot, m.since, sweepBatch-len(list))
		list = append(list, more...)
		return err
	})
	if err != nil || len(list) == 0 {
		return 0, wrap("sweep", err)
	}
	err = d.cfg.DB.Write(ctx, step, func(tx *store.Tx) error {
		for _, id := range list {
			if err := end(tx, id, m); err != nil {
				return err
			}
		}
		return d.clock.stamp(tx, m)
	})
	return len(list), wrap("sweep", err)
}

func (d *Desk) expireApproval(tx *store.Tx, id palyra.ApprovalID, m moment) error {
	r, err := getRecord(tx, id)
	if err != nil || !r.Pending() || !d.clock.passed(r.ends, m) { // settled since it was listed
		return err
	}
	return d.timeout(tx, r, m)
}

func (d *Desk) expireLease(tx *store.Tx, id palyra.LeaseID, m moment) error {
	l, err := getLease(tx, id)
	if err != nil || l.Ended != "" || !d.clock.passed(l.ends, m) {
		return err
	}
	return d.end(tx, l, palyra.LeaseExpired, byClock, nil)
}

// nextDeadline returns the earliest on each clock.
func (d *Desk) nextDeadline(ctx context.Context) (deadline, error) {
	m := d.clock.read()
	next := deadline{boot: m.boot}
	err := d.cfg.DB.Read(ctx, func(tx *store.Tx) error {
		for _, q := range []struct {
			text string
			args []any
			into *int64
		}{
			{`SELECT COALESCE(MIN(expires_at), 0) FROM approvals WHERE decision = ''`, nil, &next.wall},
			{`SELECT COALESCE(MIN(expires_at), 0) FROM approval_leases WHERE ended = '' AND expires_at > 0`, nil, &next.wall},
			{`SELECT COALESCE(MIN(expires_boot), 0) FROM approvals WHERE decision = '' AND boot_id = ?`, []any{m.boot}, &next.since},
			{
				`SELECT COALESCE(MIN(expires_boot), 0) FROM approval_leases WHERE ended = '' AND expires_at > 0 AND boot_id = ?`,
				[]any{m.boot},
				&next.since,
			},
		} {
			var at int64
			if err := tx.Get(q.text, q.args, &at); err != nil {
				return err
			}
			if at > 0 && (*q.into == 0 || at < *q.into) {
				*q.into = at
			}
		}
		return nil
	})
	if err != nil || next.wall == 0 {
		return deadline{}, wrap("sweep", err)
	}
	if next.since == 0 { // only deadlines of other hosts: the wall alone counts
		next.since = m.since + (next.wall - m.wall)
	}
	return next, nil
}
