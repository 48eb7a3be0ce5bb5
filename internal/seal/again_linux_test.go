package seal

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// told is what a snapshot says, in an order that does not depend on how it was made.
func told(s *Snapshot) (out []string) {
	for _, e := range s.entries {
		out = append(out, fmt.Sprint("entry ", e.path, e.kind, e.id, e.mode, e.links, e.size, e.mtime, e.ctime, e.born, string(e.text),
			s.path(e.dir)))
	}
	for i, d := range s.dirs {
		if d.flags&gone == 0 {
			out = append(out, fmt.Sprint("dir ", s.path(int32(i)), d.id, d.state, d.flags&^(racy|same), d.many))
		}
	}
	slices.Sort(out)
	return out
}

// stir does something that people, programs or agents do in a workspace.
func stir(b *box, r *rand.Rand) {
	names := strings.Fields(
		".git .git/hooks .git/config .git/HEAD .envrc .vscode plain Makefile node_modules a b c.git/HEAD c.git/objects/ c.git/refs/ worktree")
	path := func() string {
		p := names[r.IntN(len(names))]
		for range r.IntN(3) {
			p = filepath.Join(string(rune('p'+r.IntN(3))), p)
		}
		return b.in(strings.TrimSuffix(p, "/"))
	}
	at := path()
	_ = os.MkdirAll(filepath.Dir(at), 0o755) // some of this fails, which is as good
	switch r.IntN(8) {
	case 0, 1:
		_ = os.WriteFile(at, []byte{byte(r.IntN(256))}, 0o644)
	case 2, 3:
		_ = os.Mkdir(at, 0o755)
	case 4:
		_ = os.RemoveAll(at)
	case 5, 6:
		_ = os.Rename(at, path())
	case 7:
		_ = os.Chmod(at, 0o755)
	}
}

// Looking again finds what looking for the first time does, whatever happened in
// between, however soon after the look before.
func TestScanAgain(t *testing.T) {
	b := newBox(t)
	r := rand.New(rand.NewPCG(1, 2))
	must(t, os.Mkdir(b.in("p"), 0o755))
	was, err := Scan(t.Context(), b.ws, Default, Limits{})
	must(t, err)
	for n := range 400 {
		for range 1 + r.IntN(3) {
			stir(b, r)
		}
		first, err := Scan(t.Context(), b.ws, Default, Limits{})
		must(t, err)
		before := told(was)
		again, err := ScanAgain(t.Context(), was.Apart())
		must(t, err)
		if d := cmp.Diff(mentions(first), mentions(again)); d != "" {
			t.Fatalf("after %d changes (-first +again):\n%s", n, d)
		}
		if !slices.Equal(first.Mounts(), again.Mounts()) {
			t.Fatalf("after %d changes: mounts %v, %v", n, first.Mounts(), again.Mounts())
		}
		if d := cmp.Diff(before, told(was)); d != "" {
			t.Fatal("the earlier look was changed", d)
		}
		if !was.began.Before(again.began) {
			t.Error("it began before it was asked for")
		}
		was = again
	}
}

// mentions is told, with names instead of numbers for states: each matcher numbers
// as it comes to them.
func mentions(s *Snapshot) []string {
	named := *s
	named.dirs = slices.Clone(s.dirs)
	var states []string
	for i := range named.dirs {
		states = append(states, fmt.Sprint("state ", s.path(int32(i)), s.match.Places(named.dirs[i].state)))
		named.dirs[i].state = 0
	}
	slices.Sort(states)
	return append(told(&named), states...)
}

// What did not change is not read, and counts for the limits all the same.
func TestScanAgainReadsLittle(t *testing.T) {
	b := newBox(t)
	b.file("a/1", "a/2", "a/3", "b/c/1", "b/c/2", ".envrc")
	s, err := Scan(t.Context(), b.ws, Default, Limits{Entries: 10, settle: -1})
	must(t, err)
	b.file("b/c/3", "b/c/.envrc")
	if _, err = ScanAgain(t.Context(), s.Apart()); err == nil {
		t.Fatal("eleven entries are not too many")
	}
	must(t, os.Remove(b.in("b/c/3")))
	s, err = Scan(t.Context(), b.ws, Default, Limits{Entries: 10, settle: -1})
	must(t, err)
	s, err = ScanAgain(t.Context(), s.Apart())
	must(t, err)
	if want := []string{".envrc", "b/c/.envrc"}; !slices.Equal(s.Sealed(), want) {
		t.Errorf("sealed %q", s.Sealed())
	}
	if s.Weight() != 4+2 {
		t.Errorf("weight %d", s.Weight())
	}
	tr, err := openTree(b.ws)
	must(t, err)
	defer tr.close()
	w := s.walker(t.Context(), tr, s)
	must(t, w.walk())
	if w.seen != 0 || w.count != 10 {
		t.Errorf("%d entries read, %d counted", w.seen, w.count)
	}
}

// Apart has nothing of what a run does to a snapshot, and is not disturbed by it.
func TestApart(t *testing.T) {
	b := newBox(t)
	b.file(".envrc", "a/b")
	s, err := Scan(t.Context(), b.ws, Default, Limits{})
	must(t, err)
	must(t, s.Hold())
	defer s.Release()
	s.Forget([]string{b.in(".envrc")})
	c := s.Apart()
	if c.hold != nil || c.odd != nil || !c.Knows(".envrc") || c.match == s.match {
		t.Errorf("%+v", c)
	}
	done := make(chan error)
	go func() { _, err := s.Stale(t.Context()); done <- err }() // the race detector watches
	again, err := ScanAgain(t.Context(), c)
	must(t, err)
	must(t, <-done)
	if again.hold != nil || !again.Knows(".envrc") {
		t.Errorf("%+v", again)
	}
}

// A workspace that is another directory by now is looked at as a whole, and one
// that cannot be sealed is refused again.
func TestScanAgainElsewhere(t *testing.T) {
	b := newBox(t)
	b.file(".envrc", "a/b")
	s, err := Scan(t.Context(), b.ws, Default, Limits{settle: -1})
	must(t, err)
	must(t, os.Rename(b.ws, b.ws+"-old"))
	must(t, os.Mkdir(b.ws, 0o755))
	b.file("c/.git/config")
	again, err := ScanAgain(t.Context(), s.Apart())
	must(t, err)
	if got := again.Sealed(); !slices.Contains(got, "c/.git/config") || slices.Contains(got, ".envrc") {
		t.Errorf("sealed %q", got)
	}
	must(t, os.Link(b.in("c/.git/config"), b.in("c/second")))
	if _, err := ScanAgain(t.Context(), again.Apart()); err == nil || !strings.Contains(err.Error(), "names") {
		t.Error(err)
	}
	must(t, os.RemoveAll(b.ws))
	if _, err := ScanAgain(t.Context(), s.Apart()); err == nil {
		t.Error("there is nothing to look at")
	}
}
