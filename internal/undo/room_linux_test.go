package undo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/internal/owner"
	"palyra/internal/rpc/wire"
	"palyra/internal/stage"
	"palyra/internal/tool"
)

// used is what the store takes on disk.
func (b *bench) used() (n int64) {
	b.Helper()
	b.must(filepath.WalkDir(filepath.Join(b.dir, "undo"), func(path string, _ fs.DirEntry, err error) error {
		var st syscall.Stat_t
		if err == nil && path != filepath.Join(b.dir, "undo") {
			err = syscall.Lstat(path, &st)
			n += st.Blocks * 512
		}
		return err
	}))
	return n
}

// replace has a call replace a file of a size, and says what became of that.
func (b *bench) replace(id palyra.CallID, size int, ruling stage.Ruling) stage.Settled {
	b.Helper()
	name := string(id)
	b.must(os.WriteFile(filepath.Join(b.ws, name), []byte(strings.Repeat("x", size)), 0o644))
	g, err := b.stages.Make(b.ws, owner.Identity{UID: int64(os.Geteuid()), GID: int64(os.Getegid())})
	b.must(err)
	defer g.Drop()
	b.must(os.WriteFile(filepath.Join(g.Path(), stage.Upper, name), []byte("new"), 0o644))
	b.must(g.Remember(b.past, name))
	out, err := g.Keep(b.Context(), nil, func(stage.Found) stage.Ruling { return ruling })
	b.must(err)
	b.calls[id] = &palyra.Call{ID: id}
	return out
}

// The store never has more than it may, in blocks of the disk: for something new the oldest goes, and what is younger
// than a day only where whoever ruled agreed to it. What there can be no room for is not replaced unless that was
// agreed to, and then nothing else goes for it.
func TestStoreIsBounded(t *testing.T) {
	b := newBench(t)
	bounded := func() {
		t.Helper()
		if n := b.used(); n > b.Most {
			t.Errorf("%d bytes of %d are used", n, b.Most)
		}
	}
	room := func(bytes int64, never bool, pushes int64) {
		t.Helper()
		if n, p := b.Room(bytes); n != never || p != pushes {
			t.Errorf("room for %d: never %v, pushes out %d", bytes, n, p)
		}
	}
	b.Most = 1 << 20
	const size = 300 << 10
	for _, id := range []palyra.CallID{"C1", "C2", "C3"} {
		if out := b.replace(id, size, stage.RulingKeep); !out.Remembered {
			t.Fatalf("%s: %+v", id, out)
		}
		bounded()
	}
	room(size, false, 1)
	room(2*size, false, 2)
	room(2<<20, true, 0)
	if out := b.replace("C4", size, stage.RulingKeep); out.Kept > 0 || !strings.Contains(out.Lost, "undo.bytes") || len(b.states()) != 3 {
		t.Errorf("%+v, %v", out, b.states())
	}
	if text := b.read("C4"); len(text) != size {
		t.Errorf("it was replaced by %q", text)
	}
	if out := b.replace("C5", size, stage.RulingLose); !out.Remembered || b.states()["C1"] != "" || len(b.states()) != 3 {
		t.Errorf("%+v, %v", out, b.states())
	}
	bounded()
	if out := b.replace("C6", 2<<20, stage.RulingLose); out.Kept != 1 || out.Remembered || len(b.states()) != 3 {
		t.Errorf("%+v, %v", out, b.states())
	}
	bounded()
	b.now = b.now.Add(25 * time.Hour)
	room(size, false, 0)
	if out := b.replace("C7", size, stage.RulingKeep); !out.Remembered || b.states()["C2"] != "" || len(b.states()) != 3 {
		t.Errorf("%+v, %v", out, b.states())
	}
	bounded()
}

// What is undone takes room like anything else: nothing of the last day goes for it, and never what is being undone.
func TestUndoTakesRoom(t *testing.T) {
	b := newBench(t)
	c := b.call("C1", map[string]string{"big": strings.Repeat("x", 300<<10)})
	b.must(os.WriteFile(filepath.Join(b.ws, "other"), make([]byte, 100<<10), 0o644))
	b.call("C2", map[string]string{"other": "y"})
	b.Most = 400 << 10
	_, err := b.Revert(t.Context(), c, false, "user:ann", palyra.Signature{})
	if e := palyra.AsError(err); e.Reason != palyra.ReasonQuotaExceeded || !strings.Contains(e.Text, "undo.bytes") ||
		len(b.read("big")) != 300<<10 {
		t.Errorf("%v", err)
	}
	if len(b.states()) != 2 {
		t.Errorf("%v", b.states())
	}
	b.now = b.now.Add(25 * time.Hour)
	b.must(func() error { _, err := b.Revert(t.Context(), c, false, "user:ann", palyra.Signature{}); return err }())
	if got := b.states(); got["C1"] != wire.UndoUndone || len(got) != 1 || b.used() > b.Most {
		t.Errorf("%v, %d bytes", got, b.used())
	}
}

// A file tool takes the room of the oldest; of what is new, and more than there is, only where that was agreed to. It
// knows before.
func TestFileToolsTakeRoom(t *testing.T) {
	b := newBench(t)
	b.Most = 100 << 10
	old := func(size int) []Old {
		state := palyra.PathState{Kind: palyra.PathFile, Mode: 0o644, Size: int64(size)}
		return []Old{{Change: palyra.Change{Path: "f", Was: &state, Now: &state}, Content: make([]byte, size)}}
	}
	remember := func(id palyra.CallID, size int, lose bool) error {
		changed, err := b.Remember(t.Context(), id, b.ws, int64(os.Geteuid()), int64(os.Getegid()), old(size), lose)
		if err == nil {
			changed(true)
		}
		return err
	}
	lasting := func(size int) string { return b.Lasting([]palyra.Change{old(size)[0].Change}) }
	for i, id := range []palyra.CallID{"C1", "C2", "C3", "C4"} {
		why := lasting(20 << 10)
		if strings.Contains(why, "of the last 24 hours") != (i == 3) || (why == "") != (i < 3) {
			t.Errorf("%s: %q", id, why)
		}
		if err := remember(id, 20<<10, false); i == 3 && palyra.AsError(err).Reason != palyra.ReasonQuotaExceeded || i < 3 && err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if i == 3 {
			b.must(remember(id, 20<<10, true))
		}
		if n := b.used(); n > b.Most {
			t.Errorf("%d bytes of %d are used", n, b.Most)
		}
	}
	if got := b.states(); got["C1"] != "" || got["C4"] == "" {
		t.Errorf("%v", got)
	}
	err := remember("C5", 200<<10, false)
	why := lasting(200 << 10)
	if palyra.AsError(err).Reason != palyra.ReasonQuotaExceeded || len(b.taken) != 0 || !strings.Contains(why, "cannot be undone") {
		t.Errorf("%v, %v, %q", err, b.taken, why)
	}
	before := b.states()
	if b.must(remember("C6", 200<<10, true)); len(b.states()) != len(before) {
		t.Errorf("%v, then %v", before, b.states())
	}
	b.Kept = nil
	if why := lasting(1); !strings.Contains(why, "nothing is kept") {
		t.Errorf("without a store: %q", why)
	}
	if none := (*NoRoomError)(nil); errors.As(b.Take("x", 200<<10, true), &none) == false {
		t.Error("there is room for anything")
	}
}

// To say what undoing a call would change copies nothing of what it replaced, however much that is.
func TestPreviewCopiesNothing(t *testing.T) {
	b := newBench(t)
	b.Most = 1 << 30
	b.must(os.WriteFile(filepath.Join(b.ws, "big"), make([]byte, 64<<20), 0o644))
	b.call("C1", map[string]string{"big": "small"})
	stages := filepath.Join(b.dir, "stages")
	then := time.Now().Add(-time.Hour)
	b.must(os.Chtimes(stages, then, then))
	own := tool.Env{Call: "C2", Principal: "agent:a"}
	paths, bytes, err := b.Size(t.Context(), own, b.ws, "C1")
	if err != nil || paths != 1 || bytes < 64<<20 {
		t.Errorf("%d paths and %d bytes, %v", paths, bytes, err)
	}
	if all, _, whole, err := b.Preview(t.Context(), own, b.ws, "C1"); err != nil || len(all) != 1 || whole {
		t.Errorf("%v, %v, %v", all, whole, err)
	}
	if st, err := os.Stat(stages); err != nil || !st.ModTime().Equal(then.Truncate(time.Nanosecond)) {
		t.Errorf("a stage was made: %v, %v", st.ModTime(), err)
	}
	b.must(os.WriteFile(filepath.Join(b.ws, "big"), []byte("else"), 0o644))
	if _, _, _, err := b.Preview(t.Context(), own, b.ws, "C1"); palyra.CodeOf(err) != palyra.Conflict {
		t.Errorf("somebody changed it: %v", err)
	}
}
