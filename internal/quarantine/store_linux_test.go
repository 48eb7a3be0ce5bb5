package quarantine

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fill gives a call an item of a size that its index tells.
func fill(t *testing.T, dir, call, workspace string, bytes int64, age time.Duration) {
	t.Helper()
	at := filepath.Join(dir, call)
	must(t, os.MkdirAll(filepath.Join(at, "000001", ItemName, "sub\xff"), 0o700))
	line, err := Item{Item: "000001", Path: ".envrc", Mode: 1, Bytes: bytes}.Line()
	must(t, err)
	must(t, os.WriteFile(filepath.Join(at, IndexName), line, 0o600))
	must(t, os.WriteFile(filepath.Join(at, WorkspaceName), []byte(workspace), 0o600))
	must(t, os.Chmod(filepath.Join(at, "000001", ItemName), 0))
	when := time.Now().Add(-age)
	must(t, os.Chtimes(at, when, when))
}

func calls(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// The oldest of the workspace goes first, then the oldest of all; the call that makes
// the room keeps its own, and what is there is closed.
func TestTrim(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "A1", "/a\xff", 40_000, 5*time.Hour)
	fill(t, dir, "B1", "/b", 40_000, 4*time.Hour)
	fill(t, dir, "A2", "/a\xff", 40_000, 3*time.Hour)
	fill(t, dir, "A3", "/a\xff", 40_000, 2*time.Hour)
	must(t, Shut(dir))
	if fi, err := os.Lstat(filepath.Join(dir, "A1/000001")); err != nil || fi.Mode().Perm() != 0 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	if n, bytes := Usage(dir); n != 4 || bytes != 160_000 {
		t.Errorf("%d calls, %d bytes", n, bytes)
	}
	fill(t, dir, "C1", "/c", 4096, 6*time.Hour)
	busy := func(call string) bool { return call == "C1" } // the oldest, and under way
	for _, step := range []struct {
		limits Limits
		want   []string
	}{
		{Limits{}, nil},
		{Limits{Total: 170_000, Workspace: 120_000}, nil},
		{Limits{Total: 170_000, Workspace: 100_000}, []string{"A1"}},
		{Limits{Total: 90_000, Workspace: 100_000}, []string{"B1"}},
		{Limits{Total: 1, Workspace: 1}, []string{"A2"}},
	} {
		gone, err := Trim(dir, "A3", busy, step.limits)
		if err != nil || !slices.Equal(gone, step.want) {
			t.Errorf("%+v: %q, %v", step.limits, gone, err)
		}
	}
	if left := calls(t, dir); !slices.Equal(left, []string{"A3", "C1"}) {
		t.Errorf("left %q", left)
	}
	if gone, err := Trim(filepath.Join(dir, "none"), "A3", busy, Limits{Total: 1}); gone != nil || err != nil {
		t.Errorf("%q, %v", gone, err)
	}
}

// Where others can write an index, sizes are measured: a line that says more evicts
// nobody, one that says less does not switch the bound off, and boxes stay shut.
func TestTrimMeasures(t *testing.T) {
	dir := t.TempDir()
	for i, call := range []string{"A1", "A2", "A3"} {
		fill(t, dir, call, "/a", 1<<62, time.Duration(9-i)*time.Hour)
	}
	must(t, Shut(dir))
	if n, bytes := Usage(dir); n != 3 || bytes != math.MaxInt64 {
		t.Errorf("%d calls, %d bytes", n, bytes)
	}
	nobody := func(string) bool { return false }
	gone, err := Trim(dir, "A3", nobody, Limits{Total: 1 << 20, Measure: true})
	if err != nil || len(gone) > 0 {
		t.Errorf("gone %q, %v", gone, err)
	}
	if fi, err := os.Lstat(filepath.Join(dir, "A1/000001")); err != nil || fi.Mode().Perm() != 0 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "A1", "beside"), make([]byte, 2<<20), 0o600))
	when := time.Now().Add(-9 * time.Hour)
	must(t, os.Chtimes(filepath.Join(dir, "A1"), when, when))
	must(t, os.WriteFile(filepath.Join(dir, "A1", IndexName), nil, 0o600))
	gone, err = Trim(dir, "A3", nobody, Limits{Total: 1 << 20, Measure: true})
	if err != nil || !slices.Equal(gone, []string{"A1"}) {
		t.Errorf("gone %q, %v", gone, err)
	}
}

// A removal ends, whoever goes on filling what it empties.
func TestRemovalEnds(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "x/1/2/3/4/5/6/7"), 0o700))
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer func() { _ = unix.Close(fd) }()
	if err := (&removal{passes: 3}).clearOut(fd, "x"); !errors.Is(err, errMuch) {
		t.Error(err)
	}
	must(t, remove(fd, "x"))
}

// A tree is removed however deep, wide or shut it is, and no link is followed.
func TestRemove(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "stays")
	must(t, os.WriteFile(outside, nil, 0o600))
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	must(t, unix.Mkdirat(at, "CALL", 0o700))
	name := "CALL"
	for i := range 1_000 {
		fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		must(t, unix.Close(at))
		at, name = fd, fmt.Sprintf("%d-%s\xff", i%7, strings.Repeat("d", 20))
		must(t, unix.Mkdirat(at, name, 0o700))
		must(t, unix.Mkdirat(at, ".up-1", 0o700))
		must(t, unix.Symlinkat(outside, at, "link"))
		if i > 0 {
			must(t, unix.Fchmod(at, 0o500))
		}
		must(t, unix.Fchmod(at, 0o700))
	}
	must(t, unix.Fchmod(at, 0))
	must(t, unix.Close(at))
	must(t, os.Mkdir(filepath.Join(dir, leaving+"CALL"), 0o700)) // one that was cut off
	must(t, os.Mkdir(filepath.Join(dir, leaving+"CALL", "x"), 0))
	must(t, Remove(dir, "CALL"))
	must(t, Remove(dir, "CALL"))
	if left := calls(t, dir); len(left) > 0 {
		t.Errorf("left %q", left)
	}
	if _, err := os.Lstat(outside); err != nil {
		t.Error(err)
	}
}

// A box measures what file systems keep, not what a name says, and bounds what it
// reads.
func TestBox(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer func() { _ = unix.Close(fd) }()
	must(t, os.MkdirAll(filepath.Join(dir, "x/sub"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "x/sub/sparse"), nil, 0o600))
	must(t, os.Truncate(filepath.Join(dir, "x/sub/sparse"), 1<<20))
	must(t, unix.Mkfifo(filepath.Join(dir, "x/fifo"), 0o600))
	must(t, os.Symlink("/dev/zero", filepath.Join(dir, "x/zero")))
	must(t, os.Chmod(filepath.Join(dir, "x/sub"), 0))
	b, err := NewBox(fd, "000001")
	must(t, err)
	must(t, b.Put(fd, "x"))
	bytes, over := b.Measure(1 << 19)
	if bytes < 5*entryCost || bytes > 1<<19 || over {
		t.Errorf("%d bytes, %v", bytes, over)
	}
	if _, over := b.Measure(bytes - 1); !over {
		t.Error("it is not too large")
	}
	one, n := b.Digest()
	if two, _ := b.Digest(); n != 1<<20 || one != two {
		t.Errorf("%s, %s of %d bytes", one, two, n)
	}
	must(t, b.Empty())
	must(t, b.Shut())
	if fi, err := os.Lstat(filepath.Join(dir, "000001")); err != nil || fi.Mode() != os.ModeDir {
		t.Errorf("%v, %v", fi, err)
	}
}
