package store

import (
	"cmp"
	"context"
	"fmt"

	"palyra"
	"palyra/internal/fault"
)

// write is one caller's transaction on its way through a group.
type write struct {
	step string
	fn   func(*Tx) error
	tx   *Tx
	err  error
	done chan struct{}
	lead chan struct{}
}

// Write runs fn in a transaction and returns when it is durable. step names the moment for fault tests. fn may run
// while other writes' changes are in the same open transaction; it must not keep tx. A nil return means committed;
// an error means that nothing of fn remains. Once begun, a write does not stop for ctx: a record is kept even when
// its caller is gone.
func (db *DB) Write(ctx context.Context, step string, fn func(*Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &write{step: step, fn: fn, done: make(chan struct{}), lead: make(chan struct{})}
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return errClosed()
	}
	db.queue = append(db.queue, w)
	lead := !db.leading
	db.leading = true
	db.mu.Unlock()
	if !lead {
		select {
		case <-w.done:
			return w.err
		case <-w.lead:
		}
	}
	db.commitNext()
	<-w.done
	return w.err
}

// commitNext takes the queue, commits it as one group and passes the lead on,
// also when a panic in a part's OnDone passes through: nobody is left waiting.
func (db *DB) commitNext() {
	db.mu.Lock()
	group := db.queue
	if len(group) > maxGroup {
		group = group[:maxGroup:maxGroup]
	}
	db.queue = db.queue[len(group):]
	hooks := db.hooks
	db.mu.Unlock()

	defer db.passOn(group)
	db.commit(group, hooks)
}

// passOn lets the group's callers go and wakes the next leader, last: what is woken last runs first.
func (db *DB) passOn(group []*write) {
	for _, w := range group {
		close(w.done)
	}
	db.mu.Lock()
	if len(db.queue) > 0 {
		close(db.queue[0].lead)
	} else {
		db.queue = nil
		db.leading = false
		db.idle.Broadcast()
	}
	db.mu.Unlock()
}

// group is one shared transaction.
type group struct {
	db        *DB
	writes    []*write
	first     *Tx // of the Begin hooks
	last      *Tx // of the Commit hooks
	committed bool
}

// commit runs a group. Every write gets its own error or the group's.
func (db *DB) commit(writes []*write, hooks []GroupHook) {
	g := &group{db: db, writes: writes, first: db.writeTx(), last: db.writeTx()}
	err := error(errAborted)
	defer func() { g.settle(err) }() // also when a part's code ends the goroutine
	err = g.run(hooks)
}

var errAborted = palyra.Errorf(palyra.Unavailable, palyra.ReasonInternal, "store: the write was abandoned half way")

// settle tells every member its fate: after a commit in the order of doing, after a failure in reverse.
func (g *group) settle(err error) {
	if err != nil {
		err = fmt.Errorf("store: commit: %w", g.db.engine.Explain(err))
	}
	for _, w := range g.writes {
		w.err = cmp.Or(w.err, err)
	}
	if !g.committed {
		g.last.finish(false)
		for i := len(g.writes) - 1; i >= 0; i-- {
			g.writes[i].finish(false)
		}
		g.first.finish(false)
		return
	}
	for _, w := range g.writes {
		fault.Point(w.step + "/kept")
	}
	g.tellVersions()
	g.first.finish(true)
	for _, w := range g.writes {
		w.finish(w.err == nil)
	}
	g.last.finish(true)
}

// tellVersions counts what the group changed, before anybody hears of it.
func (g *group) tellVersions() {
	v := &g.db.versions
	v.changed(g.first.changed)
	v.changed(g.last.changed)
	for _, w := range g.writes {
		if w.tx != nil {
			v.changed(w.tx.changed)
		}
	}
}

func (w *write) finish(ok bool) {
	if w.tx != nil {
		w.tx.finish(ok)
	}
}

// run takes the group from BEGIN to COMMIT. A group of one whose only write
// fails is rolled back whole and has no error of its own.
func (g *group) run(hooks []GroupHook) (err error) {
	exec := g.db.writer.exec
	defer func() {
		if !g.committed {
			_ = exec("ROLLBACK") // the engine may have rolled back by itself
		}
	}()
	if err := exec(beginWrite(g.db.Dialect())); err != nil {
		return err
	}
	for _, h := range hooks {
		if err := guarded(h.Begin, g.first); err != nil {
			return err
		}
	}
	for _, w := range g.writes {
		if err := g.runOne(w); err != nil {
			return err
		}
	}
	if len(g.writes) == 1 && g.writes[0].err != nil {
		return nil
	}
	for _, h := range hooks {
		if err := guarded(h.Commit, g.last); err != nil {
			return err
		}
	}
	for _, w := range g.writes {
		fault.Point(w.step + "/lost")
	}
	if err := exec("COMMIT"); err != nil {
		return err
	}
	g.committed = true
	return nil
}

// runOne runs one write, inside a savepoint from its first statement on unless it is alone. The error returned is
// the group's: only a savepoint that could not be undone gives one.
func (g *group) runOne(w *write) error {
	w.tx = g.db.writeTx()
	w.tx.savepoint = len(g.writes) > 1
	w.err = errAborted // stands when fn ends the goroutine
	w.err = guarded(w.fn, w.tx)
	w.tx.ended = true
	if w.err == nil && w.tx.broken != nil { // fn looked away; the engine may have undone more than one statement
		w.err = w.tx.broken
	}
	if w.err != nil {
		w.tx.finish(false)
	}
	if !w.tx.entered {
		if w.tx.savepoint { // unless it is alone
			return w.tx.broken // nothing shows that the transaction is still there
		}
		return nil
	}
	if w.err != nil {
		if err := g.db.writer.exec("ROLLBACK TO w"); err != nil {
			if w.tx.broken != nil { // the engine dropped the transaction: its reason says more
				return w.tx.broken
			}
			return err
		}
	}
	return g.db.writer.exec("RELEASE w")
}

// guarded turns a panic in a part's code into an error, so that the group's other members are not lost with it.
func guarded(fn func(*Tx) error, tx *Tx) (err error) {
	if fn == nil {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("store: panic in a write: %v", r)
		}
	}()
	return fn(tx)
}

func beginWrite(dialect string) string {
	if dialect == "sqlite" {
		return "BEGIN IMMEDIATE"
	}
	return "BEGIN"
}
