package prune

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	oldCall   = "01M7FHQG5YBKAPBREGDC2JSJF5"
	freshCall = "01M7FHRXCFSWMYFCK7A5GC2Z23"
)

// lay puts an entry with a stubborn content on a shelf.
func lay(t *testing.T, dir, name string, age time.Duration, at time.Time) {
	t.Helper()
	sub := filepath.Join(dir, name, "sub")
	for _, err := range []error{
		os.MkdirAll(sub, 0o700), os.WriteFile(filepath.Join(sub, "file"), []byte("12345"), 0o400), os.Symlink("/", filepath.Join(sub, "link")),
		os.Chmod(sub, 0o500), os.Chtimes(filepath.Join(dir, name), at.Add(-age), at.Add(-age)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// What is old goes, with all that is in it; what is not ours, or is still used,
// stays.
func TestShelvesArePruned(t *testing.T) {
	dir, at := t.TempDir(), time.Now()
	day := 24 * time.Hour
	lay(t, dir, oldCall, 31*day, at)
	lay(t, dir, freshCall, 29*day, at)
	lay(t, dir, leaving+strings.Replace(oldCall, "5", "6", 1), 0, at) // a daemon ended while it removed this
	lay(t, dir, "somebody's", 300*day, at)
	if err := os.WriteFile(filepath.Join(dir, strings.Replace(oldCall, "5", "7", 1)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := Shelf{Dir: dir, Name: IsCall, Keep: 30 * day}
	gone, err := s.Prune(t.Context(), at)
	left := names(t, dir)
	want := []string{freshCall, strings.Replace(oldCall, "5", "7", 1), "somebody's"}
	slices.Sort(want)
	if err != nil || gone != 2 || !slices.Equal(left, want) {
		t.Errorf("%d gone, %v; left %q", gone, err, left)
	}
	if n, bytes := s.measure(t.Context()); n != 2 || bytes != 10 {
		t.Errorf("%d entries of %d bytes", n, bytes)
	}
	_ = os.Chmod(filepath.Join(dir, freshCall, "sub"), 0o700) // so that the test can clean up
	_ = os.Chmod(filepath.Join(dir, "somebody's", "sub"), 0o700)
}

func TestShelvesThatAreNotThere(t *testing.T) {
	s := Shelf{Dir: filepath.Join(t.TempDir(), "none"), Name: IsCache, Keep: time.Hour}
	if gone, err := s.Prune(t.Context(), time.Now()); gone != 0 || err != nil {
		t.Errorf("%d, %v", gone, err)
	}
	if n, bytes := s.measure(t.Context()); n != 0 || bytes != 0 {
		t.Errorf("%d, %d", n, bytes)
	}
}

func TestShelfNames(t *testing.T) {
	for name, want := range map[string][2]bool{
		oldCall: {true, false}, strings.Repeat("a", 32): {false, true}, strings.Repeat("g", 32): {}, "": {}, "..": {},
		strings.ToLower(oldCall): {},
	} {
		if IsCall(name) != want[0] || IsCache(name) != want[1] {
			t.Errorf("%q: %v, %v", name, IsCall(name), IsCache(name))
		}
	}
}

// What the status says of a shelf is what lies there when it is asked.
func TestShelvesAreLookedAtWhenAsked(t *testing.T) {
	dir := t.TempDir()
	shelves := map[string]Shelf{"quarantine": {Dir: dir, Name: IsCall, Keep: 30 * 24 * time.Hour}}
	var k Usage
	if got := k.Texts(t.Context(), shelves)["quarantine"]; got != "0 kept, 0 bytes; each for 30 days" {
		t.Error(got)
	}
	if left := time.Until(k.until); left > maxAge {
		t.Errorf("it is good for %v", left)
	}
	lay(t, dir, freshCall, 0, time.Now())
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, freshCall, "sub"), 0o700) })
	k.until = time.Now().Add(time.Hour)
	if got := k.Texts(t.Context(), shelves)["quarantine"]; !strings.HasPrefix(got, "0 kept") {
		t.Errorf("it looked again: %s", got)
	}
	k.until = time.Time{}
	if got := k.Texts(t.Context(), shelves)["quarantine"]; got != "1 kept, 5 bytes; each for 30 days" {
		t.Error(got)
	}
	k.until = time.Time{}
	over, end := context.WithCancel(t.Context())
	end()
	if got := k.Texts(over, shelves)["quarantine"]; !strings.HasPrefix(got, "at least ") {
		t.Errorf("a look that was cut short says %s", got)
	}
}

// The caches of runs that nobody is asked about lie apart, once, and are pruned as the others are.
func TestUnaskedCache(t *testing.T) {
	key := strings.Repeat("a", 32)
	to, ok := UnaskedCache("/c/" + key + "/go")
	if !ok || to != "/c/"+key+"-unasked/go" || !IsCache(filepath.Base(filepath.Dir(to))) {
		t.Errorf("%q, %v", to, ok)
	}
	if again, ok := UnaskedCache(to); ok {
		t.Errorf("apart twice: %q", again)
	}
	group, ok := GroupCache("/c/" + key + "/go")
	if !ok || group != "/c/"+key+"-group/go" || !IsCache(filepath.Base(filepath.Dir(group))) {
		t.Errorf("%q, %v", group, ok)
	}
	if from, ok := UnaskedCache(group); !ok || from != to {
		t.Errorf("what a group's runs leave goes to %q, %v", from, ok)
	}
	for _, dir := range []string{to, group} {
		if again, ok := GroupCache(dir); ok {
			t.Errorf("apart twice: %q", again)
		}
	}
	for _, name := range []string{key + "-group-unasked", key + "-unasked-group", key + "-", key + "-other"} {
		if IsCache(name) {
			t.Errorf("%s is none of ours", name)
		}
	}
}
