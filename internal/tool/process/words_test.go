package process

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		argv  []string
		input string
		want  string
	}{
		{[]string{"touch", "a.txt"}, "", "touch a.txt"},
		{[]string{"cat", "žluťoučký.txt", ""}, "", `cat žluťoučký.txt ""`},
		{[]string{"sh", "-c", "echo a; rm b"}, "", `sh -c "echo a; rm b"`},
		{[]string{"sh"}, "rm -rf .\n", `sh < "rm -rf .\n"`},
		{[]string{"sh"}, "\xff\x00", "sh < 2 bytes, not text"},
		{[]string{"sh"}, "\xff", "sh < 1 byte, not text"},
		{[]string{"a", "\x1b[2J\u202e"}, "", `a "\x1b[2J\u202e"`},
	} {
		if got := commandLine(c.argv, []byte(c.input)); got != c.want {
			t.Errorf("%q: %s, want %s", c.argv, got, c.want)
		}
	}
	// What is cut is cut before it is quoted, so that its escapes stay whole.
	script := commandLine([]string{"sh", "-c", strings.Repeat("echo a\n\t\"b\";", 100)}, nil)
	if q, err := strconv.QuotedPrefix(strings.TrimPrefix(script, "sh -c ")); err != nil || !strings.Contains(q, "bytes left out") {
		t.Errorf("%v: %s", err, script)
	}
	if many := commandLine(append([]string{"first"}, slices.Repeat([]string{"word"}, 1000)...), nil); len(many) > 600 ||
		!strings.Contains(many, "arguments left out] word") {
		t.Errorf("%d: %s", len(many), many)
	}
	long := commandLine([]string{"x", strings.Repeat("y", 10_000)}, []byte(strings.Repeat("z", 10_000)))
	if len(long) > 500 || strings.Count(long, "bytes left out") != 2 || strings.ContainsRune(long, '\u22ef') {
		t.Errorf("%d: %s", len(long), long)
	}
}
