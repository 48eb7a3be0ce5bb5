package files

import (
	"bytes"
	"strconv"
	"unicode"
	"unicode/utf8"

	words "palyra/internal/show"
)

// size is a number of bytes, for people.
func size(n int) string { return words.Bytes(n) }

// quoteUnlessPlain returns s when every character of it is visible as itself, else a quoted form: a
// name with a line break or a direction mark must not look like another.
func quoteUnlessPlain(s string) string {
	for _, r := range s {
		if !unicode.IsPrint(r) || r == utf8.RuneError || r == '"' {
			return strconv.QuoteToASCII(s)
		}
	}
	return s
}

const sniff = 8 << 10

// isText reports whether b can be shown as text: UTF-8 without NUL.
func isText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// looksBinary is a cheap guess from the start of a file, as other tools make it.
func looksBinary(b []byte) bool { return bytes.IndexByte(b[:min(len(b), sniff)], 0) >= 0 }
