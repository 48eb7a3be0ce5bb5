package beneath

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What is known goes without anybody's rights being taken; anything else goes as Remove has it go, and what lies outside
// stays.
func TestRemoveKnown(t *testing.T) {
	known := []string{"upper/", "work/in/file", "work/in/", "work/", "clock"}
	outside := t.TempDir()
	keep := filepath.Join(outside, "in", "file")
	for name, c := range map[string]struct {
		more  func(dir string) error
		asked bool // somebody's rights were taken
	}{
		"what is known":    {func(string) error { return nil }, false},
		"less":             {func(dir string) error { return os.RemoveAll(filepath.Join(dir, "work")) }, false},
		"a file above":     {func(dir string) error { return os.WriteFile(filepath.Join(dir, "upper", "x"), nil, 0o600) }, true},
		"one more deeper":  {func(dir string) error { return os.WriteFile(filepath.Join(dir, "work", "x"), nil, 0o600) }, true},
		"what goes first":  {func(dir string) error { return os.WriteFile(filepath.Join(dir, "first"), nil, 0o600) }, true},
		"one more at top":  {func(dir string) error { return os.WriteFile(filepath.Join(dir, "x"), nil, 0o600) }, false},
		"a link for a dir": {func(dir string) error { return linked(dir, "work", outside) }, false},
		"a link deeper": {func(dir string) error {
			return linked(dir, "work/in", filepath.Join(outside, "in"))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "d")
			err := errors.Join(os.MkdirAll(filepath.Join(dir, "upper"), 0o700), os.MkdirAll(filepath.Join(dir, "work", "in"), 0o700),
				os.WriteFile(filepath.Join(dir, "work", "in", "file"), nil, 0o600), os.WriteFile(filepath.Join(dir, "clock"), nil, 0o600),
				os.MkdirAll(filepath.Dir(keep), 0o700), os.WriteFile(keep, nil, 0o600), c.more(dir))
			if err != nil {
				t.Fatal(err)
			}
			fd, err := unix.Open(parent, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unix.Close(fd) }()
			asked := false
			as := func(_, _ uint32, f func() error) error { asked = true; return f() }
			if err := RemoveKnown(as, fd, "d", known, "first"); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) || asked != c.asked {
				t.Errorf("asked %v; %v", asked, err)
			}
			if _, err := os.Lstat(keep); err != nil {
				t.Errorf("what lies outside: %v", err)
			}
		})
	}
}

// linked puts a link in the place of a directory.
func linked(dir, name, to string) error {
	at := filepath.Join(dir, name)
	return errors.Join(os.RemoveAll(at), os.Symlink(to, at))
}

// A directory of somebody else's below is not touched with rights that the owner of the one above has not.
func TestRemoveKnownOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: only root makes directories of others")
	}
	parent := t.TempDir()
	in := filepath.Join(parent, "d", "work", "in")
	if err := errors.Join(os.MkdirAll(in, 0o700), os.WriteFile(filepath.Join(in, "file"), nil, 0o600),
		os.Lchown(filepath.Dir(in), 1_999_888_777, 1_999_888_777)); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(parent, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	refuse := func(_, _ uint32, _ func() error) error { return os.ErrPermission }
	if err := RemoveKnown(refuse, fd, "d", []string{"work/in/file", "work/in/", "work/"}, "first"); !errors.Is(err, os.ErrPermission) {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(filepath.Join(in, "file")); err != nil {
		t.Errorf("root's own went with rights that its user has not: %v", err)
	}
}
