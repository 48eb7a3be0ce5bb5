package prune

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// nest makes directories in each other, by descriptors: no path is long enough.
func nest(t *testing.T, dir string, levels int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for i := 0; i < levels && err == nil; i++ {
		if err = unix.Mkdirat(fd, "d", 0o700); err == nil {
			at := fd
			fd, err = unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			_ = unix.Close(at)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
}

// A run that nests directories without end costs the daemon neither its memory nor
// its time, now or when they are removed.
func TestShelvesThatAreNestedWithoutEnd(t *testing.T) {
	const levels = 400 // no more than a test can remove by descriptors
	dir, at := t.TempDir(), time.Now()
	lay(t, dir, oldCall, time.Hour, at)
	nest(t, filepath.Join(dir, oldCall), levels)
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, oldCall, "sub"), 0o700) })
	s := Shelf{Dir: dir, Name: IsCall, Keep: time.Hour}
	var opened int
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	v := &survey{ctx: t.Context(), root: root, left: mostSurveyed, visit: func(string, fs.DirEntry) { opened++ }}
	if v.directory(".", 0) || opened > 2*deepest {
		t.Errorf("%d entries were looked at", opened)
	}
	if n, bytes := s.measure(t.Context()); n != 1 || bytes != 5 {
		t.Errorf("%d entries of %d bytes", n, bytes)
	}
}

func TestSurveyStops(t *testing.T) {
	dir := t.TempDir()
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	over, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
		ctx   context.Context
		left  int
		seen  int
		whole bool
	}{
		"all": {t.Context(), 1000, 1000, true}, "a bound": {t.Context(), 999, 999, false}, "the daemon ends": {over, 1000, 0, false},
	} {
		seen := 0
		v := &survey{ctx: c.ctx, root: root, left: c.left, visit: func(string, fs.DirEntry) { seen++ }}
		if whole := v.directory(".", 0); whole != c.whole || seen != c.seen {
			t.Errorf("%s: %d seen, all of them: %v", name, seen, whole)
		}
	}
}

// What looks like a directory and is a pipe by the time it is opened, or a link that
// leads out, is passed over.
func TestSurveyWaitsForNobody(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	v := &survey{ctx: t.Context(), root: root, left: 10, visit: func(_ string, e fs.DirEntry) { t.Error(e.Name()) }}
	for _, name := range []string{"pipe", "link", "gone"} {
		if !v.directory(name, 1) {
			t.Error(name)
		}
	}
}
