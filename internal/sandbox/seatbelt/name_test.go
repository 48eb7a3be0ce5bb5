package seatbelt

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"palyra"
	"palyra/internal/seal"
)

// sealedBy says by the names alone, from the top, whether a path is sealed: itself
// or something above it.
func sealedBy(t testing.TB, names *seal.Matcher, p string) bool {
	t.Helper()
	spot, err := seal.Start(names, "/w")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(p, "/")
	for n, part := range parts {
		next, seals, keeps := names.Step(spot, part)
		if seals || keeps && n == len(parts)-1 {
			return true
		}
		spot = next
	}
	return false
}

// byExpression says it by the expressions, as the kernel will.
func byExpression(t testing.TB, names *seal.Matcher, p string) bool {
	t.Helper()
	all, outside := expressions(names.Rules())
	for _, e := range slices.Concat(all, outside) {
		if strings.ContainsAny(e, "\"\n") {
			t.Errorf("%q has a quote", e)
		}
	}
	fits := func(e string) bool { return regexp.MustCompile(e).MatchString("/" + p) }
	return slices.ContainsFunc(all, fits) || (!fits("/"+folded(modules)+"/") && slices.ContainsFunc(outside, fits))
}

func TestDefaultNamesAreTaken(t *testing.T) {
	names, err := parseNames(seal.Default)
	if err != nil || len(names.Rules()) != len(seal.Default) {
		t.Fatal(names, err)
	}
}

// The grammar is that of package seal, as far as it is taken here.
func TestNamesAreRefused(t *testing.T) {
	for _, n := range []string{
		"", "/", "/a", "a//b", "..", "a/../b", ".", "**", "a/**", "**/a", "a**", "*", "a\x00b", "<repository>", "a/<repository>", "<other>/x",
		strings.Repeat("a", 1025),
		strings.Repeat("a/", 33), "é", `a"b`, `a\b`, "a\nb", "a\x7f", "a.", "a /b", "a./",
	} {
		if _, err := parseNames([]string{n}); palyra.AsError(err).Reason != palyra.ReasonBadProfile {
			t.Errorf("%q: %v", n, err)
		}
	}
	if _, err := parseNames(slices.Repeat([]string{"a"}, 1025)); err == nil {
		t.Error("too many names were taken")
	}
	rapid.Check(t, func(r *rapid.T) {
		n := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "*", "**", "/", ".", "..", ".git", "<repository>", " b"}), 1, 6).
			Draw(r, "name"), "")
		_, ours := parseNames([]string{n})
		if _, theirs := seal.Compile([]string{n}); ours == nil && theirs != nil {
			t.Errorf("%q is taken here and refused there: %v", n, theirs)
		}
	})
}

var (
	segments = []string{
		"a", "b", "ab", "a*", "*b", "a*b", "config", ".git", "stuff", "kiss", "office", ".x", "node_modules", "ssst",
		"a.b+(c)",
	}
	pieces = []string{
		"a", "b", "ab", "B", "axb", ".git", ".GIT", "config", "con\ufb01g", "CONFIG", "\u017ftuff", "\ufb06uff", "stu\ufb00", "\u212ai\u00df",
		"o\ufb03ce", "of\ufb01ce", "xx",
		"node_modules", ".x", "s\u00dft", "axb+(c)", "a.b+(c)", "a\xffb",
	}
)

// What the rules seal the expressions seal: nothing is held only afterwards that
// could be held at once. But for node_modules, of which more is held, it is
// exactly the same.
func TestExpressionsSayWhatTheNamesSay(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		segs := rapid.SliceOfN(rapid.SampledFrom(segments), 1, 3).Draw(r, "segs")
		sep := rapid.SampledFrom([]string{"/", "/**/"}).Draw(r, "sep")
		name := strings.Join(segs, sep) + rapid.SampledFrom([]string{"", "/"}).Draw(r, "end")
		names, err := parseNames([]string{name})
		if err != nil {
			t.Fatal(name, err)
		}
		p := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 5).Draw(r, "path"), "/")
		got, want := byExpression(t, names, p), sealedBy(t, names, p)
		if got != want && (want || !strings.Contains(p, modules)) {
			t.Errorf("%q and %q: the expression says %t, the name %t", name, p, got, want)
		}
	})
}

// Every way to write a name that folds to it is found, however its letters overlap.
func TestFolded(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{
			"s", "S", "f", "i", "l", "t", "k", "x", "F", "\u017f", "\u00df", "\u1e9e", "\ufb00",
			"\ufb01", "\ufb03", "\ufb05", "\u212a", "-",
		}), 1, 14).Draw(r, "name")
		name := strings.Join(parts, "")
		e := regexp.MustCompile("^" + folded(seal.Fold(name)) + "$")
		if !e.MatchString(name) {
			t.Errorf("%q is not found by %s", name, e)
		}
	})
	if long := folded(strings.Repeat("s", 1000)); len(long) > 100 {
		t.Errorf("%d bytes", len(long))
	}
}

// A walk finds what package seal finds.
func TestWalkAgreesWithSeal(t *testing.T) {
	if _, err := seal.Scan(t.Context(), t.TempDir(), nil, seal.Limits{}); palyra.AsError(err).Reason == palyra.ReasonUnsupported {
		t.Skip("UNPROVEN HERE: package seal walks on Linux only")
	}
	parts := []string{
		".git", "config", "hooks", "HEAD", "refs", "objects", "modules", "a", "b", ".envrc", "node_modules", ".github",
		"workflows", "info", "attributes", "commondir",
	}
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "w")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		for range rapid.IntRange(1, 12).Draw(r, "files") {
			p := filepath.Join(append([]string{dir}, rapid.SliceOfN(rapid.SampledFrom(parts), 1, 5).Draw(r, "path")...)...)
			if os.MkdirAll(filepath.Dir(p), 0o755) == nil {
				_ = os.WriteFile(p, nil, 0o644) // a directory may be there already
			}
		}
		snap, err := seal.Scan(t.Context(), dir, seal.Default, seal.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		names, err := parseNames(seal.Default)
		if err != nil {
			t.Fatal(err)
		}
		found, err := look(t.Context(), dir, names, maxEntries)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range found {
			if m.Path != whole {
				got = append(got, m.Path)
			}
		}
		want := snap.Sealed()
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q, not %q", got, want)
		}
	})
}
