package foreignfile

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

func give(t *testing.T, path string, uid int) {
	t.Helper()
	if err := os.Lchown(path, uid, -1); err != nil {
		t.Fatal(err)
	}
}

// A file of somebody else's is found at once where it is near, and soon where it is far; when it is
// gone, or given back, it is no more, and one that comes later is found when it is time to look again.
func TestHas(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: files of others are made by root only")
	}
	const other = 23456
	synctest.Test(t, func(t *testing.T) {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		var later []func()
		s := New(func(do func()) { later = append(later, do) })
		has := func(what string, want bool) {
			t.Helper()
			if got := s.Has(dir, 0, int64(os.Getegid())); got != want {
				t.Errorf("%s: %v", what, got)
			}
		}
		background := func(times int) {
			t.Helper()
			if len(later) != times {
				t.Errorf("%d looks wait, want %d", len(later), times)
			}
			for _, do := range later {
				do()
			}
			later = nil
		}
		near := filepath.Join(dir, "a/b\xff/c/near")
		write(t, near)
		give(t, near, other)
		has("near", true)
		give(t, near, 0)
		has("given back", false)
		background(1)
		has("and looked through", false)
		background(0)

		for i := range mostAtOnce {
			write(t, filepath.Join(dir, "many", fmt.Sprint(i)))
		}
		far := filepath.Join(dir, "many/x/y/far")
		write(t, far)
		give(t, far, other)
		has("not looked for yet", false)
		background(0)
		time.Sleep(leastPause)
		has("on the way", false)
		has("one at a time", false)
		background(1)
		has("far", true)
		if err := os.Remove(far); err != nil {
			t.Fatal(err)
		}
		has("gone", false)
		background(1)

		if err := os.Symlink("/proc/1/exe", filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		s = New(func(do func()) { later = append(later, do) })
		has("a large tree, for the first time", false)
		background(1)
		has("a link that leads away", false)
		if s.Has(filepath.Join(dir, "none"), 0, 0) || s.Has(near, 0, 0) || s.Has(filepath.Join(dir, "link"), 0, 0) {
			t.Error("what is no directory has files")
		}
	})
}
