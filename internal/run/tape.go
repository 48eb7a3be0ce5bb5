package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/run/tapeline"
	"palyra/internal/store"
)

// tape keeps what happened in runs, in order, and wakes those who read it. An entry is written in the transaction
// of what it tells; readers take it from the store, so that a slow one slows nobody and misses nothing.
type tape struct {
	now  func() time.Time
	mask Mask

	mu      sync.Mutex // guards readers; a leaf lock
	readers map[palyra.RunID]map[chan struct{}]bool
}

func newTape() *tape {
	return &tape{now: time.Now, mask: plainMask{}, readers: map[palyra.RunID]map[chan struct{}]bool{}}
}

// add puts an entry at the end of a run's tape. The tape of a run that has ended
// is closed: what comes later stands in the journal only.
func (t *tape) add(tx *store.Tx, run palyra.RunID, e palyra.TapeEntry) error {
	n, err := tx.Exec(`UPDATE runs SET last_seq=last_seq+1 WHERE id=? AND ended_at=0`, string(run))
	if err != nil || n == 0 {
		return err
	}
	if err := tx.Get(`SELECT last_seq FROM runs WHERE id=?`, []any{string(run)}, &e.Seq); err != nil {
		return err
	}
	e.Run, e.At = run, t.now().UTC()
	body, err := canon.JSON(e)
	if err != nil {
		return fmt.Errorf("run: encode tape: %w", err)
	}
	if e.ToolOutput == nil { // what was printed is masked already
		body = t.mask.JSON(body)
	}
	var turn int64
	if e.ModelText != nil {
		turn = e.ModelText.Turn
	}
	if _, err := tx.Exec(`INSERT INTO tape (run, seq, turn, body) VALUES (?,?,?,?)`, string(run), e.Seq, turn, body); err != nil {
		return err
	}
	tx.OnDone(func(kept bool) {
		if kept {
			t.wake(run)
		}
	})
	return nil
}

func (t *tape) wake(run palyra.RunID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ch := range t.readers[run] {
		nudge(ch)
	}
}

// watch returns a channel that is woken by every entry from now on, and what ends the watch.
func (t *tape) watch(run palyra.RunID) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.readers[run] == nil {
		t.readers[run] = map[chan struct{}]bool{}
	}
	t.readers[run][ch] = true
	return ch, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.readers[run], ch)
		if len(t.readers[run]) == 0 {
			delete(t.readers, run)
		}
	}
}

// Bounds on a page of entries.
const (
	tapePage      = 256
	tapePageBytes = 1 << 20
)

// read returns the entries of a run after a sequence number, as many as a page
// takes, and whether the run has ended by then. NotFound: there is no such run.
func (t *tape) read(ctx context.Context, db *store.DB, run palyra.RunID, after int64) (page []palyra.TapeEntry, ended bool, err error) {
	size := 0
	err = db.Read(ctx, func(tx *store.Tx) error {
		var at int64
		if err := tx.Get(`SELECT ended_at FROM runs WHERE id=?`, []any{string(run)}, &at); err != nil {
			return err
		}
		ended = at != 0
		q := `SELECT body FROM tape WHERE run=? AND seq>? ORDER BY seq LIMIT ?`
		return tx.Each(q, []any{string(run), after, tapePage}, func(scan func(...any) error) error {
			e, n, err := scanEntry(scan)
			if err != nil {
				return err
			}
			page = append(page, e)
			if size += n; size > tapePageBytes {
				return errPageFull
			}
			return nil
		})
	})
	switch {
	case errors.Is(err, store.ErrNoRows):
		return nil, false, noRun(run)
	case errors.Is(err, errPageFull):
		err = nil
	}
	return page, ended, err
}

func scanEntry(scan func(...any) error) (e palyra.TapeEntry, size int, err error) {
	var body []byte
	if err := scan(&body); err != nil {
		return e, 0, err
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return e, 0, fmt.Errorf("run: decode tape: %w", err)
	}
	return e, len(body), nil
}

func noRun(id palyra.RunID) error {
	return palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "no run %s", palyra.Clip(string(id), 64)).
		WithRemedy("see 'palyra runs list'")
}

// Attach hands the tape of a run to f, from the entry after the given one on, until the run has finished. Any
// number may attach at once, each at its own pace, and a run that ended is told again. It returns f's error, ctx's,
// or nil after the last entry.
func (r *Runs) Attach(ctx context.Context, id palyra.RunID, after int64, f func(palyra.TapeEntry) error) error {
	wake, leave := r.tape.watch(id)
	defer leave()
	for {
		page, ended, err := r.tape.read(ctx, r.DB, id, after)
		if err != nil {
			return err
		}
		for _, e := range page {
			if err := f(e); err != nil {
				return err
			}
			if after = e.Seq; e.RunFinished != nil {
				return nil
			}
		}
		if len(page) > 0 {
			continue
		}
		if ended {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ctx.Done():
			return errStopping
		}
	}
}

// record puts an event of a run's call onto the run's tape and counts it in the run's budgets.
func (l *Ledger) record(tx *store.Tx, c *palyra.Call, e palyra.Event, pos palyra.Position) error {
	run := c.Proposal.Run
	if tapeline.Ends(e) && l.printed != nil { // what it printed comes before its end
		if err := l.printed(tx, c.ID); err != nil {
			return err
		}
	}
	for _, entry := range tapeline.Of(c, e) {
		entry.Position = pos.Seq
		if err := l.tape.add(tx, run, entry); err != nil {
			return err
		}
	}
	return l.count(tx, c, e)
}

// count keeps what a run has used: it is right whatever a crash cuts off.
func (l *Ledger) count(tx *store.Tx, c *palyra.Call, e palyra.Event) (err error) {
	run := string(c.Proposal.Run)
	if _, ok := e.(palyra.CallProposed); ok {
		_, err = tx.Exec(`UPDATE runs SET calls=calls+1 WHERE id=? AND ended_at=0`, run)
	}
	if n := tapeline.Delivered(c.Outcome); err == nil && tapeline.Ends(e) && n > 0 {
		_, err = tx.Exec(`UPDATE runs SET output=output+? WHERE id=? AND ended_at=0`, n, run)
	}
	return err
}
