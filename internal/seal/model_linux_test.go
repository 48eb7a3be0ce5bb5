package seal

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"palyra/internal/quarantine"
)

// all are the entries of the workspace by a whole walk, refusing nothing.
func all(t testing.TB, b *box) *Snapshot {
	t.Helper()
	s, err := whole(t, b)
	must(t, err)
	return s
}

// whole is all, and the error of a workspace that no run may begin in.
func whole(t testing.TB, b *box) (*Snapshot, error) {
	t.Helper()
	tr, err := openTree(b.ws)
	must(t, err)
	defer tr.close()
	m, err := Compile(Default)
	must(t, err)
	s, err := passes(context.Background(), tr, m, Limits{settle: -1}.filled(), way{}, nil, b.ws)
	if err == nil {
		tr.remember(s, nil, nil)
	}
	return s, err
}

// leads are the anchors of a snapshot, in one order.
func leads(s *Snapshot) string {
	out := []string{fmt.Sprint(s.bare)}
	for _, a := range s.match.Held() {
		out = append(out, fmt.Sprint(a))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

var pieces = rapid.SampledFrom([]string{
	"a", "b", "node_modules", ".git", "config", "hooks", "HEAD", "objects", "refs", "commondir", "modules", ".envrc", ".vscode", ".github",
	"workflows", "info",
	"attributes", ".palyra", "quarantine", ".GIT", "\xff", ".cargo", "config.toml", "rebase-merge", "git-rebase-todo", "AGENTS.md",
})

func drawPath(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(pieces, 1, 5).Draw(t, "path"), "/")
}

// change does something that a program could do. What does not work, does not.
func change(t *rapid.T, b *box) {
	p := b.in(drawPath(t))
	switch rapid.IntRange(0, 7).Draw(t, "act") {
	case 0, 1:
		_ = os.MkdirAll(filepath.Dir(p), 0o700)
		if f, err := os.OpenFile(p, os.O_WRONLY|os.O_CREATE|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0o600); err == nil { // a pipe has no reader
			_, _ = f.WriteString(rapid.String().Draw(t, "text"))
			_ = f.Close()
		}
	case 2:
		_ = os.MkdirAll(p, 0o700)
	case 3:
		_ = os.RemoveAll(p)
	case 4:
		_ = os.Rename(p, b.in(drawPath(t)))
	case 5:
		_ = os.Symlink(rapid.SampledFrom([]string{b.out, "a", "../b", "node_modules/a", b.in("a/b")}).Draw(t, "to"), p)
	case 6:
		_ = os.Link(b.in(drawPath(t)), p)
	case 7:
		_ = unix.Mknod(p, unix.S_IFSOCK|0o600, 0) // a pipe would hold the test itself up
	}
}

// Whatever is done to a workspace: after a sweep it has no sealed path that it
// did not have before, nothing that is not sealed is missing, nothing outside was
// touched; and a look that reads only what changed finds what a whole one finds.
func TestAnyRunIsSwept(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBox(t)
		for range rapid.IntRange(0, 30).Draw(rt, "before") {
			change(rt, b)
		}
		s, err := whole(t, b)
		if err != nil {
			rt.Skip(err) // links without an end: no run begins there
		}
		if rapid.Bool().Draw(rt, "crash") {
			doc, err := s.Record()
			must(t, err)
			s, err = Load(doc)
			must(t, err)
		}
		was, there := s.byPath(), inodes(b.ws)
		for range rapid.IntRange(0, 30).Draw(rt, "during") {
			change(rt, b)
		}
		before := countFiles(b.ws)
		had := existing(b, was)
		made, err := s.Sweep(context.Background(), b.quarantine, testCall)
		if err != nil {
			rt.Fatal(err)
		}
		fresh, err := whole(t, b)
		if err != nil {
			rt.Skip(err)
		}
		for _, e := range fresh.entries {
			old, ok := was[e.path]
			switch {
			case !ok && there[e.path] == e.id.ino: // sealed by a link before, and by its own name now
			case !ok && inSealed(was, e.path): // a mount held it: no run could have made this
			case !ok && e.kind != inner && e.kind != link && e.kind != midway && e.kind != noted:
				rt.Errorf("%q is left; made %q", e.path, made)
			case ok && e.kind == sealed && old.kind == sealed && e.id != old.id && !bytes.Equal(e.text, old.text):
				rt.Errorf("%q was replaced; made %q", e.path, made)
			}
		}
		opts := cmp.Options{cmp.AllowUnexported(watchedPath{}, ident{}, stamp{}), cmpopts.IgnoreFields(watchedPath{}, "dir", "loose")}
		if leads(fresh) != leads(s) { // what a link led to stays sealed until the next look, which is a whole one
			if !stale(t, s) {
				rt.Error("a snapshot with other leads than the workspace counts as fresh")
			}
			b.intact()
			return
		}
		found := s.byPath()
		for p, is := range fresh.byPath() {
			if e, ok := found[p]; ok && len(made) > 0 { // the sweep may have moved another name of this file
				e.ctime, e.links = is.ctime, is.links
				found[p] = e
			}
		}
		if d := cmp.Diff(fresh.byPath(), found, opts); d != "" {
			rt.Error(d)
		}
		for p, is := range s.byPath() {
			old := was[p] // only the sweep saw what was there before: no whole walk can know this
			if another := is.kind == sealed && old.text != nil && is.mode&unix.S_IFMT == unix.S_IFREG &&
				(old.id != is.id || old.born != is.born); is.loose != another {
				rt.Errorf("%q is loose: %v; another file than before: %v", p, is.loose, another)
			}
		}
		again := 0 // files that were put back
		for _, p := range made {
			if b.exists(p) && had[p] {
				again++
			}
		}
		boxes := b.openBoxes()
		if after := countFiles(b.ws) + countFiles(b.quarantine) - boxes - 2*boolInt(hasIndex(b)) - boolInt(
			hasQuarantine(b)) - again; after != before {
			rt.Errorf("%d files before the sweep, %d after", before, after)
		}
		b.intact()
	})
}

// inodes are those of everything below a directory.
func inodes(dir string) map[string]uint64 {
	out := map[string]uint64{}
	_ = filepath.WalkDir(dir, func(p string, _ os.DirEntry, _ error) error {
		var st unix.Stat_t
		if rel, err := filepath.Rel(dir, p); err == nil && unix.Lstat(p, &st) == nil {
			out[rel] = st.Ino
		}
		return nil
	})
	return out
}

// inSealed reports whether a directory above a path was sealed.
func inSealed(was map[string]watchedPath, path string) bool {
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		if was[dir].kind == sealed {
			return true
		}
	}
	return false
}

func stale(t testing.TB, s *Snapshot) bool {
	t.Helper()
	is, err := s.stale(context.Background())
	must(t, err)
	return is
}

// existing are those of the known paths that are there.
func existing(b *box, known map[string]watchedPath) map[string]bool {
	out := map[string]bool{}
	for p := range known {
		out[p] = b.exists(p)
	}
	return out
}

func countFiles(dir string) int {
	n := 0
	_ = filepath.WalkDir(dir, func(string, os.DirEntry, error) error { n++; return nil })
	return n - 1
}

func hasQuarantine(b *box) bool {
	_, err := os.Lstat(filepath.Join(b.quarantine, string(testCall)))
	return err == nil
}

func hasIndex(b *box) bool {
	_, err := os.Lstat(filepath.Join(b.quarantine, string(testCall), quarantine.IndexName))
	return err == nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A look that reads only what changed says what a whole one says, step by step.
func TestStaleIsAsGoodAsAScan(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBox(t)
		s := all(t, b)
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			for range rapid.IntRange(0, 3).Draw(rt, "changes") {
				change(rt, b)
			}
			fresh := all(t, b)
			before := leads(s)
			stale, err := s.Stale(context.Background())
			must(t, err)
			want := fresh.check() != nil || !cmp.Equal(fresh.Mounts(), s.Mounts()) || leads(fresh) != before
			if stale != want {
				rt.Fatalf("stale %v, want %v: %v, %v", stale, want, fresh.Sealed(), s.Sealed())
			}
			if stale {
				s = fresh
			}
		}
	})
}

func benchBox(b *testing.B) *box {
	x := newBox(b)
	x.file(repoIn(".git")...)
	for i := range 1_000 {
		for j := range 10 {
			x.file(fmt.Sprintf("src/p%d/q%d/file%d.go", i%50, i, j))
		}
	}
	return x
}

func BenchmarkScan(b *testing.B) {
	x := benchBox(b)
	for b.Loop() {
		_, err := Scan(b.Context(), x.ws, Default, Limits{})
		must(b, err)
	}
}

func BenchmarkStale(b *testing.B) {
	x := benchBox(b)
	s := x.scan()
	for b.Loop() {
		stale, err := s.Stale(b.Context())
		must(b, err)
		if stale {
			b.Fatal("stale")
		}
	}
}

func BenchmarkSweep(b *testing.B) {
	x := benchBox(b)
	s := x.scan()
	for b.Loop() {
		made, err := s.Sweep(b.Context(), x.quarantine, testCall)
		must(b, err)
		if made != nil {
			b.Fatal(made)
		}
	}
}
