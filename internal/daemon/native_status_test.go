package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A daemon of which a tier or a profile cannot be used says so in its status; this
// one has no cell to run.
func TestStatusNamesProblems(t *testing.T) {
	dir := home(t)
	d, err := open(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	profiles := filepath.Join(dir, "profiles")
	if err := errors.Join(os.MkdirAll(profiles, 0o700), os.WriteFile(filepath.Join(profiles, "mine.toml"), []byte("nonsense = \n"),
		0o600)); err != nil {
		t.Fatal(err)
	}
	s, err := statusPart{d: d}.Status(t.Context())
	all := strings.Join(s.Problems, "\n")
	if err != nil || !strings.Contains(all, "tier C cannot be used") || !strings.Contains(all, "mine.toml") {
		t.Errorf("%v: %q", err, all)
	}
	d.path.tiers.Settings.Process.Tier = "off"
	if got := d.path.tiers.Problems(t.Context()); got != nil {
		t.Errorf("where nothing runs: %q", got)
	}
}

// A daemon takes its empty directories with it, and leaves what is kept in them.
func TestStopLeavesNoEmptyDirectories(t *testing.T) {
	dir := home(t)
	for _, keep := range []bool{false, true} {
		d, err := open(t, dir)
		if err != nil {
			t.Fatal(err)
		}
		at := d.places()
		if err := os.MkdirAll(at.Caches, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(at.Caches) })
		if keep {
			if err := os.Mkdir(filepath.Join(at.Caches, "x"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		for path, stays := range map[string]bool{at.Cells: false, at.Posture: false, at.Caches: keep} {
			if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) == stays {
				t.Errorf("%s: stays %v: %v", path, stays, err)
			}
		}
	}
}
