package seal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/quarantine"
)

// openBoxes lets a test look at what is in quarantine. It returns how many items that
// are.
func (b *box) openBoxes() int {
	b.t.Helper()
	boxes, err := filepath.Glob(filepath.Join(b.pens, string(testCall), "[0-9]*"))
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
		call := filepath.Join(b.pens, string(testCall))
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
