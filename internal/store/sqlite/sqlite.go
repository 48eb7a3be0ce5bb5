// Package sqlite is the embedded engine of the store: one file, write-ahead
// log, synchronous=FULL, so that a commit that returned survives a power cut as
// far as the disk keeps its word. One connection writes; reads have their own.
//
// The file and its companions (-wal, -shm) are readable by their owner only. The package does not guard against a
// second process that writes: the daemon's lock on the state directory does.
package sqlite

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"palyra"
)

const private = 0o600

// Engine is an open SQLite file.
type Engine struct {
	pool        *sql.DB // of one connection that writes
	write, read string  // data source names
	scrap       string  // a directory of our own to remove at the end
}

// Open opens or makes the file, readable by its owner only.
func Open(path string) (*Engine, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, private)
	if err != nil {
		return nil, fmt.Errorf("sqlite: open: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("sqlite: open: %w", err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if err := restrict(name); err != nil {
			return nil, fmt.Errorf("sqlite: open: %w", err)
		}
	}
	return open(dsn(path, writeOptions()), dsn(path, readOptions()))
}

// restrict takes away what others were allowed, as after a careless restore.
// SQLite gives new companions the file's own mode.
func restrict(name string) error {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Mode().Perm()&^private == 0 {
		return err
	}
	return os.Chmod(name, private)
}

func open(writer, reader string) (*Engine, error) {
	w, err := sql.Open("sqlite", writer)
	if err != nil {
		return nil, fmt.Errorf("sqlite: open: %w", err)
	}
	w.SetMaxOpenConns(1)
	e := &Engine{pool: w, write: writer, read: reader}
	if err := w.Ping(); err != nil {
		return nil, errors.Join(e.Explain(err), e.Close())
	}
	return e, nil
}

// writeOptions are the writer's settings. The log is moved into the file every
// 6 MiB: once it has been that long, commits overwrite it in place, which a disk
// does faster than making it grow, and a commit that has to move it waits for milliseconds only.
func writeOptions() url.Values {
	return url.Values{
		"_pragma": {
			"busy_timeout(5000)", "foreign_keys(1)", "journal_mode(WAL)", "synchronous(FULL)",
			"wal_autocheckpoint(1500)", "cache_size(-16000)",
		},
		"_txlock": {"immediate"},
	}
}

func readOptions() url.Values {
	return url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(5000)", "query_only(1)"}}
}

func dsn(path string, q url.Values) string {
	u := url.URL{Scheme: "file", Opaque: url.PathEscape(path), RawQuery: q.Encode()}
	return u.String()
}

// Writer implements store.Engine.
func (e *Engine) Writer() *sql.DB { return e.pool }

// Connect implements store.Engine.
func (e *Engine) Connect(write bool) (driver.Conn, error) {
	name := e.read
	if write {
		name = e.write
	}
	return e.pool.Driver().Open(name)
}

// Dialect implements store.Engine.
func (e *Engine) Dialect() string { return "sqlite" }

// CheckQuery implements store.Checker.
func (e *Engine) CheckQuery() string { return "PRAGMA integrity_check(1)" }

// Close implements store.Engine.
func (e *Engine) Close() error {
	err := e.pool.Close()
	if e.scrap != "" {
		err = errors.Join(err, os.RemoveAll(e.scrap))
	}
	return err
}

// Explain implements store.Engine.
func (e *Engine) Explain(err error) error {
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return err
	}
	switch se.Code() & 0xff {
	case lib.SQLITE_FULL:
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonDiskFull, "the disk that holds Palyra's state is full").
			WithRemedy("free space on it; calls go on by themselves, no restart is needed").WithCause(err)
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonJournalUnavailable, "another process holds Palyra's state").
			WithRemedy("find out which program has the state file open and end it").WithCause(err)
	case lib.SQLITE_IOERR, lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB, lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN, lib.SQLITE_NOMEM:
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonJournalUnavailable, "Palyra's state cannot be read or written").
			WithRemedy("check the disk, then run 'palyra journal verify'").WithCause(err)
	}
	return err
}
