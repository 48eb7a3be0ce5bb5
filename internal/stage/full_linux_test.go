package stage

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk is a file system of 256 pages and 128 names.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: a small file system is mounted by root only")
	}
	dir := t.TempDir()
	check(t, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,nr_inodes=128,mode=0755"))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// fillPages takes all room of a disk but so many pages; fillNames all names but so many.
func fillPages(t *testing.T, dir string, but int) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	check(t, err)
	size := int64(0)
	for page := make([]byte, 4096); err == nil; size += 4096 {
		_, err = f.Write(page)
	}
	check(t, errors.Join(f.Truncate(max(0, size-4096*int64(but+1))), f.Close()))
	return func() { check(t, os.Remove(name)) }
}

func fillNames(t *testing.T, dir string, but int) (free func()) {
	t.Helper()
	top := filepath.Join(dir, "fillers")
	check(t, os.Mkdir(top, 0o700))
	n := 0
	for os.WriteFile(fmt.Sprint(top, "/", n), nil, 0o600) == nil {
		n++
	}
	for i := max(0, n-but); i < n; i++ {
		check(t, os.Remove(fmt.Sprint(top, "/", i)))
	}
	return func() { check(t, os.RemoveAll(top)) }
}

const fullScript = "rm -r d; head -c 20000 /bin/sh | tr -c a-z x > a; echo run > f; mkdir -p n/m; " +
	"head -c 20000 /bin/sh | tr -c a-z x > n/m/o; " +
	"chmod 500 n/m; mkdir e; rm w; chmod 700 k; ln -s f l; head -c 9000 /bin/sh | tr -c a-z x >> z"

// Whatever room a disk has left while held changes are kept, be it at the first step or at any later one: the workspace
// has all of them or none, and what is said is so. What was not begun still waits, and what was taken back is set aside.
func TestHeldOnAFullDisk(t *testing.T) {
	for name, small := range map[string]struct{ ws, stages bool }{
		"both": {true, true}, "workspace": {ws: true}, "stages": {stages: true},
	} {
		for what, fill := range map[string]func(*testing.T, string, int) func(){"pages": fillPages, "names": fillNames} {
			t.Run(name+" "+what, func(t *testing.T) {
				seen := map[string]int{}
				for but := 0; seen["kept"] == 0; but++ {
					if but > 100 {
						t.Fatalf("never kept: %v", seen)
					}
					seen[heldOnFullDisk(t, small.ws, small.stages, func(disk string) func() { return fill(t, disk, but) })]++
				}
				moves := name+" "+what == "both pages" // which takes no room
				if t.Log(seen); (seen["taken back"] == 0) != moves {
					t.Error("what was taken back is not what was to be")
				}
			})
		}
	}
}

func heldOnFullDisk(t *testing.T, ws, stages bool, fill func(disk string) func()) string {
	t.Helper()
	disk, b := smallDisk(t), newBench(t)
	defer func() { check(t, unix.Unmount(disk, unix.MNT_DETACH)) }()
	if ws {
		b.ws = filepath.Join(disk, "ws")
		check(t, os.Mkdir(b.ws, 0o755))
	}
	if stages {
		all, err := Open(filepath.Join(disk, "stages"), Limits{}, slog.New(slog.DiscardHandler))
		check(t, err)
		defer func() { _ = all.Close() }()
		b.all = all
	}
	p := b.past()
	b.all.Remember(p)
	for _, f := range []string{"d/1/2", "d/3", "f", "k/x", "w"} {
		b.write(f, "old\n")
	}
	b.write("z", string(make([]byte, 12000)))
	before := tree(t, b.ws)
	live := filepath.Join(t.TempDir(), "live")
	check(t, os.CopyFS(live, os.DirFS(b.ws)))
	shell(t, live, fullScript)
	want := tree(t, live)
	b.holds("call-1", fullScript, nil)
	free, aside := fill(disk), 0
	e, err := b.all.Settle(t.Context(), "call-1", RulingKeep, nil, func(g *Stage, e *Settled) {
		n, _, err := g.SetAside(t.TempDir(), "call-1", 0)
		check(t, err)
		aside = n
	})
	free()
	after := tree(t, b.ws)
	old, left := fmt.Sprint(before) == fmt.Sprint(after), leftOver(t, b.all.path)
	switch {
	case err != nil && fullDisk(err) && old:
		if e, err := b.all.Settle(t.Context(), "call-1", RulingKeep, nil, nil); err != nil || e.Kept == 0 || e.Lost != "" {
			t.Errorf("with room again: %+v, %v", e, err)
		}
		return "waits"
	case err == nil && e.Lost == "the disk is full" && e.Kept == 0 && aside == 5 && old && len(left) == 0:
		return "taken back"
	case err == nil && e.Lost == "" && e.Kept > 0 && fmt.Sprint(after) == fmt.Sprint(want):
		return "kept"
	}
	e.Changes = nil
	t.Fatalf("%+v, %v, %d aside, left %v: %.2000s", e, err, aside, left, differing(before, after))
	return ""
}

// leftOver are the stages in a directory of them.
func leftOver(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	check(t, err)
	for _, d := range all {
		if d.IsDir() {
			names = append(names, d.Name())
		}
	}
	return names
}

// setFlags gives a file or directory a flag of its file system's: nobody may change it, or take anything out of it.
func setFlags(t *testing.T, path string, flags int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: only root can give files flags")
	}
	f, err := os.Open(path)
	check(t, err)
	defer func() { _ = f.Close() }()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags); err != nil {
		t.Skip("UNPROVEN HERE: the file system has no flags: ", err)
	}
}

const (
	immutable  = 0x10
	appendOnly = 0x20
)

// A step that fails in the middle, for whatever reason, keeps nothing: of changes that were held or were not, on one file
// system and across two. The reason is told. Where the steps so far cannot be taken back either, that is told, and the
// next daemon goes on with it.
func TestAStepFails(t *testing.T) {
	for where, put := range map[string]func(*bench){"one file system": (*bench).near, "two file systems": (*bench).elsewhere} {
		for _, held := range []bool{false, true} {
			for _, stuck := range []bool{false, true} {
				t.Run(fmt.Sprint(where, " held ", held, " stuck ", stuck), func(t *testing.T) { stepFails(t, put, held, stuck) })
			}
		}
	}
}

func stepFails(t *testing.T, put func(*bench), held, stuck bool) {
	b := newBench(t)
	put(b)
	p := b.past()
	b.all.Remember(p)
	for _, f := range []string{"d/1", "f", "p/x", "q/z"} {
		b.write(f, "old\n")
	}
	shut, open := filepath.Join(b.ws, "q"), filepath.Join(b.ws, "p")
	fail := func() {
		setFlags(t, shut, immutable)
		if stuck {
			setFlags(t, open, appendOnly)
		}
	}
	t.Cleanup(func() { setFlags(t, shut, 0); setFlags(t, open, 0) })
	before := fmt.Sprint(tree(t, b.ws))
	const script = "rm -r d; echo run > f; echo new > p/new; rm q/z"
	var e Settled
	var err error
	if held {
		b.holds("call-1", script, nil)
		fail()
		e, err = b.all.Settle(t.Context(), "call-1", RulingKeep, nil, nil)
	} else {
		g := b.stage()
		check(t, g.Assign("call-1"))
		b.run(g, script)
		e, err = g.Keep(t.Context(), nil, func(Found) Ruling { fail(); return RulingKeep })
		if g.Unfinished() != stuck {
			t.Error("unfinished")
		}
		g.Drop()
	}
	e.Changes = nil
	if err != nil || e.Kept > 0 || !strings.Contains(e.Lost, "operation not permitted") ||
		strings.Contains(e.Lost, "and the next start") != stuck {
		t.Errorf("%+v, %v", e, err)
	}
	if stuck {
		if fmt.Sprint(tree(t, b.ws)) == before {
			t.Error("nothing is stuck")
		}
		setFlags(t, open, 0)
		b.reopened()
		if again, known := b.all.told("call-1"); !known || again.Kept > 0 || !strings.Contains(again.Lost, "not permitted") {
			t.Errorf("%+v", again)
		}
	}
	if after := fmt.Sprint(tree(t, b.ws)); after != before {
		t.Errorf("%s, want %s", after, before)
	}
	if left := leftOver(t, b.all.path); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
