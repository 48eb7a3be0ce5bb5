package seatbelt

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/seal"
)

const call = palyra.CallID("01JABCDEFGHJKMNPQRSTVWXYZ0")

type yard struct {
	t     *testing.T
	dir   string
	names *seal.Matcher
	marks []mark
}

func newYard(t *testing.T, files ...string) *yard {
	t.Helper()
	names, err := parseNames(seal.Default)
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{t: t, dir: t.TempDir(), names: names}
	y.make(files...)
	y.look()
	return y
}

func (y *yard) make(files ...string) {
	y.t.Helper()
	for _, f := range files {
		p := filepath.Join(y.dir, f)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			y.t.Fatal(err)
		}
		if strings.HasSuffix(f, "/") {
			if err := os.MkdirAll(p, 0o755); err != nil {
				y.t.Fatal(err)
			}
		} else if err := os.WriteFile(p, []byte(f), 0o644); err != nil {
			y.t.Fatal(err)
		}
	}
}

func (y *yard) look() {
	y.t.Helper()
	var err error
	if y.marks, err = look(y.t.Context(), y.dir, y.names, maxEntries); err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) sweep(want ...string) {
	y.t.Helper()
	got, err := sweep(y.t.Context(), y.dir, y.names, y.marks, call)
	if err != nil || !slices.Equal(got, want) {
		y.t.Errorf("swept %q, %v, want %q", got, err, want)
	}
	for _, p := range want {
		if _, err := os.Lstat(filepath.Join(y.dir, p)); err == nil && !strings.HasPrefix(p, seal.ChangedPrefix) && p != ".palyra" {
			y.t.Errorf("%s is still there", p)
		}
	}
}

func TestSweepFindsNothingInOrder(t *testing.T) {
	y := newYard(t, ".git/config", ".git/HEAD", ".git/objects/", ".git/refs/", ".envrc", "src/a.go")
	y.make("src/b.go", ".git/index", ".git/refs/heads/main", "node_modules/x/.travis.yml")
	y.sweep()
	if _, err := os.Lstat(filepath.Join(y.dir, ".palyra")); err == nil {
		t.Error("a quarantine for nothing")
	}
}

func TestSweepMovesWhatIsNew(t *testing.T) {
	y := newYard(t, ".git/config", "src/a.go")
	y.make("src/.envrc", "evil/.git/hooks/pre-commit", ".vscode/tasks.json", "bare/HEAD", "bare/objects/", "bare/refs/", "bare/config")
	if err := os.Symlink("/etc", filepath.Join(y.dir, ".idea")); err != nil {
		t.Fatal(err)
	}
	y.sweep(".idea", ".vscode", "bare", "evil/.git", "src/.envrc")
	b, err := os.ReadFile(filepath.Join(y.dir, quarantineDir, string(call), "index.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var was []string
	for line := range strings.Lines(string(b)) {
		var i item
		if err := json.Unmarshal([]byte(line), &i); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(filepath.Join(y.dir, quarantineDir, string(call), i.Item)); err != nil {
			t.Error(err)
		}
		was = append(was, i.Path)
	}
	if want := []string{".idea", ".vscode", "bare", "evil/.git", "src/.envrc"}; !slices.Equal(was, want) {
		t.Errorf("the index has %q", was)
	}
	y.look()
	y.sweep() // what was moved away is not found again
}

// A directory made harmless and then moved is found where it came to be.
func TestSweepFindsWhatWasMovedIn(t *testing.T) {
	y := newYard(t, "src/a.go")
	y.make("gh/workflows/x.yml", "node_modules/p/.envrc")
	for from, to := range map[string]string{"gh": ".github", "node_modules": "nm"} {
		if err := os.Rename(filepath.Join(y.dir, from), filepath.Join(y.dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	y.sweep(".github/workflows", "nm/p/.envrc")
}

func TestSweepOfTheWorkspaceAsRepository(t *testing.T) {
	y := newYard(t, "src/a.go")
	y.make("HEAD", "objects/", "refs/", "hooks/post-checkout", "config")
	y.sweep("HEAD", "config", "hooks")
	again := newYard(t, "HEAD", "objects/", "refs/", "config") // it was one before
	again.make("hooks/post-checkout")
	again.sweep("hooks")
}

func TestSweepWithAQuarantineOfTheRunsOwn(t *testing.T) {
	y := newYard(t, "src/a.go")
	y.make(".palyra/quarantine/"+string(call)+"/1", ".envrc")
	y.sweep(".envrc", ".palyra")
	link := newYard(t, "src/a.go")
	if err := os.Symlink(t.TempDir(), filepath.Join(link.dir, ".palyra")); err != nil {
		t.Fatal(err)
	}
	link.sweep(".palyra")
	if fi, err := os.Lstat(filepath.Join(link.dir, ".palyra")); err != nil || !fi.IsDir() {
		t.Errorf("%v, %v", fi, err)
	}
}

func TestSweepRefusesAWayOut(t *testing.T) {
	y := newYard(t, "src/a.go")
	out := t.TempDir()
	if err := os.Symlink(out, filepath.Join(y.dir, ".palyra")); err != nil {
		t.Fatal(err)
	}
	y.look() // the link was there before
	y.make(".envrc")
	if _, err := sweep(t.Context(), y.dir, y.names, y.marks, call); palyra.AsError(err).Reason != palyra.ReasonSealDenied {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(out); len(left) > 0 {
		t.Errorf("something got out: %v", left)
	}
	if _, err := sweep(t.Context(), y.dir, y.names, y.marks, "../x"); err == nil {
		t.Error("an id that is a path was taken")
	}
	inside := newYard(t, "src/a.go") // nor does one lead elsewhere in the workspace
	if err := os.Symlink("src", filepath.Join(inside.dir, ".palyra")); err != nil {
		t.Fatal(err)
	}
	inside.look()
	inside.make(".envrc")
	if _, err := sweep(t.Context(), inside.dir, inside.names, inside.marks, call); palyra.AsError(err).Reason != palyra.ReasonSealDenied {
		t.Errorf("%v", err)
	}
}

func TestSweepTellsChanges(t *testing.T) {
	y := newYard(t, ".envrc", ".git/config")
	if err := os.WriteFile(filepath.Join(y.dir, ".envrc"), []byte("something longer"), 0o644); err != nil {
		t.Fatal(err)
	}
	y.sweep(seal.ChangedPrefix + ".envrc")
}

// A worktree's .git is a file, and sealed as a whole; a directory may be worked in.
func TestLookTellsFilesFromDirectories(t *testing.T) {
	y := newYard(t, ".git", "sub/.git/config", "bare/HEAD", "bare/commondir")
	var got []string
	for _, m := range y.marks {
		if kind := " sealed"; !m.Keep {
			got = append(got, m.Path+kind)
		} else {
			got = append(got, m.Path+" kept")
		}
	}
	if want := []string{".git sealed", "bare kept", "bare/commondir sealed", "sub/.git kept", "sub/.git/config sealed"}; !slices.Equal(got,
		want) {
		t.Errorf("%q", got)
	}
	if err := os.WriteFile(filepath.Join(y.dir, ".git"), []byte("gitdir: elsewhere"), 0o644); err != nil {
		t.Fatal(err)
	}
	y.sweep(seal.ChangedPrefix + ".git")
}

func TestLookIsBounded(t *testing.T) {
	y := newYard(t, "a/b", "a/c", "a/d", ".envrc")
	if _, err := look(t.Context(), y.dir, y.names, 3); palyra.AsError(err).Reason != palyra.ReasonSealDenied {
		t.Errorf("too many files: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := look(ctx, y.dir, y.names, maxEntries); err == nil {
		t.Error("it went on after the end of the context")
	}
	if _, err := look(t.Context(), filepath.Join(y.dir, "none"), y.names, maxEntries); err == nil {
		t.Error("a workspace that is not there was looked at")
	}
	deep := filepath.Join(y.dir, strings.Repeat("d/", maxDepth+2))
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := look(t.Context(), y.dir, y.names, maxEntries); palyra.AsError(err).Reason != palyra.ReasonSealDenied {
		t.Errorf("too deep: %v", err)
	}
}

// No link leads a walk anywhere.
func TestLookFollowsNoLink(t *testing.T) {
	y := newYard(t, "a/x")
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, ".envrc"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(y.dir, "a/link")); err != nil {
		t.Fatal(err)
	}
	if y.look(); len(y.marks) > 0 {
		t.Errorf("found %+v", y.marks)
	}
}
