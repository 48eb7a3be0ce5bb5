package project

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
	"palyra/internal/skill/scaffold"
)

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	at := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// begun is the directory of a skill whose module is there.
func begun(t *testing.T, language string) (string, *os.Root) {
	t.Helper()
	dir := t.TempDir()
	files, err := scaffold.Files(language, scaffold.Values{ID: "demo", Publisher: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		put(t, dir, name, string(text))
	}
	put(t, dir, "demo.wasm", "\x00asm\x01\x00\x00\x00")
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return dir, root
}

func TestPack(t *testing.T) {
	for _, language := range scaffold.Languages() {
		dir, root := begun(t, language)
		source := "src/main." + language
		text, err := fs.ReadFile(root.FS(), source)
		if err != nil {
			t.Fatal(err)
		}
		build, err := json.Marshal(archive.Build{
			Tool: "a compiler", Modules: map[string]string{"demo.wasm": string(palyra.SumBytes([]byte("\x00asm\x01\x00\x00\x00")))},
			Sources:   map[string]string{source: strings.TrimPrefix(string(palyra.SumBytes(text)), "sha256:"), "src/gone": "00"},
			Libraries: []archive.Library{{Name: "libc", Version: "1"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		put(t, dir, BuildFile, string(build))
		var raws [2][]byte
		for i := range raws {
			p, err := Read(root)
			if err != nil {
				t.Fatal(language, err)
			}
			if raws[i], err = p.Pack(); err != nil {
				t.Fatal(language, err)
			}
		}
		if !bytes.Equal(raws[0], raws[1]) {
			t.Error("packed twice, it is not the same")
		}
		p, err := archive.Open(raws[0])
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"README.md", "demo.wasm", "provenance.json", "sbom.cdx.json", "skill.toml"}; !slices.Equal(p.Names(), want) {
			t.Error(p.Names())
		}
		for name, want := range map[string]string{archive.SBOM: `"name": "libc"`, archive.Provenance: `"a compiler"`} {
			if !json.Valid(p.Files[name]) || !strings.Contains(string(p.Files[name]), want) {
				t.Errorf("%s: %s", name, p.Files[name])
			}
		}
		put(t, dir, source, string(text)+"\n")
		if _, err := Read(root); palyra.AsError(err).Reason != palyra.ReasonInputChanged || !strings.Contains(err.Error(), source) {
			t.Error("a source that was changed since it was built:", err)
		}
		put(t, dir, source, string(text))
		put(t, dir, "demo.wasm", "\x00asm changed")
		if _, err := Read(root); palyra.AsError(err).Reason != palyra.ReasonInputChanged {
			t.Error("a module that was changed since it was built:", err)
		}
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"SKILL.md", "scripts/a.py", "scripts/__pycache__/a.pyc", ".git/config", "b~", "data/x y.txt"} {
		put(t, dir, name, name)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	files := map[string][]byte{}
	left, err := Folder(root, ".", files)
	if want := []string{".git", "b~", "scripts/__pycache__"}; err != nil || !slices.Equal(left, want) || len(files) != 3 {
		t.Error(left, err, len(files))
	}
	if string(files["folder/data/x y.txt"]) != "data/x y.txt" {
		t.Error("not as it is")
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "scripts", "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := Folder(root, ".", map[string][]byte{}); palyra.AsError(err).Reason != skill.ReasonArchive ||
		!strings.Contains(err.Error(), "link") {
		t.Error("a link:", err)
	}
	if err := os.Remove(filepath.Join(dir, "scripts", "link")); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "a\u202eb", "x")
	if _, err := Folder(root, ".", map[string][]byte{}); palyra.AsError(err).Reason != skill.ReasonArchive {
		t.Error("a name that deceives:", err)
	}
}

func TestReadRefuses(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := Read(root); palyra.CodeOf(err) != palyra.NotFound || !strings.Contains(palyra.AsError(err).Remedy, "skills init") {
		t.Error(err)
	}
	dir, root := begun(t, "go")
	if err := os.Remove(filepath.Join(dir, "demo.wasm")); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(root); palyra.CodeOf(err) != palyra.NotFound || !strings.Contains(palyra.AsError(err).Remedy, "skills build") {
		t.Error(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "demo.wasm")); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(root); err == nil {
		t.Error("a link out of the directory was followed")
	}
}

func TestScaffoldRefuses(t *testing.T) {
	for _, c := range []struct{ language, id, publisher string }{
		{"cobol", "demo", "acme"}, {"go", "De mo", "acme"}, {"go", "../x", "acme"}, {"go", "demo", ""},
	} {
		if _, err := scaffold.Files(c.language, scaffold.Values{ID: c.id, Publisher: c.publisher}); palyra.AsError(err).Remedy == "" {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
