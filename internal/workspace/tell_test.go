//go:build unix

package workspace

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"palyra"
)

// What is told is what is registered, from the first time on, also after a change that failed.
func TestWhatIsRegisteredIsTold(t *testing.T) {
	d := newDesk(t)
	var told [][]string
	d.Tell = func(paths []string, known bool) {
		if !known {
			t.Error("it is known")
		}
		told = append(told, paths)
	}
	expect := func(times int, want ...string) {
		t.Helper()
		if len(told) != times || times > 0 && !slices.Equal(told[times-1], want) {
			t.Errorf("told %q, not %d times and then %q", told, times, want)
		}
	}
	add := func(path string) error {
		_, err := d.Add(t.Context(), d.path(path), "", "user:op", palyra.Signature{})
		return err
	}
	d.ok(add("ws"))
	expect(0)
	d.Told(t.Context())
	expect(1, d.path("ws"))
	d.ok(add("ws/sub"))
	expect(2, d.path("ws"), d.path("ws/sub"))
	d.journal.err = errors.New("no space")
	if add("homes/me/project") == nil || d.Remove(t.Context(), d.path("ws"), "user:op", palyra.Signature{}) == nil {
		t.Error("changed without its line")
	}
	d.journal.err = nil
	expect(4, d.path("ws"), d.path("ws/sub"))
	d.ok(d.Remove(t.Context(), d.path("ws"), "user:op", palyra.Signature{}))
	expect(5, d.path("ws/sub"))
	d.ok(d.DB.Close())
	d.Tell = func(_ []string, known bool) {
		if known {
			t.Error("a list that could not be read was told")
		}
	}
	d.Told(t.Context())
}

// Of changes at the same time the last thing told is the state after all of them.
func TestToldInOrder(t *testing.T) {
	d := newDesk(t)
	var last []string
	d.Tell = func(paths []string, _ bool) { last = paths }
	d.Told(t.Context())
	var all sync.WaitGroup
	paths := []string{"ws", "ws/sub", "ws/sub/deep", "homes/me/project"}
	for _, p := range paths {
		all.Go(func() {
			if _, err := d.Add(t.Context(), d.path(p), "", "user:op", palyra.Signature{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(last) != len(paths) {
		t.Errorf("told at last: %q", last)
	}
}
