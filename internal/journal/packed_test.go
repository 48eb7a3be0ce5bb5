package journal

import (
	"database/sql"
	"reflect"
	"testing"

	"palyra"
)

// Lines that were written before they were packed verify and read as they did.
func TestLinesThatAreNotPacked(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 300)
	want, err := f.Entries(t.Context(), palyra.EntryFilter{From: 20, To: 30})
	if err != nil {
		t.Fatal(err)
	}
	db := f.raw(t)
	before := count(t, db, "SELECT SUM(length(entry)) FROM journal_entries")
	forge(t, db, func(int64, *draft) bool { return true })
	if after := count(t, db, "SELECT SUM(length(entry)) FROM journal_entries"); after < 2*before {
		t.Errorf("packed they have %d bytes, as they are %d", before, after)
	}
	r, err := f.check(t)
	mustVerify(t, r, err)
	got, err := f.Entries(t.Context(), palyra.EntryFilter{From: 20, To: 30})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	checkProof(t, f, 25)
}

func count(t testing.TB, db *sql.DB, query string) (n int64) {
	t.Helper()
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
