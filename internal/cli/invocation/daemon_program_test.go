package invocation

import (
	"os"
	"path/filepath"
	"testing"

	"palyra"
)

func TestFindDaemon(t *testing.T) {
	// The test binary itself has none beside it; that PATH has one is no reason to
	// take it.
	if path, err := FindDaemon(); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("found %s, %v", path, err)
	}
	dir := t.TempDir()
	self := filepath.Join(dir, "bin", "palyra")
	for _, place := range []string{"libexec/palyrad", "libexec/palyra/palyrad", "bin/palyrad"} {
		path := filepath.Join(dir, place)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := daemonBeside(self); err == nil && got == path {
			t.Errorf("%s cannot be run and was taken", got)
		}
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if got, err := daemonBeside(self); err != nil || got != path {
			t.Errorf("got %s, %v; want %s", got, err, path)
		}
	}
}
