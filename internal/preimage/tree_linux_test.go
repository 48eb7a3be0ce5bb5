package preimage

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
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

func openedDir(t *testing.T, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// planted is a directory with one of everything.
func planted(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.MkdirAll(at("0/sub/\xff\n"), 0o755))
	must(t, os.WriteFile(at("0/sub/\xff\n/f"), []byte("deep"), 0o640))
	must(t, os.WriteFile(at("1"), nil, 0o644))
	must(t, os.WriteFile(at("2"), bytes.Repeat([]byte("many "), 100_000), 0o755))
	must(t, os.Symlink("/etc/passwd", at("3")))
	must(t, unix.Mkfifo(at("4"), 0o600))
	must(t, os.WriteFile(at("5"), []byte("shut"), 0o600))
	must(t, os.Chmod(at("5"), 0))
	holes, err := os.Create(at("6"))
	must(t, err)
	_, err = holes.WriteAt([]byte("end"), 1<<40)
	must(t, errors.Join(err, holes.Close()))
	must(t, unix.Mknod(at("7"), unix.S_IFSOCK|0o600, 0))
	must(t, os.Mkdir(at("8"), 0o700))
	must(t, os.WriteFile(at("8/in"), []byte("in"), 0o644))
	must(t, os.Chmod(at("8"), 0o300))
	must(t, os.Chtimes(at("1"), time.Unix(5, 0), time.Unix(1_000_000, 7_000)))
	t.Cleanup(func() { _ = os.Chmod(at("8"), 0o700) })
	return dir
}

func TestATreeComesBack(t *testing.T) {
	from, to := planted(t), t.TempDir()
	var stream bytes.Buffer
	must(t, writeTree(t.Context(), &stream, "it", openedDir(t, from)))
	if stream.Len() > 2<<20 {
		t.Errorf("%d bytes: holes were written", stream.Len())
	}
	must(t, readTree(t.Context(), bytes.NewReader(stream.Bytes()), "it", openedDir(t, to)))
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(to, "8"), 0o700) })
	for _, name := range []string{"0", "0/sub", "0/sub/\xff\n", "0/sub/\xff\n/f", "1", "2", "3", "4", "5", "6", "8"} {
		var a, b unix.Stat_t
		must(t, unix.Lstat(filepath.Join(from, name), &a))
		must(t, unix.Lstat(filepath.Join(to, name), &b))
		if name == "5" {
			a.Mode &^= 0o400 // its owner had to be let in, to read it
		}
		if name == "8" {
			a.Mode = a.Mode&^0o777 | 0o300
		}
		if a.Mode != b.Mode || a.Mode&unix.S_IFMT != unix.S_IFDIR && a.Size != b.Size || a.Mtim != b.Mtim && name != "8" {
			t.Errorf("%q: mode %o, size %d at %v; was %o, %d, %v", name, b.Mode, b.Size, b.Mtim, a.Mode, a.Size, a.Mtim)
		}
		if a.Blocks*4 < b.Blocks && b.Blocks > 64 {
			t.Errorf("%q: %d blocks, was %d", name, b.Blocks, a.Blocks)
		}
	}
	for name, want := range map[string]string{"0/sub/\xff\n/f": "deep", "2": strings.Repeat("many ", 100_000)} {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
			t.Errorf("%q: %d bytes, %v", name, len(got), err)
		}
	}
	if got, err := os.Readlink(filepath.Join(to, "3")); err != nil || got != "/etc/passwd" {
		t.Errorf("the link says %q, %v", got, err)
	}
	if _, err := os.Lstat(filepath.Join(to, "7")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket: %v", err)
	}
	files, err := treeFiles(t.Context(), bytes.NewReader(stream.Bytes()), "it", func(p string, size int64) bool { return p != "6" }, 500_009)
	if err != nil || string(files["0/sub/\xff\n/f"]) != "deep" || len(files["2"]) != 500_000 || len(files) > 4 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

// TestWhoWroteTheStream holds that a stream leads nowhere else, and that what is not whole is noticed.
func TestWhoWroteTheStream(t *testing.T) {
	from := planted(t)
	var stream bytes.Buffer
	must(t, writeTree(t.Context(), &stream, "it", openedDir(t, from)))
	whole := stream.Bytes()
	if err := readTree(t.Context(), bytes.NewReader(whole), "other", openedDir(t, t.TempDir())); !errors.Is(err, errElse) {
		t.Errorf("as another's: %v", err)
	}
	for cut := 0; cut < len(whole); cut += 1 + cut/9 {
		if err := readTree(t.Context(), bytes.NewReader(whole[:cut]), "it", openedDir(t, t.TempDir())); err == nil {
			t.Fatalf("cut after %d of %d: not noticed", cut, len(whole))
		}
	}
	more := append(bytes.Clone(whole), 0)
	if _, err := treeFiles(t.Context(), bytes.NewReader(more), "it", func(string, int64) bool { return false }, 0); err == nil {
		t.Error("more after the end: not noticed")
	}
	for _, bad := range []record{
		{Path: []byte("../out"), Mode: unix.S_IFREG | 0o644},
		{Path: []byte("/out"), Mode: unix.S_IFREG | 0o644},
		{Path: []byte("a/../../out"), Mode: unix.S_IFDIR | 0o755},
		{Path: nil, Mode: unix.S_IFDIR},
		{Path: []byte("link/out"), Mode: unix.S_IFREG},
		{Path: []byte("dev"), Mode: unix.S_IFCHR},
		{Path: []byte("size"), Mode: unix.S_IFREG, Size: -1},
		{Path: []byte("suid"), Mode: unix.S_IFREG | 0o4755},
	} {
		dir := t.TempDir()
		to := filepath.Join(dir, "to")
		must(t, os.Mkdir(to, 0o755))
		must(t, os.Symlink("..", filepath.Join(to, "link")))
		var forged bytes.Buffer
		w := &treeWriter{ctx: t.Context(), to: &forged}
		must(t, w.block([]byte(firstTree+" it")))
		must(t, w.head(&bad))
		must(t, w.numbers(atEnd, 0))
		must(t, w.block(nil))
		err := readTree(t.Context(), &forged, "it", openedDir(t, to))
		if st, statErr := os.Stat(filepath.Join(to, "suid")); statErr == nil && st.Mode()&os.ModeSetuid == 0 {
			continue
		}
		left, _ := filepath.Glob(filepath.Join(dir, "*"))
		if err == nil || len(left) > 1 {
			t.Errorf("%q: %v, %q", bad.Path, err, left)
		}
	}
}
