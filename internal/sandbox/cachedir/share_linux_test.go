package cachedir

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What is copied from one cache to another is what is newer, whole, and nothing but files, directories and links: a
// stranger wrote both.
func TestSharing(t *testing.T) {
	from, to, outside := t.TempDir(), t.TempDir(), t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, text string, mode os.FileMode, age time.Duration) {
		t.Helper()
		must(os.MkdirAll(filepath.Dir(path), 0o755))
		must(os.WriteFile(path, []byte(text), 0o600))
		must(os.Chmod(path, mode))
		at := time.Now().Add(-age)
		must(os.Chtimes(path, at, at))
	}
	write(from+"/d/new", "new", 0o444, time.Hour)
	write(from+"/program", "p", 0o755|os.ModeSetuid, time.Hour)
	write(from+"/newer", "asked", 0o644, time.Minute)
	write(to+"/newer", "unasked", 0o644, time.Hour)
	write(from+"/older", "asked", 0o644, time.Hour)
	write(to+"/older", "unasked", 0o644, time.Minute)
	write(outside+"/secret", "secret", 0o644, time.Hour)
	must(os.Symlink(outside, from+"/out"))
	must(os.WriteFile(from+"/hollow", nil, 0o644))
	must(os.Truncate(from+"/hollow", 4<<20))
	must(os.Symlink(outside+"/secret", from+"/secret"))
	must(unix.Mkfifo(from+"/pipe", 0o644))
	must(os.Chmod(from+"/d", 0o555))
	// What lies in the way at the other end leads nowhere.
	write(from+"/way/f", "f", 0o644, 0)
	must(os.Symlink(outside, to+"/way"))
	write(from+"/over", "over", 0o644, 0)
	must(os.Symlink(outside+"/secret", to+"/over"))
	s := Sharing{ctx: t.Context(), entries: 1000, bytes: 16 << 20}
	if err := s.Tree(from, to); err == nil {
		t.Error("a directory that is a link at the other end was no fault")
	}
	for name, want := range map[string]string{"d/new": "new", "program": "p", "newer": "asked", "older": "unasked", "over": "over"} {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, mode := range map[string]os.FileMode{"d": 0o555, "d/new": 0o444, "program": 0o755} {
		if st, err := os.Lstat(filepath.Join(to, name)); err != nil || st.Mode().Perm() != mode || st.Mode()&os.ModeSetuid != 0 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	if text, err := os.Readlink(to + "/secret"); err != nil || text != outside+"/secret" {
		t.Errorf("a link became %q, %v", text, err)
	}
	left, _ := os.ReadDir(outside)
	text, _ := os.ReadFile(outside + "/secret")
	if len(left) != 1 || string(text) != "secret" {
		t.Errorf("something outside is another one: %v, %q", left, text)
	}
	if _, err := os.Lstat(to + "/pipe"); err == nil {
		t.Error("a pipe was copied")
	}
	if _, err := os.Lstat(to + "/hollow"); err == nil {
		t.Error("a file of holes was copied")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, few := range []Sharing{
		{ctx: t.Context(), entries: 1, bytes: 16 << 20},
		{ctx: t.Context(), entries: 1000, bytes: 1},
		{ctx: ended, entries: 1000, bytes: 16 << 20},
	} {
		if err := few.Tree(from, t.TempDir()); err == nil || !strings.Contains(err.Error(), "larger than is copied") {
			t.Errorf("%+v: %v", few, err)
		}
	}
	must(os.Chmod(from+"/d", 0o755))
	must(os.Chmod(to+"/d", 0o755))
}
