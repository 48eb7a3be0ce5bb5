package journal

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/canon"
	"palyra/internal/store"
)

var fixedTime = time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC)

func TestRecord(t *testing.T) {
	f := newFixture(t)
	first, err := f.Record(t.Context(), event(0), event(1))
	if err != nil || first.Seq != 2 {
		t.Fatalf("position %v, %v", first, err)
	}
	if _, err := f.Record(t.Context()); err == nil {
		t.Error("nothing was recorded")
	}
	list, err := f.Entries(t.Context(), palyra.EntryFilter{})
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	want := palyra.Entry{
		Seq: 2, Time: "2026-11-15T10:00:00.003Z", Kind: "call.judged", Call: "01JCQ000000000000000000000",
		Body: map[string]any{
			"call_id": "01JCQ000000000000000000000", "plan_digest": string(palyra.SumBytes([]byte{1})), "effect": "allow",
			"policies": []any{"base.read"}, "bundle_digest": string(palyra.SumBytes([]byte{2})),
			"snapshot_digest": string(palyra.SumBytes([]byte{3})),
		},
	}
	if diff := cmp.Diff(want, list[1]); diff != "" {
		t.Error(diff)
	}
}

type stranger struct{}

func (stranger) Kind() string { return "call.granted" }

type unknown struct{}

func (unknown) Kind() string { return "call.invented" }

func TestOnlyTheCatalogue(t *testing.T) {
	f := newFixture(t)
	for _, e := range []palyra.Event{nil, stranger{}, unknown{}, &palyra.CallGranted{}} {
		if _, err := f.Record(t.Context(), event(0), e); palyra.CodeOf(err) != palyra.Internal || err == nil {
			t.Errorf("%T: %v", e, err)
		}
		err := f.db.Write(t.Context(), "w", func(tx *store.Tx) error {
			_, err := f.Append(tx, e)
			return err
		})
		if err == nil {
			t.Errorf("%T was appended", e)
		}
	}
	for _, e := range palyra.Catalogue() {
		if _, err := f.Record(t.Context(), e); err != nil {
			t.Errorf("%s: %v", e.Kind(), err)
		}
	}
	if head, _ := f.Head(t.Context()); head.Size != int64(len(palyra.Catalogue())) {
		t.Errorf("%d entries", head.Size)
	}
}

// A transaction that ended, or only reads, takes no entry.
func TestAppendNeedsATransaction(t *testing.T) {
	f := newFixture(t)
	var kept *store.Tx
	if err := f.db.Write(t.Context(), "w", func(tx *store.Tx) error { kept = tx; return nil }); err != nil {
		t.Fatal(err)
	}
	if pos, err := f.Append(kept, event(0)); err == nil {
		t.Errorf("after its end: %v", pos)
	}
	err := f.db.Read(t.Context(), func(tx *store.Tx) error { _, err := f.Append(tx, event(0)); return err })
	if err == nil {
		t.Error("in a read")
	}
	f.settled(t, 0)
}

// What travels with an event to its tables stays out of the journal.
func TestUnjournaledFields(t *testing.T) {
	f := newFixture(t)
	_, err := f.Record(t.Context(), palyra.CallFinished{Call: "c", Signed: palyra.Attestation{ID: "HIDDEN"}})
	if err != nil {
		t.Fatal(err)
	}
	var entry string
	if err := f.raw(t).QueryRow("SELECT entry FROM journal_entries").Scan(&entry); err != nil || strings.Contains(entry, "HIDDEN") {
		t.Errorf("%q, %v", entry, err)
	}
}

func TestLongBody(t *testing.T) {
	f := newFixture(t)
	long := palyra.CallProposed{
		Call: "01JCQ0000000000000LONGLONG", Tool: palyra.ToolName(strings.Repeat("x", 3*MaxBody)), Key: "\xff not UTF-8",
	}
	if _, err := f.Record(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(long) // bytes that are no text stand as U+FFFD: a line is kept rather than lost
	if err != nil {
		t.Fatal(err)
	}
	body, err := canon.FromJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	list, err := f.Entries(t.Context(), palyra.EntryFilter{Call: long.Call})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	want := map[string]any{"digest": string(palyra.SumBytes(body)), "size": jsonInt(len(body)), "truncated": true}
	if diff := cmp.Diff(want, list[0].Body); diff != "" {
		t.Error(diff)
	}
	r, err := f.Verify(t.Context(), nil)
	mustVerify(t, r, err)

	exact := append([]byte("m1:s1:as65521:"), strings.Repeat("x", MaxBody-15)...) // a byte under and over the cap
	for _, extra := range []int{0, 1} {
		body := append(exact[:len(exact):len(exact)], strings.Repeat("x", extra+1)...)
		if got := capped(body); (len(got) == len(body)) != (len(body) <= MaxBody) {
			t.Errorf("a body of %d bytes became %d", len(body), len(got))
		}
	}
}

func TestLongCallID(t *testing.T) {
	f := newFixture(t)
	if _, err := f.Record(t.Context(), palyra.CallUnknown{Call: palyra.CallID(strings.Repeat("x", 1000))}); err != nil {
		t.Fatal(err)
	}
	list, err := f.Entries(t.Context(), palyra.EntryFilter{})
	if err != nil || list[0].Call != "" {
		t.Errorf("%v, %v", list, err)
	}
}

// together puts writes into one group, in order, as store/storetest does.
func together(t *testing.T, db *store.DB, writes ...func(*store.Tx) error) []error {
	t.Helper()
	hold := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { _ = db.Write(t.Context(), "leader", func(*store.Tx) error { <-hold; return nil }) })
	synctest.Wait()
	errs := make([]error, len(writes))
	for i, fn := range writes {
		all.Go(func() { errs[i] = db.Write(t.Context(), "member", fn) })
		synctest.Wait()
	}
	close(hold)
	all.Wait()
	return errs
}

var errOwn = errors.New("own")

// A write in the middle of a group is undone alone: the entries around it close
// up as if it had never been, also across a tile's end, and the positions given
// are where they stand.
func TestUndoInAGroup(t *testing.T) {
	for _, start := range []int{0, 250, 253, 254, 255, 256} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			if start > 0 {
				events := make([]palyra.Event, start)
				for i := range events {
					events[i] = event(i)
				}
				if _, err := f.Record(t.Context(), events...); err != nil {
					t.Fatal(err)
				}
			}
			seqs := map[string]int64{}
			add := func(name string, n int, end error) func(*store.Tx) error {
				return func(tx *store.Tx) error {
					for range n {
						pos, err := f.Append(tx, palyra.SessionClosed{Session: palyra.SessionID(name)})
						if err != nil {
							return err
						}
						seqs[name] = pos.Seq
					}
					return end
				}
			}
			panics := func(tx *store.Tx) error { _ = add("p", 3, nil)(tx); panic("mistake") }
			errs := together(t, f.db, add("a", 1, nil), add("b", 5, errOwn), add("c", 2, nil), panics, add("d", 1, nil))
			for i, bad := range []bool{false, true, false, true, false} {
				if (errs[i] != nil) != bad {
					t.Errorf("write %d: %v", i, errs[i])
				}
			}
			list, err := f.Entries(t.Context(), palyra.EntryFilter{From: int64(start) + 1})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range list {
				got = append(got, e.Body["session_id"].(string))
			}
			if diff := cmp.Diff([]string{"a", "c", "c", "d"}, got); diff != "" {
				t.Error(diff)
			}
			for name, off := range map[string]int64{"a": 1, "c": 3, "d": 4} {
				if seqs[name] != int64(start)+off {
					t.Errorf("%s was told %d, stands at %d", name, seqs[name], int64(start)+off)
				}
			}
			f.settled(t, int64(start)+4)
		})
	}
}

// settled checks that memory and file agree, and that both go on.
func (f *fixture) settled(t testing.TB, size int64) {
	t.Helper()
	r, err := f.Verify(context.Background(), nil)
	if mustVerify(t, r, err).Size != size {
		t.Errorf("%d entries, want %d", r.Size, size)
	}
	f.reopen(t)
	if pos, err := f.Record(context.Background(), event(0)); err != nil || pos.Seq != size+1 {
		t.Errorf("the next entry: %v, %v", pos, err)
	}
	r, err = f.Verify(context.Background(), nil)
	mustVerify(t, r, err)
}

// When a whole group fails, whatever the cause, nothing of it remains: not in
// the file, not in memory, and watchers hear nothing of it.
func TestGroupFails(t *testing.T) {
	for _, start := range []int{0, 254} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			if start > 0 {
				f.fill(t, start)
			}
			before, _ := f.Head(t.Context())
			f.signer.fail = errors.New("the key is gone")
			var told []bool
			add := func(end error) func(*store.Tx) error {
				return func(tx *store.Tx) error {
					tx.OnDone(func(ok bool) { told = append(told, ok) })
					for i := range 3 {
						if _, err := f.Append(tx, event(i)); err != nil {
							return err
						}
					}
					return end
				}
			}
			errs := together(t, f.db, add(nil), add(errOwn), add(nil))
			for _, i := range []int{0, 2} {
				if palyra.CodeOf(errs[i]) != palyra.Unavailable {
					t.Errorf("write %d: %v", i, errs[i])
				}
			}
			if _, err := f.Head(t.Context()); palyra.CodeOf(err) != palyra.Unavailable {
				t.Errorf("a checkpoint without a key: %v", err)
			}
			f.signer.fail = nil
			if after, err := f.Head(t.Context()); err != nil || after != before {
				t.Errorf("head %+v became %+v, %v", before, after, err)
			}
			if diff := cmp.Diff([]bool{false, false, false}, told); diff != "" {
				t.Error(diff)
			}
			if start == 0 {
				if pos, err := f.Record(t.Context(), event(0)); err != nil || pos.Seq != 1 {
					t.Errorf("%v, %v", pos, err)
				}
				f.settled(t, 1)
				return
			}
			f.settled(t, int64(start))
		})
	}
}

// A commit that fails after the journal's own part of it changes nothing that
// the journal remembers: not the head, not what it kept, not the edge.
func TestCommitFailsAfterTheJournal(t *testing.T) {
	f := newFixture(t)
	var fail error
	f.db.Use(store.GroupHook{Commit: func(*store.Tx) error { return fail }})
	for i := range tileWidth - 1 {
		if _, err := f.Record(t.Context(), event(i)); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := f.committed()
	fail = errOwn
	for range 2 {
		if _, err := f.Record(t.Context(), event(0), event(1)); !errors.Is(err, errOwn) { // fills a tile, keeps a checkpoint
			t.Fatal(err)
		}
		if after, _ := f.committed(); after.head != before.head || after.tree.root() != before.tree.root() {
			t.Errorf("head %+v became %+v", before.head, after.head)
		}
	}
	fail = nil
	if _, err := f.Record(t.Context(), event(0), event(1)); err != nil {
		t.Fatal(err)
	}
	r, err := f.Verify(t.Context(), nil)
	if mustVerify(t, r, err).Checkpoints != 1 {
		t.Errorf("%d checkpoints kept, want the one that was undone before", r.Checkpoints)
	}
	f.settled(t, tileWidth+1)
}

// A full disk refuses entries and lets them in again when there is room, with
// nothing lost or repeated in between.
func TestDiskFull(t *testing.T) {
	f := newFixture(t)
	limit := func(pages string) {
		t.Helper()
		err := f.db.Write(t.Context(), "limit", func(tx *store.Tx) error {
			var n int
			return tx.Get("PRAGMA max_page_count = "+pages, nil, &n)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	f.fill(t, 10)
	limit("40")
	long := palyra.CallCancelled{Call: "c", By: strings.Repeat("x", 3000)}
	refused, size := 0, int64(10)
	for range 60 {
		pos, err := f.Record(t.Context(), long)
		if err == nil {
			if size++; pos.Seq != size {
				t.Fatalf("position %v after %d entries", pos, size-1)
			}
			continue
		}
		refused++
		if e := palyra.AsError(err); e.Reason != palyra.ReasonDiskFull {
			t.Fatalf("error %v", err)
		}
	}
	if refused == 0 {
		t.Fatal("the disk was never full")
	}
	limit("100000")
	f.settled(t, size)
}

// Writers at once, with failures among them: the journal is gapless, and every
// position given belongs to the event it was given for.
func TestManyWriters(t *testing.T) {
	const writers, each = 32, 20
	f := newFixture(t)
	f.Journal.now = time.Now
	var mu sync.Mutex
	where := map[int64]string{}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				name := strings.Repeat("x", w+1) + strings.Repeat("y", i)
				var pos palyra.Position
				err := f.db.Write(context.Background(), "w", func(tx *store.Tx) (err error) {
					if pos, err = f.Append(tx, palyra.SessionClosed{Session: palyra.SessionID(name)}); err == nil && (w+i)%3 == 0 {
						err = errOwn
					}
					return err
				})
				if errors.Is(err, errOwn) {
					continue
				}
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				where[pos.Seq] = name
				mu.Unlock()
			}
		})
	}
	all.Wait()
	err := f.Watch(t.Context(), 1, func(e palyra.Entry) error {
		if where[e.Seq] != e.Body["session_id"] {
			t.Errorf("entry %d is %v, its writer %v", e.Seq, e.Body["session_id"], where[e.Seq])
		}
		if delete(where, e.Seq); len(where) == 0 {
			return errOwn
		}
		return nil
	})
	if !errors.Is(err, errOwn) {
		t.Error(err)
	}
	r, err := f.Verify(t.Context(), nil)
	mustVerify(t, r, err)
}

// Another process that wrote to the journal meanwhile is noticed by the commit
// itself.
func TestSecondWriter(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 3)
	j, err := open(t, f.path, Config{Signer: f.signer, Now: f.now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Record(t.Context(), event(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Record(t.Context(), event(0)); err == nil {
		t.Error("two daemons wrote to one journal")
	}
	r, err := j.Verify(t.Context(), nil)
	mustVerify(t, r, err)
	mustExec(t, f.raw(t), "UPDATE journal_head SET size = size + 1")
	if _, err := j.Record(t.Context(), event(0)); palyra.AsError(err).Reason != palyra.ReasonSecondDaemon {
		t.Errorf("the head was moved by someone else: %v", err)
	}
}
