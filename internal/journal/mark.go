package journal

import (
	"context"
	"errors"

	"golang.org/x/mod/sumdb/tlog"

	"palyra"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
)

// Mark is a journal as it was when an entry was its last: what a checkpoint of
// that size must say, and what a proof or an attestation says of the entry.
type Mark struct {
	Size int64         `json:"size"`
	Root palyra.Digest `json:"root"`
	Leaf palyra.Digest `json:"leaf"`
}

// MarkOf checks the proof of an entry and returns the mark at that entry: the
// hashes to the left of an entry are those of the tree that ends with it.
func MarkOf(proof []byte, verifiers []string) (Mark, error) {
	if _, err := VerifyProof(proof, verifiers); err != nil {
		return Mark{}, err
	}
	p, entry, err := parseProof(proof)
	if err != nil {
		return Mark{}, err
	}
	path, err := hashes(p.Hashes)
	if err != nil {
		return Mark{}, err
	}
	leaf := tlog.RecordHash(entry)
	return Mark{Size: p.Index + 1, Root: digest(leftOf(path, 0, p.Size, p.Index, leaf)), Leaf: digest(leaf)}, nil
}

// leftOf is the root of the tree of the leaves from lo up to n, from n's audit path
// in the tree of those from lo up to hi, which was checked.
func leftOf(path []tlog.Hash, lo, hi, n int64, leaf tlog.Hash) tlog.Hash {
	if hi-lo <= 1 || len(path) == 0 {
		return leaf
	}
	k := int64(1)
	for k*2 < hi-lo {
		k *= 2
	}
	rest, top := path[:len(path)-1], path[len(path)-1]
	if n < lo+k {
		return leftOf(rest, lo, lo+k, n, leaf)
	}
	return tlog.NodeHash(top, leftOf(rest, lo+k, hi, n, leaf))
}

// MarkInFile returns the mark at an entry of a copy of the state file, and how many
// entries the copy has. It checks nothing: VerifyFile does.
func MarkInFile(ctx context.Context, path string, seq int64) (m Mark, size int64, err error) {
	engine, err := sqlite.OpenCopy(path)
	if err != nil {
		return Mark{}, 0, err
	}
	db, err := store.Open(ctx, engine)
	if err != nil {
		return Mark{}, 0, errors.Join(err, engine.Close())
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.Read(ctx, func(tx *store.Tx) error {
		if err := tx.Get("SELECT COALESCE(MAX(seq), 0) FROM journal_entries", nil, &size); err != nil {
			return notState(ctx, err)
		}
		if seq > size {
			return nil
		}
		t := newTree("")
		err := tx.Each("SELECT leaf FROM journal_entries WHERE seq <= ? ORDER BY seq", []any{seq}, func(scan func(...any) error) error {
			var b []byte
			if err := scan(&b); err != nil || len(b) != tlog.HashSize {
				return errors.Join(err, ctx.Err())
			}
			m.Leaf = digest(tlog.Hash(b))
			t, _ = t.append(tlog.Hash(b))
			return ctx.Err()
		})
		m.Size, m.Root = t.size, digest(t.root())
		return err
	})
	return m, size, err
}
