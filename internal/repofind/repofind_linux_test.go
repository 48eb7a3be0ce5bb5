package repofind

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plant makes a repository at a path.
func plant(t testing.TB, dir, at string) {
	t.Helper()
	for _, d := range []string{"objects", "refs"} {
		must(t, os.MkdirAll(filepath.Join(dir, at, d), 0o700))
	}
	must(t, os.WriteFile(filepath.Join(dir, at, "HEAD"), []byte("ref: refs/heads/main\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, at, "config"), nil, 0o600))
}

// in searches one directory.
func in(s *Search, dir string) (found []string, more int, err error) {
	f := s.In(dir)[0]
	return f.Paths, f.More, f.Err
}

// ticked waits until what changes next gets a later time than all before.
func ticked(t testing.TB) time.Time {
	t.Helper()
	for was := time.Now(); ; {
		if now := Clock(); now.After(was) {
			return now
		}
	}
}

// What is new or changed is found by whatever makes it a repository; what was there is
// not told, and no link is gone through.
func TestIn(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	plant(t, dir, "vcs/old")
	plant(t, dir, "checkouts/a/1/.git")
	plant(t, dir, "hooked")
	must(t, os.MkdirAll(filepath.Join(dir, "hooked/hooks"), 0o700))
	must(t, os.MkdirAll(filepath.Join(dir, "deep/e/r"), 0o700))
	must(t, os.MkdirAll(filepath.Join(dir, "was"), 0o700))
	plant(t, outside, "r")
	since := ticked(t)
	plant(t, dir, "r/.git")
	plant(t, dir, "n\xff/x/.GIT")
	plant(t, dir, "deep/e/r/bare")
	plant(t, outside, "s")
	must(t, os.WriteFile(filepath.Join(dir, "vcs/old/FETCH_HEAD"), nil, 0o600)) // a fetch
	must(t, os.WriteFile(filepath.Join(dir, "checkouts/a/1/.git/config"), []byte("[core]"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "hooked/hooks/post-index-change"), nil, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "was/.git"), []byte("gitdir: /x"), 0o600))
	must(t, os.MkdirAll(filepath.Join(dir, "deep/.hg"), 0o700))
	must(t, os.MkdirAll(filepath.Join(dir, "half/.git/objects"), 0o700)) // none
	must(t, os.Symlink(outside, filepath.Join(dir, "out")))
	must(t, unix.Mkfifo(filepath.Join(dir, "hooks"), 0o600))
	s := Search{Since: since, Entries: 1_000, Most: 100}
	want := []string{"checkouts/a/1/.git", "deep/.hg", "deep/e/r/bare", "hooked", "n\xff/x/.GIT", "r/.git", "was/.git"}
	if os.Geteuid() != 0 {
		must(t, os.Mkdir(filepath.Join(dir, "shut"), 0))
		want = append(want, "shut")
		slices.Sort(want)
	}
	found, more, err := in(&s, dir)
	slices.Sort(found)
	if err != nil || more != 0 || !slices.Equal(found, want) {
		t.Errorf("found %q and %d more, %v", found, more, err)
	}
	s.Most = 2
	if found, more, err := in(&s, dir); err != nil || len(found) != 2 || more != len(want)-2 {
		t.Errorf("found %q and %d more, %v", found, more, err)
	}
	plant(t, dir, ".")
	if found, _, err := in(&s, dir); err != nil || !slices.Equal(found, []string{"."}) {
		t.Errorf("the directory itself: %q, %v", found, err)
	}
	if _, _, err := in(&s, filepath.Join(dir, "out")); err == nil {
		t.Error("a link was followed")
	}
}

// What changed is looked at first: a cache that is larger than a search does not hide
// what was just put on one of its upper levels, and costs no more than the search.
func TestBounds(t *testing.T) {
	dir := t.TempDir()
	many(t, dir, 20, 20)
	since := ticked(t)
	plant(t, dir, "zz/r/deeper/still/.git")
	s := Search{Since: since, Entries: 100, Most: 10}
	if found, _, err := in(&s, dir); err != nil || !slices.Equal(found, []string{"zz/r/deeper/still/.git"}) {
		t.Errorf("found %q, %v", found, err)
	}
	s.Entries = 1
	if found, more, err := in(&s, dir); err != nil || len(found)+more > 0 {
		t.Errorf("found %q, %v", found, err)
	}
}

// A repository is told whichever part completes it, and when a file that git heeds is
// written over in its place; a fetch is not.
func TestParts(t *testing.T) {
	for _, last := range []string{"HEAD", "objects", "refs"} {
		dir := t.TempDir()
		plant(t, dir, "r")
		at, aside := filepath.Join(dir, "r", last), filepath.Join(dir, "aside")
		must(t, os.Rename(at, aside))
		since := ticked(t)
		must(t, os.Rename(aside, at))
		s := Search{Since: since, Entries: 1_000, Most: 10}
		if found, _, err := in(&s, dir); err != nil || !slices.Equal(found, []string{"r"}) {
			t.Errorf("%s came last: %q, %v", last, found, err)
		}
	}
	for _, file := range []string{"hooks/post-checkout", "info/attributes"} {
		dir := t.TempDir()
		plant(t, dir, "r/.git")
		path := filepath.Join(dir, "r/.git", file)
		must(t, os.Mkdir(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, nil, 0o700))
		s := Search{Since: ticked(t), Entries: 1_000, Most: 10}
		if found, _, err := in(&s, dir); err != nil || len(found) > 0 {
			t.Errorf("nothing changed: %q, %v", found, err)
		}
		must(t, os.WriteFile(path, []byte("#!"), 0o700))
		if found, _, err := in(&s, dir); err != nil || !slices.Equal(found, []string{"r/.git"}) {
			t.Errorf("%s was written over: %q, %v", file, found, err)
		}
	}
}

// One bound counts for all directories: those in which nothing changed leave it to the
// others. A .git comes before what is beside it, and what was not looked at is told.
func TestShared(t *testing.T) {
	dirs := make([]string, 10)
	for i := range dirs {
		dirs[i] = t.TempDir()
	}
	many(t, dirs[0], 20, 20)
	full, last := t.TempDir(), len(dirs)-1
	since := ticked(t)
	for i := range 30 {
		must(t, os.MkdirAll(filepath.Join(dirs[last], "p", fmt.Sprintf("%03d", i)), 0o700))
	}
	plant(t, dirs[last], "p/zz/.git")
	s := Search{Since: since, Entries: 500, Most: 10}
	found := s.In(append(dirs, filepath.Join(full, "none"))...)
	if got := found[last]; !slices.Equal(got.Paths, []string{"p/zz/.git"}) || got.Partly {
		t.Errorf("found %+v", got)
	}
	if found[0].Partly || found[last+1].Err == nil {
		t.Errorf("found %+v", found)
	}
	many(t, full, 20, 20)
	plant(t, full, ".git")
	s.Entries = 100
	if got := s.In(full)[0]; !slices.Equal(got.Paths, []string{".git"}) || !got.Partly {
		t.Errorf("found %+v", got)
	}
}

func many(t testing.TB, dir string, dirs, files int) {
	t.Helper()
	for i := range dirs {
		at := filepath.Join(dir, fmt.Sprintf("%03d", i))
		must(t, os.Mkdir(at, 0o700))
		for j := range files {
			must(t, os.Mkdir(filepath.Join(at, fmt.Sprintf("%d", j)), 0o700))
		}
	}
}

func BenchmarkIn(b *testing.B) {
	dir := b.TempDir()
	many(b, dir, 200, 100)
	s := Search{Since: ticked(b), Entries: 4_000, Most: 10}
	for b.Loop() {
		if found, _, err := in(&s, dir); err != nil || len(found) > 0 {
			b.Fatal(found, err)
		}
	}
}
