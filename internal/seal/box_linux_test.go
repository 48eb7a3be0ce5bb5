package seal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/quarantine"
)

// openBoxes lets a test look at what is in quarantine. It returns how many items that
// are.
func (b *box) openBoxes() int {
	b.t.Helper()
	boxes, err := filepath.Glob(filepath.Join(b.quarantine, string(testCall), "[0-9]*"))
	must(b.t, err)
	for _, p := range boxes {
		must(b.t, os.Chmod(p, 0o700))
	}
	return len(boxes)
}

// What is more than is kept of a workspace is removed: the outcome has its size and
// digest. What is kept is closed, and says where it comes from.
func TestWhatIsTooLargeIsNotKept(t *testing.T) {
	for _, crash := range []bool{false, true} {
		b := newBox(t)
		s, err := Scan(t.Context(), b.ws, Default, Limits{Kept: 1 << 20, settle: -1})
		must(t, err)
		if crash {
			doc, err := s.Record()
			must(t, err)
			s, err = Load(doc)
			must(t, err)
		}
		large := "d\xff/.envrc"
		b.file("a/.envrc", "many/.vscode/x")
		b.write(large, strings.Repeat("x", 2<<20))
		for i := range 300 { // of no bytes, but they count
			b.file(fmt.Sprintf("many/.vscode/%d", i))
		}
		made := b.sweep(s)
		told := slices.DeleteFunc(slices.Clone(made), func(p string) bool { return !strings.HasPrefix(p, stayPrefix) })
		if len(told) != 2 || len(made) != 5 || !strings.Contains(told[0]+told[1], large+" (2097152 bytes, sha256:") {
			t.Errorf("made %q", made)
		}
		for _, r := range told {
			if x, ok := Remnant(r); !ok || x.Kind != palyra.RemnantNotKept {
				t.Errorf("%q", r)
			}
		}
		call := filepath.Join(b.quarantine, string(testCall))
		if text, err := os.ReadFile(filepath.Join(call, quarantine.WorkspaceName)); string(text) != b.ws {
			t.Errorf("workspace %q, %v", text, err)
		}
		if used := quarantine.Used(call); used < 4096 || used > 1<<20 {
			t.Errorf("%d bytes are used", used)
		}
		if b.openBoxes(); countFiles(call) != 3+1+2 { // the boxes, the small item, index and workspace
			t.Errorf("%d files are kept", countFiles(call))
		}
	}
}

// The quarantine in a workspace on another file system is bounded like the daemon's own,
// also where its owner is somebody else: what is too large is not kept, and the oldest
// calls go.
func TestQuarantineInTheWorkspaceIsBounded(t *testing.T) {
	b := newBox(t)
	b.quarantine = other(t, b)
	b.file("src/")
	uid := giveAway(t, b)
	s, err := Scan(t.Context(), b.ws, Default, Limits{Kept: 1 << 20, settle: -1})
	must(t, err)
	own := b.in(filepath.Join(ownDir, quarantineName))
	sweep := func(call string, bytes int, name string) []string {
		t.Helper()
		b.write(name, strings.Repeat("x", bytes))
		must(t, os.Lchown(b.in(name), uid, uid))
		made, err := s.Sweep(t.Context(), b.quarantine, palyra.CallID(call))
		must(t, err)
		return made
	}
	for _, call := range []string{"A1", "A2", "A3"} {
		if made := sweep(call, 400_000, "src/.envrc"); !slices.Equal(made, []string{"src/.envrc"}) {
			t.Errorf("made %q", made)
		}
		if fi, err := os.Lstat(filepath.Join(own, call, "000001")); err != nil || fi.Mode() != os.ModeDir {
			t.Errorf("%v, %v", fi, err)
		}
		when := time.Now().Add(-time.Hour)
		must(t, os.Chtimes(filepath.Join(own, call), when, when))
	}
	made := sweep("A4", 2<<20, "src/.envrc")
	if len(made) != 2 || !strings.Contains(made[1], "src/.envrc (2097152 bytes, sha256:") {
		t.Errorf("made %q", made)
	}
	must(t, unix.Mkfifo(filepath.Join(own, "A3", quarantine.WorkspaceName), 0o600))
	forged, err := quarantine.Item{Item: "000002", Path: ".envrc", Bytes: 1 << 62}.Line() // by a run beside
	must(t, err)
	must(t, os.WriteFile(filepath.Join(own, "A1", quarantine.IndexName), append(forged, forged...), 0o600))
	gone, err := s.Trim("A4", func(call string) bool { return call == "A1" })
	if err != nil || !slices.Equal(gone, []string{"A2"}) {
		t.Errorf("gone %q, %v", gone, err)
	}
	entries, err := os.ReadDir(own)
	must(t, err)
	if len(entries) != 3 || entries[0].Name() != "A1" || entries[1].Name() != "A3" || entries[2].Name() != "A4" {
		t.Errorf("left %v", entries)
	}
	must(t, os.Rename(b.in(ownDir), b.in("away")))
	must(t, os.Symlink("away", b.in(ownDir)))
	if gone, err := s.Trim("A4", func(string) bool { return false }); len(gone) > 0 {
		t.Errorf("through a link: %q, %v", gone, err)
	}
}
