package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

// script is an engine that does nothing but write down its statements and fail
// where it is told to: it shows what the store asks of an engine, and what it
// makes of failures that a real one hardly ever has.
type script struct {
	mu    sync.Mutex
	log   []string // "<connection> <statement>"
	fail  map[string]error
	conns int
	w, r  *sql.DB
}

func newScript(t *testing.T) *script {
	s := &script{fail: map[string]error{}}
	s.w, s.r = sql.OpenDB(connector{s, "w"}), sql.OpenDB(connector{s, "r"})
	s.w.SetMaxOpenConns(1)
	s.r.SetMaxOpenConns(2)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (s *script) Writer() *sql.DB { return s.w }
func (s *script) Reader() *sql.DB { return s.r }
func (s *script) Dialect() string { return "sqlite" }
func (s *script) Close() error    { return errors.Join(s.w.Close(), s.r.Close()) }

func (s *script) Explain(err error) error {
	if errors.Is(err, errFull) {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonDiskFull, "full").WithCause(err)
	}
	return err
}

// run writes a statement down and returns its failure.
func (s *script) run(conn, query string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, conn+" "+query)
	return s.fail[query]
}

func (s *script) set(query string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail[query] = err
}

// took returns what was run since the last call.
func (s *script) took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

type connector struct {
	s    *script
	name string
}

func (c connector) Connect(context.Context) (driver.Conn, error) {
	c.s.mu.Lock()
	c.s.conns++
	c.s.mu.Unlock()
	return &conn{c}, c.s.run(c.name, "connect")
}
func (c connector) Driver() driver.Driver { return nil }

type conn struct{ connector }

func (c *conn) Prepare(q string) (driver.Stmt, error) {
	if err := c.s.run(c.name, "prepare "+q); err != nil {
		return nil, err
	}
	return &scripted{c, q}, nil
}
func (c *conn) Close() error              { return c.s.run(c.name, "close") }
func (c *conn) Begin() (driver.Tx, error) { return nil, errors.New("the store begins by itself") }

type scripted struct {
	c *conn
	q string
}

func (st *scripted) Close() error  { return nil }
func (st *scripted) NumInput() int { return -1 }
func (st *scripted) Exec([]driver.Value) (driver.Result, error) {
	return driver.RowsAffected(1), st.c.s.run(st.c.name, st.q)
}

func (st *scripted) Query([]driver.Value) (driver.Rows, error) {
	return noRows{}, st.c.s.run(st.c.name, st.q)
}

type noRows struct{}

func (noRows) Columns() []string         { return []string{"x"} }
func (noRows) Close() error              { return nil }
func (noRows) Next([]driver.Value) error { return io.EOF }

var (
	errFull = errors.New("full")
	errOwn  = errors.New("own")
)

func openScript(t *testing.T) (*script, *DB) {
	t.Helper()
	s := newScript(t)
	db, err := Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return s, db
}

func do(q string) func(*Tx) error {
	return func(tx *Tx) error { _, err := tx.Exec(q); return err }
}

// ran leaves out what is only prepared.
func ran(log []string) (out []string) {
	for _, l := range log {
		if !strings.Contains(l, " prepare ") && !strings.HasSuffix(l, " connect") {
			out = append(out, l)
		}
	}
	return out
}

func wantRan(t *testing.T, s *script, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, ran(s.took())); diff != "" {
		t.Error(diff)
	}
}

// A write alone needs no savepoint, and its statements are prepared once.
func TestAlone(t *testing.T) {
	s, db := openScript(t)
	for range 3 {
		if err := db.Write(t.Context(), "w", do("a")); err != nil {
			t.Fatal(err)
		}
	}
	log := s.took()
	want := []string{"w BEGIN IMMEDIATE", "w a", "w COMMIT"}
	if diff := cmp.Diff(slices.Concat(want, want, want), ran(log)); diff != "" {
		t.Error(diff)
	}
	prepared := 0
	for _, l := range log {
		if strings.Contains(l, " prepare ") {
			prepared++
		}
	}
	if prepared != 3 {
		t.Errorf("%d statements prepared for three texts: %v", prepared, log)
	}
	if err := db.Write(t.Context(), "w", func(tx *Tx) error { return errors.Join(do("a")(tx), errOwn) }); !errors.Is(err, errOwn) {
		t.Error(err)
	}
	wantRan(t, s, "w BEGIN IMMEDIATE", "w a", "w ROLLBACK")
}

// group puts the writes into one group behind a leader.
func groupOf(t *testing.T, db *DB, writes ...func(*Tx) error) []error {
	t.Helper()
	hold := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { _ = db.Write(t.Context(), "leader", func(*Tx) error { <-hold; return nil }) })
	synctest.Wait()
	errs := make([]error, len(writes))
	for i, fn := range writes {
		all.Go(func() { errs[i] = db.Write(t.Context(), "w", fn) })
		synctest.Wait()
	}
	close(hold)
	all.Wait()
	return errs
}

// inBubble opens a scripted store whose goroutines end with the bubble.
func inBubble(t *testing.T, f func(t *testing.T, s *script, db *DB)) {
	synctest.Test(t, func(t *testing.T) {
		s, db := openScript(t)
		f(t, s, db)
		_ = db.Close()
	})
}

// In a group each write has a savepoint from its first statement on; one that
// runs none has none.
func TestSavepoints(t *testing.T) {
	inBubble(t, func(t *testing.T, s *script, db *DB) {
		nothing := func(*Tx) error { return nil }
		early := func(*Tx) error { return errOwn }
		late := func(tx *Tx) error { return errors.Join(do("b")(tx), errOwn) }
		errs := groupOf(t, db, do("a"), nothing, early, late, do("c"))
		for i, want := range []error{nil, nil, errOwn, errOwn, nil} {
			if !errors.Is(errs[i], want) || (want == nil && errs[i] != nil) {
				t.Errorf("write %d: %v", i, errs[i])
			}
		}
		wantRan(t, s, "w BEGIN IMMEDIATE", "w COMMIT", "w BEGIN IMMEDIATE",
			"w SAVEPOINT w", "w a", "w RELEASE w",
			"w SAVEPOINT w", "w b", "w ROLLBACK TO w", "w RELEASE w",
			"w SAVEPOINT w", "w c", "w RELEASE w", "w COMMIT")
	})
}

// Wherever the engine fails, nobody is told that a write is kept, everything is
// rolled back, and the next write is clean.
func TestEngineFailures(t *testing.T) {
	for _, at := range []string{"BEGIN IMMEDIATE", "SAVEPOINT w", "RELEASE w", "COMMIT", "prepare COMMIT"} {
		inBubble(t, func(t *testing.T, s *script, db *DB) {
			s.set(at, errFull)
			var told []bool
			watched := func(tx *Tx) error {
				tx.OnDone(func(ok bool) { told = append(told, ok) })
				return do("a")(tx)
			}
			errs := groupOf(t, db, watched, watched)
			for _, err := range errs {
				if palyra.AsError(err).Reason != palyra.ReasonDiskFull || !errors.Is(err, errFull) {
					t.Errorf("%s: %v", at, err)
				}
			}
			if slices.Contains(told, true) {
				t.Errorf("%s: told %v", at, told)
			}
			if log := ran(s.took()); log[len(log)-1] != "w ROLLBACK" {
				t.Errorf("%s: %v", at, log)
			}
			s.set(at, nil)
			if err := db.Write(t.Context(), "w", do("a")); err != nil {
				t.Errorf("after %s: %v", at, err)
			}
		})
	}
}

// When the engine drops the transaction under a write (as SQLite does when the
// disk is full), its savepoint is gone: the group fails, with the true reason.
func TestTransactionDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, s *script, db *DB) {
		s.set("b", errFull)
		s.set("ROLLBACK TO w", errors.New("no such savepoint"))
		for i, err := range groupOf(t, db, do("a"), do("b"), do("c")) {
			if palyra.AsError(err).Reason != palyra.ReasonDiskFull {
				t.Errorf("write %d: %v", i, err)
			}
		}
		if slices.Contains(ran(s.took()), "w c") {
			t.Error("a later write ran outside the transaction")
		}
		s.set("b", errOwn) // not the engine's: the savepoint's own failure counts
		for i, err := range groupOf(t, db, do("a"), do("b")) {
			if err == nil {
				t.Errorf("write %d was kept", i)
			}
		}
	})
}

func TestReadSessions(t *testing.T) {
	s, db := openScript(t)
	s.took()
	none := func(tx *Tx) error {
		var x string
		if err := tx.Get("q", nil, &x); !errors.Is(err, ErrNoRows) {
			return err
		}
		return nil
	}
	for range 5 {
		if err := db.Read(t.Context(), none); err != nil {
			t.Fatal(err)
		}
	}
	if s.conns > 3 { // the writer's and at most one per reader
		t.Errorf("%d connections", s.conns)
	}
	s.took()
	for _, at := range []string{"ROLLBACK", "BEGIN"} {
		s.set(at, errFull)
		err := db.Read(t.Context(), none)
		if (err != nil) != (at == "BEGIN") {
			t.Errorf("%s: %v", at, err)
		}
		s.set(at, nil)
		if log := s.took(); !slices.Contains(log, "r close") {
			t.Errorf("%s failed and the connection is kept: %v", at, log)
		}
		if err := db.Read(t.Context(), none); err != nil {
			t.Errorf("after %s: %v", at, err)
		}
	}
	s.set("connect", errFull)
	s.r.SetMaxIdleConns(-1)
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestReadCannotConnect(t *testing.T) {
	s, db := openScript(t)
	s.set("connect", errFull)
	for range 5 { // more often than there are sessions: a failed one is given back
		if err := db.Read(t.Context(), func(*Tx) error { return nil }); palyra.AsError(err).Reason != palyra.ReasonDiskFull {
			t.Errorf("error %v", err)
		}
	}
	s.set("connect", nil)
	if err := db.Read(t.Context(), func(*Tx) error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestReadWaitsForItsTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *script, db *DB) {
		hold := make(chan struct{})
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { _ = db.Read(t.Context(), func(*Tx) error { <-hold; return nil }) })
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := make(chan error, 1)
		go func() { cancelled <- db.Read(ctx, func(*Tx) error { return nil }) }()
		synctest.Wait()
		cancel()
		if err := <-cancelled; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(hold)
		all.Wait()
	})
}

func TestOpenFails(t *testing.T) {
	s := newScript(t)
	s.set("connect", errFull)
	if _, err := Open(t.Context(), s); palyra.AsError(err).Reason != palyra.ReasonDiskFull {
		t.Errorf("error %v", err)
	}
	bad := Schema{Part: "x", FS: fstest.MapFS{}}
	if _, err := Open(t.Context(), newScript(t), bad); err == nil {
		t.Error("opened without the part's tables")
	}
}

func TestDialects(t *testing.T) {
	if beginWrite("sqlite") != "BEGIN IMMEDIATE" || beginWrite("postgres") != "BEGIN" {
		t.Error("write transactions begin otherwise")
	}
	if beginRead("sqlite") != "BEGIN" || !strings.Contains(beginRead("postgres"), "REPEATABLE READ READ ONLY") {
		t.Error("read transactions begin otherwise")
	}
	_, db := openScript(t)
	if db.Dialect() != "sqlite" {
		t.Error(db.Dialect())
	}
}
