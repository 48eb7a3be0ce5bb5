package stage

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/preimage"
)

// Nothing is the workspace's before it was weighed, and only a ruling to keep keeps.
func TestWeighed(t *testing.T) {
	for name, c := range map[string]struct {
		ruling Ruling
		fails  bool
		kept   bool
	}{
		"keep": {ruling: RulingKeep, kept: true}, "drop": {ruling: RulingDrop}, "nothing": {}, "nonsense": {ruling: 7},
		"panic": {fails: true, ruling: RulingKeep},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("f", "old\n")
			b.write("d/x", "old\n")
			g := b.stage()
			b.run(g, "echo run > f; rm -r d; echo n > n; echo s > s; chmod 4755 s")
			before := tree(t, b.ws)
			var asked []Change
			never := 0
			e, err := g.Keep(t.Context(), nil, func(f Found) Ruling {
				all, n := f.Changes, f.NeverKept
				if now := tree(t, b.ws); fmt.Sprint(now) != fmt.Sprint(before) {
					t.Errorf("changed before it was weighed: %s", differing(before, now))
				}
				if asked, never = all, n; c.fails {
					panic("no")
				}
				return c.ruling
			})
			check(t, err)
			if len(asked) != 5 || never != 1 {
				t.Errorf("asked about %+v, %d", asked, never)
			}
			if e.Dropped == c.kept || e.Held || (e.Kept > 0) != c.kept || (fmt.Sprint(before) == fmt.Sprint(tree(t, b.ws))) == c.kept {
				t.Errorf("%+v", e)
			}
			sameChanges(t, asked, e.Changes)
		})
	}
}

// Who changed nothing is not asked about, nor is what cannot be kept anyway.
func TestNotWeighed(t *testing.T) {
	b := newBench(t)
	b.write("f", "old\n")
	asked := func(Found) Ruling { t.Error("asked"); return RulingDrop }
	g := b.stage()
	b.run(g, "cat f; touch f")
	_, err := g.Keep(t.Context(), nil, asked)
	check(t, err)
	g = b.stage()
	b.run(g, "echo run > f")
	b.write("f", "other\n")
	e, err := g.Keep(t.Context(), nil, asked)
	check(t, err)
	if len(e.Conflicts) != 1 {
		t.Errorf("%+v", e)
	}
}

// reopened is the place of the stages as the next daemon finds it.
func (b *bench) reopened() {
	b.t.Helper()
	all, err := Open(b.all.path, Limits{}, slog.New(slog.DiscardHandler))
	check(b.t, err)
	all.Remember(b.all.past)
	b.t.Cleanup(func() { _ = all.Close() })
	b.all = all
	check(b.t, all.Recover(b.t.Context()))
}

// holds has a run's changes held.
func (b *bench) holds(call, script string, names Names, bound ...Bound) []Change {
	b.t.Helper()
	g := b.stage(bound...)
	check(b.t, g.Assign(call))
	b.run(g, script)
	before := tree(b.t.(*testing.T), b.ws)
	e, err := g.Keep(b.t.Context(), names, func(Found) Ruling { return RulingHold })
	check(b.t, err)
	g.Drop()
	if !e.Held || e.Kept > 0 || !b.all.Held(call) {
		b.t.Fatalf("%+v, %v", e, b.all.Held(call))
	}
	if now := tree(b.t.(*testing.T), b.ws); fmt.Sprint(now) != fmt.Sprint(before) {
		b.t.Errorf("changed while it is held: %s", differing(before, now))
	}
	return e.Changes
}

const heldScript = `echo run > f; rm -r d; mkdir -p n/m; echo x > n/m/o; chmod 500 n/m; ln -s f l; printf y > "$(printf 'raw\377')"
mkdir shut; echo x > shut/y; chmod 0 shut; chmod 700 k; echo more >> s.sh`

func (b *bench) heldTree() Bound {
	b.write("f", "old\n")
	b.write("d/x", "old\n")
	b.write("k/x", "old\n")
	b.write("s.sh", "echo\n")
	return Bound{Path: "s.sh", Digest: sumOf(b.t.(*testing.T), "echo\n")}
}

func rulingFor(keep bool) Ruling {
	if keep {
		return RulingKeep
	}
	return RulingDrop
}

// What is held is settled later, by this daemon or the next: kept as it would have been at
// once, or dropped; and who asks again is told the same.
func TestHeldIsSettled(t *testing.T) {
	atOnce := newBench(t)
	g := atOnce.stage(atOnce.heldTree())
	atOnce.run(g, heldScript)
	atOnce.keep(g)
	want := tree(t, atOnce.ws)
	for _, remembers := range []bool{false, true} {
		for _, restarts := range []int{0, 1, 2} {
			for _, keep := range []bool{true, false} {
				t.Run(fmt.Sprint(restarts, keep, remembers), func(t *testing.T) {
					b := newBench(t)
					if remembers {
						p, err := preimage.Open(filepath.Join(filepath.Dir(b.ws), "past"))
						check(t, err)
						t.Cleanup(func() { _ = p.Close() })
						b.all.Remember(p)
					}
					changes := b.holds("call-1", heldScript, nil, b.heldTree())
					before := tree(t, b.ws)
					for range restarts {
						b.reopened()
					}
					e, err := b.all.Settle(t.Context(), "call-1", rulingFor(keep), nil, nil)
					check(t, err)
					after := tree(t, b.ws)
					if keep && fmt.Sprint(after) != fmt.Sprint(want) || !keep && fmt.Sprint(after) != fmt.Sprint(before) {
						t.Errorf("%s", differing(want, after))
					}
					if e.Dropped == keep || (e.Kept > 0) != keep || len(e.Conflicts) > 0 || e.Lost != "" || e.Remembered != (keep && remembers) {
						t.Errorf("%+v", e)
					}
					sameChanges(t, changes, e.Changes)
					again, err := b.all.Settle(t.Context(), "call-1", rulingFor(!keep), nil, nil)
					if keep && (err != nil || again.Kept == 0) || !keep && !errors.As(err, new(*NotHeldError)) {
						t.Errorf("%+v, %v", again, err)
					}
					b.reopened()
					check(t, b.all.DropHeld(t.Context(), func(string) bool { return false }))
					if left, _ := os.ReadDir(b.all.path); len(left) > 0 {
						t.Errorf("left: %v", left)
					}
				})
			}
		}
	}
}

// What others did while changes were held is a conflict, and theirs stays; so is the same done
// by somebody else. A stage that is not what was weighed is lost.
func TestHeldAndOthers(t *testing.T) {
	for name, c := range map[string]struct {
		do       func(b *bench)
		conflict string
	}{
		"changed":          {func(b *bench) { b.write("f", "other\n") }, "f"},
		"removed":          {func(b *bench) { check(b.t, os.Remove(filepath.Join(b.ws, "f"))) }, "f"},
		"removed as well":  {func(b *bench) { check(b.t, os.RemoveAll(filepath.Join(b.ws, "d"))) }, "d"},
		"made":             {func(b *bench) { b.write("n/other", "x") }, "n"},
		"grown":            {func(b *bench) { b.write("d/y", "x") }, "d"},
		"a parent changed": {func(b *bench) { check(b.t, os.Chmod(filepath.Join(b.ws, "k"), 0o711)) }, "k"},
		"the copy changed": {func(b *bench) { b.write("s.sh", "other") }, "s.sh"},
		"the stage": {func(b *bench) {
			check(b.t, os.WriteFile(filepath.Join(b.all.path, "held.call-1/upper/f"), []byte("evil"), 0o644))
		}, ""},
		"more on the stage": {func(b *bench) {
			check(b.t, os.WriteFile(filepath.Join(b.all.path, "held.call-1/upper/evil"), []byte("evil"), 0o644))
		}, ""},
		"less on the stage": {func(b *bench) {
			check(b.t, os.Remove(filepath.Join(b.all.path, "held.call-1/upper/l")))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.holds("call-1", heldScript, nil, b.heldTree())
			c.do(b)
			before := tree(t, b.ws)
			b.reopened()
			shown := false
			e, err := b.all.Settle(t.Context(), "call-1", RulingKeep, nil, func(*Stage, *Settled) { shown = true })
			check(t, err)
			of := func(p string) bool { return p == c.conflict || strings.HasPrefix(p, c.conflict+"/") }
			if c.conflict != "" && !slices.ContainsFunc(e.Conflicts, of) {
				t.Errorf("%+v", e)
			}
			if c.conflict == "" && e.Lost == "" && len(e.Conflicts) == 0 || e.Kept > 0 || !shown {
				t.Errorf("%+v", e)
			}
			if now := tree(t, b.ws); fmt.Sprint(now) != fmt.Sprint(before) {
				t.Errorf("%s", differing(before, now))
			}
			again, err := b.all.Settle(t.Context(), "call-1", RulingKeep, nil, nil)
			if err != nil || again.Lost != e.Lost || len(again.Conflicts) != len(e.Conflicts) {
				t.Errorf("%+v, %v", again, err)
			}
		})
	}
}

// What must stay stays when a held stage is settled, though whoever said so is gone.
func TestHeldSealsStay(t *testing.T) {
	b := newBench(t)
	b.write("sealed/f", "old\n")
	b.write(".envrc", "old\n")
	names := func(p string) (bool, bool) { return p == "sealed" || p == ".envrc", false }
	b.holds("call-1", "echo run > sealed/f; echo run > .envrc; echo x > n", names)
	check(t, os.Remove(filepath.Join(b.ws, ".envrc")))
	b.reopened()
	e, err := b.all.Settle(t.Context(), "call-1", RulingKeep, nil, nil)
	check(t, err)
	if got := tree(t, b.ws); got["/.envrc"] != "" || !strings.Contains(got["/sealed/f"], "old") || got["/n"] == "" {
		t.Errorf("%+v, %+v", e, got)
	}
}

// A held stage stays until nobody waits for it, whatever else is recovered; another stage
// of the same call is not held.
func TestHeldStays(t *testing.T) {
	b := newBench(t)
	b.holds("call-1", "echo run > f", nil)
	b.holds("call-2", "echo run > g", nil)
	b.reopened()
	check(t, b.all.DropHeld(t.Context(), func(call string) bool { return call == "call-2" }))
	if b.all.Held("call-1") || !b.all.Held("call-2") || b.all.Held("../x") {
		t.Error("held")
	}
	g := b.stage()
	check(t, g.Assign("call-2"))
	b.run(g, "echo second > g")
	if e, err := g.Keep(t.Context(), nil, func(Found) Ruling { return RulingHold }); err == nil || e.Held || e.Kept > 0 {
		t.Errorf("%+v, %v", e, err)
	}
	g.Drop()
	if e, err := b.all.Settle(t.Context(), "call-2", RulingKeep, nil, nil); err != nil || e.Kept != 1 {
		t.Errorf("%+v, %v", e, err)
	}
	if got, _ := os.ReadFile(filepath.Join(b.ws, "g")); string(got) != "run\n" {
		t.Errorf("%q", got)
	}
	for _, bad := range []string{"", "..", "x/y", strings.Repeat("x", 65), "call-9"} {
		if _, err := b.all.Settle(t.Context(), bad, RulingKeep, nil, nil); !errors.As(err, new(*NotHeldError)) {
			t.Errorf("%q: %v", bad, err)
		}
		if bad != "call-9" && b.stage().Assign(bad) == nil {
			t.Errorf("%q is a call", bad)
		}
	}
}

// What is held can be read before somebody answers, and is told from what others did meanwhile; links of the run
// lead nowhere.
func TestHeldContents(t *testing.T) {
	b := newBench(t)
	b.heldTree()
	b.write("other", "old\n")
	b.holds("call-1", heldScript+"\necho run > other; echo long enough > big; echo n > swapped; ln -s /etc/passwd out", nil)
	b.reopened()
	b.write("other", "somebody's\n")
	upper := filepath.Join(b.all.path, "held.call-1", Upper)
	check(t, os.Remove(filepath.Join(upper, "swapped")))
	check(t, os.Symlink("/etc/passwd", filepath.Join(upper, "swapped")))
	got := map[string]preimage.Content{}
	read := func(call string, most int64) error {
		return b.all.HeldContents(t.Context(), call, func(c Change) bool { return c.Path != "n/m/o" }, most, func(c preimage.Content) bool {
			got[c.Path] = c
			return true
		})
	}
	check(t, read("call-1", 11))
	for path, want := range map[string][3]string{
		"f": {"old\n", "run\n"}, "d/x": {"old\n", ""}, "raw\xff": {"", "y"}, "s.sh": {"echo\n", "echo\nmore\n"},
		"other": {"", "", "somebody changed it since, or it cannot be read"}, "big": {"", "", "it is too large"},
		"swapped": {"", "", "it cannot be read"},
	} {
		if c := got[path]; c.Path != path || string(c.Before) != want[0] || string(c.After) != want[1] || c.Why != want[2] {
			t.Errorf("%s: %+v", path, c)
		}
		delete(got, path)
	}
	delete(got, "shut/y") // root reads it
	if len(got) > 0 {
		t.Errorf("%+v", got)
	}
	for _, call := range []string{"call-2", "../x", ""} {
		if err := read(call, 1); !errors.As(err, new(*NotHeldError)) {
			t.Errorf("%q: %v", call, err)
		}
	}
	check(t, os.WriteFile(filepath.Join(b.all.path, "held.call-1", heldName), []byte("{"), 0o600))
	if err := read("call-1", 1); err == nil {
		t.Error("a list that is broken was read")
	}
}

// What was written down of a held stage and is not that any more is an error, and nothing is kept.
func TestHeldIsBroken(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "cut": `{"version":1`, "another version": `{"version":2,"call":"call-1"}`, "another call": `{"version":1,"call":"call-2"}`,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.holds("call-1", "echo run > f", nil)
			check(t, os.WriteFile(filepath.Join(b.all.path, "held.call-1", heldName), []byte(text), 0o600))
			b.reopened()
			if e, err := b.all.Settle(t.Context(), "call-1", RulingKeep, nil, nil); err == nil || e.Kept > 0 {
				t.Errorf("%+v, %v", e, err)
			}
			if _, err := os.Lstat(filepath.Join(b.ws, "f")); err == nil {
				t.Error("it is kept")
			}
		})
	}
}

// Devices have other numbers after the machine started anew: the workspace is known by its
// name and number.
func TestHeldOverAStart(t *testing.T) {
	b := newBench(t)
	b.holds("call-1", heldScript, nil, b.heldTree())
	h, err := b.all.readHeld("call-1")
	check(t, err)
	g := &Stage{of: b.all, call: "call-1", path: filepath.Join(b.all.path, "held.call-1")}
	h.Boot = "another"
	var st unix.Stat_t
	check(t, unix.Lstat(b.ws, &st))
	text, err := json.Marshal(h)
	check(t, err)
	check(t, g.writeDurably(heldName, []byte(strings.ReplaceAll(string(text), fmt.Sprint(st.Dev), fmt.Sprint(st.Dev+7)))))
	e, err := b.all.Settle(t.Context(), "call-1", RulingKeep, nil, nil)
	if err != nil || e.Kept == 0 || len(e.Conflicts) > 0 || e.Lost != "" {
		t.Errorf("%+v, %v", e, err)
	}
}

// full is a place for what is replaced that has no room, but for those who may lose others.
type full struct {
	losing  bool
	taken   int64
	settled []string
}

func (r *full) Take(_ string, bytes int64, lose bool) error {
	if r.taken = bytes; !lose || !r.losing {
		return errors.New("no room")
	}
	return nil
}

func (r *full) Settled(name string) { r.settled = append(r.settled, name) }

// What is replaced and cannot be kept is not replaced, and the run's files can be set aside; but where whoever ruled
// agreed to it. A place that is lost with a crash in between hinders nobody.
func TestKeptWithoutAPast(t *testing.T) {
	for name, c := range map[string]struct {
		room       *full
		ruling     Ruling
		kept       bool
		remembered bool
	}{
		"unwritable":        {nil, RulingKeep, false, false},
		"unwritable-agreed": {nil, RulingLose, true, false},
		"full":              {&full{losing: true}, RulingKeep, false, false},
		"full-agreed":       {&full{losing: true}, RulingLose, true, true},
		"too-small-agreed":  {&full{}, RulingLose, true, false},
	} {
		for _, held := range []bool{false, true} {
			t.Run(fmt.Sprint(name, "-", held), func(t *testing.T) {
				b := newBench(t)
				b.write("f", strings.Repeat("old\n", 2000))
				before := tree(t, b.ws)
				p := b.past()
				b.all.Remember(p)
				g := b.stage()
				b.run(g, "echo run > f")
				check(t, errors.Join(g.Assign("call-1"), g.Remember(p, "call-1")))
				if c.room == nil { // nothing can be written there
					check(t, os.Mkdir(filepath.Join(g.path, preimage.ManifestName), 0o700))
				} else {
					p.Bound(c.room)
				}
				ruling := c.ruling
				if held {
					ruling = RulingHold
				}
				e, err := g.Keep(t.Context(), nil, func(f Found) Ruling {
					if f.Replaced < 8000 {
						t.Errorf("%d bytes would be replaced", f.Replaced)
					}
					return ruling
				})
				check(t, err)
				if held {
					e, err = b.all.Settle(t.Context(), "call-1", c.ruling, nil, nil)
					check(t, err)
				} else {
					g.Drop()
				}
				if (e.Kept == 1) != c.kept || e.Remembered != c.remembered || (e.Lost == "") != c.kept {
					t.Errorf("%+v", e)
				}
				if now := tree(t, b.ws); (fmt.Sprint(now) == fmt.Sprint(before)) == c.kept {
					t.Errorf("%s", differing(before, now))
				}
				if r := c.room; r != nil && (r.taken < 8000 || c.remembered && len(r.settled) == 0) {
					t.Errorf("%+v", r)
				}
			})
		}
	}
	b := newBench(t)
	b.write("f", "old\n")
	g := b.stage()
	b.run(g, "echo again > f; echo n > n")
	p, err := preimage.Open(filepath.Join(filepath.Dir(b.ws), "gone"))
	check(t, err)
	check(t, g.Remember(p, "call-2"))
	g.until(t, 1)
	g.partial = true
	g.Drop()
	check(t, errors.Join(p.Close(), os.Remove(p.Path()), os.WriteFile(p.Path(), nil, 0o600)))
	b.reopened()
	if got, _ := os.ReadFile(filepath.Join(b.ws, "n")); string(got) != "n\n" {
		t.Errorf("%q", got)
	}
	if left, _ := os.ReadDir(b.all.path); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// What a daemon that died had still to remove of a kept run is removed by the next.
func TestPastIsTrimmed(t *testing.T) {
	b := newBench(t)
	b.write("f", "old\n")
	g := b.stage()
	b.run(g, "echo run > f")
	p := b.past()
	b.remembered(g, p, "call-1")
	for _, sub := range []string{Upper, Work} {
		check(t, os.MkdirAll(filepath.Join(p.Path(), "call-1", sub, "x"), 0o700))
	}
	check(t, p.Recover(t.Context()))
	for _, sub := range []string{Upper, Work} {
		if _, err := os.Lstat(filepath.Join(p.Path(), "call-1", sub)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", sub, err)
		}
	}
	b.revert(p, "call-1", "undo")
	if got, _ := os.ReadFile(filepath.Join(b.ws, "f")); string(got) != "old\n" {
		t.Errorf("%q", got)
	}
}

// Whoever can write in the workspace cannot hinder what is kept there by taking the names that are used for a moment,
// though the call's name, and the stage's, are known: none of these are in them.
func TestNamesCannotBeTakenFirst(t *testing.T) {
	for where, put := range map[string]func(*bench){"one file system": (*bench).near, "two file systems": (*bench).elsewhere} {
		t.Run(where, func(t *testing.T) {
			b := newBench(t)
			put(b)
			b.all.Remember(b.past())
			for _, name := range []string{"a", "b", "c"} {
				b.write(name, "old\n")
			}
			b.holds("call-1", "echo run > a; rm b; echo run > c; echo run > n", nil)
			for i := range 4 {
				for _, kind := range []string{"tmp", "gone", "saved", "back"} {
					b.write(fmt.Sprintf(".palyra-held.call-1-%d.%s", i, kind), "mine")
				}
			}
			e, err := b.all.Settle(t.Context(), "call-1", RulingKeep, nil, nil)
			if err != nil || e.Kept != 4 || e.Lost != "" || len(e.Conflicts) > 0 || !e.Remembered {
				t.Errorf("%+v, %v", e, err)
			}
			got := tree(t, b.ws)
			if got["/a"] != "-rw-r--r-- run\n" || got["/b"] != "" || got["/c"] != "-rw-r--r-- run\n" || got["/n"] == "" || len(got) != 4+16 {
				t.Errorf("%v", got)
			}
		})
	}
}
