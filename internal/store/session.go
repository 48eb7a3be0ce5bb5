package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
)

// connection is one connection with its prepared statements: preparing costs more
// than running. It has one user at a time.
type connection struct {
	conn   *sql.Conn
	byText map[string]*stmt
}

// stmt is a prepared statement; while its rows are being walked it is busy, and
// the same text gets a statement of its own.
type stmt struct {
	*sql.Stmt
	busy bool
}

// maxStmts bounds the cache. Parts use fixed queries, so it is hardly reached;
// beyond it a statement is prepared for each use.
const maxStmts = 512

func newSession(conn *sql.Conn) *connection {
	return &connection{conn: conn, byText: map[string]*stmt{}}
}

// statement returns the prepared statement and what to call when done with it.
func (s *connection) statement(ctx context.Context, query string) (*stmt, func(), error) {
	if st := s.byText[query]; st != nil && !st.busy {
		st.busy = true
		return st, func() { st.busy = false }, nil
	}
	p, err := s.conn.PrepareContext(context.WithoutCancel(ctx), query)
	if err != nil {
		return nil, nil, fmt.Errorf("store: prepare: %w", err)
	}
	st := &stmt{Stmt: p, busy: true}
	if s.byText[query] != nil || len(s.byText) >= maxStmts { // the cached one is in use further up
		return st, func() { _ = p.Close() }, nil
	}
	s.byText[query] = st
	return st, func() { st.busy = false }, nil
}

// exec runs a statement of the store's own, whatever became of the caller.
func (s *connection) exec(query string) error {
	ctx := context.Background()
	st, done, err := s.statement(ctx, query)
	if err != nil {
		return err
	}
	defer done()
	_, err = st.ExecContext(ctx)
	return err
}

func (s *connection) close() error {
	s.forget()
	return s.conn.Close()
}

func (s *connection) forget() {
	for _, st := range s.byText {
		_ = st.Close()
	}
	s.byText = nil
}

// discard closes the connection itself, not only our hold on it: its state is unknown.
func (s *connection) discard() {
	s.forget() // first: a statement must not outlive its connection
	_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
}

const defaultReaders = 4

func readerCount(e Engine) int {
	if n := e.Reader().Stats().MaxOpenConnections; n > 0 {
		return n
	}
	return defaultReaders
}

// Read runs fn on one consistent view of committed data. It must not be called
// from inside another Read or a Write: connections are few.
func (db *DB) Read(ctx context.Context, fn func(*Tx) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := db.reader(ctx)
	if err != nil {
		return err
	}
	if err := s.exec(beginRead(db.Dialect())); err != nil {
		db.release(s, false)
		return fmt.Errorf("store: read: %w", db.engine.Explain(err))
	}
	tx := &Tx{ctx: ctx, session: s, explain: db.engine.Explain}
	defer func() {
		tx.ended = true
		db.release(s, s.exec("ROLLBACK") == nil)
	}()
	err = fn(tx)
	if ctx.Err() != nil && err != nil { // an interrupted statement names itself, not the reason
		return errors.Join(ctx.Err(), err)
	}
	return err
}

func (db *DB) reader(ctx context.Context) (*connection, error) {
	if db.isClosed() {
		return nil, errClosed()
	}
	var s *connection
	select {
	case s = <-db.readers:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if db.isClosed() { // Close is collecting the sessions
		db.readers <- s
		return nil, errClosed()
	}
	if s != nil {
		return s, nil
	}
	conn, err := db.engine.Reader().Conn(ctx)
	if err != nil {
		db.readers <- nil
		return nil, fmt.Errorf("store: read: %w", db.engine.Explain(err))
	}
	return newSession(conn), nil
}

func (db *DB) release(s *connection, good bool) {
	if !good {
		s.discard()
		s = nil
	}
	db.readers <- s
}

func beginRead(dialect string) string {
	if dialect == "sqlite" {
		return "BEGIN"
	}
	return "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
}
