//go:build unix

package files

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"znkr.io/diff"
	"znkr.io/diff/textdiff"

	"palyra/internal/tool/files/unified"
)

const (
	around    = 3       // lines shown before and after a spot
	maxAround = 8 << 10 // bytes of them; a longer line is not shown around a spot
	maxSpots  = 20_000
)

// rawNote stands above a diff of content that is not text.
const rawNote = "(a byte that is not text is written <xx>, and a < that would read so <3c>)\n"

// visible writes bytes that are not text as text, so that no two contents look the same.
func visible(s string) string {
	if isText([]byte(s)) && !strings.Contains(s, "<") {
		return s
	}
	var out strings.Builder
	out.Grow(len(s) + len(s)/8)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == 0 || r == utf8.RuneError && n == 1 || r == '<' && reads(s[i:]) {
			fmt.Fprintf(&out, "<%02x>", s[i])
		} else {
			out.WriteString(s[i : i+n])
		}
		i += n
	}
	return out.String()
}

// reads reports whether s begins like a byte that visible wrote out.
func reads(s string) bool {
	const hex = "0123456789abcdef"
	return len(s) >= 4 && s[3] == '>' && strings.IndexByte(hex, s[1]) >= 0 && strings.IndexByte(hex, s[2]) >= 0
}

// group holds spots whose surroundings touch, and the range of bytes that is shown.
type group struct {
	spots    []unified.Spot
	from, to int
}

// spotted is the diff of a change with known spots.
func (c change) spotted() (d, why string) {
	if len(c.spots) > maxSpots {
		return "", "it changes " + strconv.Itoa(len(c.spots)) + " places"
	}
	base := c.base()
	form, out := asIs, strings.Builder{}
	if !isText(base) || !isText(c.after) {
		form = visible
		out.WriteString(rawNote)
	}
	if c.origin != nil {
		fmt.Fprintf(&out, "(the content of %s: %s, %s; but for what follows)\n", quoteUnlessPlain(c.origin.path), size(len(base)),
			c.origin.digest)
	}
	// line is the number of the line that begins at byte counted; shift is how many more lines the result has by then.
	line, counted, shift := 1, 0, 0
	for _, g := range groups(base, c.spots) {
		line, counted = line+bytes.Count(base[counted:g.from], []byte("\n")), g.from
		before, after := string(base[g.from:g.to]), g.newBytes(base)
		if g.onLineBounds(base) {
			out.WriteString(hunks(form(before), form(after), line, line+shift))
		} else {
			out.WriteString(g.pieces(base, form))
		}
		shift += strings.Count(after, "\n") - strings.Count(before, "\n")
		if out.Len() > maxDiffAll {
			return "", "it is too large"
		}
	}
	return out.String(), ""
}

// asIs returns text unchanged.
func asIs(s string) string { return s }

// groups combines spots with the lines around them.
func groups(base []byte, spots []unified.Spot) []group {
	var out []group
	for _, s := range spots {
		from, to := lineStart(base, s.At), lineEnd(base, s.End)
		for range around {
			from, to = lineStart(base, max(from-1, 0)), lineEnd(base, to)
		}
		if n := len(out); n > 0 && from <= out[n-1].to {
			out[n-1].spots, out[n-1].to = append(out[n-1].spots, s), max(to, out[n-1].to)
			continue
		}
		out = append(out, group{spots: []unified.Spot{s}, from: from, to: to})
	}
	return out
}

// lineStart is where the line with the byte at i begins. It does not look further back than is worth showing.
func lineStart(b []byte, i int) int {
	low := max(0, i-maxAround)
	if n := bytes.LastIndexByte(b[low:i], '\n'); n >= 0 {
		return low + n + 1
	}
	return low
}

// lineEnd is where the line with the byte at i ends, its line end included.
func lineEnd(b []byte, i int) int {
	high := min(len(b), i+maxAround)
	if n := bytes.IndexByte(b[i:high], '\n'); n >= 0 {
		return i + n + 1
	}
	return high
}

// newBytes is the group's content after the change.
func (g group) newBytes(base []byte) string {
	var out strings.Builder
	at := g.from
	for _, s := range g.spots {
		out.Write(base[at:s.At])
		out.WriteString(s.With)
		at = s.End
	}
	out.Write(base[at:g.to])
	return out.String()
}

// onLineBounds reports whether the group begins and ends where lines do.
func (g group) onLineBounds(base []byte) bool {
	return (g.from == 0 || base[g.from-1] == '\n') && (g.to == len(base) || base[g.to-1] == '\n')
}

// pieces shows the spots of a group one by one.
func (g group) pieces(base []byte, form func(string) string) string {
	var out strings.Builder
	for _, s := range g.spots {
		fmt.Fprintf(&out, "(from byte %d of the file on; the lines around it are too long to be shown)\n", s.At)
		out.WriteString(signed('-', form(string(base[s.At:s.End])), "the line goes on"))
		out.WriteString(signed('+', form(s.With), "the line goes on"))
	}
	return out.String()
}

// hunks is the unified diff of a part of a file that starts at the given lines.
func hunks(before, after string, old, now int) string {
	if len(before)+len(after) > maxDiffFile {
		return replaced(before, after, old, now)
	}
	var out strings.Builder
	for line := range strings.Lines(textdiff.Unified(before, after, diff.Fast())) {
		var a, n, b, m int
		if strings.HasPrefix(line, "@@ ") { // no line of content starts so: each begins with its sign
			if a, n, b, m = ranges(line); n > 0 || m > 0 {
				line = fmt.Sprintf("@@ -%d,%d +%d,%d @@\n", a+old-1, n, b+now-1, m)
			}
		}
		out.WriteString(line)
	}
	if s := out.String(); s != "" && !strings.HasSuffix(s, "\n") {
		out.WriteByte('\n')
	}
	return out.String()
}

// ranges reads the line numbers and counts of a hunk's header.
func ranges(header string) (a, n, b, m int) {
	one := func(s string) (int, int) {
		first, count, both := strings.Cut(s[1:], ",")
		x, _ := strconv.Atoi(first)
		y, _ := strconv.Atoi(count)
		if !both {
			y = 1
		}
		return x, y
	}
	if f := strings.Fields(header); len(f) >= 3 {
		a, n = one(f[1])
		b, m = one(f[2])
	}
	return a, n, b, m
}

// replaced is a hunk that removes all old lines and adds all new ones: quick for any size.
func replaced(before, after string, old, now int) string {
	const end = "No newline at end of file"
	return fmt.Sprintf("@@ -%d,%d +%d,%d @@\n", old, lineCount(before), now, lineCount(after)) +
		signed('-', before, end) + signed('+', after, end)
}

// signed puts a sign before every line of a text, and marks a last line without an end.
func signed(sign byte, text, open string) string {
	var out strings.Builder
	out.Grow(len(text) + len(text)/16 + 1)
	for line := range strings.Lines(text) {
		out.WriteByte(sign)
		out.WriteString(line)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		out.WriteString("\n\\ " + open + "\n")
	}
	return out.String()
}

func lineCount(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}
