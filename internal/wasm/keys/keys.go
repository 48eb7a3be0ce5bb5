// Package keys keeps what skills keep: values under keys, for each skill its own.
//
// Words: the owner of a key is the skill's id. Promises: no skill sees or changes another's keys; how many a skill has, and
// how much they take, is bounded; a value that was put is durable.
//
// It is data of skills: nothing is known of what it means, it is on no record, and it goes when its skill is forgotten.
//
// Its words are those of docs/words.md.
package keys

import (
	"context"
	"embed"
	"errors"

	"palyra"
	"palyra/internal/store"
	"palyra/internal/wasm"
)

//go:embed schema
var schema embed.FS

// Schema returns the package's tables.
func Schema() store.Schema { return store.SchemaOf("skillkeys", schema) }

// The limits of a skill. The sizes count keys as well as values.
const (
	MaxValue = 256 << 10
	MaxNames = 10_000
	MaxBytes = 32 << 20
)

// Store keeps the keys of all skills.
type Store struct{ db *store.DB }

// New returns a Store.
func New(db *store.DB) *Store { return &Store{db} }

// Of returns the keys of one skill.
func (s *Store) Of(owner string) wasm.Keys { return owned{s.db, owner} }

// Forget removes all keys of a skill.
func Forget(tx *store.Tx, owner string) error {
	_, err1 := tx.Exec(`DELETE FROM skill_keys WHERE owner = ?`, owner)
	_, err2 := tx.Exec(`DELETE FROM skill_sizes WHERE owner = ?`, owner)
	return errors.Join(err1, err2)
}

// Size returns how many keys a skill has, and what they take.
func (s *Store) Size(ctx context.Context, owner string) (names, bytes int64, err error) {
	err = s.db.Read(ctx, func(tx *store.Tx) error {
		names, bytes, err = sizes(tx, owner)
		return err
	})
	return names, bytes, err
}

// owned is the keys of one skill.
type owned struct {
	db    *store.DB
	owner string
}

// Get implements wasm.Keys.
func (o owned) Get(ctx context.Context, _, key string) (value []byte, err error) {
	err = o.db.Read(ctx, func(tx *store.Tx) error {
		err := tx.Get(`SELECT value FROM skill_keys WHERE owner = ? AND name = ?`, []any{o.owner, []byte(key)}, &value)
		if errors.Is(err, store.ErrNoRows) {
			return nil
		}
		if err == nil && value == nil {
			value = []byte{} // it is there, and empty
		}
		return err
	})
	return value, err
}

// Put implements wasm.Keys.
func (o owned) Put(ctx context.Context, _, key string, value []byte) error {
	if len(value) > MaxValue {
		return tooMuch("a value has at most %d bytes", MaxValue)
	}
	if value == nil {
		value = []byte{}
	}
	return o.db.Write(ctx, "skill.put", func(tx *store.Tx) error {
		names, bytes, err := o.take(tx, key)
		if err != nil {
			return err
		}
		names, bytes = names+1, bytes+int64(len(key)+len(value))
		switch {
		case names > MaxNames:
			return tooMuch("a skill has at most %d keys", MaxNames)
		case bytes > MaxBytes:
			return tooMuch("a skill keeps at most %d bytes", MaxBytes)
		}
		_, err = tx.Exec(`INSERT INTO skill_keys (owner, name, value) VALUES (?, ?, ?)`, o.owner, []byte(key), value)
		return errors.Join(err, o.keep(tx, names, bytes))
	})
}

// Delete implements wasm.Keys.
func (o owned) Delete(ctx context.Context, _, key string) error {
	return o.db.Write(ctx, "skill.deleted", func(tx *store.Tx) error {
		names, bytes, err := o.take(tx, key)
		return errors.Join(err, o.keep(tx, names, bytes))
	})
}

// List implements wasm.Keys.
func (o owned) List(ctx context.Context, _, start, after string, limit int) (all []string, err error) {
	query, args := `SELECT name FROM skill_keys WHERE owner = ? AND name >= ? AND name > ?`, []any{o.owner, []byte(start), []byte(after)}
	if end := upperBound(start); end != nil {
		query, args = query+` AND name < ?`, append(args, end)
	}
	err = o.db.Read(ctx, func(tx *store.Tx) error {
		return tx.Each(query+` ORDER BY name LIMIT ?`, append(args, limit), func(scan func(...any) error) error {
			var name []byte
			err := scan(&name)
			all = append(all, string(name))
			return err
		})
	})
	return all, err
}

// upperBound is the first key after all that begin with start; nil: there is none.
func upperBound(start string) []byte {
	b := []byte(start)
	for len(b) > 0 {
		if b[len(b)-1]++; b[len(b)-1] != 0 {
			return b
		}
		b = b[:len(b)-1]
	}
	return nil
}

// take removes a key, and returns how many are left and what they take.
func (o owned) take(tx *store.Tx, key string) (names, bytes int64, err error) {
	if names, bytes, err = sizes(tx, o.owner); err != nil {
		return 0, 0, err
	}
	var size int64
	err = tx.Get(`SELECT LENGTH(value) FROM skill_keys WHERE owner = ? AND name = ?`, []any{o.owner, []byte(key)}, &size)
	if errors.Is(err, store.ErrNoRows) {
		return names, bytes, nil
	}
	if err == nil {
		_, err = tx.Exec(`DELETE FROM skill_keys WHERE owner = ? AND name = ?`, o.owner, []byte(key))
	}
	return names - 1, bytes - size - int64(len(key)), err
}

func sizes(tx *store.Tx, owner string) (names, bytes int64, err error) {
	err = tx.Get(`SELECT names, bytes FROM skill_sizes WHERE owner = ?`, []any{owner}, &names, &bytes)
	if errors.Is(err, store.ErrNoRows) {
		return 0, 0, nil
	}
	return names, bytes, err
}

func (o owned) keep(tx *store.Tx, names, bytes int64) error {
	_, err := tx.Exec(`INSERT INTO skill_sizes (owner, names, bytes) VALUES (?, ?, ?)
		ON CONFLICT (owner) DO UPDATE SET names = excluded.names, bytes = excluded.bytes`, o.owner, names, bytes)
	return err
}

func tooMuch(format string, args ...any) error {
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonQuotaExceeded, format, args...).WithRemedy("delete keys, or keep less")
}
