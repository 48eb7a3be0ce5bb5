package layered

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fill makes a directory of words: a=text is a file, a>b a link, a/ a directory. It returns a descriptor of it.
func fill(t *testing.T, words string) int {
	t.Helper()
	top := t.TempDir()
	for w := range strings.FieldsSeq(words) {
		name, text, file := strings.Cut(w, "=")
		link, to, isLink := strings.Cut(w, ">")
		var err error
		switch {
		case file:
			err = os.MkdirAll(filepath.Join(top, filepath.Dir(name)), 0o755)
			err = errors.Join(err, os.WriteFile(filepath.Join(top, name), []byte(text), 0o644))
		case isLink:
			err = os.Symlink(to, filepath.Join(top, link))
		default:
			err = os.MkdirAll(filepath.Join(top, w), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(top, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func read(t *testing.T, tr *Tree, name string) string {
	t.Helper()
	f, err := tr.Open(name)
	if err != nil {
		return map[bool]string{true: "none", false: "bad"}[errors.Is(err, fs.ErrNotExist)]
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func list(tr *Tree, name string) string {
	entries, err := tr.ReadDir(name, 100)
	if err != nil {
		return "none"
	}
	var out []string
	for _, e := range entries {
		n := e.Name()
		if e.IsDir() {
			n += "/"
		}
		out = append(out, n)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// A workspace is read as it is and as it would be; no link leads out of either.
func TestTrees(t *testing.T) {
	lower := fill(t, "a=old d/x=old d/y=same gone/z=z to>d out>../..")
	upper := fill(t, "a=new d/x=new fresh/deep/f=n back>fresh/deep pw>/etc/passwd loop>loop up>.. to=file hidden=h d/mark=m")
	before, after := Plain(lower), With(lower, upper, map[string]bool{
		"a": true, "d/x": true, "gone": false, "gone/z": false, "fresh": true, "fresh/deep": true, "fresh/deep/f": true,
		"back": true, "pw": true, "loop": true, "up": true, "to": true,
	})
	for name, want := range map[string][2]string{
		"a": {"old", "new"}, "d/x": {"old", "new"}, "d/y": {"same", "same"}, "to/y": {"same", "bad"}, "to": {"bad", "file"},
		"gone/z": {"z", "none"}, "fresh/deep/f": {"none", "n"}, "back/f": {"none", "n"}, "back/../../a": {"none", "new"},
		"pw": {"none", "bad"}, "loop": {"none", "bad"}, "up/a": {"none", "bad"}, "out/etc/passwd": {"bad", "bad"}, "d": {"bad", "bad"},
		"hidden": {"none", "none"}, "d/mark": {"none", "none"}, "../a": {"bad", "bad"},
	} {
		if got := [2]string{read(t, before, name), read(t, after, name)}; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string][2]string{
		".":    {"a d/ gone/ out to", "a back d/ fresh/ loop out pw to up"},
		"gone": {"z", "none"}, "fresh": {"none", "deep/"}, "back": {"none", "f"}, "d": {"x y", "x y"}, "a": {"none", "none"},
	} {
		if got := [2]string{list(before, name), list(after, name)}; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if some, err := after.ReadDir(".", 2); err != nil || len(some) != 3 {
		t.Errorf("%d, %v", len(some), err)
	}
}
