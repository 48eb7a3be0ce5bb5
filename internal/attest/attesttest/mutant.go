package attesttest

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
)

// replacements are what the byte at a place is changed into: another bit, a digit or letter, a space, invalid
// UTF-8, and in turn the other case, the end of a string, an escape.
func replacements(pos int, b byte) []byte {
	word := byte('0')
	if b == word {
		word = 'A'
	}
	return []byte{b ^ 1, word, ' ', 0xff, [...]byte{b ^ 0x20, '"', '\\'}[pos%3]}
}

// each is how many of a byte's five replacements are tried, in turn from byte to byte: a sample, and all with
// PALYRA_CORPUS=full ('make soak').
func each() int {
	if os.Getenv("PALYRA_CORPUS") == "full" {
		return 5
	}
	return 2
}

// Mutants calls f for every byte of text with replacements of that byte: each is replaced, and after five bytes each kind
// of replacement was tried as often as the others. f must not keep the slice. same says that only white space between tokens
// changed.
func Mutants(text []byte, f func(pos int, mutant []byte, same bool)) {
	want, mutant, most := compacted(text), bytes.Clone(text), each()
	for i, b := range text {
		for k, r := range replacements(i, b) {
			if r == b || (k+2*i)%5 >= most {
				continue
			}
			mutant[i] = r
			same := (space(b) || space(r)) && bytes.Equal(compacted(mutant), want)
			f(i, mutant, same)
		}
		mutant[i] = b
	}
}

func space(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }

func compacted(text []byte) []byte {
	var buf bytes.Buffer
	if json.Compact(&buf, text) != nil {
		return nil
	}
	return buf.Bytes()
}

// Mutate returns text with one small random change: a byte replaced, dropped, doubled or put in, or a piece moved.
func Mutate(rnd *rand.Rand, text []byte) []byte {
	i := rnd.IntN(len(text))
	b := bytes.Clone(text)
	switch rnd.IntN(6) {
	case 0:
		return append(b[:i], b[i+1:]...)
	case 1:
		return append(b[:i+1], text[i:]...)
	case 2:
		return append(append(b[:i:i], " \t\n0a\\\"{}[],:=-.eE"[rnd.IntN(18)]), text[i:]...)
	case 3:
		n := min(len(text)-i, 1+rnd.IntN(40))
		return append(append(b[:i:i], text[i+n:]...), text[i:i+n]...)
	default:
		r := replacements(i, b[i])
		b[i] = r[rnd.IntN(len(r))]
		return b
	}
}
