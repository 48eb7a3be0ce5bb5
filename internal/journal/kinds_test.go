package journal

import (
	"context"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"palyra"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
)

// planOf is how the engine goes about a query.
func planOf(t *testing.T, db *store.DB, q palyra.EntryFilter) (plan string) {
	t.Helper()
	text, args := sqlOf(q)
	err := db.Read(t.Context(), func(tx *store.Tx) error {
		return tx.Each("EXPLAIN QUERY PLAN "+text, args, func(scan func(...any) error) error {
			var id, parent, unused any
			var step string
			err := scan(&id, &parent, &unused, &step)
			plan += step + "\n"
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// A rare kind is found by the index, whose condition the query must say word for word; a kind that every call has is
// found by walking from where the query begins.
func TestKindsByIndex(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 8)
	if plan := planOf(t, f.db, palyra.EntryFilter{Kind: "policy.applied"}); !strings.Contains(plan, "journal_entries_kind") {
		t.Errorf("a rare kind: %s", plan)
	}
	for _, kind := range everyCall {
		if plan := planOf(t, f.db, palyra.EntryFilter{Kind: kind, From: 5}); !strings.Contains(plan, "rowid>?") {
			t.Errorf("%s: %s", kind, plan)
		}
	}
}

// A journal from before the index left kinds out is opened, found in by both sorts of kinds, and goes on.
func TestOlderIndexOfKinds(t *testing.T) {
	f := newFixture(t)
	f.shut(t)
	f.path = t.TempDir() + "/older.db"
	first, err := fs.ReadFile(schema, "schema/sqlite/0001_journal.sql")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := sqlite.Open(f.path)
	if err != nil {
		t.Fatal(err)
	}
	older := store.Schema{Part: "journal", FS: fstest.MapFS{"sqlite/0001_journal.sql": {Data: first}}}
	db, err := store.Open(context.Background(), engine, older)
	if err != nil {
		t.Fatal(err)
	}
	if f.Journal, err = New(t.Context(), Config{DB: db, Signer: f.signer, Now: f.now}); err != nil {
		t.Fatal(err)
	}
	f.fill(t, 12)
	f.reopen(t)
	f.fill(t, 4)
	for kind, want := range map[string]int{"door.flood": 4, "call.judged": 4} {
		if list, err := f.Entries(t.Context(), palyra.EntryFilter{Kind: kind}); err != nil || len(list) != want {
			t.Errorf("%s: %v %v", kind, seqs(list), err)
		}
	}
	if plan := planOf(t, f.db, palyra.EntryFilter{Kind: "door.flood"}); !strings.Contains(plan, "journal_entries_kind") {
		t.Error(plan)
	}
}
