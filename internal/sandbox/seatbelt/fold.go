package seatbelt

import (
	"slices"
	"strings"
)

// wide are the characters that a file system which ignores case holds for equal
// to plain letters.
var wide = []struct{ char, plain string }{
	{"\u017f", "s"}, // ſ
	{"\u212a", "k"}, // the sign of Kelvin
	{"\u00df", "ss"},
	{"\u1e9e", "ss"},
	{"\ufb00", "ff"},
	{"\ufb01", "fi"},
	{"\ufb02", "fl"},
	{"\ufb03", "ffi"},
	{"\ufb04", "ffl"},
	{"\ufb05", "st"},
	{"\ufb06", "st"},
}

// fold is a file's name as it is compared: two names that a file system may hold
// for equal fold to the same, as far as plain letters go.
func fold(name string) string {
	plain := true
	for i := range len(name) {
		plain = plain && name[i] < 0x80
	}
	if !plain {
		for _, w := range wide {
			name = strings.ReplaceAll(name, w.char, w.plain)
		}
	}
	return lower(name)
}

// lower is of plain letters only: no other letter is one of a sealed name.
func lower(name string) string {
	b := []byte(name)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// folded writes an expression for all names that fold to text, which is plain and
// in lower case. Where wide characters overlap in too many ways it is wider.
func folded(text string) string {
	var b strings.Builder
	for start := 0; start < len(text); {
		end := blockEnd(text, start)
		b.WriteString(block(text[start:end]))
		start = end
	}
	return b.String()
}

// blockEnd is the end of the shortest part from start on that no wide character
// reaches out of.
func blockEnd(text string, start int) int {
	end := start + 1
	for at := start; at < end; at++ {
		for _, w := range wide {
			if strings.HasPrefix(text[at:], w.plain) {
				end = max(end, at+len(w.plain))
			}
		}
	}
	return end
}

// maxBlock bounds the ways in which a block can be written.
const maxBlock = 6

func block(text string) string {
	switch {
	case len(text) > maxBlock:
		return "[^/]+"
	case len(text) == 1 && !strings.ContainsAny(text, "sk"):
		return letter(text)
	}
	return "(" + strings.Join(ways(text), "|") + ")"
}

// ways are all the ways to write text with wide characters in it or not.
func ways(text string) []string {
	if text == "" {
		return []string{""}
	}
	var out []string
	for _, rest := range ways(text[1:]) {
		out = append(out, letter(text[:1])+rest)
	}
	for _, w := range wide {
		if after, ok := strings.CutPrefix(text, w.plain); ok {
			for _, rest := range ways(after) {
				out = append(out, w.char+rest)
			}
		}
	}
	slices.Sort(out)
	return out
}

func letter(c string) string {
	if upper := strings.ToUpper(c); upper != c {
		return "[" + c + upper + "]"
	}
	return literal(c)
}

// expression is a rule's name as a regular expression of the profile language, for
// whole paths up to its end. It has no quotes in it. Rules that begin with a
// repository have none.
func (r rule) expression() (string, bool) {
	if r.segs[0].repo {
		return "", false
	}
	var b strings.Builder
	b.WriteByte('/')
	for i, s := range r.segs {
		if s.any {
			b.WriteString("(.*/)?")
			continue
		}
		for n, p := range s.pieces {
			if n > 0 {
				b.WriteString("[^/]*")
			}
			b.WriteString(folded(p))
		}
		if i < len(r.segs)-1 {
			b.WriteByte('/')
		}
	}
	return b.String(), true
}

// expressions are all rules: those that count everywhere, and those that do not
// count below node_modules. What is below a sealed path is sealed even so.
func expressions(rules []rule) (everywhere, outside []string) {
	for _, r := range rules {
		e, ok := r.expression()
		end := "(/.*)?$"
		if r.keep {
			end = "$"
		}
		switch {
		case !ok:
		case r.everywhere():
			everywhere = append(everywhere, e+end)
		case r.keep:
			outside = append(outside, e+end)
		default:
			outside = append(outside, e+end)
			everywhere = append(everywhere, e+"/(.*/)?"+folded(modules)+"/")
		}
	}
	return everywhere, outside
}
