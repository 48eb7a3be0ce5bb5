package show

import (
	"strings"
	"unicode"
)

// Kind is what makes a character worth an escape.
type Kind uint8

const (
	fine Kind = iota
	invalid
	control
	direction
	invisible
	space
	stacked
	lookalike
	rightToLeft
	unusual
	reserved
	blank
	kinds
)

var kindText = [kinds]string{
	invalid:     "bytes that are not UTF-8",
	control:     "control characters",
	direction:   "characters that change the reading direction",
	invisible:   "invisible characters",
	space:       "unusual spaces",
	stacked:     "combining marks that change how other characters look",
	lookalike:   "letters or signs that look like others",
	rightToLeft: "right-to-left letters, which a terminal may show in another order",
	unusual:     "characters of rare scripts or without a fixed look",
	reserved:    "signs that Palyra itself uses to mark text",
	blank:       "long runs of blanks, which are shown as their number",
}

// String says what the kind is, for a warning.
func (k Kind) String() string {
	if k < kinds {
		return kindText[k]
	}
	return ""
}

// Notes lists what is unusual about s, each kind once, most telling first. It
// is empty for text that shows itself honestly.
func Notes(s string) []string {
	if isPlainASCII(s) {
		return nil
	}
	var seen [kinds]bool
	seen[blank] = strings.Contains(s, tooBlank)
	for _, c := range parse(s, lineMode) {
		if c.r != '\n' && c.r != '\t' {
			seen[c.kind] = true
		}
	}
	var out []string
	for k := invalid; k < kinds; k++ {
		if seen[k] {
			out = append(out, k.String())
		}
	}
	return out
}

// classify judges a character by itself. Marks and words are judged later, in their context.
func classify(r rune) Kind {
	switch {
	case r >= ' ' && r < 0x7f:
		return fine
	case r < ' ' || r >= 0x7f && r < 0xa0:
		return control
	case unicode.Is(marks, r):
		return reserved
	case unicode.Is(directions, r):
		return direction
	case unicode.Is(unicode.White_Space, r):
		return space
	case unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, blanks):
		return invisible
	case !unicode.IsPrint(r) || r == unicode.ReplacementChar || r == 0xfffc:
		return unusual // private use, unassigned, placeholders
	case unicode.Is(signs, r) || unicode.IsDigit(r):
		return lookalike
	case unicode.IsLetter(r):
		return letter(r)
	}
	return fine
}

// letter judges a letter by its script.
func letter(r rune) Kind {
	switch {
	case unicode.Is(unicode.Latin, r):
		if unicode.Is(latin, r) {
			return fine
		}
		return lookalike
	case unicode.In(r, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko):
		return rightToLeft
	case unicode.In(r, living...):
		return fine
	}
	return unusual
}

// marks are the signs that Palyra's own words and frames are set apart by, in any view: what stands for a tab, for
// what was left out and for what follows, the gutters, and all that lines can be drawn with. Whoever prints a new
// mark puts it here first: outside text then cannot hold it.
var marks = table(0x2014, 0x2015, 0x2026, 0x2026, 0x2190, 0x21ff, cutMark, cutMark, 0x2500, 0x259f, 0x2713, 0x2718) // tabMark is an arrow

// directions are the characters that reorder text.
var directions = table(0x061c, 0x061c, 0x200e, 0x200f, 0x202a, 0x202e, 0x2066, 0x2069)

// blanks print as nothing though Unicode calls them letters or symbols.
var blanks = table(0x2800, 0x2800, 0x1d159, 0x1d159)

// latin holds the Latin letters of living languages. The others (phonetic
// signs, clicks, letter-like signs) are near copies of these.
var latin = table('A', 'Z', 'a', 'z', 0xaa, 0xaa, 0xba, 0xba, 0xc0, 0xd6, 0xd8, 0xf6, 0xf8, 0x148, 0x14a, 0x17e,
	0x18f, 0x18f, 0x1a0, 0x1a1, 0x1af, 0x1b0, 0x1cd, 0x1f5, 0x1f8, 0x21f, 0x226, 0x233, 0x259, 0x259, 0x1e00, 0x1eff)

// signs are near copies of ASCII: wide and mathematical letters, slashes, dots,
// dashes, quotes that pass for the ones a shell or a path gives a meaning to.
var signs = table(0xb4, 0xb4, 0xb8, 0xb8, 0x1c0, 0x1c3, 0x2b9, 0x2bc, 0x2c2, 0x2c8, 0x2cb, 0x2cb, 0x2d0, 0x2d0, 0x2d7, 0x2d7, 0x2dc, 0x2dc,
	0x2f4, 0x2f4, 0x374, 0x375, 0x37e, 0x37e, 0x387, 0x387, 0x589, 0x589, 0x5c3, 0x5c3, 0x5f3, 0x5f4, 0x60c, 0x60d, 0x66a, 0x66d, 0x6d4, 0x6d4,
	0x1427, 0x1427, 0x1680, 0x1680, 0x1735, 0x1735, 0x1806, 0x1806, 0x2010, 0x2012, 0x2016, 0x2016, 0x201a, 0x201b, 0x2024, 0x2025, 0x2032,
	0x2037,
	0x2039, 0x203a, 0x2041, 0x2041, 0x2043, 0x2044, 0x204e, 0x204e, 0x2052, 0x2053, 0x2100, 0x214f, 0x2160, 0x2188, 0x2212, 0x2212, 0x2215,
	0x2219,
	0x2223, 0x2223, 0x2236, 0x2236, 0x223c, 0x223c, 0x22c5, 0x22c5, 0x2571, 0x2573, 0x2768, 0x2775, 0x27cb, 0x27cb, 0x27cd, 0x27cd, 0x2981,
	0x2981,
	0x29f5, 0x29f5, 0x29f8, 0x29f9, 0x2cf9, 0x2cff, 0x2d31, 0x2d31, 0x2e17, 0x2e1a, 0x2f02, 0x2f03, 0x2f17, 0x2f17, 0x3003, 0x3003, 0x3014,
	0x3015, 0x3033, 0x3033, 0x30a0, 0x30a0,
	0x31d3, 0x31d4, 0xa4fa, 0xa4ff, 0xa60e, 0xa60e, 0xa6f0, 0xa6f7, 0xa789, 0xa78c, 0xfe13, 0xfe19, 0xfe30, 0xfe6f, 0xff00, 0xffef, 0x1d400,
	0x1d7ff, 0x1f100, 0x1f1ff)

// living are the scripts in everyday use (Unicode's recommended ones, without
// Latin and the right-to-left ones, which have rules of their own).
var living = []*unicode.RangeTable{
	unicode.Armenian, unicode.Bengali, unicode.Bopomofo, unicode.Cyrillic, unicode.Devanagari, unicode.Ethiopic, unicode.Georgian,
	unicode.Greek, unicode.Gujarati, unicode.Gurmukhi, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Kannada, unicode.Katakana,
	unicode.Khmer, unicode.Lao, unicode.Malayalam, unicode.Myanmar, unicode.Oriya, unicode.Sinhala, unicode.Tamil, unicode.Telugu,
	unicode.Thai, unicode.Tibetan, prolonged,
}

// prolonged are letters that several scripts share.
var prolonged = table(0x30fc, 0x30fc)

// table builds a range table from pairs of first and last character.
func table(pairs ...rune) *unicode.RangeTable {
	t := &unicode.RangeTable{}
	for i := 0; i < len(pairs); i += 2 {
		t.R32 = append(t.R32, unicode.Range32{Lo: uint32(pairs[i]), Hi: uint32(pairs[i+1]), Stride: 1})
	}
	return t
}
