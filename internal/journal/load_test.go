package journal

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"palyra"
	"palyra/internal/canon"
)

// A journal whose tail was changed is not opened: nothing may be added to it.
func TestOpenRefusesATamperedTail(t *testing.T) {
	const size = 2*tileWidth + 30
	f := newFixture(t)
	f.fill(t, size)
	f.shut(t)
	db := f.raw(t)
	try := func(name string) {
		t.Helper()
		_, err := open(t, f.path, Config{Signer: f.signer})
		e := palyra.AsError(err)
		if err == nil || e.Code != palyra.Unavailable || e.Reason != palyra.ReasonVerifyFailed || e.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	tables := func(do func()) { f.restored(t, db, do) }
	for _, change := range []string{
		"UPDATE journal_entries SET entry = entry || 'x' WHERE seq = 542",
		"UPDATE journal_entries SET entry = entry || 'x' WHERE seq = 513",
		"UPDATE journal_entries SET leaf = chain WHERE seq = 530",
		"UPDATE journal_entries SET chain = leaf WHERE seq = 530",
		"UPDATE journal_entries SET chain = leaf WHERE seq = 512",
		"UPDATE journal_entries SET kind = 'call.judged' WHERE seq = 541",
		"UPDATE journal_entries SET time = 0 WHERE seq = 542",
		"DELETE FROM journal_entries WHERE seq = 542",
		"DELETE FROM journal_entries WHERE seq = 530",
		"DELETE FROM journal_entries WHERE seq = 1",
		"DELETE FROM journal_entries",
		"INSERT INTO journal_entries SELECT 543, time, kind, call_id, leaf, chain, entry FROM journal_entries WHERE seq = 542",
		"INSERT INTO journal_entries SELECT 0, time, kind, call_id, leaf, chain, entry FROM journal_entries WHERE seq = 542",
		"UPDATE journal_tiles SET hashes = zeroblob(8192) WHERE n = 0",
		"UPDATE journal_tiles SET hashes = zeroblob(8191) WHERE n = 1",
		"UPDATE journal_tiles SET n = 7 WHERE n = 1",
		"DELETE FROM journal_tiles WHERE n = 1",
		"INSERT INTO journal_tiles VALUES (1, 0, zeroblob(8192))",
		"DELETE FROM journal_head",
		"UPDATE journal_head SET size = 541",
		"UPDATE journal_head SET root = zeroblob(32)",
		"UPDATE journal_head SET chain = zeroblob(32)",
		"UPDATE journal_head SET note = replace(note, '542', '541')",
		"UPDATE journal_head SET note = (SELECT note FROM journal_checkpoints ORDER BY size LIMIT 1)",
		"UPDATE journal_head SET note = ''",
		"INSERT INTO journal_checkpoints VALUES (543, 'x')",
	} {
		tables(func() { mustExec(t, db, change); try(change) })
	}
	tables(func() { // an older head, whole: entries beyond it are not covered
		var size int64
		var note string
		if err := db.QueryRow("SELECT size, note FROM journal_checkpoints ORDER BY size LIMIT 1").Scan(&size, &note); err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(note, "\n\n")
		h, err := parseHead(text + "\n")
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, db, "UPDATE journal_head SET size = ?, root = ?, chain = ?, note = ?", h.size, h.root[:], h.chain[:], note)
		try("an older head")
	})
	tables(func() { // another chain that fits by itself, from the row before the tail on
		chain := chainStart("another past")
		for seq := int64(2 * tileWidth); seq <= size; seq++ {
			leaf := tlog.Hash(cell{"journal_entries", "leaf", fmt.Sprint("seq = ", seq)}.get(t, db).([]byte))
			chain = link(chain, leaf)
			mustExec(t, db, "UPDATE journal_entries SET chain = ? WHERE seq = ?", chain[:], seq)
		}
		try("another chain")
	})
	if _, err := open(t, f.path, Config{Signer: newSigner("another", 1), Keys: f.keys()}); palyra.AsError(err).
		Reason != palyra.ReasonVerifyFailed {
		t.Errorf("a journal of another name: %v", err)
	}
	if _, err := open(t, f.path, Config{Signer: f.signer}); err != nil {
		t.Errorf("untouched: %v", err)
	}
}

func TestOpenCancelled(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(ctx, Config{DB: f.db, Signer: f.signer}); err == nil || palyra.AsError(err).Reason == palyra.ReasonVerifyFailed {
		t.Errorf("error %v", err)
	}
}

// The right edge comes back as it was at every size around the tiles' ends.
func TestReopenAtEverySize(t *testing.T) {
	f := newFixture(t)
	at := map[int64]bool{}
	for _, n := range []int64{1, 2, 3, 255, 256, 257, 258, 511, 512, 513} {
		at[n] = true
	}
	for i := range 515 {
		if _, err := f.Record(context.Background(), event(i)); err != nil {
			t.Fatal(err)
		}
		before, _ := f.committed()
		if !at[before.tree.size] {
			continue
		}
		f.reopen(t)
		after, _ := f.committed()
		after.head.kept, after.head.tip = before.head.kept, before.head.tip // closing keeps a checkpoint
		if after.head != before.head || after.tree.root() != before.tree.root() || after.tree.chain != before.tree.chain {
			t.Fatalf("size %d came back as %+v", before.tree.size, after.head)
		}
	}
	r, err := f.Verify(t.Context(), nil)
	mustVerify(t, r, err)
}

// Beyond 65,536 entries there are tiles of tiles.
func TestSecondLevel(t *testing.T) {
	const size = tileWidth*tileWidth + 300
	f := newFixture(t)
	for i := 0; i < size; {
		batch := make([]palyra.Event, 0, 2000)
		for len(batch) < cap(batch) && i < size {
			batch = append(batch, palyra.DoorFlood{Door: "agent", Count: int64(i)})
			i++
		}
		if _, err := f.Record(t.Context(), batch...); err != nil {
			t.Fatal(err)
		}
	}
	f.reopen(t)
	if _, err := f.Record(t.Context(), event(0)); err != nil {
		t.Fatal(err)
	}
	r, err := f.Verify(t.Context(), nil)
	mustVerify(t, r, err)
	for _, seq := range []int64{1, 256, 257, 65535, 65536, 65537, 65800, size + 1} {
		checkProof(t, f, seq)
	}
	db := f.raw(t)
	c := cell{"journal_tiles", "hashes", "level = 1"}
	was := c.get(t, db).([]byte)
	for _, i := range []int{0, 4000, tileBytes - 1} {
		v := append([]byte{}, was...)
		v[i] ^= 4
		c.set(t, db, v)
		r, err := f.check(t)
		wantProblem(t, r, err, 1)
		if _, err := f.Proof(t.Context(), 5); palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
			t.Errorf("a proof from a damaged tile: %v", err)
		}
	}
	c.set(t, db, was)
	mustExec(t, db, "DELETE FROM journal_tiles WHERE level = 1")
	r, err = f.check(t)
	wantProblem(t, r, err, 1)
	f.shut(t)
	if _, err := open(t, f.path, Config{Signer: f.signer}); palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
		t.Errorf("opened without its tiles: %v", err)
	}
}

func TestTileCount(t *testing.T) {
	for size, want := range map[int64]int64{0: 0, 255: 0, 256: 1, 511: 1, 512: 2, 65535: 255, 65536: 257, 65536 + 256: 258} {
		if got := tileCount(size); got != want {
			t.Errorf("%d entries: %d tiles, want %d", size, got, want)
		}
	}
}

// checkProof makes and verifies one entry's proof.
func checkProof(t testing.TB, f *fixture, seq int64) Proof {
	t.Helper()
	p, err := f.Proof(context.Background(), seq)
	if err != nil {
		t.Fatalf("entry %d: %v", seq, err)
	}
	raw, err := canon.JSON(p)
	if err != nil {
		t.Fatal(err)
	}
	r, err := VerifyProof(raw, f.keys())
	if mustVerify(t, r, err).From != seq || r.To != seq || r.Source != "proof" || r.Size != p.Size {
		t.Fatalf("entry %d: %+v", seq, r)
	}
	return p
}
