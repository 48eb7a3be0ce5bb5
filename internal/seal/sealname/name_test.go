package sealname

import (
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"palyra/internal/trusted"
)

// fit says what a path is by the names, the way a walk finds it: from the top,
// a directory at a time.
func fit(m *Matcher, p string) Hit {
	state, below := int32(0), false
	parts := strings.Split(p, "/")
	for i, part := range parts {
		name := trusted.Fold(nil, part)
		h, next := m.Next(state, name, below)
		if i == len(parts)-1 || h == Full {
			return h
		}
		state, below = next, below || string(name) == "node_modules"
	}
	return Free
}

func TestNames(t *testing.T) {
	m, err := Compile(append([]string{"a/*/c", "x*y*z", "d/**/e/f", "k/"}, held...))
	check(t, err)
	for _, test := range []struct {
		path string
		want Hit
	}{
		{".git", Keep},
		{"a/b/.git", Keep},
		{".git/config", Full},
		{"sub/.git/hooks", Full},
		{".git/hooks/pre-commit", Full}, // below a sealed one
		{".git/objects", Free},
		{".git/info", Free},
		{".git/info/attributes", Full},
		{".git/modules/x/y/z/info/attributes", Full},
		{".git/modules/config", Full},
		{"modules/x/config", Free},
		{"config", Free},
		{".gitx/config", Free},
		{".github/workflows", Full},
		{".github/workflows/x.yml", Full},
		{".github", Free},
		{"a/b/c", Full},
		{"q/a/b/c", Full},
		{"a/c", Free},
		{"xyz", Full},
		{"x1y2z", Full},
		{"xz", Free},
		{"xyzq", Free},
		{"d/e/f", Full},
		{"d/1/2/e/f", Full},
		{"d/e/e/f", Full},
		{"d/e/1/f", Free},
		{"k", Keep},
		{"node_modules/k", Free},
		{"node_modules/x/.envrc", Free},
		{"node_modules/x/.git/config", Full},
		{"node_modules", Free},
		{"CLAUDE.md", Free},
		{".editorconfig", Free},
		{"JENKINSFILE", Full},
		{".ENVRC. ", Full},
		{".v\u017fcode", Full},
		{".con\ufb01g", Free},
		{".git/con\ufb01g", Full},
		{".g\u200bit", Keep},
		{"\xff.git", Free},
		{"a.code-workspace", Full},
	} {
		if got := fit(m, test.path); got != test.want {
			t.Errorf("%q: %d, want %d", test.path, got, test.want)
		}
	}
}

// Every name of the list seals, at any depth, below a directory whose name is no
// text, and in the spellings that some file system holds for the same; with other
// bytes it is another name.
func TestEveryTrustedNameSeals(t *testing.T) {
	m, err := Compile(held)
	check(t, err)
	for _, n := range held {
		if strings.HasPrefix(n, repository) {
			continue // no path tells
		}
		p := strings.ReplaceAll(strings.ReplaceAll(strings.TrimSuffix(n, "/"), "**", "m"), "*", "x")
		for _, s := range []string{
			p, "a\xff\xfe/b c/" + p, strings.ToUpper(p), strings.Replace(p, "s", "\u017f", 1), p[:1] + "\u200d" + p[1:],
			p + ". ",
		} {
			if fit(m, s) == Free {
				t.Errorf("%s: %q is free", n, s)
			}
			if _, found := trusted.Write(s); !found {
				t.Errorf("%s: %q is sealed and not guarded", n, s)
			}
		}
		if only, err := Compile([]string{n}); err != nil || !strings.Contains(n, "*") && fit(only, p+"\xff") != Free {
			t.Errorf("%s seals another name (%v)", n, err)
		}
	}
}

func TestBadNames(t *testing.T) {
	for _, n := range []string{
		"", "/", "/a", "a//b", "..", "a/../b", ".", "**", "a/**", "**/a", "a**", "*", "*.", "* ", "*\u200d*", "a\x00b", "<repository>",
		"a/<repository>",
		"<other>/x", strings.Repeat("a", maxName+1), strings.Repeat("a/", maxSegs+1), "\u200d",
	} {
		if _, err := Compile([]string{n}); err == nil {
			t.Errorf("%q was taken", n)
		}
	}
	if _, err := Compile(make([]string, maxNames+1)); err == nil {
		t.Error("too many names were taken")
	}
}

// plainly is the grammar said once more, slowly: do these segments fit the whole
// of this path?
func plainly(segs, parts []string) bool {
	switch {
	case len(segs) == 0:
		return len(parts) == 0
	case segs[0] == "**":
		return plainly(segs[1:], parts) || (len(parts) > 0 && plainly(segs, parts[1:]))
	case len(parts) == 0:
		return false
	}
	ok, err := path.Match(segs[0], parts[0])
	return err == nil && ok && plainly(segs[1:], parts[1:])
}

func TestNamesMeanWhatTheGrammarSays(t *testing.T) {
	seg := rapid.SampledFrom([]string{"a", "b", "ab", "a*", "*b", "a*b", "*a*"})
	rapid.Check(t, func(t *rapid.T) {
		segs := []string{seg.Draw(t, "first")}
		for range rapid.IntRange(0, 4).Draw(t, "n") {
			if rapid.Bool().Draw(t, "any") {
				segs = append(segs, "**")
			}
			segs = append(segs, seg.Draw(t, "seg"))
		}
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "aab", "abb", "c"}), 1, 8).Draw(t, "path")
		m, err := Compile([]string{strings.Join(segs, "/")})
		if err != nil {
			t.Fatal(err)
		}
		want := false
		for end := 1; end <= len(parts); end++ { // what is below a sealed path is sealed
			for start := range end {
				want = want || plainly(segs, parts[start:end])
			}
		}
		if got := fit(m, strings.Join(parts, "/")) == Full; got != want {
			t.Errorf("%q and %q: %v, want %v", segs, parts, got, want)
		}
	})
}

// Whatever is a name, a path spelt exactly like it is sealed by it, in any case,
// at any depth; and nothing that is taken fails later.
func FuzzName(f *testing.F) {
	for _, n := range held {
		f.Add(n, "x/"+n)
	}
	f.Add("a/**/b*c", "q\xff/\u212a")
	f.Fuzz(func(t *testing.T, name, p string) {
		m, err := Compile([]string{name})
		if err != nil {
			return
		}
		fit(m, p)
		if strings.ContainsAny(name, "*<") {
			return
		}
		own := strings.TrimSuffix(name, "/")
		if strings.Contains(string(trusted.Fold(nil, own)), "node_modules") {
			return
		}
		for _, p := range []string{own, "deep/er/" + own, strings.ToUpper(own)} {
			if p == strings.ToUpper(own) && !ascii(own) {
				continue // upper case of other letters may be letters of their own
			}
			if fit(m, p) == Free {
				t.Errorf("%q does not seal %q", name, p)
			}
		}
	})
}

func ascii(s string) bool {
	for _, c := range []byte(s) {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

func FuzzFold(f *testing.F) {
	f.Add("ÀßK.. ")
	f.Add("\xf0\x28\x8c\x28")
	f.Fuzz(func(t *testing.T, s string) {
		once := string(trusted.Fold(nil, s))
		if twice := string(trusted.Fold(nil, once)); twice != once && utf8.ValidString(s) {
			t.Errorf("%q folds to %q and that to %q", s, once, twice)
		}
		if b := string(trusted.Fold([]byte("x"), []byte(s))); b != "x"+once {
			t.Errorf("bytes: %q, text: %q", b, once)
		}
	})
}

// held are the names that are sealed by default.
var held = trusted.With(trusted.Held)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
