package seatbelt

import (
	"strings"

	"palyra"
)

// quote writes a path as a string of the profile language. Quotes and backslashes are escaped as
// the language requires. A path with a control character is refused: it is not documented how the
// reader takes one, and no path that a person works in has any.
func quote(p string) (string, error) {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(p) {
		switch c := p[i]; {
		case c < ' ' || c == 0x7f:
			return "", palyra.Errorf(palyra.Invalid, palyra.ReasonPathInvalid,
				"the path %q has a control character and cannot be written into a sandbox profile", palyra.Clip(p, 256)).
				WithRemedy("rename it")
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String(), nil
}

// meta are the special characters of regular expressions.
const meta = `.^$*+?()[]{}|\`

// literal escapes text for a regular expression. The text is of a sealed name, which has no quotes,
// backslashes or control characters.
func literal(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if strings.IndexByte(meta, text[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
