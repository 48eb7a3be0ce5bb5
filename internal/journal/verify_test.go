package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/mod/sumdb/tlog"

	"palyra"
	"palyra/internal/pack"
)

// check verifies the tables as someone with only the public key does.
func (f *fixture) check(t testing.TB) (Report, error) {
	t.Helper()
	k, err := parseKeys(f.keys())
	if err != nil {
		t.Fatal(err)
	}
	v := verifier{read: f.db.Read, trusted: func() keys { return k }}
	return v.run(context.Background())
}

// cell is one value in the tables.
type cell struct{ table, column, where string }

func (c cell) get(t testing.TB, db *sql.DB) (v any) {
	t.Helper()
	if err := db.QueryRow(fmt.Sprintf("SELECT %s FROM %s WHERE %s", c.column, c.table, c.where)).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func (c cell) set(t testing.TB, db *sql.DB, v any) {
	t.Helper()
	mustExec(t, db, fmt.Sprintf("UPDATE %s SET %s = ? WHERE %s", c.table, c.column, c.where), v)
}

// changes returns the value with each byte changed in turn, or other numbers.
func changes(v any, step int) (out []any) {
	flip := func(b []byte, i int) []byte {
		c := slices.Clone(b)
		c[i] ^= 1 << (i % 8)
		return c
	}
	switch v := v.(type) {
	case []byte:
		for i := 0; i < len(v); i += step {
			out = append(out, flip(v, i))
		}
		return append(out, v[:len(v)-1], append(slices.Clone(v), 0), []byte{})
	case string:
		for i := 0; i < len(v); i += step {
			out = append(out, string(flip([]byte(v), i)))
		}
		return append(out, v[:len(v)-1], v+" ", "")
	case int64:
		for _, other := range []int64{v + 1, v - 1, v + 1000, -v, 0, v ^ 1<<40} {
			if other != v {
				out = append(out, other)
			}
		}
		return out
	case nil:
		return []any{"x", "01JCQ000000000000000000001"}
	}
	panic(fmt.Sprintf("%T", v))
}

// Every byte of every value of a small journal is changed in turn, and each
// change is noticed at its entry.
func TestEveryByteIsNoticed(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 6)
	f.clock = f.clock.Add(keepAfter)
	f.fill(t, 1)
	r, err := f.check(t)
	mustVerify(t, r, err)
	db := f.raw(t)
	tried := 0
	try := func(c cell, seq int64) {
		t.Helper()
		was := c.get(t, db)
		for _, v := range changes(was, 1) {
			tried++
			c.set(t, db, v)
			r, err := f.check(t)
			if wantEntry(t, r, err, seq); t.Failed() {
				t.Fatalf("%v: %v instead of %v", c, v, was)
			}
			c.set(t, db, was)
		}
	}
	for seq := range int64(7) {
		for _, column := range []string{"time", "kind", "call_id", "leaf", "chain", "entry"} {
			try(cell{"journal_entries", column, fmt.Sprint("seq = ", seq+1)}, seq+1)
		}
	}
	for _, column := range []string{"size", "root", "chain", "note"} {
		try(cell{"journal_head", column, "id = 1"}, 0)
	}
	try(cell{"journal_checkpoints", "note", "size = 7"}, 7)
	r, err = f.check(t)
	mustVerify(t, r, err)
	t.Logf("%d changes noticed", tried)
}

// The size under which a checkpoint is kept must be its own.
func TestCheckpointMoved(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 6)
	f.clock = f.clock.Add(keepAfter)
	f.fill(t, 2)
	f.fill(t, 4)
	db := f.raw(t)
	size := cell{"journal_checkpoints", "size", "1 = 1"}.get(t, db).(int64)
	for _, to := range []int64{-1, 0, 1, size - 1, size + 1, 12, 1000} {
		mustExec(t, db, "UPDATE journal_checkpoints SET size = ?", to)
		r, err := f.check(t)
		if err == nil {
			t.Errorf("moved to %d: %+v", to, r)
		}
		if to > 0 && to <= 12 {
			wantEntry(t, r, err, to)
		}
	}
}

// A tile is looked at hash by hash.
func TestTileIsNoticed(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 2*tileWidth+10)
	db := f.raw(t)
	for _, n := range []int64{0, 1} {
		c := cell{"journal_tiles", "hashes", fmt.Sprint("n = ", n)}
		was := c.get(t, db)
		for i, v := range changes(was, tlog.HashSize+1) {
			c.set(t, db, v)
			r, err := f.check(t)
			if i*(tlog.HashSize+1) < tileBytes {
				wantProblem(t, r, err, n*tileWidth+int64(i*(tlog.HashSize+1)/tlog.HashSize)+1)
			} else {
				wantProblem(t, r, err, n*tileWidth+1)
			}
		}
		c.set(t, db, was)
	}
	for _, change := range []string{
		"DELETE FROM journal_tiles WHERE n = 1", "UPDATE journal_tiles SET n = 5 WHERE n = 1",
		"UPDATE journal_tiles SET level = 1 WHERE n = 1", "INSERT INTO journal_tiles SELECT 0, 2, hashes FROM journal_tiles WHERE n = 1",
		"INSERT INTO journal_tiles SELECT 1, 0, hashes FROM journal_tiles WHERE n = 1",
	} {
		f.undone(t, db, func() {
			mustExec(t, db, change)
			if r, err := f.check(t); err == nil {
				t.Errorf("%s: %+v", change, r)
			}
		})
	}
}

// undone runs do and puts the tables back, which must verify then.
func (f *fixture) undone(t testing.TB, db *sql.DB, do func()) {
	t.Helper()
	f.restored(t, db, do)
	r, err := f.check(t)
	mustVerify(t, r, err)
}

func (f *fixture) restored(t testing.TB, db *sql.DB, do func()) {
	t.Helper()
	tables := []string{"entries", "tiles", "head", "checkpoints"}
	for _, name := range tables {
		mustExec(t, db, "CREATE TABLE IF NOT EXISTS saved_"+name+" AS SELECT * FROM journal_"+name)
	}
	do()
	for _, name := range tables {
		mustExec(t, db, "DELETE FROM journal_"+name)
		mustExec(t, db, "INSERT INTO journal_"+name+" SELECT * FROM saved_"+name)
	}
}

// Entries removed, added, moved, repeated, cut off.
func TestStructureIsNoticed(t *testing.T) {
	const size = tileWidth + 44
	f := newFixture(t)
	f.fill(t, size)
	db := f.raw(t)
	for _, c := range []struct {
		name    string
		seq     int64
		changes []string
	}{
		{"first removed", 1, []string{"DELETE FROM journal_entries WHERE seq = 1"}},
		{"one removed", 100, []string{"DELETE FROM journal_entries WHERE seq = 100"}},
		{"removed and closed up", 100, []string{
			"DELETE FROM journal_entries WHERE seq = 100",
			"UPDATE journal_entries SET seq = seq - 1 WHERE seq > 100",
		}},
		{"last removed", size, []string{fmt.Sprintf("DELETE FROM journal_entries WHERE seq = %d", size)}},
		{"tail cut", 280, []string{"DELETE FROM journal_entries WHERE seq >= 280"}},
		{"all removed", 1, []string{"DELETE FROM journal_entries"}},
		{"two swapped", 50, []string{
			"UPDATE journal_entries SET seq = -1 WHERE seq = 50", "UPDATE journal_entries SET seq = 50 WHERE seq = 51",
			"UPDATE journal_entries SET seq = 51 WHERE seq = -1",
		}},
		{
			"one repeated", size + 1,
			[]string{fmt.Sprintf("INSERT INTO journal_entries SELECT %d, time, kind, call_id, leaf, chain, entry FROM journal_entries "+
				"WHERE seq = %d", size+1, size)},
		},
		{"one put over another", 61, []string{
			"DELETE FROM journal_entries WHERE seq = 61",
			"INSERT INTO journal_entries SELECT 61, time, kind, call_id, leaf, chain, entry FROM journal_entries WHERE seq = 60",
		}},
		{
			"one before the first", 0,
			[]string{"INSERT INTO journal_entries SELECT 0, time, kind, call_id, leaf, chain, entry FROM journal_entries WHERE seq = 1"},
		},
		{"one far before", -7, []string{
			"INSERT INTO journal_entries SELECT -7, time, kind, call_id, leaf, chain, entry FROM journal_entries WHERE seq = 1",
		}},
		{
			"one far behind", size + 1,
			[]string{"INSERT INTO journal_entries SELECT 1 << 60, time, kind, call_id, leaf, chain, entry FROM journal_entries WHERE seq = 1"},
		},
		{"shifted", 0, []string{"UPDATE journal_entries SET seq = -seq", "UPDATE journal_entries SET seq = 301 + seq - 1"}},
		{"a checkpoint beyond the head", size + 1, []string{"INSERT INTO journal_checkpoints VALUES (1000, 'x')"}},
		{"a checkpoint of nothing", 0, []string{"INSERT INTO journal_checkpoints VALUES (0, 'x')"}},
		{"a checkpoint removed", 0, []string{"DELETE FROM journal_checkpoints WHERE size = (SELECT MAX(size) FROM journal_checkpoints)"}},
		{"all checkpoints removed", 0, []string{"DELETE FROM journal_checkpoints"}},
		{"no head", 0, []string{"DELETE FROM journal_head"}},
		{"nothing at all", 0, []string{
			"DELETE FROM journal_head", "DELETE FROM journal_entries", "DELETE FROM journal_tiles",
			"DELETE FROM journal_checkpoints",
		}},
	} {
		f.undone(t, db, func() {
			for _, q := range c.changes {
				mustExec(t, db, q)
			}
			r, err := f.check(t)
			if wantEntry(t, r, err, c.seq); t.Failed() {
				t.Fatalf("%s: %+v", c.name, r)
			}
			if live, err := f.Verify(t.Context(), nil); err == nil {
				t.Fatalf("%s: live: %+v", c.name, live)
			}
		})
	}
}

// forger rewrites history as someone does who has the file, all the formulas and
// no key: every hash fits, from entries to tiles.
func forge(t testing.TB, db *sql.DB, edit func(seq int64, d *draft) bool) tree {
	t.Helper()
	rows, err := db.Query("SELECT seq, time, kind, COALESCE(call_id, ''), entry FROM journal_entries ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	var lines []line
	tr := newTree(testOrigin)
	var tiles []tile
	for rows.Next() {
		var l line
		if err := rows.Scan(&l.seq, &l.time, &l.kind, &l.call, &l.entry); err != nil {
			t.Fatal(err)
		}
		if l.entry, err = pack.AppendLine(nil, l.entry); err != nil {
			t.Fatal(err)
		}
		fields, err := parseEntry(l.entry)
		if err != nil {
			t.Fatal(err)
		}
		d := draft{kind: l.kind, call: l.call, body: fields.body}
		if !edit(l.seq, &d) {
			continue
		}
		n := d.lineAt(tr.size+1, unixNano(l.time))
		var full []tile
		tr, full = tr.append(n.leaf)
		n.chain = tr.chain
		lines, tiles = append(lines, n), append(tiles, full...)
	}
	_ = rows.Close()
	mustExec(t, db, "DELETE FROM journal_entries")
	mustExec(t, db, "DELETE FROM journal_tiles")
	for _, l := range lines {
		var call any
		if l.call != "" {
			call = l.call
		}
		mustExec(t, db, insertQuery(1), l.seq, l.time, l.kind, call, l.leaf[:], l.chain[:], l.entry)
	}
	for _, x := range tiles {
		mustExec(t, db, "INSERT INTO journal_tiles (level, n, hashes) VALUES (?, ?, ?)", x.level, x.n, x.data)
	}
	return tr
}

// A consistent forgery is caught by the first signature after it, and narrowed
// down to the entries since the signature before it.
func TestForgeryIsNoticed(t *testing.T) {
	f := newFixture(t)
	for i := range 600 { // checkpoints at 256 and 512
		if _, err := f.Record(t.Context(), event(i)); err != nil {
			t.Fatal(err)
		}
	}
	db := f.raw(t)
	for seq, span := range map[int64]Problem{10: {Seq: 1, Through: 256}, 300: {Seq: 257, Through: 512}, 550: {Seq: 513, Through: 600}} {
		f.undone(t, db, func() {
			forge(t, db, func(n int64, d *draft) bool {
				if n == seq {
					d.body = []byte("m1:s6:forgedt")
				}
				return true
			})
			r, err := f.check(t)
			wantProblem(t, r, err, seq)
			if p := r.Problem; p == nil || p.Seq != span.Seq || p.Through != span.Through {
				t.Errorf("entry %d forged: %v, want entries %d to %d", seq, p, span.Seq, span.Through)
			}
		})
	}
	f.undone(t, db, func() { // one more at the end, which fits
		tr := forge(t, db, func(int64, *draft) bool { return true })
		d, err := f.kinds.draft(event(0))
		if err != nil {
			t.Fatal(err)
		}
		l := d.lineAt(601, fixedTime)
		tr, _ = tr.append(l.leaf)
		mustExec(t, db, insertQuery(1), l.seq, l.time, l.kind, l.call, l.leaf[:], tr.chain[:], l.entry)
		r, err := f.check(t)
		wantEntry(t, r, err, 601)
	})
	f.undone(t, db, func() { // an entry left out, the head row made to fit
		tr := forge(t, db, func(n int64, _ *draft) bool { return n != 20 })
		root := tr.root()
		mustExec(t, db, "UPDATE journal_head SET size = ?, root = ?, chain = ?", tr.size, root[:], tr.chain[:])
		r, err := f.check(t)
		wantProblem(t, r, err, 1)
	})
	f.undone(t, db, func() { // signed by another key
		mallory := newSigner(testOrigin, 66)
		tr := forge(t, db, func(n int64, _ *draft) bool { return n != 20 })
		h := head{origin: testOrigin, size: tr.size, root: tr.root(), chain: tr.chain, time: palyra.Time(fixedTime)}
		mustExec(t, db, "UPDATE journal_head SET size = ?, root = ?, chain = ?, note = ?", tr.size, h.root[:], h.chain[:],
			signed(t, mallory, h.text()))
		mustExec(t, db, "DELETE FROM journal_checkpoints")
		r, err := f.check(t)
		wantProblem(t, r, err, 0)
	})
}

// An older signed state is complete: only who remembers more can tell. A running
// daemon does.
func TestRollbackUnderADaemon(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 20)
	db := f.raw(t)
	for _, name := range []string{"entries", "tiles", "head", "checkpoints"} {
		mustExec(t, db, "CREATE TABLE old_"+name+" AS SELECT * FROM journal_"+name)
	}
	f.fill(t, 20)
	for _, name := range []string{"entries", "tiles", "head", "checkpoints"} {
		mustExec(t, db, "DELETE FROM journal_"+name)
		mustExec(t, db, "INSERT INTO journal_"+name+" SELECT * FROM old_"+name)
	}
	r, err := f.check(t)
	mustVerify(t, r, err)
	r, err = f.Verify(t.Context(), nil)
	wantProblem(t, r, err, 21)
}

// The live check holds the file against what the daemon itself wrote, even when
// the signature is right: the key may have been stolen.
func TestForgeryWithTheKey(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 20)
	db := f.raw(t)
	tr := forge(t, db, func(n int64, d *draft) bool {
		if n == 7 {
			d.body = []byte("m1:s6:forgedt")
		}
		return true
	})
	h := head{origin: testOrigin, size: tr.size, root: tr.root(), chain: tr.chain, time: palyra.Time(fixedTime)}
	mustExec(t, db, "UPDATE journal_head SET root = ?, chain = ?, note = ?", h.root[:], h.chain[:], signed(t, f.signer, h.tipText()))
	r, err := f.check(t)
	mustVerify(t, r, err) // nobody else can tell
	r, err = f.Verify(t.Context(), nil)
	wantProblem(t, r, err, 7)
}

// A column that reads the same as another type would hide a line from searches.
func TestTypesOfColumns(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 20)
	db := f.raw(t)
	for _, change := range []string{
		"kind = CAST(kind AS BLOB)", "call_id = CAST(call_id AS BLOB)", "call_id = ''", "entry = CAST(entry AS TEXT)",
		"leaf = CAST(leaf AS TEXT)",
	} {
		f.undone(t, db, func() {
			mustExec(t, db, "UPDATE journal_entries SET "+change+" WHERE seq = 7")
			if r, err := f.check(t); err == nil || r.Problem == nil || r.Problem.Seq != 7 {
				t.Errorf("%s: %+v, %v", change, r, err)
			}
		})
	}
}

// A kept checkpoint, or one that was handed out, is signed by the right key and
// true of an earlier journal. Whoever cuts the tables back to it still has no
// head: without the key the journal cannot be shortened.
func TestCutBackToACheckpoint(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 300)
	handed, err := f.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.fill(t, 300)
	db := f.raw(t)
	var size int64
	var kept string
	if err := db.QueryRow("SELECT size, note FROM journal_checkpoints ORDER BY size LIMIT 1").Scan(&size, &kept); err != nil {
		t.Fatal(err)
	}
	for name, note := range map[string]string{"kept": kept, "handed out": handed.Note} {
		h, err := parsedKeys(t, f).openHead(note)
		if err != nil {
			t.Fatal(err)
		}
		f.restored(t, db, func() {
			mustExec(t, db, "DELETE FROM journal_entries WHERE seq > ?", h.size)
			mustExec(t, db, "DELETE FROM journal_checkpoints WHERE size > ?", h.size)
			mustExec(t, db, "DELETE FROM journal_tiles WHERE level = 0 AND (n+1)*256 > ?", h.size)
			mustExec(t, db, "UPDATE journal_head SET size = ?, root = ?, chain = ?, note = ?", h.size, h.root[:], h.chain[:], note)
			r, err := f.check(t)
			if err == nil || r.Problem == nil || !strings.Contains(r.Problem.Why, "not the journal's head") {
				t.Errorf("%s: cut back to %d of 600 entries and verified: %+v", name, h.size, r)
			}
		})
	}
}

// Only who has the key can write an entry whose own number is another; then
// columns and bytes must still agree.
func TestEntryOfAnotherPlace(t *testing.T) {
	d, err := newCatalogue().draft(event(0))
	if err != nil {
		t.Fatal(err)
	}
	l := d.lineAt(2, fixedTime)
	c := startChecker(testOrigin)
	chain := link(c.chain, l.leaf)
	c.row = row{seq: 1, time: l.time, kind: []byte(l.kind), call: []byte(l.call), leaf: l.leaf[:], chain: chain[:], entry: l.entry}
	if p := c.check(); p == nil || p.Seq != 1 {
		t.Errorf("problem %v", p)
	}
}

func TestVerifyProgressAndCancel(t *testing.T) {
	f := newFixture(t)
	events := make([]palyra.Event, 3*blockSize+5)
	for i := range events {
		events[i] = event(i)
	}
	if _, err := f.Record(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	before := goleak.IgnoreCurrent()
	var got []int64
	r, err := f.Verify(t.Context(), func(done, total int64) {
		if total != int64(len(events)) {
			t.Errorf("total %d", total)
		}
		got = append(got, done)
	})
	mustVerify(t, r, err)
	if !slices.Equal(got, []int64{blockSize, 2 * blockSize, 3 * blockSize, 3*blockSize + 5}) {
		t.Errorf("progress %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = f.Verify(ctx, func(int64, int64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	mustExec(t, f.raw(t), "UPDATE journal_entries SET chain = leaf WHERE seq = ?", blockSize) // seen from both sides of a block's edge
	r, err = f.check(t)
	wantProblem(t, r, err, blockSize)
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"))
}

// Appending goes on while a verification runs, and does not disturb it.
func TestVerifyWhileWriting(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 500)
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
				if _, err := f.Record(context.Background(), event(i)); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	for range 10 {
		r, err := f.Verify(t.Context(), nil)
		mustVerify(t, r, err)
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func parsedKeys(t testing.TB, f *fixture) keys {
	t.Helper()
	k, err := parseKeys(f.keys())
	if err != nil {
		t.Fatal(err)
	}
	return k
}
