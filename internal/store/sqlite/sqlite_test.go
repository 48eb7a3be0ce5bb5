package sqlite

import (
	"context"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"palyra"
	"palyra/internal/store"
	"palyra/internal/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, place string) store.Engine {
		return openAt(t, filepath.Join(place, "state.db"))
	})
}

func openAt(t *testing.T, path string) *Engine {
	t.Helper()
	e, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var notes = store.Schema{Part: "test", FS: fstest.MapFS{
	"sqlite/0001_notes.sql": {Data: []byte("-- +goose Up\nCREATE TABLE notes (k BIGINT NOT NULL PRIMARY KEY, v TEXT NOT NULL);\n")},
}}

func openStore(t *testing.T, e *Engine) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), e, notes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func put(db *store.DB, k int, v string) error {
	return db.Write(context.Background(), "put", func(tx *store.Tx) error {
		_, err := tx.Exec("INSERT INTO notes (k, v) VALUES (?, ?)", k, v)
		return err
	})
}

// A part whose tables were not built in is refused, and does not come up without them.
func TestSchemaThatIsNotBuiltIn(t *testing.T) {
	e := openAt(t, filepath.Join(t.TempDir(), "state.db"))
	defer func() { _ = e.Close() }()
	if db, err := store.Open(t.Context(), e, store.SchemaOf("empty", embed.FS{})); err == nil {
		_ = db.Close()
		t.Error("it opened")
	}
}

// Durability rests on these settings; a DSN that is read differently by a new
// version of the driver must not go unnoticed.
func TestSettings(t *testing.T) {
	e := openAt(t, filepath.Join(t.TempDir(), "state.db"))
	defer func() { _ = e.Close() }()
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "5000", "wal_autocheckpoint": "1500",
	} {
		var got string
		if err := e.Writer().QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", pragma, got, err, want)
		}
	}
	if execute(t, e, false, "CREATE TABLE x (k BIGINT)") == nil {
		t.Error("a reader's connection writes")
	}
	if err := execute(t, e, true, "CREATE TABLE x (k BIGINT)"); err != nil {
		t.Error(err)
	}
	if n := e.Writer().Stats().MaxOpenConnections; n != 1 {
		t.Errorf("%d connections write", n)
	}
}

func TestFilesArePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil { // as after a careless restore
		t.Fatal(err)
	}
	db := openStore(t, openAt(t, path))
	if err := put(db, 1, "x"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", filepath.Base(name), info.Mode().Perm())
		}
	}
}

func TestOddNames(t *testing.T) {
	for _, name := range []string{"a b.db", "what?.db", "50%.db", "%41.db", "sharp#.db", "a&mode=memory.db", "žluť.db", "file:x.db"} {
		path := filepath.Join(t.TempDir(), name)
		db := openStore(t, openAt(t, path))
		if err := put(db, 1, "x"); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if is, err := Is(path); !is || err != nil {
			t.Errorf("%q is not where the data went: %v", name, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "none", "state.db")); err == nil {
		t.Error("opened in a directory that is not there")
	}
	noise := filepath.Join(dir, "noise.db")
	if err := os.WriteFile(noise, []byte(strings.Repeat("not a database ", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(noise)
	if e := palyra.AsError(err); e.Reason != palyra.ReasonJournalUnavailable {
		t.Errorf("a file of noise: %v", err)
	}
}

// A full disk fails the writes that need room, says so, and is over when there
// is room again: nothing is reopened.
func TestDiskFull(t *testing.T) {
	e := openAt(t, filepath.Join(t.TempDir(), "state.db"))
	db := openStore(t, e)
	setPages := func(n int) {
		t.Helper()
		err := db.Write(t.Context(), "limit", func(tx *store.Tx) error {
			var got int
			return tx.Get(fmt.Sprintf("PRAGMA max_page_count = %d", n), nil, &got)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	setPages(20)
	big := strings.Repeat("x", 3000)
	kept, full := 0, 0
	for i := range 60 {
		err := put(db, i, big)
		if err == nil {
			kept++
			continue
		}
		full++
		var pe *palyra.Error
		if !errors.As(err, &pe) || pe.Code != palyra.Unavailable || pe.Reason != palyra.ReasonDiskFull || pe.Remedy == "" {
			t.Fatalf("error %v", err)
		}
	}
	if kept == 0 || full == 0 {
		t.Fatalf("%d kept, %d refused: the test proves nothing", kept, full)
	}
	var n int
	count := func(tx *store.Tx) error { return tx.Get("SELECT COUNT(*) FROM notes", nil, &n) }
	if err := db.Read(t.Context(), count); err != nil || n != kept {
		t.Errorf("%d rows, %v; want %d", n, err, kept)
	}
	setPages(100000)
	if err := put(db, 1000, big); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// A write that looks away from a full disk is not kept, and neither is anything
// it did afterwards: SQLite may have dropped the transaction in between.
func TestDiskFullIgnored(t *testing.T) {
	e := openAt(t, filepath.Join(t.TempDir(), "state.db"))
	db := openStore(t, e)
	if err := db.Write(t.Context(), "limit", func(tx *store.Tx) error {
		var got int
		return tx.Get("PRAGMA max_page_count = 20", nil, &got)
	}); err != nil {
		t.Fatal(err)
	}
	err := db.Write(t.Context(), "careless", func(tx *store.Tx) error {
		_, err := tx.Exec("INSERT INTO notes (k, v) VALUES (1, ?)", strings.Repeat("x", 200_000))
		if err == nil {
			t.Error("more fits than should")
		}
		_, err = tx.Exec("INSERT INTO notes (k, v) VALUES (2, 'small')")
		if palyra.AsError(err).Reason != palyra.ReasonDiskFull {
			t.Errorf("a statement after a failed one: %v", err)
		}
		return nil
	})
	if palyra.AsError(err).Reason != palyra.ReasonDiskFull {
		t.Errorf("error %v", err)
	}
	var n int
	if err := db.Read(t.Context(), func(tx *store.Tx) error { return tx.Get("SELECT COUNT(*) FROM notes", nil, &n) }); err != nil || n != 0 {
		t.Errorf("%d rows remain, %v", n, err)
	}
}

func TestExplain(t *testing.T) {
	e := openAt(t, filepath.Join(t.TempDir(), "state.db"))
	defer func() { _ = e.Close() }()
	own := errors.New("own")
	if got := e.Explain(own); got != own {
		t.Errorf("a foreign error became %v", got)
	}
	if e.Explain(nil) != nil {
		t.Error("nil became an error")
	}
	err := execute(t, e, false, "CREATE TABLE x (k BIGINT)")
	if got := palyra.AsError(e.Explain(err)); got.Reason != palyra.ReasonJournalUnavailable || !errors.Is(got, err) {
		t.Errorf("a read-only file: %v", got)
	}
	_, err = e.Writer().Exec("SELECT bad FROM nowhere")
	if got := e.Explain(err); got != err {
		t.Errorf("bad SQL became %v", got)
	}
}

// Another process that holds the file is named as such after the wait.
func TestBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	one, two := openAt(t, path), openAt(t, path)
	defer func() { _ = errors.Join(one.Close(), two.Close()) }()
	if _, err := two.Writer().Exec("PRAGMA busy_timeout = 0"); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Writer().Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	_, err := two.Writer().Exec("BEGIN IMMEDIATE")
	if got := palyra.AsError(two.Explain(err)); got.Code != palyra.Unavailable || !strings.Contains(got.Text, "another process") {
		t.Errorf("error %v", got)
	}
}

// execute runs a statement on a connection as the store has one.
func execute(t *testing.T, e *Engine, write bool, query string) error {
	t.Helper()
	conn, err := e.Connect(write)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	st, err := conn.Prepare(query)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	_, err = st.(driver.StmtExecContext).ExecContext(t.Context(), nil)
	return err
}
