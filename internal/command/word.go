package command

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// word is one word of a command as a program gets it, as far as that is known.
type word struct {
	text  string
	glob  int  // where file names take the place of a pattern, or -1
	loose bool // made while the shell runs: any text, any number of words
}

func literalWord(s string) word { return word{text: s, glob: -1} }

// fixed reports whether the program gets this very text.
func (w word) fixed() bool { return !w.loose && w.glob < 0 }

// begins tells how many characters names have in common at their beginning that a pattern stands for, where it
// stands for some names of one directory only and for no hidden ones: they begin with a letter or a digit, or have an
// ending in common. It is -1 for any other word.
func (w word) begins() int {
	if w.loose || w.glob < 0 {
		return -1
	}
	start := strings.LastIndexByte(w.text[:w.glob], '/') + 1
	name, begin := w.text[start:], w.text[start:w.glob]
	plain := func(s string) bool {
		return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	}
	first, _ := utf8.DecodeRuneInString(begin)
	ending := plain(strings.TrimPrefix(path.Ext(name), ".")) && strings.Contains(name, ".")
	if strings.ContainsAny(name, "/[{") || begin == "" && !ending || begin != "" && !plain(string(first)) {
		return -1
	}
	return utf8.RuneCountInString(begin)
}

// dashed reports whether a word may be an option.
func (w word) dashed() bool {
	return w.loose || w.glob == 0 || len(w.text) > 1 && w.text[0] == '-'
}
