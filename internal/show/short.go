package show

import (
	"fmt"
	"unicode/utf8"
)

// Shorten cuts the middle out of a text of more characters than most, and says how much. It makes nothing safe.
func Shorten(s string, most int) string {
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	head, tail := string(runes[:most*2/3]), string(runes[len(runes)-most/3:])
	return fmt.Sprintf("%s [%s left out] %s", head, Bytes(len(s)-len(head)-len(tail)), tail)
}

// Head is at most n bytes of the beginning, to the end of a character.
func Head(b []byte, n int) string {
	for n > 0 && n < len(b) && !utf8.RuneStart(b[n]) {
		n--
	}
	return string(b[:min(n, len(b))])
}

// Tail is at most n bytes of the end, from the beginning of a character.
func Tail(b []byte, n int) string {
	from := max(0, len(b)-n)
	for from < len(b) && !utf8.RuneStart(b[from]) {
		from++
	}
	return string(b[from:])
}
