package stage

import (
	"os"
	"path/filepath"
	"testing"
)

// Undo leaves what a run put into the objects of a repository that was there: others may need it. A repository that the
// run made goes whole.
func TestObjectsStay(t *testing.T) {
	b := newBench(t)
	p := b.past()
	b.write(".git/objects/pack/old", "old\n")
	b.write(".git/HEAD", "old\n")
	b.write(".git/modules/s/objects/aa/1", "old\n")
	g := b.stage()
	check(t, g.Remember(p, "run"))
	b.run(g, `echo run > .git/HEAD; mkdir .git/objects/ab .git/objects/info; echo run | tee .git/objects/ab/1 .git/objects/info/alternates \
.git/modules/s/objects/aa/2; mkdir -p new/.git/objects/ab; echo run > new/.git/objects/ab/1; rm .git/objects/pack/old; echo > .git/objects/pack/p`)
	if e := b.keep(g); !e.Remembered {
		t.Fatalf("%+v", e)
	}
	g.Drop()
	b.write(".git/objects/ab/2", "another work tree's")
	check(t, os.Remove(filepath.Join(b.ws, ".git/objects/pack/p"))) // git collected garbage
	check(t, b.all.Compare(t.Context(), p, "run"))
	undo, err := b.all.Revert(t.Context(), p, "run")
	check(t, err)
	b.keep(undo)
	undo.Drop()
	for name, want := range map[string]bool{
		".git/objects/ab/1": true, ".git/objects/ab/2": true, ".git/modules/s/objects/aa/2": true, ".git/objects/pack/old": true,
		".git/objects/pack/p": false, ".git/objects/info/alternates": false, "new": false,
	} {
		if _, err := os.Lstat(filepath.Join(b.ws, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(b.ws, ".git/HEAD")); err != nil || string(text) != "old\n" {
		t.Errorf("%q, %v", text, err)
	}
}
