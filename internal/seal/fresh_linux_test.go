package seal

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"palyra"
)

// What cannot be moved into the quarantine, because that is on another file system, is
// told: it is gone with the stage it was made on.
func TestFreshThatCannotBeMoved(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	far, err := os.MkdirTemp("/dev/shm", "palyra-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(far) })
	if err := os.WriteFile(filepath.Join(top, "made"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Scan(t.Context(), top, []string{".envrc"}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Fresh(far, "01J9Z8Q2V5T6Y7W8X9A0B1C2D3")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !f.New(".envrc") || !f.New("a\xff/.envrc") || f.New("envrc") {
		t.Error("names")
	}
	dir, err := os.Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	if err := f.Take(int(dir.Fd()), "made", ".envrc", unix.S_IFREG|0o600); err == nil {
		t.Fatal("it was moved: both are on one file system")
	}
	made := f.Made()
	if len(made) != 1 {
		t.Fatalf("%q", made)
	}
	if r, ok := Remnant(made[0]); !ok || r.Kind != palyra.RemnantNotMoved || r.Path != ".envrc" {
		t.Errorf("%+v", r)
	}
}
