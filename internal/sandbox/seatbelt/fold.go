package seatbelt

import (
	"slices"
	"strings"

	"palyra/internal/seal"
)

// wide are the characters that a case-insensitive file system takes for plain letters.
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

// folded is an expression for all names that fold to text (see seal.Fold), which is plain and in
// lower case, except names with additional invisible characters, dots or blanks: the walk after a
// run finds these. Where wide characters overlap in too many ways the expression is wider.
func folded(text string) string {
	var b strings.Builder
	for start := 0; start < len(text); {
		end := blockEnd(text, start)
		b.WriteString(block(text[start:end]))
		start = end
	}
	return b.String()
}

// blockEnd is the end of the shortest part from start on that no wide character extends beyond.
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

// maxBlock is the longest block whose spellings are all listed.
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

// ways returns all spellings of text with and without wide characters.
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

// expression is a rule's name as a regular expression of the profile language, for whole paths up
// to its end. It contains no quotes. Rules that begin with a repository have none.
func expression(r seal.Rule) (string, bool) {
	if r.Parts[0].Repository {
		return "", false
	}
	var b strings.Builder
	b.WriteByte('/')
	for i, part := range r.Parts {
		if part.Any {
			b.WriteString("(.*/)?")
			continue
		}
		for n, p := range part.Pieces {
			if n > 0 {
				b.WriteString("[^/]*")
			}
			b.WriteString(folded(p))
		}
		if i < len(r.Parts)-1 {
			b.WriteByte('/')
		}
	}
	return b.String(), true
}

// expressions returns those of all rules: the ones that count everywhere, and the ones that do not
// count below node_modules. Paths below a sealed path are sealed all the same.
func expressions(rules []seal.Rule) (all, outside []string) {
	for _, r := range rules {
		e, ok := expression(r)
		end := "(/.*)?$"
		if r.Keep {
			end = "$"
		}
		switch {
		case !ok:
		case everywhere(r):
			all = append(all, e+end)
		case r.Keep:
			outside = append(outside, e+end)
		default:
			outside = append(outside, e+end)
			all = append(all, e+"/(.*/)?"+folded(modules)+"/")
		}
	}
	return all, outside
}
