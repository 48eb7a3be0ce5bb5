package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"palyra"
	"palyra/internal/store"
)

// Past is a call on record as its row has it, not yet read: whoever goes through many of them reads them on every core,
// and need not read again what it has read of another.
type Past struct {
	ID       palyra.CallID
	State    palyra.State
	Approval palyra.ApprovalID // the question that it asked or joined
	Doc      []byte            // as JSON
	Outcome  []byte            // of a refused one
}

// Limits of a page of calls.
const (
	pastRows  = 256
	pastBytes = 4 << 20
)

// Past goes through the calls that were proposed from since on and before until, in the order of their proposals,
// page by page: no transaction stays open, and no more than a page is held. A zero time is no bound. Calls that are
// proposed meanwhile and are in the span may be told or not.
func (l *Ledger) Past(ctx context.Context, since, until time.Time, f func([]Past) error) error {
	from, to := bound(since, 0), bound(until, math.MaxInt64)
	for after := ""; ; {
		page, err := l.pastPage(ctx, after, from, to)
		if err != nil {
			return fmt.Errorf("run: past calls: %w", err)
		}
		if len(page) == 0 {
			return nil
		}
		after = string(page[len(page)-1].ID)
		if err := f(page); err != nil {
			return err
		}
	}
}

// bound is a time in nanoseconds, or what stands for no time. One that is too far
// off to be counted so is as far off as can be.
func bound(t time.Time, none int64) int64 {
	switch {
	case t.IsZero():
		return none
	case t.Year() < 1970:
		return 0
	case t.Year() > 2261:
		return math.MaxInt64
	}
	return t.UnixNano()
}

// pastPage reads the calls after one, as many as a page holds and at least one.
func (l *Ledger) pastPage(ctx context.Context, after string, from, to int64) ([]Past, error) {
	const q = `SELECT id, state, approval, doc, CASE WHEN state='refused' THEN outcome END FROM calls
		WHERE id > ? AND proposed_at >= ? AND proposed_at < ? ORDER BY id LIMIT ?`
	var page []Past
	size := 0
	err := l.db.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(q, []any{after, from, to, pastRows}, func(scan func(...any) error) error {
			if size > pastBytes {
				return errPageFull
			}
			var p Past
			if err := scan(&p.ID, &p.State, &p.Approval, &p.Doc, &p.Outcome); err != nil {
				return err
			}
			if doc, outcome, err := l.texts(tx, p.Doc, p.Outcome); err == nil { // else reading it says so
				p.Doc, p.Outcome = doc, outcome
			}
			size += len(p.Doc) + len(p.Outcome)
			page = append(page, p)
			return nil
		})
	})
	if errors.Is(err, errPageFull) {
		err = nil
	}
	return page, err
}
