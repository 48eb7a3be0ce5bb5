package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"palyra/internal/store"
)

func oneFailureAmongMany(t *testing.T, b *bench) {
	b.inBubble(t, func(t *testing.T, db *store.DB) {
		groups := countGroups(db)
		bad := func(tx *store.Tx) error {
			if err := put(2)(tx); err != nil {
				return err
			}
			return errOwn
		}
		errs := grouped(t, db, put(1), bad, put(3), put(4))
		wantErr(t, errs[1], errOwn)
		for _, i := range []int{0, 2, 3} {
			wantErr(t, errs[i], nil)
		}
		if diff := cmp.Diff([]int64{1, 3, 4}, keys(t, db)); diff != "" {
			t.Error(diff)
		}
		if *groups != 2 {
			t.Errorf("%d groups, want the leader's and one shared", *groups)
		}
	})
}

func onlyWriteFails(t *testing.T, b *bench) {
	db := b.db(t)
	groups := countGroups(db)
	var told []bool
	err := db.Write(t.Context(), "bad", func(tx *store.Tx) error {
		tx.OnDone(func(ok bool) { told = append(told, ok) })
		return errors.Join(put(1)(tx), errOwn)
	})
	wantErr(t, err, errOwn)
	if len(keys(t, db)) != 0 || *groups != 0 || !slices.Equal(told, []bool{false}) {
		t.Errorf("rows %v, %d commits, told %v", keys(t, db), *groups, told)
	}
	wantErr(t, db.Write(t.Context(), "good", put(1)), nil)
}

func allFail(t *testing.T, b *bench) {
	b.inBubble(t, func(t *testing.T, db *store.DB) {
		bad := func(tx *store.Tx) error { return errors.Join(put(1)(tx), errOwn) }
		for _, err := range grouped(t, db, bad, bad) {
			wantErr(t, err, errOwn)
		}
		wantErr(t, db.Write(t.Context(), "good", put(1)), nil)
	})
}

// A constraint stops one statement, not the write: the write may go on, and
// when it fails its earlier statements go too.
func failureAfterStatements(t *testing.T, b *bench) {
	b.inBubble(t, func(t *testing.T, db *store.DB) {
		goesOn := func(tx *store.Tx) error {
			if err := put(1)(tx); err == nil {
				return errors.New("the same key twice was taken")
			}
			return put(2)(tx)
		}
		givesUp := func(tx *store.Tx) error { return errors.Join(put(7)(tx), put(8)(tx), put(1)(tx)) }
		errs := grouped(t, db, put(1), goesOn, givesUp)
		wantErr(t, errs[1], nil)
		if errs[2] == nil {
			t.Error("a write that returned an error was reported as kept")
		}
		if diff := cmp.Diff([]int64{1, 2}, keys(t, db)); diff != "" {
			t.Error(diff)
		}
	})
}

// tell makes a write that does fn and writes down when it is told its fate.
func tell(log *[]string, name string, fn func(*store.Tx) error) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		for i := range 2 {
			tx.OnDone(func(ok bool) { *log = append(*log, fmt.Sprint(name, i, " ", ok)) })
		}
		return fn(tx)
	}
}

func doneAfterCommit(t *testing.T, b *bench) {
	b.inBubble(t, func(t *testing.T, db *store.DB) {
		var log []string
		bad := func(tx *store.Tx) error { return errors.Join(put(2)(tx), errOwn) }
		grouped(t, db, tell(&log, "a", put(1)), tell(&log, "b", bad), tell(&log, "c", put(3)))
		want := []string{"b1 false", "b0 false", "a0 true", "a1 true", "c0 true", "c1 true"}
		if diff := cmp.Diff(want, log); diff != "" {
			t.Error(diff)
		}
	})
}

func doneAfterFailure(t *testing.T, b *bench) {
	b.inBubble(t, func(t *testing.T, db *store.DB) {
		var log []string
		members := 0
		db.Use(store.GroupHook{
			Begin: func(*store.Tx) error { members = 0; return nil },
			Commit: func(*store.Tx) error {
				if members > 0 {
					return errOwn
				}
				return nil
			},
		})
		good := func(k int64) func(*store.Tx) error {
			return func(tx *store.Tx) error { members++; return put(k)(tx) }
		}
		bad := func(tx *store.Tx) error { return errors.Join(put(2)(tx), errors.New("own")) }
		errs := grouped(t, db, tell(&log, "a", good(1)), tell(&log, "b", bad), tell(&log, "c", good(3)))
		wantErr(t, errs[0], errOwn)
		wantErr(t, errs[2], errOwn)
		if errs[1] == nil || errors.Is(errs[1], errOwn) {
			t.Errorf("a write that failed by itself has the group's error: %v", errs[1])
		}
		want := []string{"b1 false", "b0 false", "c1 false", "c0 false", "a1 false", "a0 false"}
		if diff := cmp.Diff(want, log); diff != "" {
			t.Error(diff)
		}
		if len(keys(t, db)) != 0 {
			t.Error("rows of a failed group remain:", keys(t, db))
		}
	})
}

func doneOfHooks(t *testing.T, b *bench) {
	db := b.db(t)
	var log []string
	fail := false
	hook := func(name string, err func() error) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			tx.OnDone(func(ok bool) { log = append(log, fmt.Sprint(name, " ", ok)) })
			return err()
		}
	}
	db.Use(store.GroupHook{
		Begin: hook("begin", func() error { return nil }),
		Commit: hook("commit", func() error {
			if fail {
				return errOwn
			}
			return nil
		}),
	})
	write := func() error {
		return db.Write(t.Context(), "w", func(tx *store.Tx) error {
			tx.OnDone(func(ok bool) { log = append(log, fmt.Sprint("write ", ok)) })
			return nil
		})
	}
	wantErr(t, write(), nil)
	fail = true
	wantErr(t, write(), errOwn)
	want := []string{"begin true", "write true", "commit true", "commit false", "write false", "begin false"}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Error(diff)
	}
}

func panicInWrite(t *testing.T, b *bench) {
	b.inBubble(t, func(t *testing.T, db *store.DB) {
		bad := func(tx *store.Tx) error {
			if err := put(2)(tx); err != nil {
				return err
			}
			panic("a part's mistake")
		}
		errs := grouped(t, db, put(1), bad, put(3))
		if errs[1] == nil || !strings.Contains(errs[1].Error(), "panic") {
			t.Errorf("error %v", errs[1])
		}
		if diff := cmp.Diff([]int64{1, 3}, keys(t, db)); diff != "" {
			t.Error(diff)
		}
	})
}

func panicInHook(t *testing.T, b *bench) {
	db := b.db(t)
	bad := true
	db.Use(store.GroupHook{Commit: func(*store.Tx) error {
		if bad {
			panic("a part's mistake")
		}
		return nil
	}})
	if err := db.Write(t.Context(), "w", put(1)); err == nil {
		t.Error("committed past a hook that panicked")
	}
	bad = false
	wantErr(t, db.Write(t.Context(), "w", put(1)), nil)
}

func panicInDone(t *testing.T, b *bench) {
	b.inBubble(t, func(t *testing.T, db *store.DB) {
		hold := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("a panic in OnDone was swallowed")
				}
			}()
			_ = db.Write(t.Context(), "w", func(tx *store.Tx) error {
				tx.OnDone(func(bool) { panic("a part's mistake") })
				<-hold
				return nil
			})
		})
		synctest.Wait()
		all.Go(func() { wantErr(t, db.Write(t.Context(), "w", put(1)), nil) })
		synctest.Wait()
		close(hold)
		all.Wait()
	})
}

func exitInWrite(t *testing.T, b *bench) {
	b.inBubble(t, func(t *testing.T, db *store.DB) {
		var all sync.WaitGroup
		hold := make(chan struct{})
		var shared error
		all.Go(func() { _ = db.Write(t.Context(), "leader", func(*store.Tx) error { <-hold; return nil }) })
		synctest.Wait()
		all.Go(func() {
			_ = db.Write(t.Context(), "w", func(tx *store.Tx) error {
				_ = put(1)(tx)
				runtime.Goexit() // as t.Fatal does
				return nil
			})
		})
		synctest.Wait()
		all.Go(func() { shared = db.Write(t.Context(), "w", put(2)) })
		synctest.Wait()
		close(hold)
		all.Wait()
		if shared == nil {
			t.Error("a write whose group was abandoned is said to be kept")
		}
		wantErr(t, db.Write(t.Context(), "w", put(3)), nil)
		if diff := cmp.Diff([]int64{3}, keys(t, db)); diff != "" {
			t.Error(diff)
		}
	})
}

func hookErrors(t *testing.T, b *bench) {
	db := b.db(t)
	var begin, commit error
	db.Use(store.GroupHook{
		Begin:  func(*store.Tx) error { return begin },
		Commit: func(*store.Tx) error { return commit },
	})
	begin = errOwn
	wantErr(t, db.Write(t.Context(), "w", put(1)), errOwn)
	begin, commit = nil, errOwn
	wantErr(t, db.Write(t.Context(), "w", put(1)), errOwn)
	if len(keys(t, db)) != 0 {
		t.Error("rows of failed groups remain:", keys(t, db))
	}
	commit = nil
	wantErr(t, db.Write(t.Context(), "w", put(1)), nil)
}

func boundedGroups(t *testing.T, b *bench) {
	b.inBubble(t, func(t *testing.T, db *store.DB) {
		const most, writes = 256, 600
		inGroup, largest := 0, 0
		db.Use(store.GroupHook{
			Begin:  func(*store.Tx) error { inGroup = 0; return nil },
			Commit: func(*store.Tx) error { largest = max(largest, inGroup); return nil },
		})
		fns := make([]func(*store.Tx) error, writes)
		for i := range fns {
			fns[i] = func(*store.Tx) error { inGroup++; return nil }
		}
		for _, err := range grouped(t, db, fns...) {
			wantErr(t, err, nil)
		}
		if largest != most {
			t.Errorf("largest group %d, want %d", largest, most)
		}
	})
}

func manyWriters(t *testing.T, b *bench) {
	const writers, each = 64, 50
	db := b.db(t)
	groups := countGroups(db)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if err := db.Write(context.Background(), "w", put(int64(w*each+i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for i, k := range keys(t, db) {
		if k != int64(i) {
			t.Fatalf("row %d has key %d", i, k)
		}
	}
	if n := len(keys(t, db)); n != writers*each {
		t.Errorf("%d rows, want %d", n, writers*each)
	}
	if *groups >= writers*each {
		t.Errorf("%d commits for %d writes: nothing was shared", *groups, writers*each)
	}
}

// countGroups counts the groups that reached their commit.
func countGroups(db *store.DB) *int {
	n := new(int)
	db.Use(store.GroupHook{Commit: func(*store.Tx) error { *n++; return nil }})
	return n
}
