package statedir_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/statedir"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// A name that means something in a pattern is still a name.
func files(t *testing.T) statedir.Files {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "h[o]me*?")
	must(t, os.Mkdir(dir, 0o700))
	return statedir.Files{State: filepath.Join(dir, "state.db"), Keys: filepath.Join(dir, "keys"), Artifacts: filepath.Join(dir, "artifacts")}
}

// Every subset of what a state is made of.
func TestCheckEverySubset(t *testing.T) {
	type part struct{ name, text string }
	parts := []part{
		{"state.db", "x"},
		{"state.db-wal", "x"},
		{"keys/journal.key", "x"},
		{"keys/attestation.key.next", "x"},
		{"artifacts/1", "x"},
	}
	for set := range 1 << len(parts) {
		f := files(t)
		var has []string
		for i, p := range parts {
			if set&(1<<i) != 0 {
				put(t, filepath.Join(filepath.Dir(f.State), p.name), p.text)
				has = append(has, p.name)
			}
		}
		err := f.Check()
		refuse := set != 0 && set&1 == 0
		e := palyra.AsError(err)
		switch {
		case refuse && (err == nil || e.Reason != palyra.ReasonStateGone || !strings.Contains(e.Remedy, "--new-state") ||
			!strings.Contains(e.Text, filepath.Dir(f.State))):
			t.Errorf("%v: %v", has, err)
		case !refuse && err != nil:
			t.Errorf("%v: %v", has, err)
		}
	}
}

func TestEmptyIsGone(t *testing.T) {
	f := files(t)
	put(t, f.State, "")
	put(t, f.State+"-wal", "")
	must(t, os.Mkdir(f.Keys, 0o700))
	must(t, os.Mkdir(f.Artifacts, 0o700))
	must(t, f.Check()) // as a first start that was cut short leaves it
	put(t, filepath.Join(f.Keys, "journal.key"), "x")
	if err := f.Check(); palyra.AsError(err).Reason != palyra.ReasonStateGone {
		t.Errorf("an emptied store: %v", err)
	}
}

// What is put aside is all there, under other names, and a new start is let
// through.
func TestPutAside(t *testing.T) {
	f := files(t)
	put(t, f.State, "s")
	put(t, f.State+"-wal", "w")
	put(t, filepath.Join(f.Keys, "journal.key"), "k")
	put(t, filepath.Join(f.Artifacts, "1"), "a")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	moved, err := f.PutAside(at)
	must(t, err)
	left, err := f.Left()
	must(t, err)
	if there, err := f.There(); err != nil || there || len(left) > 0 || len(moved) != 4 {
		t.Errorf("%v left, %v moved, %v", left, moved, err)
	}
	const mark = ".before-20260102T030405.000Z"
	for path, want := range map[string]string{
		f.State + mark: "s", f.State + "-wal" + mark: "w",
		filepath.Join(f.Keys+mark, "journal.key"): "k", filepath.Join(f.Artifacts+mark, "1"): "a",
	} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	names, err := f.Aside()
	must(t, err)
	if want := []string{"artifacts" + mark, "keys" + mark, "state.db-wal" + mark, "state.db" + mark}; !slices.Equal(names, want) {
		t.Errorf("got %q", names)
	}
	if moved, err := f.PutAside(at); err != nil || len(moved) > 0 {
		t.Errorf("nothing was there: %v, %v", moved, err)
	}
}
