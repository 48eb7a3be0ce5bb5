package stage

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/owner"
)

// A stage that was made ahead is its owner's only, is used once, is like one that was not, and goes with the others.
func TestStageMadeAhead(t *testing.T) {
	b := newBench(t)
	check(t, os.Chmod(b.ws, 0o2750))
	b.write("f", "old")
	b.all.Prepare(self())
	b.all.Prepare(self()) // one is enough
	names, err := b.all.names()
	check(t, err)
	if len(names) != 1 {
		t.Fatalf("made ahead: %q", names)
	}
	if other := b.all.takeSpare(owner.Identity{UID: 4242, GID: 4242}); other != nil {
		t.Error("a stage was made ahead for somebody else")
	}
	g, plain := b.stage(), b.stage()
	if g.name != names[0] || plain.name == g.name {
		t.Errorf("the one made ahead is %s; used were %s and %s", names[0], g.name, plain.name)
	}
	if one, other := tree(t, g.path), tree(t, plain.path); len(one) == 0 || len(one) != len(other) || one["upper"] != other["upper"] {
		t.Errorf("made ahead: %v\nmade now: %v", one, other)
	}
	b.run(g, "echo new > f")
	if e := b.keep(g); e.Kept != 1 {
		t.Errorf("%+v", e)
	}
	for what, spoil := range map[string]func(dir string) error{
		"gone":    os.RemoveAll,
		"half":    func(dir string) error { return os.Remove(filepath.Join(dir, "old")) },
		"written": func(dir string) error { return os.WriteFile(filepath.Join(dir, "upper", "x"), nil, 0o644) },
		"a link": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "upper")), os.Symlink(b.ws, filepath.Join(dir, "upper")))
		},
	} {
		b.all.Prepare(self())
		spare := b.all.spares[ids(self())]
		check(t, spoil(spare.path))
		if again := b.stage(); again.name == spare.name {
			t.Errorf("a stage that is %s was used", what)
		}
	}
	b.all.Prepare(self())
	g.Drop()
	plain.Drop()
	left := b.all.spares[ids(self())].path
	check(t, b.all.Close())
	if _, err := os.Lstat(left); err == nil {
		t.Error("what was made ahead stays when the stages are closed")
	}
}
