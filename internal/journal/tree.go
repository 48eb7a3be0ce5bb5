package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"palyra"
)

const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight
	tileBytes  = tileWidth * tlog.HashSize
)

// chainDomain keeps chain hashes apart from RFC 6962's leaves (0x00) and nodes (0x01).
const chainDomain = 0x02

// chainStart is the chain before the first entry: it binds the journal's name.
func chainStart(origin string) tlog.Hash {
	return sha256.Sum256(append([]byte{chainDomain}, origin...))
}

// link is the chain after an entry.
func link(prev, leaf tlog.Hash) tlog.Hash {
	var b [1 + 2*tlog.HashSize]byte
	b[0] = chainDomain
	copy(b[1:], prev[:])
	copy(b[1+tlog.HashSize:], leaf[:])
	return sha256.Sum256(b[:])
}

// leafHash is tlog.RecordHash without its allocation: it runs once per entry
// of a verification. buf is scratch space.
func leafHash(entry []byte, buf *[]byte) tlog.Hash {
	*buf = append(append((*buf)[:0], 0), entry...)
	return sha256.Sum256(*buf)
}

func digest(h tlog.Hash) palyra.Digest { return palyra.Digest("sha256:" + hex.EncodeToString(h[:])) }

func parseDigest(d palyra.Digest) (h tlog.Hash, ok bool) {
	if !d.Valid() {
		return h, false
	}
	_, err := hex.Decode(h[:], []byte(d[len("sha256:"):]))
	return h, err == nil
}

// frontier is a tree reduced to what its root is made of: the roots of its complete subtrees, largest first.
type frontier struct {
	size  int64
	stack []tlog.Hash
}

// push adds a leaf. full is called for each subtree completed by it whose height
// is a whole number of tiles, with that number; it may be nil.
func (f *frontier) push(leaf tlog.Hash, full func(level int, h tlog.Hash)) {
	h, height := leaf, 0
	for s := f.size; s&1 == 1; s >>= 1 {
		last := len(f.stack) - 1
		h = tlog.NodeHash(f.stack[last], h)
		f.stack = f.stack[:last]
		if height++; height%tileHeight == 0 && full != nil {
			full(height/tileHeight, h)
		}
	}
	f.stack = append(f.stack, h)
	f.size++
}

// root folds the subtrees, smallest first.
func (f *frontier) root() tlog.Hash {
	if len(f.stack) == 0 {
		return sha256.Sum256(nil)
	}
	h := f.stack[len(f.stack)-1]
	for i := len(f.stack) - 2; i >= 0; i-- {
		h = tlog.NodeHash(f.stack[i], h)
	}
	return h
}

// tile is a full tile: the hashes of a level, 256 of them.
type tile struct {
	level int
	n     int64
	data  []byte
}

// tree is the right edge of the journal: all that appending needs. It is a value: append returns the next tree and
// leaves the old one as it was, so to undo is to go back to the old value. Unfinished tiles share their arrays with
// later trees, which only write beyond this one's length.
type tree struct {
	frontier
	chain tlog.Hash
	edge  [][]tlog.Hash // per level, the hashes of the unfinished tile
}

func newTree(origin string) tree { return tree{chain: chainStart(origin)} }

// append adds a leaf and returns the tiles it filled.
func (t tree) append(leaf tlog.Hash) (tree, []tile) {
	next := tree{
		frontier: frontier{size: t.size, stack: append(make([]tlog.Hash, 0, len(t.stack)+1), t.stack...)},
		chain:    link(t.chain, leaf), edge: slices.Clone(t.edge),
	}
	var full []tile
	place := func(level int, h tlog.Hash) {
		if data := next.place(level, h); data != nil {
			n := (t.size+1)>>((level+1)*tileHeight) - 1
			full = append(full, tile{level: level, n: n, data: data})
		}
	}
	place(0, leaf)
	next.push(leaf, place)
	return next, full
}

// place puts a hash into its level's tile and returns the tile's bytes when that filled it.
func (t *tree) place(level int, h tlog.Hash) []byte {
	for len(t.edge) <= level {
		t.edge = append(t.edge, nil)
	}
	e := t.edge[level]
	if e == nil {
		e = make([]tlog.Hash, 0, tileWidth)
	}
	e = append(e, h)
	if len(e) < tileWidth {
		t.edge[level] = e
		return nil
	}
	t.edge[level] = nil
	return joinHashes(e)
}

func joinHashes(list []tlog.Hash) []byte {
	b := make([]byte, 0, len(list)*tlog.HashSize)
	for _, h := range list {
		b = append(b, h[:]...)
	}
	return b
}

func splitHashes(b []byte) []tlog.Hash {
	list := make([]tlog.Hash, len(b)/tlog.HashSize)
	for i := range list {
		copy(list[i][:], b[i*tlog.HashSize:])
	}
	return list
}

// treeOf is the tree of a given size whose unfinished tiles are given.
func treeOf(size int64, chain tlog.Hash, edge [][]tlog.Hash) tree {
	t := tree{frontier: frontier{size: size}, chain: chain, edge: edge}
	for level := len(edge) - 1; level >= 0; level-- {
		e := edge[level]
		for bit := tileWidth / 2; bit > 0; bit /= 2 { // the complete subtrees within the tile, largest first
			if len(edge[level])&bit != 0 {
				t.stack = append(t.stack, subtree(e[:bit]))
				e = e[bit:]
			}
		}
	}
	return t
}

// subtree is the root over a power of two of hashes.
func subtree(list []tlog.Hash) tlog.Hash {
	if len(list) == 1 {
		return list[0]
	}
	half := len(list) / 2
	return tlog.NodeHash(subtree(list[:half]), subtree(list[half:]))
}
