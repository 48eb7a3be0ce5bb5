// Package storetest is the suite that defines the store: what every engine must
// do under it. An engine's tests call Run.
//
// The tests force writes into one group by holding its leader inside a write
// until all others wait (testing/synctest), so that nothing depends on timing.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"palyra/internal/store"
)

// Open opens the engine whose data lives at place, making it when it is new. The
// suite closes it. The same place opened again has the same data.
type Open func(t *testing.T, place string) store.Engine

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for name, test := range map[string]func(*testing.T, *bench){
		"kept across reopen":               keptAcrossReopen,
		"newer tables are refused":         newerTablesRefused,
		"one failure among many":           oneFailureAmongMany,
		"the only write fails":             onlyWriteFails,
		"all writes of a group fail":       allFail,
		"a failed write leaves its group":  failureAfterStatements,
		"order of done after a commit":     doneAfterCommit,
		"order of done after a failure":    doneAfterFailure,
		"done of the hooks":                doneOfHooks,
		"panic in a write":                 panicInWrite,
		"panic in a hook":                  panicInHook,
		"panic in done hangs nobody":       panicInDone,
		"a goroutine ended inside a write": exitInWrite,
		"hook errors fail the group":       hookErrors,
		"groups are bounded":               boundedGroups,
		"64 writers":                       manyWriters,
		"context ended before":             contextEndedBefore,
		"context ended while waiting":      contextEndedWaiting,
		"one view while reading":           oneView,
		"uncommitted is unseen":            uncommittedUnseen,
		"reading may be cut short":         readCutShort,
		"many readers, new statements":     manyReaders,
		"rows":                             rows,
		"a statement inside itself":        nestedStatement,
		"more statements than are kept":    manyStatements,
		"a transaction ends":               transactionEnds,
		"closed":                           closed,
		"close waits":                      closeWaits,
	} {
		t.Run(name, func(t *testing.T) { test(t, &bench{open: open, place: t.TempDir()}) })
	}
}

// schema is the suite's own part.
var schema = store.Schema{Part: "storetest", FS: fstest.MapFS{
	"sqlite/0001_rows.sql":   {Data: []byte("-- +goose Up\nCREATE TABLE rows (k BIGINT NOT NULL PRIMARY KEY, v TEXT NOT NULL);\n")},
	"postgres/0001_rows.sql": {Data: []byte("-- +goose Up\nCREATE TABLE rows (k BIGINT NOT NULL PRIMARY KEY, v TEXT NOT NULL);\n")},
}}

// bench is one test's place.
type bench struct {
	open  Open
	place string
}

func (b *bench) db(t *testing.T) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), b.open(t, b.place), schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// inBubble runs f with a store whose goroutines all belong to one bubble.
func (b *bench) inBubble(t *testing.T, f func(t *testing.T, db *store.DB)) {
	synctest.Test(t, func(t *testing.T) { f(t, b.db(t)) })
}

func put(k int64) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		_, err := tx.Exec("INSERT INTO rows (k, v) VALUES (?, ?)", k, fmt.Sprint("v", k))
		return err
	}
}

// keys returns the keys on record, as a reader sees them.
func keys(t *testing.T, db *store.DB) []int64 {
	t.Helper()
	list := []int64{}
	err := db.Read(context.Background(), func(tx *store.Tx) error {
		return tx.Each("SELECT k FROM rows ORDER BY k", nil, func(scan func(...any) error) error {
			var k int64
			if err := scan(&k); err != nil {
				return err
			}
			list = append(list, k)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// grouped runs the writes in one group, in order, behind a leader of its own, and returns their errors.
func grouped(t *testing.T, db *store.DB, writes ...func(*store.Tx) error) []error {
	t.Helper()
	ctx, hold := t.Context(), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		if err := db.Write(ctx, "leader", func(*store.Tx) error { <-hold; return nil }); err != nil {
			t.Error("leader:", err)
		}
	})
	synctest.Wait()
	errs := make([]error, len(writes))
	for i, fn := range writes {
		all.Go(func() { errs[i] = db.Write(ctx, "member", fn) })
		synctest.Wait()
	}
	close(hold)
	all.Wait()
	return errs
}

var errOwn = errors.New("a write's own error")

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || (want == nil && got != nil) {
		t.Errorf("error %v, want %v", got, want)
	}
}
