package show

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// mode says which characters the caller takes care of.
type mode uint8

const (
	lineMode   mode = iota
	blockMode       // newlines never reach render; tabs are marked; right-to-left letters stay
	screenMode      // the same, but tabs stay, a last carriage return, and marks that stand in no line of ours
	tailMode        // the same, of a line that has no end: a last carriage return does not stay
)

// cell is one character of a line and what is wrong with it.
type cell struct {
	r    rune
	size uint8
	kind Kind
}

// render shows one line.
func render(s string, m mode) string {
	if isPlainASCII(s) {
		return s
	}
	cells := parse(s, m)
	var out strings.Builder
	out.Grow(len(s) + len(s)/4)
	column, at, skip := 0, 0, 0
	for i, c := range cells {
		if skip > 0 {
			skip--
			at++
			continue
		}
		before := out.Len()
		switch {
		case c.r == ' ' && m < screenMode && strings.HasPrefix(s[at:], tooBlank):
			skip = countBlanks(s[at:]) - 1
			fmt.Fprintf(&out, "%c %d blanks %c", cutMark, skip+1, cutMark)
		case c.kind == invalid:
			escapeByte(&out, s[at])
		case c.r == '\t' && m == blockMode:
			pad := tabStop - column%tabStop
			out.WriteRune(tabMark)
			out.WriteString(strings.Repeat(" ", pad-1))
		case moves(c.r, m, i == len(cells)-1):
			out.WriteRune(c.r)
		case c.kind != fine:
			escape(&out, c.r, m)
		case c.r == '\\' && misread(cells, i, s[at+1:], m):
			out.WriteString(`\\`)
		default:
			out.WriteRune(c.r)
		}
		column += utf8.RuneCountInString(out.String()[before:])
		at += int(c.size)
	}
	return out.String()
}

// isPlainASCII reports whether s is printable ASCII without a backslash, which is what nearly all text is.
func isPlainASCII(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return !strings.Contains(s, tooBlank)
}

// tooBlank is a run of blanks that is too long to be shown: it could push what follows out of sight.
const tooBlank = "                                                                "

func countBlanks(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }

// parse splits one line into classified characters.
func parse(s string, m mode) []cell {
	cells := make([]cell, 0, len(s))
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		c := cell{r: r, size: uint8(size), kind: classify(r)}
		if r == utf8.RuneError && size == 1 {
			c.kind = invalid
		}
		if c.kind == rightToLeft && m != lineMode || c.kind == reserved && m >= screenMode && r != tabMark && r != cutMark {
			c.kind = fine
		}
		cells = append(cells, c)
		i += size
	}
	judgeMarks(cells)
	judgeWords(cells)
	return cells
}

// moves reports whether r only moves the cursor, and may: a carriage return only
// where it ends its line, or later text would stand over earlier text.
func moves(r rune, m mode, last bool) bool {
	return m >= screenMode && r == '\t' || m == screenMode && r == '\r' && last
}

// misread reports whether a backslash at i, followed by rest, would read as one of our escapes.
func misread(cells []cell, i int, rest string, m mode) bool {
	if i+1 == len(cells) {
		return false
	}
	if next := cells[i+1]; next.r == '\\' || next.kind != fine {
		return !moves(next.r, m, i+2 == len(cells)) && (next.r != '\t' || m != blockMode)
	}
	switch rest[0] {
	case 'u':
		return strings.HasPrefix(rest, "u{")
	case 'x':
		return len(rest) >= 3 && hex(rest[1]) && hex(rest[2])
	case 'n', 'r', 't':
		return m == lineMode
	}
	return false
}

func hex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

// escape writes r as text.
func escape(out *strings.Builder, r rune, m mode) {
	if m == lineMode {
		switch r {
		case '\n':
			out.WriteString(`\n`)
			return
		case '\r':
			out.WriteString(`\r`)
			return
		case '\t':
			out.WriteString(`\t`)
			return
		}
	}
	if r < 0x80 {
		escapeByte(out, byte(r))
		return
	}
	fmt.Fprintf(out, `\u{%x}`, r)
}

func escapeByte(out *strings.Builder, b byte) {
	const digits = "0123456789abcdef"
	out.WriteString(`\x`)
	out.WriteByte(digits[b>>4])
	out.WriteByte(digits[b&15])
}
