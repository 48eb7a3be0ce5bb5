package show

import "unicode"

// maxMarks is how many marks of its own script a letter may carry; no living
// script needs more, and more of them draw over neighbouring lines.
const maxMarks = 3

// judgeMarks escapes combining marks except those a script needs. Marks that go with any script (accents, overlays)
// are always escaped: they give a second spelling to letters that have one of their own, and can turn one sign into
// another.
func judgeMarks(cells []cell) {
	run, base := 0, false
	for i := range cells {
		c := &cells[i]
		if !unicode.IsMark(c.r) || c.kind == invalid {
			run, base = 0, c.kind == fine && unicode.IsLetter(c.r) && c.r > 0x7f
			continue
		}
		run++
		if c.kind == fine && (!base || run > maxMarks || unicode.Is(unicode.Inherited, c.r)) {
			c.kind = stacked
		}
	}
}

// judgeWords escapes the letters by which a word passes for another: those of an alphabet that looks like Latin in
// a word with Latin letters, and words written in such an alphabet with look-alikes only.
func judgeWords(cells []cell) {
	for i := 0; i < len(cells); {
		if !wordRune(cells[i]) {
			i++
			continue
		}
		j := i
		for j < len(cells) && wordRune(cells[j]) {
			j++
		}
		judgeWord(cells[i:j])
		i = j
	}
}

func wordRune(c cell) bool {
	return c.kind == fine && (unicode.IsLetter(c.r) || unicode.IsDigit(c.r) || unicode.IsMark(c.r) || c.r == '_')
}

func judgeWord(word []cell) {
	near, far, hasLatin := 0, 0, false
	for _, c := range word {
		switch {
		case unicode.Is(unicode.Latin, c.r):
			hasLatin = true
		case !unicode.In(c.r, alphabets...):
		case unicode.Is(twins, c.r):
			near++
		default:
			far++
		}
	}
	if near+far == 0 || !hasLatin && far > 0 {
		return
	}
	for i := range word {
		if unicode.In(word[i].r, alphabets...) {
			word[i].kind = lookalike
		}
	}
}

// alphabets are the scripts whose letters pass for Latin ones.
var alphabets = []*unicode.RangeTable{unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Georgian}

// twins are the letters of these alphabets that look like a Latin letter or a digit in common fonts.
var twins = table(
	// Greek: capitals Α Β Ε Ζ Η Ι Κ Μ Ν Ο Ρ Τ Υ Χ; small α γ ι κ ν ο ρ υ χ; lunate and yot letters.
	0x370, 0x370, 0x37f, 0x37f, 0x391, 0x392, 0x395, 0x397, 0x399, 0x39a, 0x39c, 0x39d, 0x39f, 0x39f, 0x3a1, 0x3a1, 0x3a4, 0x3a5, 0x3a7, 0x3a7,
	0x3b1, 0x3b1, 0x3b3, 0x3b3, 0x3b9, 0x3ba, 0x3bd, 0x3bd, 0x3bf, 0x3bf, 0x3c1, 0x3c1, 0x3c5, 0x3c5, 0x3c7, 0x3c7,
	0x3d2, 0x3d2, 0x3dc, 0x3dc, 0x3f1, 0x3f3, 0x3f8, 0x3fa,
	// Cyrillic: Ѕ І Ј, А В Е З К М Н О Р С Т У Х Ь, and small а в е з к м о п р с т у х, ѕ і ј; Ү Ӏ ӏ һ ԁ ԛ ԝ and the like.
	0x405, 0x406, 0x408, 0x408, 0x410, 0x410, 0x412, 0x412, 0x415, 0x415, 0x417, 0x417, 0x41a, 0x41a, 0x41c, 0x41e, 0x420, 0x423, 0x425, 0x425,
	0x42c, 0x42c, 0x430, 0x430, 0x433, 0x433, 0x435, 0x435, 0x43a, 0x43a, 0x43e, 0x43f, 0x440, 0x441, 0x443, 0x443, 0x445, 0x445, 0x44c, 0x44c,
	0x455, 0x456, 0x458, 0x458, 0x474, 0x475, 0x4ae, 0x4af, 0x4ba, 0x4bb, 0x4c0, 0x4c0, 0x4cf, 0x4cf, 0x501, 0x501, 0x50c, 0x50d, 0x51a, 0x51d,
	// Armenian: Ս Օ, and small ա գ զ հ ո ս ց ք օ and the like.
	0x54d, 0x54d, 0x555, 0x555, 0x561, 0x561, 0x563, 0x563, 0x566, 0x566, 0x570, 0x570, 0x578, 0x578, 0x57d, 0x57d, 0x581, 0x582, 0x584, 0x585,
)
