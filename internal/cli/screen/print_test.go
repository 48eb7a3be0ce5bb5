package screen

import (
	"bytes"
	"strings"
	"testing"
)

func TestTableMakesCellsSafe(t *testing.T) {
	var b bytes.Buffer
	Table(&b, []string{"A", "B"}, [][]string{{"x\x1b[2J", "y\nz"}, {strings.Repeat("w", 200) + "END", ""}})
	got := b.String()
	if strings.ContainsAny(got, "\x1b") || strings.Count(got, "\n") != 3 || !strings.Contains(got, "bytes left out") ||
		!strings.Contains(got, "END") {
		t.Errorf("%q", got)
	}
}

func TestFields(t *testing.T) {
	var b bytes.Buffer
	Fields(&b, Pair{"Name", "a\tb"}, Pair{"Nothing here", ""}, Pair{"Id", "1"})
	if got := b.String(); got != "Name  a\\tb\nId    1\n" {
		t.Errorf("%q", got)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 1000: "1000 bytes", 1 << 10: "1 KiB", 3 << 20: "3 MiB", 1 << 30: "1 GiB",
		1<<20 + 1: "1048577 bytes",
	} {
		if got := Size(n); got != want {
			t.Errorf("size(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestIndentedKeepsBadJSON(t *testing.T) {
	if got := Indented([]byte(`{"a":`)); got != `{"a":` {
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
		if got := Fit(c.in, c.n); got != c.want {
			t.Errorf("fit(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestSecond(t *testing.T) {
	if Second("2026-11-15T12:00:00.987654321Z") != "2026-11-15T12:00:00Z" || Second("\x1b") != `\x1b` || Second("") != "" {
		t.Error("second")
	}
}

// Characters of web pages stand as themselves; every other escape stays, also one that is itself escaped.
func TestPlainJSON(t *testing.T) {
	for in, want := range map[string]string{
		`"a \u003e \u003C \u0026"`: `"a > < &"`, `"\\u003e \\\u003e \u001b \n"`: `"\\u003e \\> \u001b \n"`, `\u003`: `\u003`, `\`: `\`, ``: ``,
	} {
		if got := string(PlainJSON([]byte(in))); got != want {
			t.Errorf("%s: %s, not %s", in, got, want)
		}
	}
}
