package agentstage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/change"
)

// layers is an upper layer as an overlay leaves it, and the workspace below.
type layers struct {
	t           *testing.T
	upper, ws   string
	all         []change.Change
	uppers, wss int
}

func newLayers(t *testing.T) *layers {
	l := &layers{t: t, upper: t.TempDir(), ws: t.TempDir()}
	l.uppers, l.wss = open(t, l.upper), open(t, l.ws)
	return l
}

func open(t *testing.T, dir string) int {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func (l *layers) put(top, path, text string) {
	l.t.Helper()
	name := filepath.Join(top, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		l.t.Fatal(err)
	}
}

func (l *layers) removed(path string) {
	l.t.Helper()
	if err := unix.Mknod(filepath.Join(l.upper, path), unix.S_IFCHR, 0); err != nil {
		l.t.Fatal(err)
	}
}

func (l *layers) whole(path string) {
	l.t.Helper()
	if err := unix.Lsetxattr(filepath.Join(l.upper, path), xattrWhole, []byte("y"), 0); err != nil {
		l.t.Fatal(err)
	}
}

func (l *layers) changed(path string, was, now change.Kind) {
	l.all = append(l.all, change.Change{Path: path, Was: change.State{Kind: was}, Now: change.State{Kind: now}})
}

// tree lists what is below a directory: files with their content, whiteouts as such.
func tree(t *testing.T, top string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(top, path)
		switch {
		case err != nil || rel == ".":
			return err
		case d.IsDir():
			out = append(out, rel+"/")
		case d.Type()&fs.ModeCharDevice != 0:
			out = append(out, rel+" gone")
		default:
			text, err := os.ReadFile(path)
			out = append(out, fmt.Sprintf("%q=%s", rel, text))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

// fixture is a stage with a changed file, a removed one, a new directory with two files, a directory in the place of
// another, a removed directory, and a name that is no text.
func fixture(t *testing.T) *layers {
	l := newLayers(t)
	for _, p := range []string{"a", "b", "d/old", "r/one", "r/two"} {
		l.put(l.ws, p, "was")
	}
	l.put(l.upper, "a", "is")
	l.changed("a", change.File, change.File)
	l.removed("b")
	l.changed("b", change.File, change.Nothing)
	l.put(l.upper, "n/x", "x")
	l.put(l.upper, "n/y", "y")
	l.whole("n")
	l.changed("n", change.Nothing, change.Directory)
	l.changed("n/x", change.Nothing, change.File)
	l.changed("n/y", change.Nothing, change.File)
	l.put(l.upper, "d/new", "new")
	l.whole("d")
	l.changed("d/new", change.Nothing, change.File)
	l.changed("d/old", change.File, change.Nothing)
	l.removed("r")
	for _, p := range []string{"r", "r/one", "r/two"} {
		l.changed(p, change.File, change.Nothing)
	}
	l.put(l.upper, "\xff", "raw")
	l.changed("\xff", change.Nothing, change.File)
	return l
}

// A part has what is meant and the directories that lead to it, and nothing else; what was replaced or removed as a whole is
// refused in part.
func TestCopyAPart(t *testing.T) {
	for _, c := range []struct {
		pick []string
		want string
		err  string
	}{
		{pick: []string{"a"}, want: `"a"=is`},
		{pick: []string{"b", "\xff"}, want: `b gone "\xff"=raw`},
		{pick: []string{"n/x"}, want: `n/ "n/x"=x`},
		{pick: []string{"n", "n/x", "n/y"}, want: `n/ "n/x"=x "n/y"=y`},
		{pick: []string{"d/new"}, err: "d"},
		{pick: []string{"d/new", "d/old"}, want: `d/ "d/new"=new`},
		{pick: []string{"r/one"}, err: "r"},
		{pick: []string{"r", "r/one", "r/two"}, want: `r gone`},
	} {
		l, to := fixture(t), t.TempDir()
		choice := Choose(l.all, func(p string) bool { return slices.Contains(c.pick, p) })
		err := Copy(t.Context(), l.uppers, l.wss, open(t, to), choice)
		if whole := (*WholeError)(nil); c.err != "" && (!errors.As(err, &whole) || whole.Path != c.err) || c.err == "" && err != nil {
			t.Errorf("%q: %v", c.pick, err)
		}
		if got := tree(t, to); c.err == "" && got != c.want {
			t.Errorf("%q: %s, want %s", c.pick, got, c.want)
		}
	}
}

// What is taken is gone from the stage, and the rest means what it meant: also in a new directory of which a part was kept,
// whose rest must not remove that part.
func TestTakeAPart(t *testing.T) {
	l := fixture(t)
	whole := tree(t, l.upper)
	take := func(paths ...string) {
		t.Helper()
		if err := Take(t.Context(), l.uppers, l.wss, Choose(l.all, func(p string) bool { return slices.Contains(paths, p) })); err != nil {
			t.Fatal(err)
		}
		l.all = slices.DeleteFunc(l.all, func(c change.Change) bool { return slices.Contains(paths, c.Path) })
	}
	l.put(l.ws, "n/x", "x") // it was kept
	take("n/x", "a", "\xff")
	if got := tree(t, l.upper); got != `b gone d/ "d/new"=new n/ "n/y"=y r gone` {
		t.Errorf("%s, of %s", got, whole)
	}
	if n, err := unix.Lgetxattr(filepath.Join(l.upper, "n"), xattrWhole, nil); err == nil {
		t.Errorf("what was kept in it does not show through: %d", n)
	}
	take("d/new", "d/old")
	take("r", "r/one", "r/two")
	take("b")
	take("n", "n/y")
	if got := tree(t, l.upper); got != "" {
		t.Errorf("left is %s", got)
	}
}

// What was kept is known by what is in the workspace.
func TestSame(t *testing.T) {
	l := fixture(t)
	for _, p := range []string{"a", "b", "n/x", "d/new", "r", "r/one", "\xff"} {
		if Same(l.uppers, l.wss, p) {
			t.Errorf("%q is the same before it is kept", p)
		}
	}
	l.put(l.ws, "a", "is")
	l.put(l.ws, "n/x", "x")
	if err := errors.Join(os.Remove(filepath.Join(l.ws, "b")), os.RemoveAll(filepath.Join(l.ws, "r"))); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"a", "b", "n", "n/x", "r", "r/one"} {
		if !Same(l.uppers, l.wss, p) {
			t.Errorf("%q is another one when it is kept", p)
		}
	}
}

// What is never kept does not tell that the rest was not: set-id bits, and sockets.
func TestSameButForWhatIsNeverKept(t *testing.T) {
	l := newLayers(t)
	l.put(l.upper, "tool", "x")
	l.put(l.ws, "tool", "x")
	if err := errors.Join(unix.Chmod(filepath.Join(l.upper, "tool"), 0o4644),
		unix.Mknod(filepath.Join(l.upper, "sock"), unix.S_IFSOCK|0o600, 0),
		unix.Mkfifo(filepath.Join(l.upper, "pipe"), 0o600), unix.Mkfifo(filepath.Join(l.ws, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"tool", "sock", "pipe"} {
		if !Same(l.uppers, l.wss, p) {
			t.Errorf("%s is another one when it is kept", p)
		}
	}
	if err := os.Chmod(filepath.Join(l.ws, "tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	if Same(l.uppers, l.wss, "tool") {
		t.Error("another mode is the same")
	}
}

// A note is read as it was written, a name that is none is no agent, and a stage is removed with all that is in it.
func TestStore(t *testing.T) {
	s := Store{t.TempDir()}
	if _, err := s.Read("../x"); !errors.As(err, new(*NoneError)) {
		t.Errorf("a name that is none: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(s.Dir, Name("A"), "upper", "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	n := Note{Call: "A", Workspace: "/w", UID: 1, GID: 2}
	if err := s.Write(n); err != nil {
		t.Fatal(err)
	}
	got, err := s.Read("A")
	if err != nil || got.Workspace != "/w" || got.Version != 1 || got.Boot == "" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, Name("A"), noteName), []byte(`{"version":1,"call":"B"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read("A"); err == nil {
		t.Error("the note of another agent is believed")
	}
	if all, bad, err := s.List(); err != nil || len(all) != 0 || !slices.Equal(bad, []string{"A"}) {
		t.Errorf("%v, %v, %v", all, bad, err)
	}
	if err := s.Remove("A"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read("A"); !errors.As(err, new(*NoneError)) {
		t.Errorf("removed: %v", err)
	}
}
