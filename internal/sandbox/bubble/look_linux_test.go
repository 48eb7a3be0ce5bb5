package bubble

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"palyra/internal/seal"
)

// A second look finds what came since the first, and goes.
func TestLooks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var l looks
	sealed := func() []string {
		t.Helper()
		s, err := l.scan(t.Context(), "place", dir, []string{".envrc"}, seal.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return s.Sealed()
	}
	if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "a/b/.envrc")
	for range 20 {
		if got := sealed(); len(got) != 0 {
			t.Fatalf("sealed %q", got)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := sealed(); !slices.Equal(got, []string{"a/b/.envrc"}) {
			t.Fatalf("sealed %q", got)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.last) != 1 {
		t.Errorf("%d looks", len(l.last))
	}
	whole := l.last[0].whole
	if _, ok := l.find("place", whole.Add(wholeFor-time.Second)); !ok {
		t.Error("a look is forgotten too soon")
	}
	if _, ok := l.find("place", whole.Add(wholeFor)); ok {
		t.Error("directories are never read again")
	}
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Link(path, path+"-2")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.scan(t.Context(), "place", dir, []string{".envrc"}, seal.Limits{}); err == nil {
		t.Error("a file with two names cannot be sealed")
	}
}

// However many places there are, few looks are kept, and the last ones.
func TestLooksAreBounded(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var l looks
	var all sync.WaitGroup
	for i := range 4 * mostLooks {
		all.Go(func() {
			if _, err := l.scan(t.Context(), fmt.Sprint(i%(2*mostLooks)), dir, []string{".envrc"}, seal.Limits{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(l.last) != mostLooks {
		t.Errorf("%d looks", len(l.last))
	}
	s, err := seal.Scan(t.Context(), dir, []string{".envrc"}, seal.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	l.put(glance{"last", time.Now(), s.Apart()})
	if l.last[0].place != "last" || len(l.last) != mostLooks {
		t.Errorf("%d looks, the first of %q", len(l.last), l.last[0].place)
	}
}
