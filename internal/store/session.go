package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// connection is one connection of the engine with its prepared statements: preparing costs more than running, and so
// would a pool in between. It has one user at a time.
type connection struct {
	conn   driver.Conn
	byText map[string]*stmt
}

// stmt is a prepared statement; while its rows are being walked it is busy, and
// the same text gets a statement of its own.
type stmt struct {
	driver.Stmt
	exec   driver.StmtExecContext
	query  driver.StmtQueryContext
	args   []driver.NamedValue // of the last use
	tables []string            // that it changes
	busy   bool
	kept   bool // for the next use
}

// maxStmts bounds the cache. Parts use fixed queries, so it is hardly reached;
// beyond it a statement is prepared for each use.
const maxStmts = 512

func newSession(conn driver.Conn) *connection {
	return &connection{conn: conn, byText: map[string]*stmt{}}
}

// statement returns the prepared statement; the caller releases it.
func (s *connection) statement(query string) (*stmt, error) {
	if st := s.byText[query]; st != nil && !st.busy {
		st.busy = true
		return st, nil
	}
	st, err := s.prepare(query)
	if err != nil {
		return nil, fmt.Errorf("store: prepare: %w", err)
	}
	if s.byText[query] == nil && len(s.byText) < maxStmts { // otherwise the kept one is in use further up
		s.byText[query], st.kept = st, true
	}
	return st, nil
}

func (s *connection) prepare(query string) (*stmt, error) {
	p, err := s.conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	st := &stmt{Stmt: p, tables: changes(query), busy: true}
	var ok1, ok2 bool
	st.exec, ok1 = p.(driver.StmtExecContext)
	st.query, ok2 = p.(driver.StmtQueryContext)
	if !ok1 || !ok2 {
		return nil, errors.Join(errors.New("the engine's statements take no context"), p.Close())
	}
	return st, nil
}

// release lets the statement be used again.
func (st *stmt) release() {
	clear(st.args)
	if st.busy = false; !st.kept {
		_ = st.Close()
	}
}

// run runs a statement and returns how many rows it changed.
func (st *stmt) run(ctx context.Context, args []any) (int64, error) {
	if err := st.bind(args); err != nil {
		return 0, err
	}
	res, err := st.exec.ExecContext(ctx, st.args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (st *stmt) bind(args []any) error {
	if n := st.NumInput(); n >= 0 && n != len(args) {
		return fmt.Errorf("store: %d arguments for %d places", len(args), n)
	}
	st.args = st.args[:0]
	for i, a := range args {
		v, err := value(a)
		if err != nil {
			return fmt.Errorf("store: argument %d: %w", i+1, err)
		}
		st.args = append(st.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return nil
}

// each calls f for every row of a query.
func (st *stmt) each(ctx context.Context, args []any, f func(row []driver.Value) error) (err error) {
	if err := st.bind(args); err != nil {
		return err
	}
	rows, err := st.query.QueryContext(ctx, st.args)
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	row := make([]driver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := f(row); err != nil {
			return &stopError{err}
		}
	}
}

// stopError is the error of who walked the rows, not of the engine.
type stopError struct{ error }

// exec runs a statement of the store's own, whatever became of the caller.
func (s *connection) exec(query string) error {
	st, err := s.statement(query)
	if err != nil {
		return err
	}
	defer st.release()
	_, err = st.run(context.Background(), nil)
	return err
}

func (s *connection) close() error {
	for _, st := range s.byText { // first: a statement must not outlive its connection
		_ = st.Close()
	}
	s.byText = nil
	return s.conn.Close()
}

const defaultReaders = 4

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
		db.release(s, s.exec("ROLLBACK") == nil && usable(s.conn))
	}()
	err = fn(tx)
	if ctx.Err() != nil && err != nil { // an interrupted statement names itself, not the reason
		return errors.Join(ctx.Err(), err)
	}
	return err
}

// usable reports whether the engine still wants the connection: one that was interrupted may not be.
func usable(c driver.Conn) bool {
	v, ok := c.(driver.Validator)
	return !ok || v.IsValid()
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
	conn, err := db.engine.Connect(false)
	if err != nil {
		db.readers <- nil
		return nil, fmt.Errorf("store: read: %w", db.engine.Explain(err))
	}
	return newSession(conn), nil
}

func (db *DB) release(s *connection, good bool) {
	if !good {
		_ = s.close() // its state is unknown
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

// ErrNoRows is returned by Get when nothing matched.
var ErrNoRows = sql.ErrNoRows
