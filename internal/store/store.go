// Package store keeps Palyra's records: transactions with group commit over an SQL engine, and migrations.
//
// Parts own their tables and their SQL; they see a Tx and never the engine. A Write is durable when it returns nil.
// Writes that arrive while a commit is on its way share the next one: the first waiter leads, commits for all, and
// hands over. Each keeps its own fate: one that fails is rolled back alone. A Read sees one state of committed data
// from its first statement to its end.
//
// What a write may not do: call Write or Read of the same store (it would wait
// for itself), keep its Tx, or use it from another goroutine.
//
// The package does not know any record; engines are leaves (store/sqlite).
// store/storetest is the suite every engine must pass.
package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"palyra"
)

// maxGroup bounds how many writes share one commit.
const maxGroup = 256

// Engine is an SQL database under the store.
type Engine interface {
	// Writer returns a pool of one connection that writes, for migrations.
	Writer() *sql.DB
	// Connect opens a connection: the one that writes, whose transactions the engine serialises, or one for reads,
	// which see committed data only. Its statements take a context.
	Connect(write bool) (driver.Conn, error)
	// Dialect names the SQL spoken: "sqlite" or "postgres".
	Dialect() string
	// Explain turns an engine's error into one of ours: disk full, damaged, busy.
	Explain(error) error
	// Close closes both pools.
	Close() error
}

// Schema is a part's tables: numbered goose migrations under <dialect>/.
type Schema struct {
	Part string
	FS   fs.FS
}

// SchemaOf returns the tables of a part that embeds its directory "schema".
func SchemaOf(part string, files embed.FS) Schema {
	sub, _ := fs.Sub(files, "schema") // an error is of names that are not valid, and this one is; Open finds a directory that is not there
	return Schema{Part: part, FS: sub}
}

// Recorder is the journal, to the parts that write to it.
type Recorder interface {
	// Append adds e to the journal; it becomes durable with the rest of tx, or nothing of it does.
	Append(tx *Tx, e palyra.Event) (palyra.Position, error)
}

// GroupHook runs inside every group: Begin after the transaction opened, Commit just before it is committed. An
// error fails the whole group. OnDone of the Tx they get is told the group's fate.
type GroupHook struct {
	Begin  func(*Tx) error
	Commit func(*Tx) error
}

// DB is an open store.
type DB struct {
	engine  Engine
	writer  *connection
	readers chan *connection // nil: a connection not yet opened

	versions versions

	mu      sync.Mutex // guards the fields below; never held across SQL
	queue   []*write
	leading bool
	closed  bool
	hooks   []GroupHook
	idle    *sync.Cond
}

// Open migrates the schemas, in order, and returns the store.
func Open(ctx context.Context, engine Engine, schemas ...Schema) (*DB, error) {
	for _, s := range schemas {
		if err := migrate(ctx, engine, s); err != nil {
			return nil, fmt.Errorf("store: migrate %s: %w", s.Part, engine.Explain(err))
		}
	}
	conn, err := engine.Connect(true)
	if err != nil {
		return nil, fmt.Errorf("store: open: %w", engine.Explain(err))
	}
	db := &DB{engine: engine, writer: newSession(conn)}
	db.idle = sync.NewCond(&db.mu)
	db.readers = make(chan *connection, defaultReaders)
	for range cap(db.readers) {
		db.readers <- nil
	}
	return db, nil
}

// Use adds a hook. Call it before the first Write.
func (db *DB) Use(h GroupHook) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.hooks = append(db.hooks, h)
}

// Dialect names the SQL spoken.
func (db *DB) Dialect() string { return db.engine.Dialect() }

// Close waits for writes and reads under way and closes the engine. A second Close does nothing.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil
	}
	db.closed = true
	for db.leading {
		db.idle.Wait()
	}
	db.mu.Unlock()
	errs := []error{db.writer.close()}
	for range cap(db.readers) {
		if s := <-db.readers; s != nil {
			errs = append(errs, s.close())
		}
	}
	return errors.Join(append(errs, db.engine.Close())...)
}

// Checker is an engine that can look at its file.
type Checker interface {
	// CheckQuery is the query whose one row and column is "ok", or else what is wrong with the file.
	CheckQuery() string
}

// Check looks at the engine's file as a whole: pages, and that indexes and tables
// agree. It says what is wrong; empty: nothing, or the engine cannot tell.
func (db *DB) Check(ctx context.Context) (string, error) {
	c, ok := db.engine.(Checker)
	if !ok {
		return "", nil
	}
	var why string
	err := db.Read(ctx, func(tx *Tx) error { return tx.Get(c.CheckQuery(), nil, &why) })
	if why == "ok" {
		why = ""
	}
	return why, err
}

func (db *DB) isClosed() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.closed
}

func errClosed() error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "store: closed")
}
