package approval

import (
	"fmt"
	"sync"
	"time"

	"palyra/internal/store"
)

// moment is now on both clocks.
type moment struct {
	wall  int64 // Unix nanoseconds, as the machine tells
	boot  string
	since int64 // nanoseconds since that boot, suspend included
}

func (m moment) time() time.Time { return timeOf(m.wall) }

// deadlineAfter returns the deadline that lies after from now.
func (m moment) deadlineAfter(after time.Duration) deadline {
	return deadline{wall: m.wall + int64(after), boot: m.boot, since: m.since + int64(after)}
}

// deadline is an end on both clocks. The zero deadline never comes.
type deadline struct {
	wall  int64
	boot  string
	since int64
}

// clock reads both clocks and keeps the mark: the latest wall time seen, with
// the boot and the time since boot at which it was seen.
type clock struct {
	now  func() time.Time
	boot func() (string, time.Duration)

	mu   sync.Mutex // a leaf lock
	mark moment     // as persisted
}

func (c *clock) read() moment {
	boot, since := c.boot()
	return moment{wall: c.now().UnixNano(), boot: boot, since: int64(since)}
}

// passed reports whether either clock is at or beyond the deadline. For a
// deadline of another boot only the wall counts, and then not below its floor.
func (c *clock) passed(d deadline, m moment) bool {
	switch {
	case d == deadline{}:
		return false
	case m.wall >= d.wall:
		return true
	case m.boot == d.boot:
		return m.since >= d.since
	}
	return c.floor(m) >= d.wall
}

// held reports whether a hold is still on. A hold protects people, so that a wall clock set forward does not end
// it: the boot's clock counts, else the wall with its floor.
func (c *clock) held(d deadline, m moment) bool {
	if m.boot == d.boot {
		return m.since < d.since
	}
	return c.floor(m) < d.wall
}

// floor is the least that the wall time can be: the mark plus what has passed since on this boot's clock.
func (c *clock) floor(m moment) int64 {
	c.mu.Lock()
	mark := c.mark
	c.mu.Unlock()
	return floorOf(mark, m)
}

func floorOf(mark, m moment) int64 {
	passed := m.since // all of this boot came after a mark of another
	if mark.boot == m.boot {
		passed = max(0, m.since-mark.since)
	}
	return max(m.wall, mark.wall+passed)
}

// How stale the mark may be when a deadline is written, and while one is open.
const (
	markFresh = 10 * time.Second
	markStale = 30 * time.Second
)

// stale reports whether the mark is older than age.
func (c *clock) stale(m moment, age time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mark.boot != m.boot || m.since-c.mark.since >= int64(age) || m.wall-c.mark.wall >= int64(age)
}

// stamp makes the mark durable with tx, where it is not fresh.
func (c *clock) stamp(tx *store.Tx, m moment) error {
	if !c.stale(m, markFresh) {
		return nil
	}
	return c.save(tx, m)
}

func (c *clock) save(tx *store.Tx, m moment) error {
	m.wall = c.floor(m)
	_, err := tx.Exec(`UPDATE approval_clock SET wall = ?, boot_id = ?, since_boot = ? WHERE id = 1`, m.wall, m.boot, m.since)
	if err != nil {
		return fmt.Errorf("approval: clock: %w", err)
	}
	tx.OnDone(func(committed bool) {
		if committed {
			c.mu.Lock()
			c.mark = m
			c.mu.Unlock()
		}
	})
	return nil
}

// carryOver gives open deadlines of other boots what is left of them on this boot's clock, counted from the floor.
var carryOver = []string{
	`UPDATE approvals SET boot_id = ?, expires_boot = ? + CASE WHEN expires_at > ? THEN expires_at - ? ELSE 0 END
		WHERE decision = '' AND boot_id <> ?`,
	`UPDATE approval_leases SET boot_id = ?, expires_boot = ? + CASE WHEN expires_at > ? THEN expires_at - ? ELSE 0 END
		WHERE ended = '' AND expires_at > 0 AND boot_id <> ?`,
	`UPDATE approval_denials SET boot_id = ?, until_boot = ? + CASE WHEN until_at > ? THEN until_at - ? ELSE 0 END
		WHERE boot_id <> ?`,
}

// start loads the mark and brings every open deadline to this boot.
func (c *clock) start(tx *store.Tx) error {
	var mark moment
	err := tx.Get(`SELECT wall, boot_id, since_boot FROM approval_clock WHERE id = 1`, nil, &mark.wall, &mark.boot, &mark.since)
	if err != nil {
		return fmt.Errorf("approval: clock: %w", err)
	}
	c.mu.Lock()
	c.mark = mark
	c.mu.Unlock()
	m := c.read()
	floor := c.floor(m)
	for _, q := range carryOver {
		if _, err := tx.Exec(q, m.boot, m.since, floor, floor, m.boot); err != nil {
			return fmt.Errorf("approval: clock: %w", err)
		}
	}
	return c.save(tx, m)
}

func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
