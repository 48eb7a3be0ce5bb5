package journal

import (
	"context"
	"errors"

	"golang.org/x/mod/sumdb/tlog"

	"palyra/internal/store"
)

// take adds a block that was checked by itself to what came before it: the chain must go on, the tree grows, tiles
// above the lowest level and checkpoints must match it.
func (v *verifier) take(ctx context.Context, b block) (*Problem, error) {
	if b.err != nil {
		return nil, b.err
	}
	if b.base != v.seen.chain {
		return problem(v.seen.size, "its chain hash changed while it was read"), nil
	}
	var full []tile
	place := func(level int, h tlog.Hash) {
		if data := v.seen.place(level, h); data != nil {
			full = append(full, tile{level: level, n: (v.seen.size+1)>>((level+1)*tileHeight) - 1, data: data})
		}
	}
	for i, leaf := range b.leaves {
		v.seen.push(leaf, place)
		v.seen.chain = b.chains[i]
		if p := v.checkMarks(&b); p != nil {
			return p, nil
		}
		if v.at != nil && v.at.size == v.seen.size && (v.at.chain != v.seen.chain || v.at.root != v.seen.root()) {
			return &Problem{Seq: v.good + 1, Through: v.seen.size, Why: "they are not the entries that this daemon wrote"}, nil
		}
	}
	if b.problem != nil || len(full) == 0 {
		return b.problem, nil
	}
	return v.checkTiles(ctx, full)
}

// checkMarks compares the tree with the checkpoint of its size, if one is kept.
func (v *verifier) checkMarks(b *block) *Problem {
	if len(b.marks) == 0 || b.marks[0].size != v.seen.size {
		return nil
	}
	m := b.marks[0]
	b.marks = b.marks[1:]
	switch {
	case m.err != nil && v.head.origin == "":
		return nil // the head did not verify either, and that is what is reported
	case m.err != nil:
		return problem(m.size, "the checkpoint kept after it: %v", m.err)
	case m.head.origin != v.head.origin && v.head.origin != "":
		return problem(m.size, "the checkpoint kept after it is of another journal")
	case m.head.root != v.seen.root() || m.head.chain != v.seen.chain:
		return &Problem{Seq: v.good + 1, Through: m.size, Why: "they are not the entries that the checkpoint after them covers"}
	}
	v.good = m.size
	v.kept = v.kept.withNote(m.note)
	v.report.Checkpoints++
	return nil
}

// checkTiles compares full tiles above the lowest level with those kept.
func (v *verifier) checkTiles(ctx context.Context, full []tile) (p *Problem, err error) {
	err = v.read(ctx, func(tx *store.Tx) error {
		for _, t := range full {
			var data []byte
			err := tx.Get("SELECT hashes FROM journal_tiles WHERE level = ? AND n = ?", []any{t.level, t.n}, &data)
			if err != nil && !errors.Is(err, store.ErrNoRows) {
				return err
			}
			if string(data) != string(t.data) {
				span := int64(1) << ((t.level + 1) * tileHeight)
				p = &Problem{Seq: t.n*span + 1, Through: (t.n + 1) * span, Why: "the tile above them is missing or damaged"}
				return nil
			}
		}
		return nil
	})
	return p, err
}

// finish holds the whole against the signed head.
func (v *verifier) finish() *Problem {
	h := v.head
	switch {
	case v.seen.size > h.size:
		return problem(h.size+1, "it is not covered by the signed head, which ends at %d", h.size)
	case v.seen.size < h.size:
		return problem(v.seen.size+1, "it is missing: the signed head covers %d entries", h.size)
	case v.at != nil && v.at.size > v.seen.size:
		return problem(v.seen.size+1, "it is missing: this daemon wrote %d entries", v.at.size)
	case h.size > 0 && (h.root != v.seen.root() || h.chain != v.seen.chain):
		return &Problem{Seq: v.good + 1, Through: h.size, Why: "they are not the entries that the signed head covers"}
	case v.extent.tiles != tileCount(h.size):
		return problem(0, "there are %d tiles, %d are due", v.extent.tiles, tileCount(h.size))
	case v.extent.lastCheckpoint > h.size:
		return problem(h.size+1, "it is missing: a kept checkpoint covers %d entries", v.extent.lastCheckpoint)
	case v.extent.checkpoints != v.report.Checkpoints:
		return problem(0, "there are checkpoints of no size")
	case h.kept.known && (v.kept.count != h.kept.count || v.kept.sum != h.kept.sum):
		return problem(0, "the %d checkpoints that are kept are not the %d that the signed head knows", v.kept.count, h.kept.count)
	}
	return nil
}
