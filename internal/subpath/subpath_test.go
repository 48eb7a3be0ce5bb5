package subpath

import (
	"path"
	"path/filepath"
	"strings"
	"testing"
)

var cases = []struct {
	dir, path string
	rel       string // empty: it does not lie there
}{
	{"/ws", "/ws", "."},
	{"/ws", "/ws/a", "a"},
	{"/ws", "/ws/a/b", "a/b"},
	{"/ws", "/ws/", "."},
	{"/ws/", "/ws/a", "a"},
	{"/ws", "/ws//a/./b", "a/b"},
	{"/ws", "/wsx", ""},
	{"/ws", "/w", ""},
	{"/ws", "/", ""},
	{"/ws", "/ws/../etc", ""},
	{"/ws", "/etc/../ws/a", "a"},
	{"/ws/..", "/etc", "etc"},
	{"/ws", "ws/a", ""},
	{"/", "/", "."},
	{"/", "/a", "a"},
	{"/", "a", ""},
	{"//", "/a/b", "a/b"},
	{"", "/a", ""},
	{"", "", ""},
	{"/a", "", ""},
	{".", "a", "a"},
	{".", ".", "."},
	{".", "./a", "a"},
	{".", "..", ""},
	{".", "../a", ""},
	{".", "..a", "..a"},
	{".", "/a", ""},
	{"a", "a/b", "b"},
	{"a", "/a/b", ""},
	{"a", "a/../b", ""},
	{"a", "b", ""},
	{"..", "../a", "a"},
	{"..", "../..", ""},
	{"..", "../../a", ""},
	{"..", "a", ""}, // it does, and its text does not say so
	{"../a", "../a/..b", "..b"},
	{"/a\xff", "/a\xff/\xfe", "\xfe"},
	{"/a\xff", "/a\xfe/x", ""},
	{"/Ws", "/ws/a", ""},
	{`/a`, `/a\b`, ""},
}

func TestRel(t *testing.T) {
	for _, c := range cases {
		rel, ok := Rel(c.dir, c.path)
		if ok != (c.rel != "") || ok && rel != c.rel {
			t.Errorf("Rel(%q, %q) = %q, %v, want %q", c.dir, c.path, rel, ok, c.rel)
		}
		if Within(c.dir, c.path) != ok || Below(c.dir, c.path) != (ok && rel != ".") {
			t.Errorf("Within and Below of %q and %q disagree with Rel", c.dir, c.path)
		}
		if Touch(c.dir, c.path) != (ok || Within(c.path, c.dir)) || Touch(c.dir, c.path) != Touch(c.path, c.dir) {
			t.Errorf("Touch(%q, %q)", c.dir, c.path)
		}
	}
}

// Whatever is said to lie in a directory is found there again, never leads out of it, and agrees
// with the standard library where that can tell.
func FuzzRel(f *testing.F) {
	for _, c := range cases {
		f.Add(c.dir, c.path)
	}
	f.Fuzz(func(t *testing.T, dir, p string) {
		rel, ok := Rel(dir, p)
		if ok {
			if path.Join(dir, rel) != path.Clean(p) {
				t.Errorf("Rel(%q, %q) = %q, which is another path", dir, p, rel)
			}
			if path.IsAbs(rel) || !filepath.IsLocal(rel) {
				t.Errorf("Rel(%q, %q) = %q leads out", dir, p, rel)
			}
		}
		std, err := filepath.Rel(dir, p)
		in := err == nil && filepath.IsLocal(std) && dir != "" && p != ""
		if climbs := path.Clean(dir) == ".." || strings.HasPrefix(path.Clean(dir), "../"); in != ok && !climbs {
			t.Errorf("Rel(%q, %q) = %v, the library says %q, %v", dir, p, ok, std, err)
		}
	})
}

func TestCleanIsPathClean(t *testing.T) {
	parts := []string{"", "/", ".", "..", "a", ".a", "a.", "...", "é"}
	var all func(p string, n int)
	all = func(p string, n int) {
		if got := Clean(p); got != path.Clean(p) {
			t.Errorf("%q is %q, not %q", p, got, path.Clean(p))
		}
		for _, more := range parts {
			if n > 0 {
				all(p+more, n-1)
			}
		}
	}
	all("", 5)
}
