package palyra_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"palyra"
)

func TestPathTextGolden(t *testing.T) {
	for name, want := range map[string]palyra.PathText{
		".envrc":            ".envrc",
		"a b/é/.git":        "a b/é/.git",
		`a\b`:               `a\b`,
		"a\xff/.envrc":      `"a\xff/.envrc"`,
		"a\n.envrc":         `"a\n.envrc"`,
		`"a"`:               `"\"a\""`,
		"… and 3 more":      `"… and 3 more"`,
		"\u202egpj.envrc":   `"\u202egpj.envrc"`,
		"\uFFFD":            "\uFFFD",
		"":                  `""`,
		"a\xff\xef\xbf\xbd": "\"a\\xff\uFFFD\"",
	} {
		got := palyra.TextOfPath(name)
		if got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
		if back, err := got.Name(); err != nil || back != name {
			t.Errorf("%q comes back as %q, %v", name, back, err)
		}
	}
	for _, bad := range []palyra.PathText{"", `"`, `"a`, `"a"`, `"\x61"`, "a\xff", "… and 3 more", "a\n", `"a\q"`} {
		if name, err := bad.Name(); err == nil {
			t.Errorf("%q was read as %q", bad, name)
		}
	}
}

func TestPathTextsAreBounded(t *testing.T) {
	if got := palyra.TextOfPaths(nil, 0); got == nil || len(got) != 0 {
		t.Errorf("%q", got)
	}
	if got := palyra.TextOfPaths([]string{"a", "b"}, 7); len(got) != 3 || got[2] != "… and 7 more" {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("x", palyra.MaxPathTexts/2)
	if got := palyra.TextOfPaths([]string{long, long, "c", "d"}, 0); len(got) != 3 || got[2] != "… and 2 more" {
		t.Errorf("%d texts", len(got))
	}
}

// Property: each name has one text, in UTF-8, that gives the name back.
func FuzzPathText(f *testing.F) {
	for _, s := range []string{"a", "\xff", `"`, "…", "\u2028", "a\\x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		text := palyra.TextOfPath(name)
		if back, err := text.Name(); err != nil || back != name || !utf8.ValidString(string(text)) {
			t.Fatalf("%q: %q, %q, %v", name, text, back, err)
		}
		if given, err := palyra.PathText(name).Name(); err == nil && palyra.TextOfPath(given) != palyra.PathText(name) {
			t.Fatalf("%q is read as %q, which is written otherwise", name, given)
		}
	})
}

// Only the last entry of a shortened list says how many more there are; a name
// that looks like it is quoted.
func TestMoreOfPaths(t *testing.T) {
	t.Parallel()
	list := palyra.TextOfPaths([]string{"a", "… and 3 more"}, 12)
	for i, want := range []string{"", "", "and 12 more"} {
		if got := list[i].More(); got != want {
			t.Errorf("%q: %q", list[i], got)
		}
	}
}
