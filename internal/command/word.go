package command

import (
	"strings"
	"unicode"
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

// partialPattern reports whether a pattern stands for names of one directory that have letters in common, and for no hidden ones.
func (w word) partialPattern() bool {
	if w.loose || w.glob < 0 {
		return false
	}
	name := w.text[strings.LastIndexByte(w.text[:w.glob], '/')+1:]
	return !strings.ContainsAny(name, "/[{") && name[0] != '.' && strings.ContainsFunc(name, unicode.IsLetter)
}

// dashed reports whether a word may be an option.
func (w word) dashed() bool {
	return w.loose || w.glob == 0 || len(w.text) > 1 && w.text[0] == '-'
}
