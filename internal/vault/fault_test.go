package vault

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/store"
	"palyra/internal/vault/keeper"
	"palyra/secrets"
)

// cell is one column of one row.
type cell struct {
	table, column string
	row           int64
	value         any // int64, string or []byte
}

func (c cell) String() string { return fmt.Sprintf("%s.%s of row %d", c.table, c.column, c.row) }

// cells are all cells of a table.
func (h *house) cells(table string) (all []cell) {
	h.Helper()
	var columns []string
	h.ok(h.db.Read(h.Context(), func(tx *store.Tx) error {
		err := tx.Each(`SELECT name FROM pragma_table_info('`+table+`')`, nil, func(scan func(...any) error) error {
			var name string
			err := scan(&name)
			columns = append(columns, name)
			return err
		})
		if err != nil {
			return err
		}
		return tx.Each(`SELECT rowid, `+strings.Join(columns, ", ")+` FROM `+table+` ORDER BY rowid`, nil, func(scan func(...any) error) error {
			var id int64
			values, places := make([]any, len(columns)), []any{&id}
			for i := range values {
				places = append(places, &values[i])
			}
			err := scan(places...)
			for i, v := range values {
				all = append(all, cell{table, columns[i], id, v})
			}
			return err
		})
	}))
	return all
}

// set puts a value into a cell behind the vault's back.
func (h *house) set(c cell, value any) {
	h.Helper()
	h.exec(`UPDATE `+c.table+` SET `+c.column+`=? WHERE rowid=?`, value, c.row)
}

// flips are the values with one bit of one byte flipped, for each of its bytes; a number has eight.
func (c cell) flips() (all []any) {
	flip := func(raw []byte, as func([]byte) any) {
		for i := range raw {
			bad := bytes.Clone(raw)
			bad[i] ^= 1 << (i % 8)
			all = append(all, as(bad))
		}
	}
	switch v := c.value.(type) {
	case int64:
		flip(binary.BigEndian.AppendUint64(nil, uint64(v)), func(b []byte) any { return int64(binary.BigEndian.Uint64(b)) })
	case string:
		flip([]byte(v), func(b []byte) any { return string(b) })
	case []byte:
		flip(v, func(b []byte) any { return b })
	}
	return all
}

// stock is what is in the vault of the tests below: names and versions with their values.
var stock = map[ident]string{
	{"global", "one", 1}:             "the value of the first",
	{"global", "two", 1}:             "the value of the second",
	{"global", "two", 2}:             "the value of the second, again",
	{"principal:user:ada", "one", 1}: "1234",
}

func stocked(t *testing.T) *house {
	t.Helper()
	h := newHouse(t, t.TempDir())
	for _, i := range []ident{{"global", "one", 1}, {"global", "two", 1}, {"global", "two", 2}, {"principal:user:ada", "one", 1}} {
		_, err := h.Put(t.Context(), secrets.Value{
			Scope: secrets.Scope(i.scope), Name: i.name, Value: text(stock[i]), Unmasked: i.scope != "global", Expires: h.now.Add(time.Hour),
		}, ada)
		h.ok(err)
	}
	h.whole("at first")
	return h
}

// look reads every version. It reports an error for each that was not returned; one that is returned has its value.
func (h *house) look(what string) (all []error) {
	h.Helper()
	for i, want := range stock {
		value, _, err := h.Get(h.Context(), secrets.Scope(i.scope), i.name, i.version)
		_ = value.Use(func(b []byte) error {
			if err == nil && string(b) != want || err != nil && len(b) > 0 {
				h.Errorf("%s: %v is %q, %v", what, i, b, err)
			}
			return nil
		})
		if err != nil {
			all = append(all, err)
		}
		if value, info, err := h.Get(h.Context(), secrets.Scope(i.scope), i.name, 0); err == nil && info.Version < i.version {
			h.Errorf("%s: version %d of %v is the last", what, info.Version, i)
		} else {
			value.Destroy()
		}
	}
	return all
}

// whole checks that everything is there.
func (h *house) whole(what string) {
	h.Helper()
	if errs := h.look(what); len(errs) > 0 {
		h.Errorf("%s: %v", what, errs)
	}
}

// noticed checks that a change behind the vault's back is noticed by name by a daemon that opens the vault or reads the
// secrets, and that one which had it open returns nothing wrong.
func (h *house) noticed(what string) {
	h.Helper()
	named := func(errs []error) {
		h.Helper()
		for _, err := range errs {
			if e := palyra.AsError(err); e.Reason != palyra.ReasonVaultDamaged && e.Reason != palyra.ReasonVaultLocked || e.Remedy == "" {
				h.Errorf("%s: %v (%s)", what, err, e.Reason)
			}
		}
	}
	named(h.look(what))
	h.again()
	errs := h.look(what)
	named(errs)
	if len(errs) == 0 {
		h.Errorf("%s: nobody notices", what)
	}
}

// Every byte of every column of every row counts.
func TestEveryByteCounts(t *testing.T) {
	h := stocked(t)
	flips := map[string]int{}
	for _, table := range []string{"vault_secrets", "vault_manifest"} {
		for _, c := range h.cells(table) {
			if c.column == "one" { // the table holds it to 1
				continue
			}
			for n, bad := range c.flips() {
				h.set(c, bad)
				h.noticed(fmt.Sprintf("%v, byte %d flipped", c, n))
				h.set(c, c.value)
				flips[c.column]++
			}
			for _, other := range []any{nil, "x", int64(7), []byte("x"), 1.5} { // of another kind
				if fmt.Sprintf("%T", other) == fmt.Sprintf("%T", c.value) || other == nil {
					continue
				}
				h.set(c, other)
				h.noticed(fmt.Sprintf("%v is %#v", c, other))
				h.set(c, c.value)
			}
			h.again()
		}
	}
	h.whole("put right again")
	if len(flips) < 15-2 || flips["sealed"] < 4*44 || flips["wrapped"] != 4*72 || flips["mac"] != 32 || flips["counter"] != 8 {
		t.Errorf("too little was flipped: %v", flips)
	}
}

// Blobs cut at any length are noticed.
func TestEveryCutIsNoticed(t *testing.T) {
	h := stocked(t)
	cuts := 0
	for _, table := range []string{"vault_secrets", "vault_manifest"} {
		for _, c := range h.cells(table) {
			raw, ok := c.value.([]byte)
			if !ok {
				continue
			}
			for n := range raw {
				h.set(c, raw[:n])
				h.noticed(fmt.Sprintf("%v, cut at %d", c, n))
				cuts++
			}
			h.set(c, append(bytes.Clone(raw), 0))
			h.noticed(fmt.Sprintf("%v, longer", c))
			h.set(c, raw)
			h.again()
		}
	}
	h.whole("put right again")
	if cuts < 400 {
		t.Errorf("%d cuts", cuts)
	}
}

// What belongs to one version is nothing to another.
func TestEverySwapIsNoticed(t *testing.T) {
	h := stocked(t)
	byRow := map[int64]map[string]cell{}
	for _, c := range h.cells("vault_secrets") {
		if byRow[c.row] == nil {
			byRow[c.row] = map[string]cell{}
		}
		byRow[c.row][c.column] = c
	}
	swaps := 0
	for a := range byRow {
		for b := range byRow {
			if a >= b {
				continue
			}
			for _, columns := range [][]string{
				{"sealed"},
				{"wrapped"},
				{"data_key"},
				{"sealed", "wrapped"},
				{"sealed", "wrapped", "data_key"},
				{"sealed", "wrapped", "data_key", "unmasked", "created_by", "created_at", "expires_at"},
			} {
				for _, c := range columns {
					h.set(byRow[a][c], byRow[b][c].value)
					h.set(byRow[b][c], byRow[a][c].value)
				}
				h.noticed(fmt.Sprintf("%q of rows %d and %d swapped", columns, a, b))
				for _, c := range columns {
					h.set(byRow[a][c], byRow[a][c].value)
					h.set(byRow[b][c], byRow[b][c].value)
				}
				h.again()
				swaps++
			}
		}
	}
	h.whole("put right again")
	if swaps != 6*6 {
		t.Errorf("%d swaps", swaps)
	}
}

// Rows that are removed, added or put back are noticed.
func TestRowsThatComeAndGo(t *testing.T) {
	h := stocked(t)
	h.exec(`CREATE TABLE kept AS SELECT * FROM vault_secrets`)
	restore := func() {
		h.Helper()
		h.exec(`DELETE FROM vault_secrets`)
		h.exec(`INSERT INTO vault_secrets SELECT * FROM kept`)
		h.again()
		h.whole("put right again")
	}
	for row := int64(1); row <= int64(len(stock)); row++ {
		h.exec(`DELETE FROM vault_secrets WHERE rowid=?`, row)
		h.noticed(fmt.Sprintf("row %d removed", row))
		restore()
		for _, as := range []string{"'new', version", "name, version+1", "name, version+100", "name, -1"} {
			h.exec(`INSERT INTO vault_secrets SELECT 'channel:x', `+as+`, data_key, vault_key, wrapped, sealed, unmasked, created_by, created_at,
				expires_at FROM vault_secrets WHERE rowid=?`, row)
			h.noticed(fmt.Sprintf("row %d added once more as %s", row, as))
			restore()
		}
	}
	h.exec(`INSERT INTO vault_secrets SELECT scope, name, 3, data_key, vault_key, wrapped, sealed, unmasked, created_by, created_at, expires_at
		FROM vault_secrets WHERE name='two' AND version=1`)
	h.noticed("an old value as the newest version")
	restore()
	h.exec(`DELETE FROM vault_secrets WHERE name='two' AND version=2`)
	h.noticed("the newest version removed")
	restore()
}

// An earlier row, table or database is noticed when the journal has gone on, whether the secret was put anew, the key
// changed or a secret removed meanwhile.
func TestEveryRollbackIsNoticed(t *testing.T) {
	later := map[string]func(*house){
		"put": func(h *house) { h.put("three", "the value of the third") },
		"removed and put": func(h *house) {
			h.ok(h.Delete(h.Context(), secrets.Global, "one", 0, ada))
			h.put("one", "another value of the first")
		},
		"rotated": func(h *house) { h.ok(h.Rotate(h.Context(), "", palyra.Secret{}, ada)) },
		"another keeper": func(h *house) {
			h.ok(h.Rotate(h.Context(), otherFiles, palyra.Secret{}, ada))
			h.ok(h.Rotate(h.Context(), keeper.KeyFile, palyra.Secret{}, ada))
		},
	}
	for what, do := range later {
		for _, back := range []string{"row", "secrets", "manifest", "both", "all"} {
			h := stocked(t)
			keys := map[string][]byte{}
			found, err := filepath.Glob(filepath.Join(h.dir, "vault-*"))
			h.ok(err)
			for _, path := range found {
				keys[path], err = os.ReadFile(path)
				h.ok(err)
			}
			for _, table := range []string{"secrets", "manifest", "keys"} {
				h.exec(`CREATE TABLE old_` + table + ` AS SELECT * FROM vault_` + table)
			}
			do(h)
			put := func(table, where string) {
				h.exec(`DELETE FROM vault_` + table + where)
				h.exec(`INSERT INTO vault_` + table + ` SELECT * FROM old_` + table + where)
			}
			switch back {
			case "row":
				put("secrets", ` WHERE scope='global' AND name='one'`)
				if what == "put" { // it is the same
					continue
				}
			case "secrets", "manifest":
				put(back, "")
			default:
				put("secrets", "")
				put("manifest", "")
			}
			if back == "all" {
				put("keys", "")
				for path, key := range keys { // with the key that was forgotten
					h.ok(os.WriteFile(path, key, 0o600))
				}
			}
			h.again()
			s, err := h.Status(t.Context())
			h.ok(err)
			if s.State == secrets.Open || s.Why == "" || s.Remedy == "" {
				t.Errorf("%s, then %s put back: %+v", what, back, s)
			}
			_, err = h.get("one")
			if r := palyra.AsError(err).Reason; err == nil || r != palyra.ReasonVaultDamaged && r != palyra.ReasonVaultLocked {
				t.Errorf("%s, then %s put back: %v", what, back, err)
			}
		}
	}
}

// The list of keys that keepers may hold decides about nothing: whatever is written to it, the vault opens, its key
// stays, no other file is touched, and a rotation leaves one key.
func TestTheListOfKeysDecidesNothing(t *testing.T) {
	h := stocked(t)
	victim := filepath.Join(h.dir, "signing.key")
	h.ok(os.WriteFile(victim, []byte("not the vault's"), 0o600))
	check := func(what string) {
		h.Helper()
		h.again()
		h.whole(what)
		if b, err := os.ReadFile(victim); err != nil || string(b) != "not the vault's" {
			t.Fatalf("%s: another file is %q, %v", what, b, err)
		}
	}
	for _, c := range h.cells("vault_keys") {
		for n, bad := range c.flips() {
			h.set(c, bad)
			check(fmt.Sprintf("%v, byte %d flipped", c, n))
			h.exec(`DELETE FROM vault_keys`)
			h.exec(`INSERT INTO vault_keys (id, keeper) SELECT vault_key, keeper FROM vault_manifest`)
		}
	}
	for _, id := range []string{"x/../signing", "/../signing", "../signing", "", "..", "a\x00b", strings.Repeat("x", 300)} {
		h.exec(`INSERT INTO vault_keys (id, keeper) VALUES (?, 'key-file')`, id)
		check(fmt.Sprintf("the id %q", id))
	}
	h.exec(`DELETE FROM vault_keys`)
	check("emptied")
	h.ok(h.Rotate(t.Context(), "", palyra.Secret{}, ada))
	check("rotated")
	if keys, err := filepath.Glob(filepath.Join(h.dir, "vault-*.key")); err != nil || len(keys) != 1 {
		t.Errorf("keys %q, %v", keys, err)
	}
}

// A key of another vault opens nothing, also one that is called like the vault's own.
func TestAnotherKeyOpensNothing(t *testing.T) {
	h, other := stocked(t), stocked(t)
	paths := []string{}
	for _, dir := range []string{h.dir, other.dir} {
		found, err := filepath.Glob(filepath.Join(dir, "vault-*.key"))
		h.ok(errors.Join(err))
		paths = append(paths, found...)
	}
	key, err := os.ReadFile(paths[1])
	h.ok(err)
	h.ok(os.WriteFile(paths[0], key, 0o600))
	h.noticed("the key of another vault")
}
