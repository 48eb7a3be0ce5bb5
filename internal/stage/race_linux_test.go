package stage

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/preimage"
	"palyra/internal/stage/steps"
)

// keepWhile keeps, and calls f once everything before zz has been looked at and
// nothing is changed yet. The run must have changed zz.
func (b *bench) keepWhile(g *Stage, f func()) (Settled, error) {
	b.t.Helper()
	once := sync.OnceFunc(f)
	return g.Keep(b.t.Context(), func(path string) (bool, bool) {
		if path == "zz" {
			once()
		}
		return false, false
	}, nil)
}

// near is where a workspace is unless a test says otherwise.
func (b *bench) near() {}

// elsewhere is a workspace on another file system than the stages.
func (b *bench) elsewhere() {
	b.t.Helper()
	ws, err := os.MkdirTemp("/dev/shm", "stage")
	if err != nil {
		b.t.Fatalf("a second file system is needed: %v", err)
	}
	b.t.Cleanup(func() { _ = os.RemoveAll(ws) })
	check(b.t, os.Chmod(ws, 0o755))
	var one, two unix.Stat_t
	check(b.t, unix.Stat(ws, &one))
	check(b.t, unix.Stat(b.all.path, &two))
	if one.Dev == two.Dev {
		b.t.Fatal("a second file system is needed: /dev/shm is the one of the stages")
	}
	b.ws = ws
}

// What somebody saves after the run's changes were judged, and before they are put
// into the workspace, stays; so does all that it lies in, and nothing of the run's is kept:
// what was put into the workspace before that is taken back. On one file system and across two.
func TestSavedWhileKept(t *testing.T) {
	for name, c := range map[string]struct{ run, other, path string }{
		"written over":           {"echo run > f", "echo other > f", "/f"},
		"renamed over":           {"echo run > f", "echo other > x; mv x f", "/f"},
		"made":                   {"echo run > new", "echo other > new", "/new"},
		"a link made":            {"echo run > new", "ln -s other new", "/new"},
		"removed":                {"rm f", "echo other > f", "/f"},
		"grown":                  {"rm -r d", "echo other > d/deep/new", "/d/deep/new"},
		"grown and replaced":     {"rm -r d; mkdir d; echo run > d/run", "echo other > d/deep/new", "/d/deep/new"},
		"grown and now a file":   {"rm -r d; echo run > d", "echo other > d/deep/new", "/d/deep/new"},
		"a directory made":       {"mkdir new; echo run > new/run", "mkdir new; echo other > new/x", "/new/x"},
		"a file for a directory": {"mkdir new; echo run > new/run", "echo other > new", "/new"},
		"a link for a directory": {"echo run > d/run", "mv d x; ln -s x d", "/d"},
	} {
		for _, far := range []bool{false, true} {
			for _, first := range []bool{true, false} {
				t.Run(fmt.Sprint(name, far, first), func(t *testing.T) {
					b := newBench(t)
					if far {
						b.elsewhere()
					}
					b.write("f", "old\n")
					b.write("d/f", "old\n")
					b.write("d/deep/f", "old\n")
					b.write("zz", "old\n")
					b.write("1", "old\n")
					b.write("2/x/y", "old\n")
					b.write("4/x", "old\n")
					b.write("5/x", "old\n")
					check(t, os.Chmod(filepath.Join(b.ws, "2/x"), 0o500))
					t.Cleanup(func() { _ = os.Chmod(filepath.Join(b.ws, "2/x"), 0o700) })
					g := b.stage()
					p := b.past()
					check(t, g.Remember(p, "run"))
					run := c.run + "; echo run > zz"
					if !first { // all of it comes first, and is taken back
						run += "; echo run > 0; echo run > 1; rm -r 2; mkdir 3; echo run > 3/x; chmod 500 3; chmod 700 4; rm -r 5; ln -s x 5"
					}
					b.run(g, run)
					var before map[string]string
					e, err := b.keepWhile(g, func() { shell(t, b.ws, c.other); before = tree(t, b.ws) })
					check(t, err)
					g.Drop()
					after := tree(t, b.ws)
					if len(e.Conflicts) != 1 || e.Lost != "" || e.Kept != 0 || e.Remembered || before[c.path] == "" ||
						fmt.Sprint(before) != fmt.Sprint(after) || len(names(t, p)) > 0 {
						t.Errorf("%+v: %s", e, differing(before, after))
					}
				})
			}
		}
	}
}

// The same where it was saved after the last look: what was exchanged or moved away
// is looked at once more, also by the next daemon when the first was killed there.
func TestSavedAtTheLastMoment(t *testing.T) {
	for name, c := range map[string]struct {
		run  string
		last func(b *bench, g *Stage) error
		path string
	}{
		"exchanged": {"echo run > f", func(b *bench, g *Stage) error {
			b.write("f", "other")
			return unix.Renameat2(unix.AT_FDCWD, filepath.Join(g.path, Upper, "f"), unix.AT_FDCWD, filepath.Join(b.ws, "f"), unix.RENAME_EXCHANGE)
		}, "/f"},
		"moved away": {"rm -r d", func(b *bench, g *Stage) error {
			b.write("d/new", "other")
			return os.Rename(filepath.Join(b.ws, "d"), filepath.Join(g.path, preimage.Old, "0"))
		}, "/d/new"},
		"moved away and made": {"rm f", func(b *bench, g *Stage) error {
			b.write("f", "other")
			if err := os.Rename(filepath.Join(b.ws, "f"), filepath.Join(g.path, preimage.Old, "0")); err != nil {
				return err
			}
			b.write("f", "third")
			return nil
		}, "saved"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("f", "old")
			b.write("d/f", "old")
			g := b.stage()
			b.run(g, c.run)
			k, steps := g.begun(t)
			check(t, k.count(0))
			k.close()
			if len(steps) != 1 {
				t.Fatalf("%+v", steps)
			}
			check(t, c.last(b, g))
			b.all.live = map[string]bool{}
			check(t, b.all.Recover(t.Context()))
			for path, text := range tree(t, b.ws) {
				if (path == c.path || strings.HasSuffix(path, "."+c.path)) && strings.HasSuffix(text, " other") {
					return
				}
			}
			t.Errorf("%v", tree(t, b.ws))
		})
	}
}

// begun is a stage whose list is written.
func (g *Stage) begun(t *testing.T) (*committer, []steps.Step) {
	t.Helper()
	k := newCommitter(g, g.changesSince())
	r := &reader{Stage: g, ctx: t.Context(), since: k.Since}
	check(t, g.asOwner(func() error {
		if err := k.open(g.openWorkspace); err != nil {
			return err
		}
		r.upper, r.ws = k.Upper, k.Workspace
		return r.all()
	}))
	check(t, k.write(r.steps))
	return k, r.steps
}

// No mode is given to what a link leads to, nor to another directory that took the
// place of the one that was meant.
func TestModesFollowNoLink(t *testing.T) {
	for _, take := range []string{"mv %[1]s x; ln -s ../outside %[1]s", "mv %[1]s x; mkdir %[1]s; chmod 755 %[1]s; touch %[1]s/y"} {
		t.Run(take, func(t *testing.T) {
			b := newBench(t)
			outside := filepath.Join(filepath.Dir(b.ws), "outside")
			check(t, os.Mkdir(outside, 0o755))
			b.write("k/x", "old")
			b.write("zz", "old")
			same := func(when string) {
				t.Helper()
				for _, dir := range []string{outside, filepath.Join(b.ws, "k")} {
					if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o755 {
						t.Errorf("%s: %v, %v", when, fi, err)
					}
				}
			}
			g := b.stage()
			b.run(g, "echo run > a; chmod 700 k; echo run > zz")
			e, err := b.keepWhile(g, func() { shell(t, b.ws, fmt.Sprintf(take, "k")) })
			if err != nil || len(e.Conflicts) != 1 || e.Kept > 0 {
				t.Errorf("%+v, %v", e, err)
			}
			same("a directory that was there")
		})
	}
	b := newBench(t)
	outside := filepath.Join(filepath.Dir(b.ws), "outside")
	check(t, os.Mkdir(outside, 0o755))
	g := b.stage()
	b.run(g, "mkdir n; chmod 500 n")
	g.until(t, 0) // the directory is made, its mode is to come
	shell(t, b.ws, "mv n x; ln -s ../outside n")
	b.all.live = map[string]bool{}
	check(t, b.all.Recover(t.Context()))
	if fi, err := os.Stat(outside); err != nil || fi.Mode().Perm() != 0o755 {
		t.Errorf("a directory that was made: %v, %v", fi, err)
	}
}

// Keeping in one workspace does not wait for another; in the same one, runs that
// end together see each other's changes.
func TestKeepingTakesTurns(t *testing.T) {
	b, other := newBench(t), newBench(t)
	other.all = b.all
	b.write("zz", "old")
	slow, quick := b.stage(), other.stage()
	b.run(slow, "echo run > zz")
	other.run(quick, "echo run > f")
	e, err := b.keepWhile(slow, func() {
		if e := other.keep(quick); e.Kept != 1 {
			t.Errorf("%+v", e)
		}
	})
	if err != nil || e.Kept != 1 {
		t.Errorf("%+v, %v", e, err)
	}
	stages := make([]*Stage, 6)
	for i := range stages {
		stages[i] = b.stage()
		b.run(stages[i], fmt.Sprintf("echo %d > zz", i))
	}
	var wait sync.WaitGroup
	kept := make([]int, len(stages))
	for i, g := range stages {
		wait.Go(func() {
			e, err := g.Keep(t.Context(), nil, nil)
			if kept[i] = e.Kept; err != nil || e.Kept+len(e.Conflicts) != 1 {
				t.Errorf("%+v, %v", e, err)
			}
		})
	}
	wait.Wait()
	if sum := fmt.Sprint(kept); strings.Count(sum, "1") != 1 || len(b.all.keeping) > 0 {
		t.Errorf("%s, %v", sum, b.all.keeping)
	}
}

// A file with several names is not somebody else's change when the first of them
// has been dealt with.
func TestHardLinksAreNoConflict(t *testing.T) {
	b := newBench(t)
	b.write("a", "old")
	b.write("d/x", "old")
	for _, name := range []string{"b", "c", "d/a"} {
		check(t, os.Link(filepath.Join(b.ws, "a"), filepath.Join(b.ws, name)))
	}
	g := b.stage()
	b.run(g, "rm a; echo run > b; rm c; rm -r d")
	if e := b.keep(g); e.Kept != 4 || e.Lost != "" {
		t.Errorf("%+v", e)
	}
	if got := tree(t, b.ws); len(got) != 2 || got["/b"] != "-rw-r--r-- run\n" {
		t.Errorf("%v", got)
	}
}

// changesFor is what the run on a stage changed, whose steps are the ones that begun wrote down.
func (g *Stage) changesFor(t *testing.T) []Change {
	t.Helper()
	k := newCommitter(g, g.changesSince())
	r := &reader{Stage: g, ctx: t.Context(), since: k.Since}
	check(t, g.asOwner(func() error {
		if err := k.open(g.openWorkspace); err != nil {
			return err
		}
		r.upper, r.ws = k.Upper, k.Workspace
		return r.all()
	}))
	k.close()
	return r.seen.List()
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	check(t, err)
	return string(text)
}
