package journal

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"palyra"
	"palyra/internal/store"
)

// load reads the head and rebuilds the right edge from the rows it covers.
func (j *Journal) load(ctx context.Context) error {
	err := j.db.Read(ctx, func(tx *store.Tx) error {
		h, found, err := readHead(tx, j.keys)
		if err != nil {
			return err
		}
		e, err := readExtent(tx)
		if err != nil {
			return err
		}
		if !found {
			return j.loadEmpty(e)
		}
		if h.origin != j.origin {
			return fmt.Errorf("it belongs to %q", palyra.Clip(h.origin, 100))
		}
		return j.loadTail(tx, h, e)
	})
	if e := (*palyra.Error)(nil); err == nil || errors.As(err, &e) || ctx.Err() != nil {
		return err
	}
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonVerifyFailed, "the journal does not verify: %v", err).
		WithRemedy("run 'palyra journal verify' to find the first bad entry; restore the state from a backup").WithCause(err)
}

// extent is how far the tables reach. Without entries first is 1 and last 0.
type extent struct{ first, last, tiles, checkpoints, lastCheckpoint int64 }

func (e extent) empty() bool { return e == extent{first: 1} }

func readExtent(tx *store.Tx) (e extent, err error) {
	err = errors.Join(
		tx.Get("SELECT COALESCE(MIN(seq), 1) FROM journal_entries", nil, &e.first),
		tx.Get("SELECT COALESCE(MAX(seq), 0) FROM journal_entries", nil, &e.last),
		tx.Get("SELECT COUNT(*) FROM journal_tiles", nil, &e.tiles),
		tx.Get("SELECT COUNT(*), COALESCE(MAX(size), 0) FROM journal_checkpoints", nil, &e.checkpoints, &e.lastCheckpoint),
	)
	return e, err
}

// tileCount is how many full tiles a tree of a size has.
func tileCount(size int64) (n int64) {
	for size >>= tileHeight; size > 0; size >>= tileHeight {
		n += size
	}
	return n
}

// readHead reads and checks the head row; the row must say what its note says.
func readHead(tx *store.Tx, k keys) (h head, found bool, err error) {
	var size int64
	var root, chain []byte
	var note string
	err = tx.Get("SELECT size, root, chain, note FROM journal_head WHERE id = 1", nil, &size, &root, &chain, &note)
	if errors.Is(err, store.ErrNoRows) {
		return head{}, false, nil
	}
	if err != nil {
		return head{}, false, err
	}
	h, err = k.openTip(note)
	if err != nil {
		return head{}, true, fmt.Errorf("the signed head: %w", err)
	}
	if size != h.size || string(root) != string(h.root[:]) || string(chain) != string(h.chain[:]) {
		return head{}, true, errors.New("the head row differs from its signed text")
	}
	return h, true, nil
}

func (j *Journal) loadEmpty(e extent) error {
	if !e.empty() {
		return errors.New("there are entries and no signed head")
	}
	t := newTree(j.origin)
	now := j.now()
	h, err := j.sign(j.unsigned(t, now, keptCheckpoints{known: true}))
	if err != nil {
		return err
	}
	j.state, j.tip, j.keptAt = state{tree: t, head: h}, t, now
	return nil
}

func (j *Journal) loadTail(tx *store.Tx, h head, e extent) error {
	switch {
	case h.size < 1 || e.first != 1 || e.last != h.size:
		return fmt.Errorf("entries %d to %d are there, the signed head covers %d", e.first, e.last, h.size)
	case e.tiles != tileCount(h.size):
		return fmt.Errorf("%d tiles are there, %d are due", e.tiles, tileCount(h.size))
	case e.lastCheckpoint > h.size:
		return fmt.Errorf("a checkpoint covers %d entries, the signed head %d", e.lastCheckpoint, h.size)
	case h.kept.known && e.checkpoints != h.kept.count:
		return fmt.Errorf("%d checkpoints are kept, the signed head knows %d", e.checkpoints, h.kept.count)
	}
	if !h.kept.known { // written before heads knew: from now on they do
		var err error
		if h.kept, err = readKept(tx); err != nil {
			return err
		}
	}
	edge, err := readEdge(tx, h)
	if err != nil {
		return err
	}
	t := treeOf(h.size, h.chain, edge)
	if t.root() != h.root {
		return errors.New("its last entries are not those that the head covers")
	}
	j.state, j.tip = state{tree: t, head: h}, t
	j.kept, j.keptAt = e.lastCheckpoint, j.now()
	return nil
}

// readKept sums up the checkpoints that are kept.
func readKept(tx *store.Tx) (keptCheckpoints, error) {
	k := keptCheckpoints{known: true}
	err := tx.Each("SELECT note FROM journal_checkpoints ORDER BY size", nil, func(scan func(...any) error) error {
		var note string
		err := scan(&note)
		k = k.withNote(note)
		return err
	})
	return k, err
}

// readEdge rebuilds the unfinished tiles of a tree: of entries at the lowest level, of full tiles above.
func readEdge(tx *store.Tx, h head) ([][]tlog.Hash, error) {
	leaves, err := readLeaves(tx, h)
	if err != nil {
		return nil, err
	}
	edge := [][]tlog.Hash{leaves}
	for level := 1; h.size>>(level*tileHeight) > 0; level++ {
		full := h.size >> (level * tileHeight) // tiles of the level below
		first := full - full%tileWidth
		hashes, err := readTileRoots(tx, level-1, first, full)
		if err != nil {
			return nil, err
		}
		edge = append(edge, hashes)
	}
	for i, e := range edge { // room to grow, as place makes it
		if edge[i] = nil; len(e) > 0 {
			edge[i] = append(make([]tlog.Hash, 0, tileWidth), e...)
		}
	}
	return edge, nil
}

// readLeaves reads the entries of the unfinished lowest tile, and the one before
// as the chain's start, and checks each against its row and the chain.
func readLeaves(tx *store.Tx, h head) ([]tlog.Hash, error) {
	from := h.size - h.size%tileWidth + 1
	c := startChecker(h.origin)
	if from > 1 {
		c = checker{next: from - 1}
	}
	var leaves []tlog.Hash
	var last tlog.Hash
	err := tx.Each(rowsQuery, []any{c.next, h.size}, func(scan func(...any) error) error {
		if err := c.scan(scan); err != nil {
			return err
		}
		if p := c.check(); p != nil {
			return fmt.Errorf("entry %d: %s", p.Seq, p.Why)
		}
		if c.row.seq >= from {
			leaves = append(leaves, c.leaf)
		}
		last = c.chain
		return nil
	})
	if err != nil {
		return nil, err
	}
	if int64(len(leaves)) != h.size%tileWidth || last != h.chain {
		return nil, errors.New("the chain does not end where the signed head says")
	}
	return leaves, nil
}

// readTileRoots reads the tiles [from, to) of a level and returns their roots.
func readTileRoots(tx *store.Tx, level int, from, to int64) ([]tlog.Hash, error) {
	var roots []tlog.Hash
	err := tx.Each(tilesQuery, []any{level, from, to}, func(scan func(...any) error) error {
		var n int64
		var data []byte
		if err := scan(&n, &data); err != nil {
			return err
		}
		if n != from+int64(len(roots)) || len(data) != tileBytes {
			return fmt.Errorf("tile %d/%d is not in its place", level, n)
		}
		roots = append(roots, subtree(splitHashes(data)))
		return nil
	})
	if err == nil && int64(len(roots)) != to-from {
		err = fmt.Errorf("tiles of level %d are missing", level)
	}
	return roots, err
}
