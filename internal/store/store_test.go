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
	w     *sql.DB
}

func newScript(t *testing.T) *script {
	s := &script{fail: map[string]error{}}
	s.w = sql.OpenDB(connector{s, "w"})
	s.w.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (s *script) Writer() *sql.DB { return s.w }
func (s *script) Dialect() string { return "sqlite" }
func (s *script) Close() error    { return s.w.Close() }

func (s *script) Connect(write bool) (driver.Conn, error) {
	name := "r"
	if write {
		name = "w"
	}
	return connector{s, name}.Connect(context.Background())
}

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

func (st *scripted) ExecContext(context.Context, []driver.NamedValue) (driver.Result, error) {
	return st.Exec(nil)
}

func (st *scripted) QueryContext(context.Context, []driver.NamedValue) (driver.Rows, error) {
	return st.Query(nil)
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
	if s.conns > 2+defaultReaders { // of migrations, the writer's and at most one per reader
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
		for range defaultReaders {
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

func TestWhatStatementsChange(t *testing.T) {
	for query, want := range map[string][]string{
		"SELECT x FROM t": nil, "BEGIN": nil, "": nil, "UPDATE t SET x=1": {"t"}, "insert into t(a) values (1)": {"t"},
		"INSERT INTO t (a) SELECT b FROM u": {"t"}, "INSERT OR REPLACE INTO t VALUES (1)": {"t"}, "DELETE FROM t WHERE x=?": {"t"},
		"DELETE\n\tFROM t": {"t"}, "REPLACE INTO t VALUES (1)": {"t"}, "CREATE TABLE t (a)": {unknown},
		"WITH x AS (SELECT 1) DELETE FROM t": {unknown},
		"DROP TABLE t":                       {unknown}, "UPDATE OR FAIL t SET x=1": {unknown}, "INSERT": {unknown}, "VACUUM": {unknown},
	} {
		if got := changes(query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}

// A Memo reads again when a commit changed one of its tables, and not for what was undone or is of other tables.
func TestMemo(t *testing.T) {
	_, db := openScript(t)
	m := NewMemo[string, int](db, 2, "t", "u")
	reads := 0
	get := func(key string) {
		t.Helper()
		if v, err := m.Get(t.Context(), key, func(*Tx) (int, error) { reads++; return reads, nil }); err != nil || v == 0 {
			t.Fatal(v, err)
		}
	}
	step := func(what string, want int, do func()) {
		t.Helper()
		do()
		get("a")
		get("a")
		if reads != want {
			t.Errorf("%s: read %d times, want %d", what, reads, want)
		}
	}
	write := func(query string, err error) func() {
		return func() {
			_ = db.Write(t.Context(), "w", func(tx *Tx) error { _, e := tx.Exec(query); return errors.Join(e, err) })
		}
	}
	step("first", 1, func() {})
	step("another table", 1, write("UPDATE v SET x=1", nil))
	step("undone", 1, write("UPDATE t SET x=1", errOwn))
	step("changed", 2, write("UPDATE t SET x=1", nil))
	step("the other one", 3, write("INSERT INTO u VALUES (1)", nil))
	step("who knows what", 4, write("VACUUM", nil))
	step("many keys", 7, func() { get("b"); get("c") })
	if _, err := m.Get(t.Context(), "x", func(*Tx) (int, error) { return 0, errOwn }); !errors.Is(err, errOwn) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Get(ctx, "a", nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// What is read while a commit changes it is not taken for what holds afterwards.
func TestMemoBesideACommit(t *testing.T) {
	_, db := openScript(t)
	m := NewMemo[string, string](db, 8, "t")
	got, err := m.Get(t.Context(), "k", func(*Tx) (string, error) {
		return "old", db.Write(t.Context(), "w", do("UPDATE t SET x=1"))
	})
	if got != "old" || err != nil {
		t.Fatal(got, err)
	}
	if got, err := m.Get(t.Context(), "k", func(*Tx) (string, error) { return "new", nil }); got != "new" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

func TestAssign(t *testing.T) {
	type name string
	type raw []byte
	var s string
	var n name
	var i int
	var u uint8
	var b bool
	var f float64
	var r raw
	var x any
	var null sql.NullString
	for _, c := range []struct {
		to   any
		v    driver.Value
		want bool
	}{
		{&s, "x", true},
		{&s, []byte("x"), true},
		{&s, int64(5), true},
		{&s, nil, false},
		{&n, "x", true},
		{&i, int64(1), true},
		{&i, "1", false},
		{&u, int64(255), true},
		{&u, int64(256), false},
		{&u, int64(-1), false},
		{&b, int64(1), true},
		{&b, true, true},
		{&b, "true", false},
		{&f, 1.5, true},
		{&f, int64(1), false},
		{&r, []byte("x"), true},
		{&r, "x", true},
		{&r, nil, true},
		{&r, int64(1), false},
		{&x, nil, true},
		{&null, nil, true},
		{s, "x", false},
		{(*string)(nil), int64(1), false},
		{new([]int), []byte("x"), false},
		{new([]byte), "x", true},
		{new(*string), "x", true},
		{new(*string), nil, true},
		{new(*int), "x", false},
	} {
		if err := assign(c.to, c.v); (err == nil) != c.want {
			t.Errorf("%T from %T: %v", c.to, c.v, err)
		}
	}
	if n != "x" || i != 1 || u != 255 || string(r) != "" || x != nil {
		t.Error(n, i, u, r, x)
	}
}
