package cli

import (
	"bytes"
	"strings"
	"testing"
)

func TestTableMakesCellsSafe(t *testing.T) {
	var b bytes.Buffer
	table(&b, []string{"A", "B"}, [][]string{{"x\x1b[2J", "y\nz"}, {strings.Repeat("w", 200) + "END", ""}})
	got := b.String()
	if strings.ContainsAny(got, "\x1b") || strings.Count(got, "\n") != 3 || !strings.Contains(got, "bytes left out") || !strings.Contains(got, "END") {
		t.Errorf("%q", got)
	}
}

func TestFields(t *testing.T) {
	var b bytes.Buffer
	fields(&b, pair{"Name", "a\tb"}, pair{"Nothing here", ""}, pair{"Id", "1"})
	if got := b.String(); got != "Name  a\\tb\nId    1\n" {
		t.Errorf("%q", got)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1000: "1000 bytes", 1 << 10: "1 KiB", 3 << 20: "3 MiB", 1 << 30: "1 GiB", 1<<20 + 1: "1048577 bytes"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestIndentedKeepsBadJSON(t *testing.T) {
	if got := indented([]byte(`{"a":`)); got != `{"a":` {
		t.Error(got)
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"short", 10, "short"},
		{"One two. Three four five", 12, "One two."},
		{"One two three four", 12, "One two..."},
		{"One, two", 6, "One..."},
		{"Unbreakable", 5, "Un..."},
		{"two\nlines", 20, "two"},
		{"a\x1bb", 20, `a\x1bb`},
	} {
		if got := fit(c.in, c.n); got != c.want {
			t.Errorf("fit(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestSecond(t *testing.T) {
	if second("2026-11-15T12:00:00.987654321Z") != "2026-11-15T12:00:00Z" || second("\x1b") != `\x1b` || second("") != "" {
		t.Error("second")
	}
}

func TestBounded(t *testing.T) {
	if bounded("x") != "x" {
		t.Error("short")
	}
	if got := bounded(strings.Repeat("x", shownOutput+1)); len(got) > shownOutput+60 || !strings.Contains(got, "\n(of 4097 bytes; --json has it whole)") {
		t.Errorf("%d %q", len(got), got[max(len(got)-80, 0):])
	}
}

func TestNearest(t *testing.T) {
	words := []string{"call.granted", "grant.created", "grant.ended"}
	for typed, want := range map[string]string{"call.grantd": "call.granted", "grant.x": "call.granted grant.created grant.ended", "zebra": "", "": ""} {
		if got := strings.Join(nearest(typed, words), " "); got != want {
			t.Errorf("%q: %q", typed, got)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "", 2}, {"kitten", "sitting", 3}, {"abc", "abc", 0}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%s %s: %d", c.a, c.b, got)
		}
	}
}
