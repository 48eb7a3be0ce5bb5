//go:build linux

package e2e

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/pack"
)

// rawTx reads a state as the shelves do.
type rawTx struct{ db *sql.DB }

func (x rawTx) Get(query string, args []any, dest ...any) error {
	return x.db.QueryRow(query, args...).Scan(dest...)
}
func (x rawTx) Exec(string, ...any) (int64, error) { return 0, sql.ErrTxDone }
func (x rawTx) OnDone(func(bool))                  {}

// rewrite changes a column of every row of a table.
func rewrite(t *testing.T, db *sql.DB, table, key, column string, change func(key string, b []byte) ([]byte, error)) {
	t.Helper()
	rows, err := db.Query(fmt.Sprintf("SELECT %s, %s FROM %s WHERE %s IS NOT NULL", key, column, table, column))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for rows.Next() {
		var k string
		var b []byte
		if err := rows.Scan(&k, &b); err != nil {
			t.Fatal(err)
		}
		all[k] = b
	}
	_ = rows.Close()
	for k, b := range all {
		if b, err = change(k, b); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(fmt.Sprintf("UPDATE %s SET %s=? WHERE %s=?", table, column, key), b, k); err != nil {
			t.Fatal(err)
		}
	}
}

// unpacked makes of a stopped daemon's state what earlier versions wrote: whole
// texts, and outcomes with their envelopes.
func (d *daemon) unpacked(t *testing.T) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(d.home, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	var trigger string
	if err := db.QueryRow(`SELECT sql FROM sqlite_master WHERE name='journal_entries_update'`).Scan(&trigger); err != nil {
		t.Fatal(err)
	}
	envelopes := map[string][]byte{}
	docs, signed := pack.NewShelf("call_bases"), pack.NewShelf("attestation_bases")
	rewrite(t, db, "attestations", "call_id", "envelope", func(id string, b []byte) (text []byte, err error) {
		envelopes[id], err = signed.Text(rawTx{db}, b)
		return envelopes[id], err
	})
	rewrite(t, db, "calls", "id", "doc", func(_ string, b []byte) ([]byte, error) { return docs.Text(rawTx{db}, b) })
	rewrite(t, db, "calls", "id", "outcome", func(id string, b []byte) ([]byte, error) {
		b, err := docs.Text(rawTx{db}, b)
		if len(b) > 0 && b[len(b)-1] != '}' {
			b = slices.Concat(b, []byte(`,"attestation":`), envelopes[id], []byte("}"))
		}
		return b, err
	})
	for _, q := range []string{"DELETE FROM call_bases", "DELETE FROM attestation_bases", "DROP TRIGGER journal_entries_update"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	rewrite(t, db, "journal_entries", "seq", "entry", func(_ string, b []byte) ([]byte, error) { return pack.AppendLine(nil, b) })
	if _, err := db.Exec(trigger); err != nil {
		t.Fatal(err)
	}
}

// A call costs less than 4 KiB of state, beyond its own arguments and output; an
// outcome that is asked for again has its envelope; and what earlier versions
// wrote reads and verifies as it did.
func TestStateOfACallIsSmallAndReadable(t *testing.T) {
	d := newDaemon(t)
	d.mustStart(unlimited...)
	var first palyra.Outcome
	call := func(from, to int) {
		agent := d.client(client.AgentDoor)
		for i := from; i < to; i++ {
			r := echo(fmt.Sprintf("hello %d", i))
			r.Key = fmt.Sprint(i)
			out, err := agent.Call(t.Context(), r, nil)
			if err != nil || out.Outcome != palyra.OutcomeFinished {
				t.Fatalf("%+v, %v", out, err)
			}
			if i == 10 && first.CallID == "" {
				first = out
			}
		}
	}
	size := func() int64 {
		d.stop()
		fi, err := os.Stat(filepath.Join(d.home, "state.db"))
		if err != nil {
			t.Fatal(err)
		}
		return fi.Size()
	}
	call(0, 20)
	before := size()
	d.mustStart(unlimited...)
	call(20, 120)
	if each := (size() - before) / 100; each > 4<<10 {
		t.Errorf("%d bytes of state for a call", each)
	}
	again := func(when string) {
		t.Helper()
		d.mustStart(unlimited...)
		d.verify()
		r := echo("hello 10")
		r.Key, r.Session = "10", string(first.SessionID)
		out, err := d.client(client.AgentDoor).Call(t.Context(), r, nil)
		got, _ := out.Marshal()
		want, _ := first.Marshal()
		if err != nil || string(got) != string(want) || out.Attestation == nil {
			t.Errorf("%s: %s, %v\nwant %s", when, got, err, want)
		}
		d.stop()
	}
	again("packed")
	d.unpacked(t)
	again("as earlier versions wrote it")
	if d.mustStart(unlimited...); !t.Failed() {
		call(120, 125) // and goes on
		d.verify()
	}
}
