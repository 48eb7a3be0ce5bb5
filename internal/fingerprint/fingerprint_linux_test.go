package fingerprint

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// printOf is a look at paths of every kind, as those do who fill one.
func printOf(t *testing.T, dir string) *Print {
	t.Helper()
	p := new(Print)
	for _, name := range []string{"file", "link", "dir", "none", "file/below"} {
		var st unix.Stat_t
		path := filepath.Join(dir, name)
		err := unix.Lstat(path, &st)
		p.At(path, &st, err)
	}
	var st unix.Stat_t
	path := filepath.Join(dir, "names")
	err := unix.Stat(path, &st)
	p.Listed(path, &st, err)
	path = filepath.Join(dir, "link")
	err = unix.Stat(path, &st)
	p.Target(path, &st, err)
	var fs unix.Statfs_t
	err = unix.Statfs(dir, &fs)
	p.Mount(dir, &fs, err)
	return p
}

func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := errors.Join(os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600), os.Symlink("file", filepath.Join(dir, "link")),
		os.Mkdir(filepath.Join(dir, "dir"), 0o700), os.Mkdir(filepath.Join(dir, "names"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestHolds(t *testing.T) {
	old := []unix.Timespec{{Sec: 1}, {Sec: 1}}
	for name, c := range map[string]struct {
		change func(at func(string) string) error
		holds  bool
	}{
		"nothing":                 {func(func(string) string) error { return nil }, true},
		"a name in the directory": {func(at func(string) string) error { return os.Mkdir(at("dir/x"), 0o700) }, true},
		"its mode":                {func(at func(string) string) error { return os.Chmod(at("dir"), 0o711) }, false},
		"another in its place": {func(at func(string) string) error {
			return errors.Join(os.Rename(at("dir"), at("d")), os.Mkdir(at("dir"), 0o700))
		}, false},
		"moved and put back": {func(at func(string) string) error {
			return errors.Join(os.Rename(at("dir"), at("d")), os.Rename(at("d"), at("dir")))
		}, true},
		"a name that was read": {func(at func(string) string) error { return os.Mkdir(at("names/x"), 0o700) }, false},
		"content":              {func(at func(string) string) error { return os.WriteFile(at("file"), []byte("y"), 0o600) }, false},
		"content, times restored": {func(at func(string) string) error {
			return errors.Join(os.WriteFile(at("file"), []byte("y"), 0o600), unix.UtimesNanoAt(unix.AT_FDCWD, at("file"), old, 0))
		}, false},
		"only touched": {func(at func(string) string) error { return unix.UtimesNanoAt(unix.AT_FDCWD, at("file"), old, 0) }, false},
		"replaced": {func(at func(string) string) error {
			return errors.Join(os.WriteFile(at("f"), []byte("x"), 0o600), os.Rename(at("f"), at("file")))
		}, false},
		"removed":  {func(at func(string) string) error { return os.Remove(at("file")) }, false},
		"appeared": {func(at func(string) string) error { return os.WriteFile(at("none"), nil, 0o600) }, false},
		"the link": {func(at func(string) string) error {
			return errors.Join(os.Remove(at("link")), os.Symlink("dir", at("link")))
		}, false},
		"a file that is a directory now": {func(at func(string) string) error {
			return errors.Join(os.Remove(at("file")), os.Mkdir(at("file"), 0o700))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t)
			p := printOf(t, dir)
			<-time.After(20 * time.Millisecond) // a tick of the kernel's clock, as Settled wants many of
			if err := c.change(func(rel string) string { return filepath.Join(dir, rel) }); err != nil {
				t.Fatal(err)
			}
			if got := p.Holds(); got != c.holds {
				t.Errorf("holds: %v", got)
			}
		})
	}
}

func TestMountAnswers(t *testing.T) {
	p := printOf(t, tree(t))
	for l, a := range p.seen {
		if l.of == mount {
			a.flags ^= unix.ST_NOEXEC
			p.seen[l] = a
		}
	}
	if p.Holds() {
		t.Error("another flag, and it holds")
	}
}

func TestSettled(t *testing.T) {
	p := printOf(t, tree(t))
	if p.Settled(time.Now()) {
		t.Error("what was made just now")
	}
	if !p.Settled(time.Now().Add(2 * settled)) {
		t.Error("what was made long before")
	}
	p.Unsure()
	if p.Settled(time.Now().Add(2*settled)) || p.Holds() {
		t.Error("after something that no path answers for")
	}
}

// Two answers of one path within a look: the world moved meanwhile.
func TestTwoAnswers(t *testing.T) {
	p := new(Print)
	p.At("/", &unix.Stat_t{Ino: 1}, nil)
	p.At("/", &unix.Stat_t{Ino: 1}, nil)
	if p.unsure {
		t.Error("the same twice")
	}
	p.At("/", &unix.Stat_t{Ino: 2}, nil)
	if p.Holds() || p.Settled(time.Now()) {
		t.Error("it holds")
	}
}

// An error that is none of the kernel's never comes again.
func TestOtherErrors(t *testing.T) {
	p := new(Print)
	p.At(filepath.Join(t.TempDir(), "none"), nil, errors.New("x"))
	if p.Holds() {
		t.Error("it holds")
	}
}

func TestNone(t *testing.T) {
	var p *Print
	p.At("/", nil, unix.ENOENT)
	p.Mount("/", nil, unix.ENOENT)
	p.Unsure()
	if p.Holds() || p.Settled(time.Now()) {
		t.Error("nothing holds")
	}
}
