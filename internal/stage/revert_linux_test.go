package stage

import (
	"errors"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/preimage"
)

// past opens a place for what runs replace.
func (b *bench) past() *preimage.Store {
	b.t.Helper()
	p, err := preimage.Open(filepath.Join(filepath.Dir(b.all.path), "past"))
	check(b.t, err)
	b.t.Cleanup(func() { _ = p.Close() })
	return p
}

// remembered keeps a stage so that it can be undone.
func (b *bench) remembered(g *Stage, p *preimage.Store, name string) Settled {
	b.t.Helper()
	check(b.t, g.Remember(p, name))
	e := b.keep(g)
	if len(e.Conflicts) > 0 || e.Lost != "" || !e.Remembered && len(e.Changes) > 0 {
		b.t.Fatalf("%+v", e)
	}
	g.Drop()
	return e
}

// revert undoes a run, and remembers that.
func (b *bench) revert(p *preimage.Store, name, as string) {
	b.t.Helper()
	g, err := b.all.Revert(b.t.Context(), p, name)
	check(b.t, err)
	b.remembered(g, p, as)
}

// What a run did can be taken back and done again: the workspace is as before, then as
// after, also where stages are on another file system.
func TestRevert(t *testing.T) {
	rounds := 8
	if os.Getenv("PALYRA_FAULTS") == "full" {
		rounds = 300
	}
	for where, put := range map[string]func(*bench){"one file system": (*bench).near, "two file systems": (*bench).elsewhere} {
		t.Run(where, func(t *testing.T) {
			for i := range rounds {
				seed := rand.Int63()
				r := rand.New(rand.NewSource(seed))
				b := newBench(t)
				put(b)
				p := b.past()
				first, second := script(r, 25), script(r, 25)
				shell(t, b.ws, first)
				before := states(t, b.ws)
				g := b.stage()
				b.run(g, second)
				if b.remembered(g, p, "run"); len(names(t, p)) == 0 { // it changed nothing
					continue
				}
				after := states(t, b.ws)
				b.revert(p, "run", "undo")
				if diff := between(before, states(t, b.ws)); len(diff) > 0 {
					t.Fatalf("round %d, seed %d: not taken back: %+v\n%s\nthen\n%s", i, seed, diff, first, second)
				}
				b.revert(p, "undo", "redo")
				if diff := between(after, states(t, b.ws)); len(diff) > 0 {
					t.Fatalf("round %d, seed %d: not done again: %+v\n%s\nthen\n%s", i, seed, diff, first, second)
				}
				for _, n := range names(t, p) {
					check(t, p.Forget(n))
				}
				if left, _ := os.ReadDir(p.Path()); len(left) > 0 {
					t.Errorf("%v is left", left)
				}
				if left, _ := os.ReadDir(b.all.path); len(left) > 0 {
					t.Errorf("%v is left", left)
				}
			}
		})
	}
}

func names(t *testing.T, p *preimage.Store) []string {
	t.Helper()
	all, err := p.Names()
	check(t, err)
	return all
}

// Where somebody changed what the run left, nothing is taken back, and it is told what
// differs.
func TestRevertRefusesLaterWork(t *testing.T) {
	for name, c := range map[string]struct{ run, later, differs string }{
		"a file":          {"echo run > f", "echo later >> f", "f"},
		"a mode":          {"echo run > f", "chmod 600 f", "f"},
		"a new one":       {"echo run > n", "rm n", "n"},
		"a removed one":   {"rm f", "echo back > f", "f"},
		"in a new dir":    {"mkdir n; echo run > n/x", "echo mine > n/mine", "n"},
		"a dir's place":   {"rm -rf d", "echo file > d", "d"},
		"below its place": {"rm d/1/2", "rm -r d/1; echo file > d/1", ""},
		"a link":          {"ln -s f n", "ln -sfn d n", "n"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("f", "old\n")
			b.write("d/1/2", "old")
			p := b.past()
			g := b.stage()
			b.run(g, c.run)
			b.remembered(g, p, "run")
			shell(t, b.ws, c.later)
			later := states(t, b.ws)
			_, err := b.all.Revert(t.Context(), p, "run")
			differs := (*DiffersError)(nil)
			if c.differs != "" && (!errors.As(err, &differs) || !slices.Contains(differs.Paths, c.differs)) || err == nil {
				t.Errorf("%v", err)
			}
			if diff := between(later, states(t, b.ws)); len(diff) > 0 {
				t.Errorf("changed: %+v", diff)
			}
			if left, _ := os.ReadDir(b.all.path); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}

// What is remembered is compared with its digest before it is put back.
func TestRevertOfWhatWasTamperedWith(t *testing.T) {
	b := newBench(t)
	b.write("f", "old\n")
	p := b.past()
	g := b.stage()
	b.run(g, "echo run > f")
	b.remembered(g, p, "run")
	check(t, filepath.Walk(p.Path(), func(path string, fi os.FileInfo, err error) error {
		if err == nil && fi.Mode().IsRegular() && fi.Name() != preimage.ManifestName {
			err = os.WriteFile(path, []byte("evi\n"), 0o644)
		}
		return err
	}))
	if _, err := b.all.Revert(t.Context(), p, "run"); err == nil || !strings.Contains(err.Error(), "was changed") {
		t.Errorf("%v", err)
	}
	if _, err := b.all.Revert(t.Context(), p, "../run"); err == nil {
		t.Error("a name that leads out")
	}
}

// FuzzManifest: what is remembered is read from a disk, and no path in it leads out.
func FuzzManifest(f *testing.F) {
	f.Add(`{"version":1,"changes":[{"path":"YQ==","step":0,"rest":"L2I="}]}`)
	f.Add(`{"version":1,"changes":[{"path":"Li4v"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		m, err := preimage.ReadManifest(strings.NewReader(text), false)
		for _, c := range m.Changes {
			if all := "/" + string(c.Path) + string(c.Rest) + "/"; err == nil && strings.Contains(all, "/../") {
				t.Errorf("%q", all)
			}
		}
	})
}

// Of many changes only what is said before them is read, where that is all that is wanted.
func TestPastHead(t *testing.T) {
	b := newBench(t)
	b.write("f", "old\n")
	p := b.past()
	g := b.stage()
	b.run(g, "echo run > f; mkdir d; echo x > d/x")
	b.remembered(g, p, "run")
	whole, err := p.Read("run")
	check(t, err)
	head, err := p.Head("run")
	check(t, err)
	if len(whole.Changes) != 3 || head.Paths != 3 || len(head.Changes) != 0 || head.Workspace != b.ws || head.At.IsZero() ||
		head.Bytes < preimage.Block || head.Bytes != whole.Bytes {
		t.Errorf("%+v, of %+v", head, whole)
	}
}

// Content before and after a run is what was there and what is; what somebody changed since is not given.
func TestContents(t *testing.T) {
	b := newBench(t)
	for name, text := range map[string]string{
		"f": "old\n", "gone": "bye\n", "d/shut": "secret\n", "later": "1\n", "big": strings.Repeat("x", 200), "raw\xff": "r\n",
	} {
		b.write(name, text)
	}
	p := b.past()
	g := b.stage()
	b.run(g, "echo run > f; rm gone; chmod 700 d; rm d/shut; chmod 000 d; "+
		"echo 2 > later; echo small > big; echo new > n; ln -s f l; echo R > raw\xff")
	b.remembered(g, p, "run")
	check(t, os.Chmod(filepath.Join(b.ws, "d"), 0o700))
	shell(t, b.ws, "echo 3 > later")
	got := map[string]preimage.Content{}
	check(t, p.Contents(t.Context(), "run", func(c Change) bool { return c.Path != "n" }, 100, func(c preimage.Content) bool {
		got[c.Path] = c
		return true
	}))
	for path, want := range map[string][3]string{
		"f": {"old\n", "run\n", ""}, "gone": {"bye\n", "", ""}, "d/shut": {"secret\n", "", ""}, "raw\xff": {"r\n", "R\n", ""},
		"later": {"", "", "it is not as the call left it"}, "big": {"", "", "it is too large"},
	} {
		c, ok := got[path]
		if !ok || [3]string{string(c.Before), string(c.After), c.Why} != want {
			t.Errorf("%q: %q %q %q", path, c.Before, c.After, c.Why)
		}
		delete(got, path)
	}
	if len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// What is changed without a stage is remembered and put back as well; before it is committed it is not there.
func TestAdd(t *testing.T) {
	b := newBench(t)
	b.write("f", "old\n")
	shell(t, b.ws, "chmod 640 f")
	before := states(t, b.ws)
	shell(t, b.ws, "mkdir d; chmod 755 d; echo made > d/n; echo new > f; chmod 644 d/n")
	after := states(t, b.ws)
	var all []preimage.Former
	for _, c := range between(before, after) {
		o := preimage.Former{Change: c}
		if c.Path == "f" {
			o.Content = []byte("old\n")
		}
		all = append(all, o)
	}
	slices.Reverse(all)
	p := b.past()
	a, err := p.Add("call", b.ws, b.stage().id, all, false)
	check(t, err)
	if got := names(t, p); len(got) > 0 {
		t.Errorf("%v before it is committed", got)
	}
	check(t, a.Commit())
	b.revert(p, "call", "undo")
	if diff := between(before, states(t, b.ws)); len(diff) > 0 {
		t.Errorf("not taken back: %+v", diff)
	}
	b.revert(p, "undo", "redo")
	if diff := between(after, states(t, b.ws)); len(diff) > 0 {
		t.Errorf("not done again: %+v", diff)
	}
	a, err = p.Add("other", b.ws, b.stage().id, nil, false)
	check(t, err)
	check(t, p.Sweep())
	if err := a.Commit(); err == nil {
		t.Error("it was swept away")
	}
	if _, err := p.Add("../x", b.ws, b.stage().id, nil, false); err == nil {
		t.Error("a name that leads out")
	}
}
