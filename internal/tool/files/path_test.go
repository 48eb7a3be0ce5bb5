package files

import (
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"palyra"
)

func TestClean(t *testing.T) {
	for asked, want := range map[string]string{
		"": ".", ".": ".", "./": ".", "a": "a", "./a": "a", "a//b/": "a/b", "a/./b": "a/b", "a/../b": "b", "a/..": ".",
		"/ws": ".", "/ws/": ".", "/ws/a": "a", "/ws/../ws/a": "a", "/alias/a/b": "a/b", "..a": "..a", "a/..b": "a/..b", "...": "...",
		"日本/x y\n": "日本/x y\n", `a\b`: `a\b`, "~/x": "~/x", "-rf": "-rf",
	} {
		if got, err := clean(asked, "/ws", "/alias/"); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", asked, got, err, want)
		}
	}
	long := strings.Repeat("x", maxName+1)
	for asked, want := range map[string]palyra.Reason{
		"..": palyra.ReasonPathOutside, "../a": palyra.ReasonPathOutside, "a/../../b": palyra.ReasonPathOutside, "/": palyra.ReasonPathOutside,
		"/etc/passwd": palyra.ReasonPathOutside, "/ws/../etc": palyra.ReasonPathOutside, "/wsx": palyra.ReasonPathOutside,
		"//ws2":  palyra.ReasonPathOutside,
		"a\x00b": palyra.ReasonPathInvalid, "\xff": palyra.ReasonPathInvalid, strings.Repeat("a/", 2049): palyra.ReasonPathInvalid,
		long:        palyra.ReasonPathInvalid,
		"a/" + long: palyra.ReasonPathInvalid,
	} {
		if got, err := clean(asked, "/ws", "relative", ""); palyra.AsError(err).Reason != want || err == nil {
			t.Errorf("%.40q: %q, %v, want %s", asked, got, err, want)
		}
	}
}

// A name that is not UTF-8 has one text, by which it is asked for; one that only looks like such a text has another.
func TestNamesThatAreNoText(t *testing.T) {
	for name, text := range map[string]string{
		"a\xff": `"a\xff"`, "d\xff/b": `"d\xff/b"`, `"a\xff"`: `"\"a\\xff\""`, "a\nb": "a\nb", `"a`: `"a`, `"a"`: `"a"`, "…": "…",
	} {
		if got := textOf(name); got != text || palyra.PathText(got).Asked() != name {
			t.Errorf("%q: %s, which means %q", name, got, palyra.PathText(got).Asked())
		}
	}
	for _, asked := range []string{`"../\xff"`, `"/etc/\xff"`, `"a\xff/../.."`} {
		if got, err := clean(asked, "/ws"); palyra.AsError(err).Reason != palyra.ReasonPathOutside || err == nil {
			t.Errorf("%q: %q, %v", asked, got, err)
		}
	}
	if _, err := clean(`"a\x00\xff"`, "/ws"); palyra.AsError(err).Reason != palyra.ReasonPathInvalid || err == nil {
		t.Error(err)
	}
}

func TestCleanTarget(t *testing.T) {
	for _, asked := range []string{"", ".", "a/", "/ws", "a/..", "./", `"a\xff"`} {
		if got, err := cleanTarget(asked, "/ws"); palyra.AsError(err).Reason != palyra.ReasonPathInvalid || err == nil {
			t.Errorf("%q: %q, %v", asked, got, err)
		}
	}
	if got, err := cleanTarget("a/b", "/ws"); got != "a/b" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestQuoteShowsNothingThatHides(t *testing.T) {
	for _, p := range []string{"a\nb", "a\x1b[31m", "a\u202eb", "a\u200bb", "a\tb", `a"b`, "\xff"} {
		if got := quote(p); got == p || strings.ContainsAny(got, "\n\x1b\u202e\u200b\t") {
			t.Errorf("%q is shown as %q", p, got)
		}
	}
	if got := quote(strings.Repeat("a", 5000)); len(got) > 300 {
		t.Errorf("%d bytes", len(got))
	}
	if got := quote("raw\xffbyte"); got != `"raw\xffbyte"` { // as it is asked for
		t.Error(got)
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		glob, path string
		want       bool
	}{
		{"*.go", "a/b/c.go", true},
		{"*.go", "c.gox", false},
		{"a?c", "x/abc", true},
		{"[a-c].txt", "b.txt", true},
		{"src/*.go", "src/a.go", true},
		{"src/*.go", "src/x/a.go", false},
		{"src/**/*.go", "src/x/y/a.go", true},
		{"src/**/*.go", "src/a.go", true},
		{"**/a", "a", true},
		{"**/a", "x/y/a", true},
		{"**/a", "x/y/b", false},
		{"a/**", "a/b/c", true},
		{"a/**", "b/c", false},
		{"**/x/**/y", "1/x/2/x/3/y", true},
		{"**/x/**/y", "1/x/2/x/3/z", false},
		{"./src/*", "src/a", true},
	} {
		g, err := newGlob(c.glob)
		if err != nil || g.match(c.path) != c.want {
			t.Errorf("%s on %s: %v, %v", c.glob, c.path, !c.want, err)
		}
	}
	if _, err := newGlob("["); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("[: %v", err)
	}
}

// Property: whatever is accepted stays inside by name, is in its one form, and
// cleans to itself.
func FuzzClean(f *testing.F) {
	f.Add(`"a\xff"`)
	f.Add(`"\"a\\xff\""`)
	for _, s := range []string{"a/b", "../x", "/ws/a", "a//../..", "./.", "\x00", strings.Repeat("../", 50), "/ws/./../ws/b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, asked string) {
		got, err := clean(asked, "/ws")
		if err != nil {
			return
		}
		if path.IsAbs(got) || got == ".." || strings.HasPrefix(got, "../") || strings.Contains("/"+got+"/", "/../") ||
			got != path.Clean(got) || strings.IndexByte(got, 0) >= 0 || !utf8.ValidString(textOf(got)) {
			t.Fatalf("%q became %q", asked, got)
		}
		if !strings.HasPrefix(path.Join("/ws", got)+"/", "/ws/") {
			t.Fatalf("%q leads to %q", asked, path.Join("/ws", got))
		}
		if again, err := clean(textOf(got), "/ws"); err != nil || again != got {
			t.Fatalf("%q became %q, then %q, %v", asked, got, again, err)
		}
	})
}

// Property: a match takes a bounded number of steps and never panics.
func FuzzGlob(f *testing.F) {
	f.Add("**/a/**/b", "x/a/y/b")
	f.Add(strings.Repeat("**/", 80)+"x", strings.Repeat("a/", 200)+"y")
	f.Fuzz(func(t *testing.T, pattern, p string) {
		if len(pattern) > 256 || len(p) > maxPath {
			return
		}
		if g, err := newGlob(pattern); err == nil {
			g.match(p)
		}
	})
}
