package stage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Whoever weighs changes reads the workspace as it is and as it would be; no link leads out of either.
func TestTreesToBeWeighed(t *testing.T) {
	b := newBench(t)
	b.write("a", "old")
	b.write("d/x", "old")
	b.write("d/y", "same")
	b.write("gone/z", "z")
	if err := errors.Join(os.Symlink("d", filepath.Join(b.ws, "to")), os.Symlink("../..", filepath.Join(b.ws, "out"))); err != nil {
		t.Fatal(err)
	}
	g := b.stage()
	b.run(g, `echo new > a; echo new > d/x; rm -r gone; mkdir -p fresh/deep; echo n > fresh/deep/f; ln -s fresh/deep back; ln -s /etc/passwd pw; ln -s loop loop; rm to; echo file > to`)
	read := func(tr Tree, name string) string {
		f, err := tr.Open(name)
		if err != nil {
			return map[bool]string{true: "none", false: "bad"}[errors.Is(err, fs.ErrNotExist)]
		}
		defer func() { _ = f.Close() }()
		text, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	list := func(tr Tree, name string) string {
		entries, err := tr.ReadDir(name, 100)
		if err != nil {
			return "none"
		}
		var out []string
		for _, e := range entries {
			n := e.Name()
			if e.IsDir() {
				n += "/"
			}
			out = append(out, n)
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	asked := false
	_, err := g.Keep(t.Context(), nil, func(f Found) Ruling {
		asked = true
		for name, want := range map[string][2]string{
			"a": {"old", "new"}, "d/x": {"old", "new"}, "d/y": {"same", "same"}, "to/y": {"same", "bad"}, "to": {"bad", "file"}, "gone/z": {"z", "none"},
			"fresh/deep/f": {"none", "n"}, "back/f": {"none", "n"}, "pw": {"none", "bad"}, "loop": {"none", "bad"}, "out/etc/passwd": {"bad", "bad"}, "d": {"bad", "bad"},
		} {
			if got := [2]string{read(f.Before, name), read(f.After, name)}; got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		for name, want := range map[string][2]string{
			".": {"a d/ gone/ out to", "a back d/ fresh/ loop out pw to"}, "gone": {"z", "none"}, "fresh": {"none", "deep/"}, "back": {"none", "f"}, "d": {"x y", "x y"},
		} {
			if got := [2]string{list(f.Before, name), list(f.After, name)}; got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if some, err := f.After.ReadDir(".", 2); err != nil || len(some) != 3 {
			t.Errorf("%d, %v", len(some), err)
		}
		return RulingDrop
	})
	if err != nil || !asked {
		t.Error(err, asked)
	}
}
