package seal

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSettled(t *testing.T) {
	start := stamp{1_000, 500_000_000}
	for _, test := range []struct {
		name string
		tree tree
		at   stamp
		test int64 // of the limits
		want bool
	}{
		{"long ago", tree{sure: true, firm: true}, stamp{900, 1}, 0, true},
		{"more than a tick ago", tree{sure: true, firm: true}, stamp{1_000, 449_999_999}, 0, true},
		{"a tick ago", tree{sure: true, firm: true}, stamp{1_000, 450_000_000}, 0, false},
		{"at the same time", tree{sure: true, firm: true}, start, 0, false},
		{"later", tree{sure: true, firm: true}, stamp{1_001, 1}, 0, false},
		{"whole seconds, one ago", tree{sure: true, firm: true}, stamp{999, 0}, 0, false},
		{"whole seconds, three ago", tree{sure: true, firm: true}, stamp{997, 0}, 0, true},
		{"layers, one second ago", tree{sure: true}, stamp{999, 1}, 0, false},
		{"layers, three seconds ago", tree{sure: true}, stamp{997, 1}, 0, true},
		{"times that cannot be relied on", tree{}, stamp{1, 1}, 0, false},
		{"as a test says", tree{sure: true, firm: true}, stamp{999, 1}, 2, false},
		{"as another says", tree{sure: true}, stamp{1_001, 1}, -1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &walker{t: &test.tree, start: start, limits: Limits{settle: test.test}}
			if got := w.settled(test.at); got != test.want {
				t.Errorf("settled %v, want %v", got, test.want)
			}
		})
	}
}

// What changes after the clock was read never has a time before it: that is what
// settled rests on.
func TestFileClock(t *testing.T) {
	dir := t.TempDir()
	for range 2_000 {
		was := fileClock()
		f, err := os.CreateTemp(dir, "")
		must(t, err)
		must(t, f.Close())
		must(t, os.Remove(f.Name()))
		st, err := statx(unix.AT_FDCWD, dir, unix.AT_STATX_SYNC_AS_STAT)
		must(t, err)
		if st.ctime.before(was, 0) {
			t.Fatalf("changed at %v, after %v", st.ctime, was)
		}
	}
}

// A directory that changed in the moment in which it is looked at is read again;
// when it has settled, no more. Changes are found all the time.
func TestSettles(t *testing.T) {
	b := newBox(t)
	b.file("a/b/c")
	s, err := Scan(t.Context(), b.ws, Default, Limits{})
	must(t, err)
	tr, err := openTree(b.ws)
	must(t, err)
	defer tr.close()
	if !tr.sure || !tr.firm {
		t.Skip("UNPROVEN HERE: a file system whose times are the kernel's")
	}
	for end := time.Now().Add(10 * time.Second); ; {
		stale, err := s.Stale(t.Context())
		must(t, err)
		if stale {
			t.Fatal("stale, though nothing changed")
		}
		w := s.walker(t.Context(), tr, s)
		must(t, w.walk())
		if w.seen == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it never settles")
		}
	}
	for range 50 { // each in the tick of the one before, most likely
		b.file("a/b/.envrc")
		if stale, err := s.Stale(t.Context()); err != nil || !stale {
			t.Fatalf("a new sealed path is not seen: %v", err)
		}
		must(t, os.Remove(b.in("a/b/.envrc")))
		if stale, err := s.Stale(t.Context()); err != nil || stale {
			t.Fatalf("stale without it: %v", err)
		}
	}
}
