package store

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
)

// versions counts the commits that changed each table, by what the statements say.
type versions struct {
	all    atomic.Int64 // of statements that do not say which
	tables sync.Map     // name → *atomic.Int64
}

func (v *versions) version(table string) *atomic.Int64 {
	if n, ok := v.tables.Load(table); ok {
		return n.(*atomic.Int64) //nolint:forcetypeassert // nothing else is stored
	}
	n, _ := v.tables.LoadOrStore(table, new(atomic.Int64))
	return n.(*atomic.Int64) //nolint:forcetypeassert // nothing else is stored
}

// unknown stands for every table.
const unknown = "*"

// changes returns the tables that a statement changes: none, one, or unknown. Statements have no triggers that change
// other tables (internal/layers holds that for every schema).
func changes(query string) []string {
	words := strings.FieldsFunc(query, func(r rune) bool { return strings.ContainsRune(" \t\n(,;", r) })
	if len(words) == 0 {
		return nil
	}
	at := 0
	switch strings.ToUpper(words[0]) {
	case "SELECT", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "PRAGMA":
		return nil
	case "UPDATE":
		at = 1
	case "INSERT", "DELETE", "REPLACE":
		for i, w := range words {
			if u := strings.ToUpper(w); u == "INTO" || u == "FROM" {
				at = i + 1
				break
			}
		}
	}
	if at == 0 || at >= len(words) || strings.ToUpper(words[at]) == "OR" {
		return []string{unknown}
	}
	return []string{words[at]}
}

// changed counts a commit that changed tables.
func (v *versions) changed(tables []string) {
	for _, t := range tables {
		if t == unknown {
			v.all.Add(1)
		} else {
			v.version(t).Add(1)
		}
	}
}

// Memo remembers what was read from some tables, until a commit changes one of them. What it returns is shared:
// nobody may change it. It is for what every call asks and hardly ever changes.
type Memo[K comparable, V any] struct {
	db     *DB
	most   int
	all    *atomic.Int64
	tables []*atomic.Int64

	mu      sync.Mutex
	version int64
	known   map[K]V
}

// NewMemo returns a Memo that holds at most so many answers read from the tables.
func NewMemo[K comparable, V any](db *DB, most int, tables ...string) *Memo[K, V] {
	m := &Memo[K, V]{db: db, most: most, all: &db.versions.all, known: map[K]V{}}
	for _, t := range tables {
		m.tables = append(m.tables, db.versions.version(t))
	}
	return m
}

// now is the version of the tables. It is counted up after a commit and before its writer hears of it.
func (m *Memo[K, V]) now() int64 {
	n := m.all.Load()
	for _, t := range m.tables {
		n += t.Load()
	}
	return n
}

// Get returns what is known for the key, or what read returns, which reads nothing but the tables. An error is not kept.
func (m *Memo[K, V]) Get(ctx context.Context, key K, read func(*Tx) (V, error)) (V, error) {
	version := m.now() // before reading: what changes meanwhile makes the answer old
	m.mu.Lock()
	if v, ok := m.known[key]; ok && m.version == version {
		m.mu.Unlock()
		return v, ctx.Err()
	}
	m.mu.Unlock()
	var v V
	err := m.db.Read(ctx, func(tx *Tx) (err error) {
		v, err = read(tx)
		return err
	})
	if err != nil {
		return v, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.version < version || len(m.known) >= m.most {
		clear(m.known)
		m.version = version
	}
	if m.version == version {
		m.known[key] = v
	}
	return v, nil
}
