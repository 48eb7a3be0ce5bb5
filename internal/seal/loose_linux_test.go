package seal

import (
	"os"
	"strings"
	"testing"

	"palyra/internal/quarantine"
)

// What a run puts into a quarantine that was made in its workspace while it was
// under way does not remain, and what a sweep put there does.
func TestQuarantineMadeDuringARun(t *testing.T) {
	const call = string(testCall)
	b := newBox(t)
	b.quarantine = other(t, b)
	b.file("x")
	s := b.scan()
	b.file(".envrc")
	if made := strings.Join(b.sweep(s), " "); made != ".envrc" || !b.exists(".palyra/quarantine/"+call+"/000001") {
		t.Fatalf("made %q", made)
	}
	if made := b.sweep(s); len(made) != 0 {
		t.Fatalf("then %q", made)
	}
	b.file(".palyra/.envrc", ".palyra/sub/.git/config", ".palyra/quarantine/.envrc", ".palyra/quarantine/evil/.envrc",
		".palyra/quarantine/"+call+"/.envrc")
	must(t, os.Symlink("/etc", b.in(".palyra/link")))
	made := b.sweep(s)
	if len(made) != 6 {
		t.Errorf("made %q", made)
	}
	for _, p := range []string{
		".palyra/.envrc", ".palyra/sub", ".palyra/quarantine/.envrc", ".palyra/quarantine/evil",
		".palyra/quarantine/" + call + "/.envrc", ".palyra/link",
	} {
		if b.exists(p) {
			t.Errorf("%s remains", p)
		}
	}
	for _, p := range []string{"000001", quarantine.IndexName} {
		if !b.exists(".palyra/quarantine/" + call + "/" + p) {
			t.Errorf("%s is gone", p)
		}
	}
	if made := b.sweep(s); len(made) != 0 {
		t.Errorf("in the end %q", made)
	}
	must(t, os.Rename(b.in(".palyra"), b.in("away")))
	b.file(".palyra/quarantine/" + call + "/000009/.envrc")
	b.sweep(s)
	if b.exists(".palyra/quarantine/" + call + "/000009") {
		t.Error("another directory of ours remains")
	}
	if got := b.scan().Sealed(); strings.Join(got, " ") != ".palyra" {
		t.Errorf("sealed %q", got)
	}
}
