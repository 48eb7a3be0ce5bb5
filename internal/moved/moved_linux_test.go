package moved

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// tree is a root with a file and a link in it, three directories down, and others
// beside them.
func tree(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, dir := range []string{"a\xff/b/c", "other/b/c"} {
		err := os.MkdirAll(filepath.Join(root, dir), 0o755)
		err = errors.Join(err, os.WriteFile(filepath.Join(root, dir, "f"), []byte(dir), 0o644), os.Symlink("f", filepath.Join(root, dir, "l")))
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A directory above a file, at any height, that is swapped for another and put back is
// told every time, and the file beside it that nobody moved is not.
func TestSwappedAndPutBack(t *testing.T) {
	root := tree(t)
	for i := range 70 {
		w := New()
		n, beside := w.Add(root, filepath.Join(root, "a\xff/b/c/f")), w.Add(root, filepath.Join(root, "other/b/c/f"))
		dir := filepath.Join(root, []string{"a\xff", "a\xff/b", "a\xff/b/c"}[i%3])
		if w.Moved(n) || w.Moved(beside) {
			t.Fatalf("%d: at the beginning", i)
		}
		must(t, os.Rename(dir, dir+".away"), os.Mkdir(dir, 0o755), os.Remove(dir), os.Rename(dir+".away", dir))
		if !w.Moved(n) || w.Moved(beside) {
			t.Fatalf("%d: %q: %v, the one beside %v", i, dir, w.Moved(n), w.Moved(beside))
		}
		w.Close()
	}
}

// A link that is moved, made anew, or taken away while a second name keeps it, is told.
func TestLinks(t *testing.T) {
	for what, change := range map[string]func(l string) error{
		"moved":    func(l string) error { return errors.Join(os.Rename(l, l+"x"), os.Rename(l+"x", l)) },
		"made new": func(l string) error { return errors.Join(os.Remove(l), os.Symlink("f", l)) },
		"two names": func(l string) error {
			return errors.Join(os.Link(l, l+"x"), os.Remove(l), os.Symlink("g", l), os.Remove(l), os.Link(l+"x", l), os.Remove(l+"x"))
		},
	} {
		root := tree(t)
		w := New()
		n := w.Add(root, filepath.Join(root, "a\xff/b/c/l"))
		if w.Moved(n) {
			t.Errorf("%s: at the beginning", what)
		}
		must(t, change(filepath.Join(root, "a\xff/b/c/l")))
		if !w.Moved(n) {
			t.Errorf("%s is not told", what)
		}
		w.Close()
	}
}

// Whatever is written in the directories, and to the file, is no move.
func TestWritesAreNoMoves(t *testing.T) {
	root := tree(t)
	w := New()
	defer w.Close()
	n, missing := w.Add(root, filepath.Join(root, "a\xff/b/c/f")), w.Add(root, filepath.Join(root, "a\xff/none/c/f"))
	for i := range 200 {
		for _, dir := range []string{"", "a\xff", "a\xff/b", "a\xff/b/c"} {
			name := filepath.Join(root, dir, strconv.Itoa(i))
			must(t, os.WriteFile(name, nil, 0o600), os.Rename(name, name+"x"), os.Remove(name+"x"), os.Chmod(filepath.Join(root, dir), 0o700))
		}
	}
	must(t, os.Rename(filepath.Join(root, "a\xff/b/c/f"), filepath.Join(root, "g")),
		os.Rename(filepath.Join(root, "g"), filepath.Join(root, "a\xff/b/c/f")))
	if w.Moved(n) || w.Moved(missing) {
		t.Error("writes are told as moves")
	}
}

// Without a watch of the kernel's more is told, and never less; nothing above a root, and
// no way out of it, is anybody's to rely on.
func TestWithoutWatches(t *testing.T) {
	root := tree(t)
	for what, blind := range map[string]func(*Watch){"no instance": (*Watch).Close, "no watches": func(w *Watch) { w.held = maxPlaces }} {
		w := New()
		blind(w)
		n := w.Add(root, filepath.Join(root, "a\xff/b/c/f"))
		if w.Moved(n) {
			t.Errorf("%s: at the beginning", what)
		}
		dir := filepath.Join(root, "a\xff/b")
		for i := 0; !w.Moved(n); i++ { // the kernel's clock of files goes by ticks
			must(t, os.Rename(dir, dir+".away"), os.Rename(dir+".away", dir))
			if i > 1e5 {
				t.Fatalf("%s: not told", what)
			}
		}
		w.Close()
	}
	w := New()
	defer w.Close()
	n := w.Add(root, filepath.Join(root, "a\xff/b/c/f"))
	w.blindAll()
	must(t, os.WriteFile(filepath.Join(root, "a\xff/b/c/new"), nil, 0o600))
	if !w.ways[n].blind || !w.Moved(w.Add(root, filepath.Dir(root))) || !w.Moved(w.Add(root, "relative")) {
		t.Error("a way out of the root is relied on")
	}
}
