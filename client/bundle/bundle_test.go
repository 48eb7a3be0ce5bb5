package bundle_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/client/bundle"
)

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestPresetsAreReadAsTheyAreWritten(t *testing.T) {
	for _, name := range bundle.Presets() {
		files, err := bundle.Preset(name)
		if err != nil || files["schema.cedarschema"] == "" || files["people.cedar"] == "" {
			t.Fatalf("%s: %v", name, err)
		}
		dir := t.TempDir()
		for file, text := range files {
			put(t, dir, file, text)
		}
		put(t, dir, "README.md", "not of the bundle")
		put(t, dir, ".hidden.cedar", "an editor's")
		again, err := bundle.Read(dir)
		if err != nil || !maps.Equal(files, again) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := bundle.Preset("../default"); palyra.CodeOf(err) != palyra.Invalid {
		t.Error(err)
	}
}

func TestReadRefuses(t *testing.T) {
	large, pipes, none := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "none")
	put(t, large, "a.cedar", strings.Repeat(" ", bundle.MaxBytes))
	if err := os.Mkdir(filepath.Join(pipes, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("d", filepath.Join(pipes, "a.cedar")); err != nil {
		t.Fatal(err)
	}
	for dir, code := range map[string]palyra.Code{large: palyra.Exhausted, pipes: palyra.Invalid, none: palyra.Invalid} {
		if _, err := bundle.Read(dir); palyra.CodeOf(err) != code {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
