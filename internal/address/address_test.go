//go:build unix

package address_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"palyra/internal/address"
)

func find(t *testing.T, run, want string, fail error) {
	t.Helper()
	if got, err := address.Find(run, "/usual"); got != want || !errors.Is(err, fail) {
		t.Errorf("%s: got %q, %v; want %q, %v", run, got, err, want, fail)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What a daemon wrote down holds in its own run directory, wherever that is
// moved to, and in no copy of it.
func TestBoundToItsDirectory(t *testing.T) {
	top := t.TempDir()
	run, moved, copied := filepath.Join(top, "run"), filepath.Join(top, "moved"), filepath.Join(top, "copied")
	short, other := filepath.Join(top, "short"), filepath.Join(top, "other")
	for _, dir := range []string{run, copied, short, other} {
		must(t, os.Mkdir(dir, 0o700))
	}
	find(t, run, "/usual", nil)
	must(t, address.Save(run, short))
	find(t, run, short, nil)
	must(t, os.Link(filepath.Join(run, "addr"), filepath.Join(copied, "addr")))
	find(t, copied, "", address.ErrOther)
	must(t, os.Rename(run, moved))
	find(t, moved, short, nil)
	must(t, os.Symlink(moved, run)) // another way to the same directory
	find(t, run, short, nil)
	must(t, address.Save(copied, other)) // its own daemon starts
	find(t, copied, other, nil)
	must(t, address.Save(copied, short)) // another home has the sockets' directory now
	find(t, moved, "/usual", nil)
}

// A home that was moved does not lead to the daemon of the one that is now in its
// old place.
func TestOldPlaceTaken(t *testing.T) {
	top := t.TempDir()
	run, moved := filepath.Join(top, "run"), filepath.Join(top, "moved")
	must(t, os.Mkdir(run, 0o700))
	must(t, address.Save(run, run))
	find(t, run, run, nil)
	must(t, os.Rename(run, moved))
	find(t, moved, "/usual", nil)
	must(t, os.Mkdir(run, 0o700))
	must(t, address.Save(run, run))
	find(t, moved, "/usual", nil)
	find(t, run, run, nil)
}

// What nobody could have meant, or others could have written, is not believed.
func TestNotBelieved(t *testing.T) {
	run := t.TempDir()
	path := filepath.Join(run, "addr")
	for _, text := range []string{"", "\n", "/there\n", "there\nrun 1:1\n", "\x00\xff\n\n\n"} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		find(t, run, "/usual", nil)
	}
	must(t, os.WriteFile(path, []byte("/there\nrun 1:1\n"), 0o600))
	find(t, run, "", address.ErrOther)
	must(t, address.Save(run, run))
	find(t, run, run, nil)
	must(t, os.Chmod(path, 0o666))
	find(t, run, "/usual", nil)
	must(t, os.Remove(path))
	must(t, os.Mkdir(path, 0o700))
	find(t, run, "/usual", nil)
	must(t, os.Remove(path))
	must(t, os.Symlink("elsewhere", path))
	if got, err := address.Find(run, "/usual"); err == nil && got != "/usual" {
		t.Errorf("a link was followed to %q", got)
	}
}
