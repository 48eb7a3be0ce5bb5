package journal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"palyra"
)

// reference keeps every hash, as tlog itself does it.
type reference struct {
	stored []tlog.Hash
	leaves []tlog.Hash
}

func (r *reference) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		out[i] = r.stored[x]
	}
	return out, nil
}

func (r *reference) add(t testing.TB, data []byte) tlog.Hash {
	t.Helper()
	list, err := tlog.StoredHashes(int64(len(r.leaves)), data, r)
	if err != nil {
		t.Fatal(err)
	}
	r.stored = append(r.stored, list...)
	r.leaves = append(r.leaves, list[0])
	return list[0]
}

func (r *reference) root(t testing.TB, size int64) tlog.Hash {
	t.Helper()
	h, err := tlog.TreeHash(size, r)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// The tree's root, edge, tiles and rebuilt form are what tlog's own are, at
// every size up to more than four tiles and beyond the second level.
func TestTreeAgainstReference(t *testing.T) {
	const entries = tileWidth*tileWidth + tileWidth + 3
	ref, tree := &reference{}, newTree("x")
	var filled int64
	for i := range entries {
		leaf := ref.add(t, []byte{byte(i), byte(i >> 8), byte(i >> 16)})
		next, full := tree.append(leaf)
		tree = next
		for _, f := range full {
			filled++
			want, err := tlog.ReadTileData(tlog.Tile{H: tileHeight, L: f.level, N: f.n, W: tileWidth}, ref)
			if err != nil || string(want) != string(f.data) {
				t.Fatalf("size %d: tile %d/%d differs, %v", tree.size, f.level, f.n, err)
			}
		}
		if i > 4*tileWidth+2 && i < entries-300 && i%997 != 0 {
			continue
		}
		if tree.root() != ref.root(t, tree.size) {
			t.Fatalf("size %d: root differs", tree.size)
		}
		again := treeOf(tree.size, tree.chain, tree.edge)
		if diff := cmp.Diff(tree.stack, again.stack); diff != "" {
			t.Fatalf("size %d: rebuilt: %s", tree.size, diff)
		}
	}
	if filled != tileCount(entries) {
		t.Errorf("%d tiles filled, %d due", filled, tileCount(entries))
	}
}

func TestEmptyTree(t *testing.T) {
	tree := newTree("x")
	want, err := tlog.TreeHash(0, tlog.HashReaderFunc(nil))
	if err != nil || tree.root() != want {
		t.Errorf("root %v, want %v, %v", tree.root(), want, err)
	}
	if newTree("y").chain == tree.chain {
		t.Error("the chain does not bind the name")
	}
}

// Going back to an older value undoes everything, however often and from
// wherever it is done.
func TestTreeUndo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ref := &reference{}
		values := []tree{newTree("x")}
		n := byte(0)
		for range rapid.IntRange(1, 600).Draw(rt, "steps") {
			if len(values) > 1 && rapid.IntRange(0, 3).Draw(rt, "what") == 0 {
				values = values[:len(values)-rapid.IntRange(1, len(values)-1).Draw(rt, "back")]
				size := values[len(values)-1].size
				ref.leaves, ref.stored = ref.leaves[:size], ref.stored[:tlog.StoredHashCount(size)]
			}
			n++
			next, _ := values[len(values)-1].append(ref.add(t, []byte{n, byte(len(values))}))
			values = append(values, next)
		}
		for _, v := range values[1:] {
			if v.root() != ref.root(t, v.size) {
				rt.Fatalf("size %d: root differs", v.size)
			}
			first := v.size - v.size%tileWidth
			if diff := cmp.Diff(ref.leaves[first:v.size], append([]tlog.Hash{}, v.edge[0]...)); diff != "" {
				rt.Fatalf("size %d: edge: %s", v.size, diff)
			}
		}
	})
}

func TestLeafHash(t *testing.T) {
	var buf []byte
	for _, s := range []string{"", "a", "a longer entry", "b"} {
		if leafHash([]byte(s), &buf) != tlog.RecordHash([]byte(s)) {
			t.Errorf("leaf hash of %q differs", s)
		}
	}
}

func TestSubtreeIndexes(t *testing.T) {
	ref := &reference{}
	for i := range 300 {
		ref.add(t, []byte{byte(i), byte(i >> 8)})
	}
	for size := range int64(301) {
		stack, err := ref.ReadHashes(subtreeIndexes(size))
		if err != nil {
			t.Fatal(err)
		}
		f := frontier{size: size, stack: stack}
		if f.root() != ref.root(t, size) {
			t.Fatalf("size %d: root differs", size)
		}
	}
}

func TestDigestText(t *testing.T) {
	h := tlog.RecordHash([]byte("x"))
	if back, ok := parseDigest(digest(h)); !ok || back != h {
		t.Errorf("%v became %v", h, back)
	}
	for _, bad := range []string{"", "sha256:", "sha256:00", string(digest(h)[:70]) + "G", "SHA256" + string(digest(h)[6:])} {
		if _, ok := parseDigest(palyra.Digest(bad)); ok {
			t.Errorf("%q was taken", bad)
		}
	}
}
