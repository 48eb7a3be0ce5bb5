package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/store"
)

func keptAcrossReopen(t *testing.T, b *bench) {
	db := b.db(t)
	wantErr(t, db.Write(t.Context(), "w", put(1)), nil)
	wantErr(t, db.Close(), nil)
	again := b.db(t)
	if diff := cmp.Diff([]int64{1}, keys(t, again)); diff != "" {
		t.Error(diff)
	}
	wantErr(t, again.Write(t.Context(), "w", put(2)), nil)
}

func newerTablesRefused(t *testing.T, b *bench) {
	wantErr(t, b.db(t).Close(), nil)
	next := fstest.MapFS{}
	for _, dialect := range []string{"sqlite", "postgres"} {
		old := dialect + "/0001_rows.sql"
		next[old] = schema.FS.(fstest.MapFS)[old]
		next[dialect+"/0002_more.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE more (k BIGINT NOT NULL PRIMARY KEY);\n")}
	}
	db, err := store.Open(t.Context(), b.open(t, b.place), store.Schema{Part: schema.Part, FS: next})
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, db.Write(t.Context(), "w", func(tx *store.Tx) error {
		_, err := tx.Exec("INSERT INTO more (k) VALUES (1)")
		return err
	}), nil)
	wantErr(t, db.Close(), nil)

	engine := b.open(t, b.place)
	defer func() { _ = engine.Close() }()
	if _, err := store.Open(t.Context(), engine, schema); palyra.CodeOf(err) != palyra.Unavailable {
		t.Errorf("tables of a later version: %v", err)
	}
}

func contextEndedBefore(t *testing.T, b *bench) {
	db := b.db(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ran := false
	fn := func(*store.Tx) error { ran = true; return nil }
	wantErr(t, db.Write(ctx, "w", fn), context.Canceled)
	wantErr(t, db.Read(ctx, fn), context.Canceled)
	if ran {
		t.Error("begun although the context had ended")
	}
}

func contextEndedWaiting(t *testing.T, b *bench) {
	b.inBubble(t, func(t *testing.T, db *store.DB) {
		ctx, cancel := context.WithCancel(t.Context())
		hold := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() { _ = db.Write(t.Context(), "leader", func(*store.Tx) error { <-hold; return nil }) })
		synctest.Wait()
		all.Go(func() { wantErr(t, db.Write(ctx, "w", put(1)), nil) })
		synctest.Wait()
		cancel() // the record is kept although its caller is gone
		close(hold)
		all.Wait()
		if diff := cmp.Diff([]int64{1}, keys(t, db)); diff != "" {
			t.Error(diff)
		}
	})
}

func count(tx *store.Tx) (n int64, err error) {
	err = tx.Get("SELECT COUNT(*) FROM rows", nil, &n)
	return n, err
}

func oneView(t *testing.T, b *bench) {
	db := b.db(t)
	wantErr(t, db.Write(t.Context(), "w", put(1)), nil)
	err := db.Read(t.Context(), func(tx *store.Tx) error {
		before, err := count(tx)
		if err != nil {
			return err
		}
		wantErr(t, db.Write(context.Background(), "w", put(2)), nil)
		after, err := count(tx)
		if before != 1 || after != 1 {
			t.Errorf("a read saw %d rows, then %d", before, after)
		}
		return err
	})
	wantErr(t, err, nil)
	if n := len(keys(t, db)); n != 2 {
		t.Errorf("%d rows after", n)
	}
}

func uncommittedUnseen(t *testing.T, b *bench) {
	db := b.db(t)
	seen := int64(-1)
	reads := make(chan error, 1)
	err := db.Write(t.Context(), "w", func(tx *store.Tx) error {
		if err := put(1)(tx); err != nil {
			return err
		}
		go func() {
			reads <- db.Read(context.Background(), func(tx *store.Tx) (err error) { seen, err = count(tx); return err })
		}()
		wantErr(t, <-reads, nil)
		own, err := count(tx)
		if own != 1 || seen != 0 {
			t.Errorf("the write sees %d rows of its own, a reader %d", own, seen)
		}
		return err
	})
	wantErr(t, err, nil)
}

func readCutShort(t *testing.T, b *bench) {
	db := b.db(t)
	for k := range int64(20) {
		wantErr(t, db.Write(t.Context(), "w", put(k)), nil)
	}
	for range 20 { // more often than there are connections: each must come back usable
		ctx, cancel := context.WithCancel(t.Context())
		err := db.Read(ctx, func(tx *store.Tx) error {
			return tx.Each("SELECT k FROM rows", nil, func(func(...any) error) error { cancel(); return ctx.Err() })
		})
		wantErr(t, err, context.Canceled)
	}
	if n := len(keys(t, db)); n != 20 {
		t.Errorf("%d rows", n)
	}
}

// More readers than connections, each with statements nobody prepared before,
// all at once: none may wait for a connection while it holds one.
func manyReaders(t *testing.T, b *bench) {
	db := b.db(t)
	var all sync.WaitGroup
	for r := range 16 {
		all.Go(func() {
			for i := range 8 {
				err := db.Read(t.Context(), func(tx *store.Tx) error {
					for s := range 4 {
						var n int64
						if err := tx.Get(fmt.Sprintf("SELECT %d + COUNT(*) FROM rows", s*100+i), nil, &n); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Errorf("reader %d: %v", r, err)
				}
			}
		})
	}
	all.Wait()
}

func rows(t *testing.T, b *bench) {
	db := b.db(t)
	wantErr(t, db.Write(t.Context(), "w", func(tx *store.Tx) error {
		for k := range int64(3) {
			if err := put(k)(tx); err != nil {
				return err
			}
		}
		n, err := tx.Exec("UPDATE rows SET v = ? WHERE k < ?", "x", 2)
		if n != 2 {
			t.Errorf("%d rows changed, want 2", n)
		}
		return err
	}), nil)
	wantErr(t, db.Read(t.Context(), func(tx *store.Tx) error {
		var v string
		wantErr(t, tx.Get("SELECT v FROM rows WHERE k = ?", []any{1}, &v), nil)
		wantErr(t, tx.Get("SELECT v FROM rows WHERE k = ?", []any{9}, &v), store.ErrNoRows)
		wantErr(t, tx.Get("SELECT v FROM rows WHERE k = ?", []any{2}, &v), nil)
		if v != "v2" {
			t.Errorf("read %q", v)
		}
		if tx.Get("SELECT nothing FROM nowhere", nil, &v) == nil {
			t.Error("bad SQL was taken")
		}
		walked := 0
		err := tx.Each("SELECT v FROM rows", nil, func(func(...any) error) error { walked++; return errOwn })
		wantErr(t, err, errOwn)
		if walked != 1 {
			t.Errorf("walked %d rows after the stop", walked)
		}
		return nil
	}), nil)
}

// Walking rows while the same statement is used again inside must not disturb either walk.
func nestedStatement(t *testing.T, b *bench) {
	const query = "SELECT k FROM rows WHERE k > ? ORDER BY k"
	db := b.db(t)
	var seen []string
	wantErr(t, db.Write(t.Context(), "w", func(tx *store.Tx) error {
		for k := range int64(3) {
			if err := put(k)(tx); err != nil {
				return err
			}
		}
		return tx.Each(query, []any{-1}, func(scan func(...any) error) error {
			var outer int64
			if err := scan(&outer); err != nil {
				return err
			}
			return tx.Each(query, []any{outer}, func(scan func(...any) error) error {
				var inner int64
				err := scan(&inner)
				seen = append(seen, fmt.Sprint(outer, inner))
				return err
			})
		})
	}), nil)
	if diff := cmp.Diff([]string{"0 1", "0 2", "1 2"}, seen); diff != "" {
		t.Error(diff)
	}
}

func manyStatements(t *testing.T, b *bench) {
	db := b.db(t)
	wantErr(t, db.Read(t.Context(), func(tx *store.Tx) error {
		for i := range 1000 { // queries built from data, as no part should
			var n int
			if err := tx.Get(fmt.Sprintf("SELECT %d", i), nil, &n); err != nil || n != i {
				return fmt.Errorf("%d: read %d: %w", i, n, err)
			}
		}
		return nil
	}), nil)
	if len(keys(t, db)) != 0 {
		t.Error("rows:", keys(t, db))
	}
}

func transactionEnds(t *testing.T, b *bench) {
	db := b.db(t)
	var kept *store.Tx
	wantErr(t, db.Write(t.Context(), "w", func(tx *store.Tx) error { kept = tx; return tx.Err() }), nil)
	if put(1)(kept) == nil || kept.Err() == nil {
		t.Error("a write after its end was taken")
	}
	wantErr(t, db.Read(t.Context(), func(tx *store.Tx) error {
		kept = tx
		if put(1)(tx) == nil || tx.Err() == nil {
			t.Error("a write in a read was taken")
		}
		return nil
	}), nil)
	if _, err := count(kept); err == nil {
		t.Error("a read after its end was taken")
	}
	if len(keys(t, db)) != 0 {
		t.Error("rows:", keys(t, db))
	}
}

func closed(t *testing.T, b *bench) {
	db := b.db(t)
	wantErr(t, db.Close(), nil)
	wantErr(t, db.Close(), nil)
	for _, err := range []error{
		db.Write(t.Context(), "w", put(1)),
		db.Read(t.Context(), func(*store.Tx) error { return nil }),
	} {
		if e := (*palyra.Error)(nil); !errors.As(err, &e) || e.Reason != palyra.ReasonStopping {
			t.Errorf("error %v", err)
		}
	}
}

func closeWaits(t *testing.T, b *bench) {
	b.inBubble(t, func(t *testing.T, db *store.DB) {
		hold, ended := make(chan struct{}), false
		var all sync.WaitGroup
		all.Go(func() {
			wantErr(t, db.Write(t.Context(), "w", func(tx *store.Tx) error { <-hold; return put(1)(tx) }), nil)
		})
		all.Go(func() {
			wantErr(t, db.Read(t.Context(), func(tx *store.Tx) error { <-hold; _, err := count(tx); return err }), nil)
		})
		synctest.Wait()
		all.Go(func() { wantErr(t, db.Close(), nil); ended = true })
		synctest.Wait()
		if ended {
			t.Error("closed under a write and a read")
		}
		close(hold)
		all.Wait()
		if diff := cmp.Diff([]int64{1}, keys(t, b.db(t))); diff != "" {
			t.Error(diff)
		}
	})
}
