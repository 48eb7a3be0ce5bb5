package stage

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"palyra/internal/quarantine"
)

// setAside is what of a run lies in quarantine: content by the path it was to go to.
func (b *bench) setAside(g *Stage, dir string) map[string]string {
	b.t.Helper()
	n, lost, err := g.SetAside(dir, "call", 0)
	check(b.t, err)
	if len(lost) > 0 {
		b.t.Errorf("lost %+v", lost)
	}
	f, err := os.Open(filepath.Join(dir, "call", quarantine.IndexName))
	check(b.t, err)
	defer func() { _ = f.Close() }()
	items, err := quarantine.ReadIndex(f)
	check(b.t, err)
	got := map[string]string{}
	for _, i := range items {
		box := filepath.Join(dir, "call", i.Item)
		if fi, err := os.Lstat(box); err != nil || fi.Mode() != os.ModeDir || i.Bytes == 0 {
			b.t.Errorf("%s: %v, %v, %d bytes", i.Path, fi, err, i.Bytes)
		}
		check(b.t, os.Chmod(box, 0o700))
		path := filepath.Join(box, quarantine.ItemName)
		fi, err := os.Lstat(path)
		check(b.t, err)
		if fi.Mode()&os.ModeSymlink != 0 {
			got[i.Path], err = os.Readlink(path)
			check(b.t, err)
			continue
		}
		check(b.t, os.Chmod(path, 0o600))
		text, err := os.ReadFile(path)
		check(b.t, err)
		got[i.Path] = string(text)
	}
	if len(got) != n {
		b.t.Errorf("%d files, and the index has %v", n, got)
	}
	return got
}

// Where somebody else changed the same files, what the run made of them and of all the
// others is not lost; what was bound and stayed as it was is not among it.
func TestSetAside(t *testing.T) {
	for name, c := range map[string]struct {
		run, other string
		want       map[string]string
	}{
		"both wrote": {"echo run > f", "echo other > f", map[string]string{"f": "run\n"}},
		"removed":    {"echo run > f", "rm f", map[string]string{"f": "run\n"}},
		"a directory gone": {
			"echo run > d/f; mkdir d/n; echo run > d/n/x; chmod 0 d/n", "mv d e",
			map[string]string{"d/f": "run\n", "d/n/x": "run\n"},
		},
		"a link for one": {"echo run > d/deep/f", "mv d e; ln -s e d", map[string]string{"d/deep/f": "run\n"}},
		"a file for one": {"echo run > d/f; ln -s x d/l", "mv d e; echo other > d", map[string]string{"d/f": "run\n", "d/l": "x"}},
		"a mode":         {"chmod 700 d; echo run > d/f; chmod 000 d/f", "touch d/x; chmod 777 d", map[string]string{"d/f": "run\n"}},
		"raw bytes":      {"echo run > f; echo run > $(printf 'x\\377')", "echo other > f", map[string]string{"f": "run\n", "x\xff": "run\n"}},
		"only removed":   {"rm f; ln -s / up", "echo other > f", map[string]string{"up": "/"}},
	} {
		for _, far := range []bool{false, true} {
			t.Run(fmt.Sprint(name, far), func(t *testing.T) {
				b := newBench(t)
				b.write("f", "old\n")
				b.write("s.sh", "bound\n")
				b.write("d/f", "old\n")
				b.write("d/deep/f", "old\n")
				dir := filepath.Join(filepath.Dir(b.ws), "quarantine")
				if far {
					b.elsewhere()
					dir, b.ws = b.ws, filepath.Join(filepath.Dir(b.all.path), "ws")
				} else {
					check(t, os.Mkdir(dir, 0o700))
				}
				g := b.stage(Bound{Path: "s.sh", Digest: sumOf(t, "bound\n")})
				b.run(g, c.run+"; echo more > aside")
				shell(t, b.ws, c.other)
				before := tree(t, b.ws)
				if e := b.keep(g); len(e.Conflicts) == 0 {
					t.Errorf("%+v", e)
				}
				want := maps.Clone(c.want)
				want["aside"] = "more\n"
				if got := b.setAside(g, dir); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%q, want %q", got, want)
				}
				if after := tree(t, b.ws); fmt.Sprint(after) != fmt.Sprint(before) {
					t.Errorf("%v, then %v", before, after)
				}
				_ = os.Chmod(filepath.Join(b.ws, "d/f"), 0o600)
			})
		}
	}
}

// What was taken back, because somebody changed a file in the middle, is set aside with all else of the run's.
func TestSetAsideAfterTakingBack(t *testing.T) {
	for where, put := range map[string]func(*bench){"one file system": (*bench).near, "two file systems": (*bench).elsewhere} {
		t.Run(where, func(t *testing.T) {
			b := newBench(t)
			put(b)
			b.write("f", "old\n")
			b.write("zz", "old\n")
			dir := filepath.Join(filepath.Dir(b.all.path), "quarantine")
			check(t, os.Mkdir(dir, 0o700))
			g := b.stage()
			b.run(g, "echo run > a; echo run > f; echo run > zz")
			e, err := b.keepWhile(g, func() { b.write("f", "other\n") })
			if err != nil || !slices.Equal(e.Conflicts, []string{"f"}) || e.Kept > 0 {
				t.Fatalf("%+v, %v", e, err)
			}
			if got := b.setAside(g, dir); len(got) != 3 || got["f"] != "run\n" || got["a"] != "run\n" || got["zz"] != "run\n" {
				t.Errorf("%q", got)
			}
			for _, bad := range []string{"", "..", "a/b", "x\xff"} {
				if _, _, err := g.SetAside(dir, bad, 0); err == nil {
					t.Errorf("%q is taken for a name", bad)
				}
			}
		})
	}
}

// What a staged run could not keep counts in the quarantine, and does not fill it: what
// is more is named, with its digest.
func TestSetAsideIsBounded(t *testing.T) {
	b := newBench(t)
	b.write("f", "old\n")
	dir := filepath.Join(filepath.Dir(b.ws), "quarantine")
	check(t, os.Mkdir(dir, 0o700))
	t.Cleanup(func() { // a user may not look into what lies there, and the test removes it
		items, _ := filepath.Glob(filepath.Join(dir, "call", "run-*"))
		for _, i := range items {
			_ = os.Chmod(i, 0o700)
		}
	})
	g := b.stage()
	b.run(g, "echo run > f; head -c 300000 /dev/zero > large; echo run > z")
	b.write("f", "other\n")
	if e := b.keep(g); len(e.Conflicts) == 0 {
		t.Errorf("%+v", e)
	}
	n, lost, err := g.SetAside(dir, "call", 64<<10)
	if err != nil || n != 2 || len(lost) != 1 || lost[0].Path != "large" || !lost[0].Removed || lost[0].Hashed != 300_000 {
		t.Errorf("%d, %+v, %v", n, lost, err)
	}
	if used := quarantine.Used(filepath.Join(dir, "call")); used < 8<<10 || used > 64<<10 {
		t.Errorf("%d bytes are used", used)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "call", quarantine.WorkspaceName)); err != nil || string(text) != b.ws {
		t.Errorf("of %q, %v", text, err)
	}
}
