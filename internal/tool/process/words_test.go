package process

import (
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
	long := commandLine([]string{"x", strings.Repeat("y", 10_000)}, []byte(strings.Repeat("z", 10_000)))
	if len(long) > 500 || strings.Count(long, "bytes left out") != 2 || strings.ContainsRune(long, '\u22ef') {
		t.Errorf("%d: %s", len(long), long)
	}
}
