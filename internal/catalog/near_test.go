package catalog

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "ac", 1}, {"kitten", "sitting", 3}, {"ehco", "echo", 2}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%s %s: %d", c.a, c.b, got)
		}
	}
}

// Property: distance is one: zero for equals only, the same both ways, and no
// detour is shorter.
func TestDistanceIsOne(t *testing.T) {
	word := rapid.StringMatching(`[ab.]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := word.Draw(t, "a"), word.Draw(t, "b"), word.Draw(t, "c")
		if (distance(a, b) == 0) != (a == b) || distance(a, b) != distance(b, a) || distance(a, c) > distance(a, b)+distance(b, c) {
			t.Fatalf("%q %q %q", a, b, c)
		}
	})
}

func TestNearest(t *testing.T) {
	names := []string{"palyra.echo", "palyra.fs.list", "palyra.fs.read", "palyra.fs.search", "palyra.fs.write"}
	for asked, want := range map[string][]string{
		"palyra.fs.reed": {"palyra.fs.read"}, "READ": nil, "search": {"palyra.fs.search"}, "xy": nil, "": nil,
		"palyra-fs-write": {"palyra.fs.write"},
	} {
		got := nearest(asked, names)
		if len(want) == 0 && len(got) > 0 || len(want) > 0 && (len(got) == 0 || got[0] != want[0]) {
			t.Errorf("%q: %q", asked, got)
		}
		if len(got) > maxNear {
			t.Errorf("%q: %d names", asked, len(got))
		}
	}
	if got := nearest("b", slices.Repeat([]string{"a"}, 100)); len(got) > maxNear {
		t.Errorf("%d names", len(got))
	}
}
