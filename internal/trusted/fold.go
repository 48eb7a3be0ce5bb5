package trusted

import (
	"unicode"
	"unicode/utf8"
)

// wide are letters that fold to several, as file systems that ignore case do it.
var wide = map[rune]string{
	'ß': "ss", 'ẞ': "ss", 'ﬀ': "ff", 'ﬁ': "fi", 'ﬂ': "fl", 'ﬃ': "ffi", 'ﬄ': "ffl", 'ﬅ': "st", 'ﬆ': "st",
}

// Fold appends a name in the form in which names are compared. Some file systems ignore case, invisible characters,
// or dots and blanks at the end; on others nobody has two names that differ only so, next to a sealed one. What is
// not valid UTF-8 stays.
func Fold[T string | []byte](b []byte, name T) []byte {
	start := len(b)
	for i := 0; i < len(name); {
		c := name[i]
		if c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			b = append(b, c)
			i++
			continue
		}
		end := min(i+utf8.UTFMax, len(name))
		r, n := utf8.DecodeRuneInString(string(name[i:end]))
		if r == utf8.RuneError && n <= 1 {
			b = append(b, c)
			i++
			continue
		}
		b = foldRune(b, r)
		i += n
	}
	return trim(b, start)
}

func foldRune(b []byte, r rune) []byte {
	if s, ok := wide[r]; ok {
		return append(b, s...)
	}
	if unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
		return b
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return utf8.AppendRune(b, unicode.ToLower(least))
}

// trim takes dots and blanks off the end, but leaves a name that has nothing else.
func trim(b []byte, start int) []byte {
	end := len(b)
	for end > start && (b[end-1] == '.' || b[end-1] == ' ') {
		end--
	}
	if end == start {
		return b
	}
	return b[:end]
}

// Folded is a name in that form.
func Folded(name string) string { return string(Fold(nil, name)) }
