package rpc

import (
	"context"
	"sync"
	"time"

	"palyra"
)

// A flood of the same attempts is one line with a count: the first at once, the
// rest after a gap that doubles from minGap to maxGap while the flood lasts.
const (
	minGap  = time.Second
	maxGap  = time.Minute
	maxRows = 1024 // distinct attempts kept apart; the rest share a row
)

// alarm journals attempts that should not happen.
type alarm struct {
	record func(palyra.Event)
	now    func() time.Time

	mu   sync.Mutex // guards rows; not held while recording
	rows map[alarmKey]*alarmRow
}

type alarmKey struct {
	kind      string
	reason    palyra.Reason
	principal palyra.Principal
}

type alarmRow struct {
	make  func(count int64) palyra.Event
	count int64
	gap   time.Duration
	due   time.Time
}

// raise journals an alert.
func (a *alarm) raise(e palyra.AlertRaised) {
	a.add(alarmKey{e.Kind(), e.Reason, e.Principal}, func(count int64) palyra.Event {
		e.Count = count
		return e
	})
}

// flood journals that a door turned requests away.
func (a *alarm) flood(door string, reason palyra.Reason) {
	e := palyra.DoorFlood{Door: door, Reason: reason}
	a.add(alarmKey{e.Kind(), reason, palyra.Principal(door)}, func(count int64) palyra.Event {
		e.Count = count
		return e
	})
}

func (a *alarm) add(k alarmKey, make func(int64) palyra.Event) {
	if a.hasOwnLine(k, make) {
		a.record(make(1))
	}
}

// hasOwnLine reports whether an attempt gets its own line; any other is only counted.
func (a *alarm) hasOwnLine(k alarmKey, make func(int64) palyra.Event) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rows == nil {
		a.rows = map[alarmKey]*alarmRow{}
	}
	row := a.rows[k]
	if row == nil && len(a.rows) >= maxRows {
		k.principal = ""
		row = a.rows[k]
	}
	if row == nil {
		a.rows[k] = &alarmRow{make: make, gap: minGap, due: a.now().Add(minGap)}
		return true
	}
	row.make = make // the latest stands for those it is counted with
	row.count++
	return false
}

// run writes the counts until ctx ends, and the remaining ones then.
func (a *alarm) run(ctx context.Context) {
	tick := time.NewTicker(minGap)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.flush(false)
		case <-ctx.Done():
			a.flush(true)
			return
		}
	}
}

// flush writes the rows that are due, or all.
func (a *alarm) flush(all bool) {
	for _, e := range a.due(all) {
		a.record(e)
	}
}

func (a *alarm) due(all bool) []palyra.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	var out []palyra.Event
	for k, row := range a.rows {
		switch {
		case !all && now.Before(row.due):
		case row.count == 0:
			delete(a.rows, k) // it was quiet for a whole gap
		default:
			out = append(out, row.make(row.count))
			row.count, row.gap = 0, min(2*row.gap, maxGap)
			row.due = now.Add(row.gap)
		}
	}
	return out
}
