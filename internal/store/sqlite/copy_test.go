package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/store"
)

// written makes a state file with one row that is still in the log.
func written(t *testing.T) (path string, db *store.DB) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "state.db")
	db = openStore(t, openAt(t, path))
	if err := put(db, 1, "x"); err != nil {
		t.Fatal(err)
	}
	return path, db
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		list = append(list, f.Name())
	}
	return list
}

func countCopy(t *testing.T, path string) (n int) {
	t.Helper()
	e, err := OpenCopy(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if e.scrap != "" {
			if _, err := os.Stat(e.scrap); !os.IsNotExist(err) {
				t.Errorf("the private copy stays: %v", err)
			}
		}
	}()
	db, err := store.Open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Read(t.Context(), func(tx *store.Tx) error { return tx.Get("SELECT COUNT(*) FROM notes", nil, &n) }); err != nil {
		t.Fatal(err)
	}
	if err := put(db, 99, "x"); err == nil {
		t.Error("a copy was written to")
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	return n
}

func TestCopy(t *testing.T) {
	live, db := written(t)
	if n := countCopy(t, live); n != 1 { // in place, beside the daemon
		t.Errorf("%d rows in a live file", n)
	}
	both := filepath.Join(t.TempDir(), "both.db")
	for _, suffix := range []string{"", "-wal"} {
		if err := copyFile(both+suffix, live+suffix); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	alone := filepath.Join(t.TempDir(), "alone.db")
	if err := copyFile(alone, live); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{both, alone} {
		before := names(t, filepath.Dir(path))
		if err := os.Chmod(filepath.Dir(path), 0o500); err != nil {
			t.Fatal(err)
		}
		if n := countCopy(t, path); n != 1 {
			t.Errorf("%s: %d rows", path, n)
		}
		if after := names(t, filepath.Dir(path)); len(after) != len(before) {
			t.Errorf("%s: files %v became %v", path, before, after)
		}
		if err := os.Chmod(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCopyMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.db")
	if _, err := OpenCopy(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a missing copy was made")
	}
}

func TestIs(t *testing.T) {
	live, _ := written(t)
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("SQLite"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{live: true, short: false} {
		if got, err := Is(path); got != want || err != nil {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	if _, err := Is(short + "-none"); err == nil {
		t.Error("a missing file has an answer")
	}
}
