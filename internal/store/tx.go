package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"palyra"
)

var (
	errReadOnly = errors.New("store: write in a read transaction")
	errEnded    = errors.New("store: the transaction has ended")
)

// Tx is a transaction as parts see it. It is valid only inside the function it
// was passed to. Placeholders are written "?".
type Tx struct {
	ctx      context.Context
	session  *connection
	explain  func(error) error
	writable bool
	ended    bool  // its function returned
	broken   error // the engine failed under it: nothing more may be done

	savepoint bool // wanted before the first statement
	entered   bool // made

	changed []string // tables

	hooks    []func(committed bool)
	finished bool
}

func (db *DB) writeTx() *Tx {
	return &Tx{ctx: context.Background(), session: db.writer, explain: db.engine.Explain, writable: true}
}

// OnDone registers f to be called once, after the write is committed (true) or undone (false). After a commit the
// calls come in the order of doing, within a write and across its group; when something is undone they come in
// reverse. f runs on the committing goroutine: it must be quick and must not write.
func (tx *Tx) OnDone(f func(committed bool)) { tx.hooks = append(tx.hooks, f) }

func (tx *Tx) finish(ok bool) {
	if tx.finished {
		return
	}
	tx.finished, tx.ended = true, true
	for i := range tx.hooks {
		if !ok {
			i = len(tx.hooks) - 1 - i
		}
		tx.hooks[i](ok)
	}
}

// Err says why nothing can be written through tx: it is a read, it ended, or the
// engine failed under it. It is nil while writing is possible.
func (tx *Tx) Err() error {
	switch {
	case !tx.writable:
		return errReadOnly
	case tx.ended:
		return errEnded
	}
	return tx.broken
}

// Exec runs a statement and returns how many rows it changed.
func (tx *Tx) Exec(query string, args ...any) (int64, error) {
	if !tx.writable {
		return 0, errReadOnly
	}
	st, err := tx.statement(query)
	if err != nil {
		return 0, err
	}
	defer st.release()
	n, err := st.run(tx.ctx, args)
	if err != nil {
		return 0, tx.failed(err)
	}
	tx.changed = append(tx.changed, st.tables...)
	return n, nil
}

// Changed tells those who remember what they read that something changed beside the tables: a part of one, by a
// name of its own.
func (tx *Tx) Changed(name string) { tx.changed = append(tx.changed, name) }

// Get reads one row into dest; ErrNoRows when there is none.
func (tx *Tx) Get(query string, args []any, dest ...any) error {
	found := false
	err := tx.Each(query, args, func(scan func(...any) error) error {
		found = true
		if err := scan(dest...); err != nil {
			return err
		}
		return errFirst
	})
	switch {
	case errors.Is(err, errFirst):
		return nil
	case err == nil && !found:
		return ErrNoRows
	}
	return err
}

// errFirst ends a walk after its first row.
var errFirst = errors.New("store: that is enough")

// Each calls f for every row; scan reads the row's columns. f may stop the walk
// by returning an error, which Each returns.
func (tx *Tx) Each(query string, args []any, f func(scan func(dest ...any) error) error) error {
	st, err := tx.statement(query)
	if err != nil {
		return err
	}
	defer st.release()
	var row []driver.Value
	scan := func(dest ...any) error {
		if len(dest) != len(row) {
			return fmt.Errorf("store: %d places for %d columns", len(dest), len(row))
		}
		for i, d := range dest {
			if err := assign(d, row[i]); err != nil {
				return fmt.Errorf("column %d: %w", i+1, err)
			}
		}
		return nil
	}
	err = st.each(tx.ctx, args, func(r []driver.Value) error {
		row = r
		return f(scan)
	})
	if stop := (*stopError)(nil); errors.As(err, &stop) {
		return stop.error
	}
	return tx.failed(err)
}

func (tx *Tx) statement(query string) (*stmt, error) {
	switch {
	case tx.ended:
		return nil, errEnded
	case tx.broken != nil:
		return nil, tx.broken
	case tx.savepoint && !tx.entered:
		if err := tx.session.exec("SAVEPOINT w"); err != nil {
			return nil, tx.failed(err)
		}
		tx.entered = true
	}
	st, err := tx.session.statement(query)
	if err != nil {
		return nil, tx.failed(err)
	}
	return st, nil
}

// failed explains an engine's error. One the engine explains as ours (disk full, damaged, busy) breaks the Tx:
// SQLite may have dropped the transaction, and a statement after it would stand outside, committed by itself.
func (tx *Tx) failed(err error) error {
	if err == nil {
		return nil
	}
	err = tx.explain(err)
	if e := (*palyra.Error)(nil); errors.As(err, &e) && tx.broken == nil {
		tx.broken = err
	}
	return err
}

// Nanos is a time as tables have it; 0 for none.
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Moment is the time that Nanos was given.
func Moment(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}
