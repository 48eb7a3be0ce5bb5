// Package show makes outside text safe to look at.
//
// What an approver reads was written by the party that wants approval. Left alone it can move the cursor, recolour
// the screen, reverse the reading order, hide letters or borrow them from another alphabet. This package turns all
// of that into visible escapes, and nothing else:
//
//	\x1b       a control character, or a byte that is not UTF-8
//	\u{202e}   any other character that does not show itself honestly
//	\\         a backslash, where a single one would read as an escape
//	⋯ 80 blanks ⋯  a run of blanks that is too long to be shown (in Arg: \s{80})
//
// The signs that Palyra itself marks text with (the gutters │ and ┆, the dashes, arrows and dots of its own words:
// one list, in class.go) are escaped like that, too, so that none of them ever comes from outside.
//
// Line is for text that must stay on one line, Block for text with lines of its own, Screen for what a program
// printed, Argv for commands. Frame puts a gutter before every line, also those the width of the terminal breaks,
// so that outside text never stands where Palyra's own words stand.
//
// Promises: the result holds only printable characters and has no lone escape bytes (Screen's also tabs and line
// ends of two characters); Line, Block, Arg and Argv are injective, so that different inputs give different
// results. Arg and Argv are plain ASCII, so they also look different in every font that keeps ASCII apart. Line and
// Block keep the letters of living scripts readable and catch the known look-alikes; they do not claim to catch all
// of them. The package knows none of Palyra's words.
package show

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	tabMark = '⇥' // stands for a tab in Block; escaped when it comes from outside
	cutMark = '⋯' // encloses what was left out; escaped when it comes from outside
	tabStop = 4
)

// Line renders s on one line: newlines and tabs are escaped too.
func Line(s string) string { return render(s, lineMode) }

// Block renders s and keeps its line breaks. A tab shows as a mark, padded to the next stop. Letters of
// right-to-left scripts stay as they are, which a terminal may reorder: Notes says so.
func Block(s string) string {
	var out strings.Builder
	out.Grow(len(s) + len(s)/8)
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			out.WriteByte('\n')
		}
		out.WriteString(render(line, blockMode))
	}
	return out.String()
}

// Screen renders what a program printed for the terminal of whoever ran it. Line breaks and tabs are what they are,
// so that tables stay tables, and so is a carriage return at the end of a line; one elsewhere would let later text
// stand over earlier text of its line, and is escaped. Signs that frames are drawn with stay: Screen is for text
// that nobody decides by, and that starts on a line of its own. All else is as in Block. A piece of a longer text
// must not end between the two characters of a line end.
func Screen(s string) string {
	var out strings.Builder
	out.Grow(len(s) + len(s)/8)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if i > 0 {
			out.WriteByte('\n')
		}
		m := screenMode
		if i == len(lines)-1 {
			m = tailMode
		}
		out.WriteString(render(line, m))
	}
	return out.String()
}

// Arg renders one element of a command in plain ASCII, quoted unless it is a bare word.
func Arg(s string) string {
	if s != "" && strings.Trim(s, bare) == "" {
		return s
	}
	var out strings.Builder
	out.Grow(len(s) + 2)
	out.WriteByte('"')
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			escapeByte(&out, s[i])
		case r == '"' || r == '\\':
			out.WriteByte('\\')
			out.WriteByte(byte(r))
		case r == ' ' && strings.HasPrefix(s[i:], tooBlank):
			size = countBlanks(s[i:])
			fmt.Fprintf(&out, `\s{%d}`, size)
		case r >= ' ' && r < 0x7f:
			out.WriteByte(byte(r))
		default:
			escape(&out, r, lineMode)
		}
		i += size
	}
	out.WriteByte('"')
	return out.String()
}

const bare = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"

// Argv renders a command on one line. Two different commands never give the same line.
func Argv(argv []string) string {
	parts := make([]string, len(argv))
	for i, a := range argv {
		parts[i] = Arg(a)
	}
	return strings.Join(parts, " ")
}

// Bytes says how many bytes something has.
func Bytes(n int) string {
	if n == 1 {
		return "1 byte"
	}
	return strconv.Itoa(n) + " bytes"
}

// cutSaves is what must be left out at least: less is shorter than the mark itself.
const cutSaves = 24

// Middle renders s on one line of about n characters. What is longer loses its
// middle, never its tail, and says how much.
func Middle(s string, n int) string {
	runes := utf8.RuneCountInString(s)
	if runes <= n+cutSaves {
		return Line(s)
	}
	head, tail := cut(s, n*2/3), cutLast(s, n-n*2/3)
	left := len(s) - len(head) - len(tail)
	return fmt.Sprintf("%s%c %s left out %c%s", Line(head), cutMark, Bytes(left), cutMark, Line(tail))
}

// MiddleOf does the same to text that is already safe.
func MiddleOf(safe string, n int) string {
	if utf8.RuneCountInString(safe) <= n+cutSaves {
		return safe
	}
	head, tail := cut(safe, n*2/3), cutLast(safe, n-n*2/3)
	for r, size := utf8.DecodeRuneInString(tail); unicode.IsMark(r); r, size = utf8.DecodeRuneInString(tail) {
		tail = tail[size:] // its letter is left out
	}
	return fmt.Sprintf("%s%c %s left out %c%s", head, cutMark, Bytes(len(safe)-len(head)-len(tail)), cutMark, tail)
}

// JSON escapes, in a JSON document, every character from DEL on that does not show itself honestly. The document
// means the same: such characters can stand only in strings, and there an escape is another spelling.
func JSON(doc []byte) []byte {
	out := make([]byte, 0, len(doc))
	at := 0
	for _, c := range parse(string(doc), lineMode) {
		switch {
		case c.kind == fine || c.kind == invalid || c.r < 0x7f:
			out = append(out, doc[at:at+int(c.size)]...)
		case c.r > 0xffff:
			hi, lo := utf16.EncodeRune(c.r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, c.r)
		}
		at += int(c.size)
	}
	return out
}

// Blanks marks long runs of blanks in text that is already safe.
func Blanks(safe string) string {
	for {
		i := strings.Index(safe, tooBlank)
		if i < 0 {
			return safe
		}
		n := countBlanks(safe[i:])
		safe = fmt.Sprintf("%s%c %d blanks %c%s", safe[:i], cutMark, n, cutMark, safe[i+n:])
	}
}

// cut returns the first n characters of s.
func cut(s string, n int) string {
	i := 0
	for ; n > 0 && i < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return s[:i]
}

// cutLast returns the last n characters of s.
func cutLast(s string, n int) string {
	i := len(s)
	for ; n > 0 && i > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return s[i:]
}
