package journal

import (
	"encoding/json"
	"testing"

	"palyra"
)

// A proof of an entry says what the tree was when the entry was its last, whatever
// came after it.
func TestMarksAreTheRootsOfThen(t *testing.T) {
	f := newFixture(t)
	roots := map[int64]palyra.Digest{}
	for i := range 300 {
		if _, err := f.Record(t.Context(), event(i)); err != nil {
			t.Fatal(err)
		}
		s, _ := f.committed()
		roots[s.tree.size] = digest(s.tree.root())
	}
	for seq, root := range roots {
		p, err := f.Proof(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		m, err := MarkOf(raw, []string{f.signer.Verifier()})
		if err != nil || m.Size != seq || m.Root != root || m.Leaf != p.Leaf {
			t.Fatalf("entry %d: %+v, %v; want %s", seq, m, err, root)
		}
	}
	for _, seq := range []int64{1, 2, 255, 256, 257, 300} {
		m, size, err := MarkInFile(t.Context(), f.path, seq)
		if err != nil || size != 300 || m.Size != seq || m.Root != roots[seq] {
			t.Errorf("entry %d of the file: %+v of %d, %v", seq, m, size, err)
		}
	}
	if m, size, err := MarkInFile(t.Context(), f.path, 301); err != nil || size != 300 || m != (Mark{}) {
		t.Errorf("beyond the end: %+v of %d, %v", m, size, err)
	}
	if _, err := MarkOf([]byte(`{}`), []string{f.signer.Verifier()}); err == nil {
		t.Error("no proof was accepted")
	}
}
