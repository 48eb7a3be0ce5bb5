package show

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// What is cut is cut between characters, and what fits stays whole.
func TestShort(t *testing.T) {
	const text = "žluťoučký kůň"
	for n := range len(text) + 3 {
		head, tail := Head([]byte(text), n), Tail([]byte(text), n)
		if len(head) > n || len(tail) > n || !utf8.ValidString(head+tail) || !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) {
			t.Errorf("%d: %q %q", n, head, tail)
		}
		if n >= len(text) && (head != text || tail != text) {
			t.Errorf("%d: %q %q", n, head, tail)
		}
	}
	if got := Shorten(text, 13); got != text {
		t.Errorf("%q", got)
	}
	if got := Shorten(strings.Repeat("ž", 12)+text, 9); got != "žžžžžž [26 bytes left out] kůň" {
		t.Errorf("%q", got)
	}
}
