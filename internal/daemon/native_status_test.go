package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What the status says of a shelf is what lies there when it is asked.
func TestShelvesAreLookedAtWhenAsked(t *testing.T) {
	dir := t.TempDir()
	shelves := map[string]shelf{"quarantine": {dir: dir, name: isCall, keep: 30 * 24 * time.Hour}}
	var k kept
	if got := k.features(t.Context(), shelves)["quarantine"]; got != "0 kept, 0 bytes; each for 30 days" {
		t.Error(got)
	}
	if left := time.Until(k.until); left > maxAge {
		t.Errorf("it is good for %v", left)
	}
	lay(t, dir, freshCall, 0, time.Now())
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, freshCall, "sub"), 0o700) })
	k.until = time.Now().Add(time.Hour)
	if got := k.features(t.Context(), shelves)["quarantine"]; !strings.HasPrefix(got, "0 kept") {
		t.Errorf("it looked again: %s", got)
	}
	k.until = time.Time{}
	if got := k.features(t.Context(), shelves)["quarantine"]; got != "1 kept, 5 bytes; each for 30 days" {
		t.Error(got)
	}
	k.until = time.Time{}
	over, end := context.WithCancel(t.Context())
	end()
	if got := k.features(over, shelves)["quarantine"]; !strings.HasPrefix(got, "at least ") {
		t.Errorf("a look that was cut short says %s", got)
	}
}

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
	if err := errors.Join(os.MkdirAll(profiles, 0o700), os.WriteFile(filepath.Join(profiles, "mine.toml"), []byte("nonsense = \n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s, err := statusPart{d: d}.Status(t.Context())
	all := strings.Join(s.Problems, "\n")
	if err != nil || !strings.Contains(all, "tier C cannot be used") || !strings.Contains(all, "mine.toml") {
		t.Errorf("%v: %q", err, all)
	}
	d.Config.Config.Process.Tier = "off"
	if got := d.problems(t.Context()); got != nil {
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
