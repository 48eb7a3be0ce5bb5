package dotenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// bench is a workspace of tests.
type bench struct {
	t   *testing.T
	dir string
	f   Finder
}

func newBench(t *testing.T) *bench {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, dir: dir}
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// put writes files, with the directories that they lie in.
func (b *bench) put(names ...string) {
	b.t.Helper()
	for _, n := range names {
		p := filepath.Join(b.dir, n)
		b.must(os.MkdirAll(filepath.Dir(p), 0o755))
		b.must(os.WriteFile(p, []byte("KEY=secretsecret12\n"), 0o600))
	}
}

func (b *bench) find() ([]string, error) {
	b.t.Helper()
	top, err := unix.Open(b.dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	b.must(err)
	defer func() { _ = unix.Close(top) }()
	return b.f.Find(b.t.Context(), SearchDir{Top: top, Path: b.dir, Place: b.dir}, Names{})
}

func (b *bench) finds(want ...string) {
	b.t.Helper()
	slices.Sort(want)
	if got, err := b.find(); err != nil || !slices.Equal(got, want) {
		b.t.Errorf("found %q, %v, want %q", got, err, want)
	}
}

func TestFind(t *testing.T) {
	b := newBench(t)
	b.finds()
	b.put(".env", "a/b/.env.local", "a/prod.env", "a/.env.example", "odd\xff/\xfe.env", "node_modules/x/.env", ".git/.env",
		"other", "far/real", "far/real2")
	b.must(os.Mkdir(filepath.Join(b.dir, "c.env"), 0o755)) // a directory, which Python's tools make
	b.must(unix.Mkfifo(filepath.Join(b.dir, "pipe.env"), 0o600))
	for link, to := range map[string]string{
		"conf": "a/prod.env", "a/.env": "../far/real", "x.env": filepath.Join(b.dir, "far/real2"), "out.env": "/etc/passwd", "up.env": "../../x",
		"loop.env": "loop.env", "gone.env": "nothing", "dir": "far", "way.env": "dir/real",
	} {
		b.must(os.Symlink(to, filepath.Join(b.dir, link)))
	}
	want := []string{".env", "a/b/.env.local", "a/prod.env", "odd\xff/\xfe.env", "far/real", "far/real2"}
	b.finds(want...)
	b.must(os.Link(filepath.Join(b.dir, ".env"), filepath.Join(b.dir, "node_modules/x/twin")))
	b.must(os.Link(filepath.Join(b.dir, "far/real"), filepath.Join(b.dir, "a/b/third")))
	want = append(want, "node_modules/x/twin", "a/b/third")
	b.finds(want...)
	b.must(os.Rename(filepath.Join(b.dir, "a/b"), filepath.Join(b.dir, "moved")))
	b.must(os.Remove(filepath.Join(b.dir, "a/prod.env")))
	b.finds(".env", "moved/.env.local", "moved/third", "odd\xff/\xfe.env", "far/real", "far/real2", "node_modules/x/twin")
}

// What is remembered of a directory holds only as long as it did not change, however short ago.
func TestFindAgain(t *testing.T) {
	b := newBench(t)
	b.put("a/b/x", "c/y")
	old := unix.NsecToTimeval(1e18)
	for i := range 200 {
		b.must(unix.Utimes(filepath.Join(b.dir, "a/b"), []unix.Timeval{old, old})) // whoever sets times back sets another one
		b.finds()
		b.put("a/b/.env")
		b.finds("a/b/.env")
		b.must(os.Remove(filepath.Join(b.dir, "a/b/.env")))
		if i == 0 {
			b.finds()
		}
	}
}

// A directory that rested is not read again: that is what makes a look cheap.
func TestFindRemembers(t *testing.T) {
	b := newBench(t)
	b.put("a/b/x")
	top, err := unix.Open(b.dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	b.must(err)
	defer func() { _ = unix.Close(top) }()
	if !timed(top) {
		t.Skip("UNPROVEN HERE: the file system of the tests keeps no times that can be relied on")
	}
	w := SearchDir{Top: top, Path: b.dir, Place: b.dir}
	var st unix.Stat_t
	b.must(unix.Fstat(top, &st))
	l := look{ctx: t.Context(), top: top, topStat: st, now: map[string]node{}, keeps: true}
	l.began = l.began.AddDate(9000, 0, 0) // everything has rested
	b.must(l.walk())
	if len(l.now) != 3 || l.entries != 3 {
		t.Fatalf("%d directories are remembered, %d entries were read", len(l.now), l.entries)
	}
	b.f.put(w.Place, l.now)
	again := look{ctx: t.Context(), top: top, topStat: st, was: b.f.get(w.Place), now: map[string]node{}, keeps: true}
	b.must(again.walk())
	if again.entries != 0 || len(again.now) != 3 {
		t.Errorf("%d entries were read again", again.entries)
	}
}

// The times of what is mounted in a workspace say nothing: it can be any file system.
func TestFindRemembersNoOtherFileSystem(t *testing.T) {
	b := newBench(t)
	b.put("a/x", "b/y")
	ownMounts(t)
	b.mount("tmpfs", filepath.Join(b.dir, "b"), "tmpfs", 0)
	b.put("b/c/z")
	top, err := unix.Open(b.dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	b.must(err)
	defer func() { _ = unix.Close(top) }()
	var st unix.Stat_t
	b.must(unix.Fstat(top, &st))
	l := look{ctx: t.Context(), top: top, topStat: st, now: map[string]node{}, keeps: true}
	l.began = l.began.AddDate(9000, 0, 0)
	b.must(l.walk())
	for _, rel := range []string{"b", "b/c"} {
		if _, ok := l.now[rel]; ok {
			t.Errorf("%s is remembered", rel)
		}
	}
	if _, ok := l.now["a"]; !ok || len(l.now) != 2 {
		t.Errorf("%v are remembered", l.now)
	}
}

// ownMounts gives the test mounts that nobody else sees.
func ownMounts(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: only root mounts")
	}
	runtime.LockOSThread() // and never unlocks it: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		t.Skip("UNPROVEN HERE: no mounts of the test's own: ", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
}

// mount mounts something until the test is over.
func (b *bench) mount(what, at, kind string, flags uintptr) {
	b.t.Helper()
	b.must(unix.Mount(what, at, kind, flags, ""))
	b.t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
}

// What a link leads to in the workspace is found by whatever way it goes there.
func TestFindByRoundaboutLinks(t *testing.T) {
	b := newBench(t)
	base := b.dir
	b.dir = filepath.Join(base, "ws")
	name := filepath.Base(b.dir)
	b.put("secrets/real", "two.txt", "three", "sub/four", "sub/deep/x", "five", "plain", "six")
	b.must(os.Symlink(base, filepath.Join(base, "alias")))
	b.must(os.Symlink("ws/sub", filepath.Join(base, "beside")))
	b.must(os.WriteFile(filepath.Join(base, "outside"), nil, 0o600))
	b.must(os.Link(filepath.Join(b.dir, "six"), filepath.Join(base, "six")))
	for link, to := range map[string]string{
		".env":      "../" + name + "/secrets/real",
		"abs.env":   filepath.Join(base, "alias", name, "two.txt"),
		"far.env":   strings.Repeat("../", 40) + filepath.Join(b.dir, "three")[1:],
		"sub/.env":  "deep/../../../beside/four",
		"loop1.env": "../" + name + "/loop1.env", "gone.env": "../" + name + "/none", "no.env": "../outside/x", "out.env": "../outside",
		"null.env": "/dev/null", "chain.env": "link", "link": filepath.Join(base, "alias", "alias", name, "five"), "six.env": "../six",
	} {
		b.must(os.Symlink(to, filepath.Join(b.dir, link)))
	}
	want := []string{"secrets/real", "two.txt", "three", "sub/four", "five", "six"}
	b.finds(want...)
	links, err := new(Masks).Links(t.Context(), b.dir)
	if by := []string{".env", "abs.env", "chain.env", "far.env", "link", "six.env", "sub/.env"}; err != nil || !slices.Equal(links, by) {
		t.Errorf("by the links %q, %v", links, err)
	}
	// The workspace may be called by an alias itself.
	real := b.dir
	b.dir = filepath.Join(base, "alias", name)
	b.finds(want...)
	b.dir = real

	for _, to := range []string{"/proc/self/cwd/plain", "/proc/thread-self/root/x", "/dev/fd/0", "../" + strings.Repeat("x", 300) + "/y"} {
		link := filepath.Join(b.dir, "odd.env")
		b.must(os.Symlink(to, link))
		bound := (*BoundError)(nil)
		if got, err := b.find(); !errors.As(err, &bound) || bound.Path != "odd.env" {
			t.Errorf("a link to %s: %q, %v", to, got, err)
		}
		b.must(os.Remove(link))
	}
	b.finds(want...)
}

// A workspace, or a part of it, that is mounted once more is the same workspace.
func TestFindByMounts(t *testing.T) {
	b := newBench(t)
	base := b.dir
	b.dir = filepath.Join(base, "ws")
	b.put("one", "sub/two", "three")
	ownMounts(t)
	for at, of := range map[string]string{"again": b.dir, "part": filepath.Join(b.dir, "sub")} {
		b.must(os.Mkdir(filepath.Join(base, at), 0o755))
		b.mount(of, filepath.Join(base, at), "", unix.MS_BIND)
	}
	b.must(os.Symlink(filepath.Join(base, "again/one"), filepath.Join(b.dir, ".env")))
	b.must(os.Symlink("../part/two", filepath.Join(b.dir, ".env.local")))
	b.finds("one", "sub/two")
}

func TestFindBounds(t *testing.T) {
	b := newBench(t)
	var names []string
	for i := range MaxFiles {
		names = append(names, fmt.Sprintf("d/%d.env", i))
	}
	b.put(names...)
	b.finds(names...)
	b.put("one.env")
	if _, err := b.find(); !errors.As(err, new(*BoundError)) {
		t.Errorf("too many: %v", err)
	}
	if os.Geteuid() == 0 {
		return // it may list everything
	}
	c := newBench(t)
	c.put("closed/.env")
	c.must(os.Chmod(filepath.Join(c.dir, "closed"), 0o300))
	if _, err := c.find(); !errors.As(err, new(*BoundError)) || !strings.Contains(err.Error(), "closed") {
		t.Errorf("closed: %v", err)
	}
	c.must(os.Chmod(filepath.Join(c.dir, "closed"), 0o700))
}

func TestCopy(t *testing.T) {
	b := newBench(t)
	b.put(".env")
	b.must(unix.Mkfifo(filepath.Join(b.dir, "pipe"), 0o600))
	b.must(os.Symlink(".env", filepath.Join(b.dir, "link")))
	top, err := unix.Open(b.dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	b.must(err)
	defer func() { _ = unix.Close(top) }()
	if got, same := masker.Copy(top, ".env"); hidden(string(got)) != "KEY=MASKED\n" || same {
		t.Errorf("%q, %v", got, same)
	}
	for _, rel := range []string{"pipe", "link", "missing", "../x", "."} {
		if got, same := masker.Copy(top, rel); string(got) != unopened || same {
			t.Errorf("%s: %q", rel, got)
		}
	}
}

// What was found is compared by which file it is, not by its name alone.
func TestStill(t *testing.T) {
	b := newBench(t)
	b.put(".env", "a/prod.env")
	top, err := unix.Open(b.dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	b.must(err)
	defer func() { _ = unix.Close(top) }()
	m, dir := &Masks{Key: []byte("key")}, SearchDir{Top: top, Path: b.dir}
	var size int64
	all, err := m.Copies(t.Context(), dir, &size, nil)
	if err != nil || len(all) != 2 || size == 0 || all[0].Same {
		t.Fatalf("%+v, %v", all, err)
	}
	was := []Found{all[0].Found, all[1].Found, {Path: "of another directory"}}
	if rest, err := m.Still(t.Context(), dir, was); err != nil || len(rest) != 1 {
		t.Errorf("%v, %v", rest, err)
	}
	b.must(os.Rename(filepath.Join(b.dir, ".env"), filepath.Join(b.dir, "x")))
	b.put(".env")
	if _, err := m.Still(t.Context(), dir, was); !errors.Is(err, ErrMoved) {
		t.Errorf("another file of that name: %v", err)
	}
	size = maxCopies
	if _, err := m.Copies(t.Context(), dir, &size, nil); !errors.As(err, new(*BoundError)) {
		t.Errorf("too large together: %v", err)
	}
}
