package process

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"palyra"
	"palyra/internal/show"
)

// The most that people are shown of a command and its stdin. It is only cut here, with a note in
// plain letters; the printer escapes it.
const (
	summaryLength = 240
	inputInLine   = 60
	inputInNote   = 4 << 10
)

// commandLine is one line for people: the command and the beginning of its stdin, which is a shell's program.
func commandLine(argv []string, input []byte) string {
	words, length := make([]string, len(argv)), 0
	for i, a := range argv {
		words[i] = show.Shorten(a, summaryLength)
		if a == "" || strings.ContainsFunc(words[i], unclear) {
			words[i] = strconv.Quote(words[i]) // cut before quoting: half an escape means something else
		}
		length += utf8.RuneCountInString(words[i]) + 1
	}
	return strings.Join(fewer(words, length, 2*summaryLength), " ") + fed(input)
}

// fewer leaves words out of the middle until the line is short enough. The first and the last stay.
func fewer(words []string, length, most int) []string {
	from := len(words) * 2 / 3
	to := from
	for length > most && (from > 1 || to < len(words)-1) {
		if to < len(words)-1 && (from <= 1 || to-len(words)*2/3 < len(words)*2/3-from) {
			length -= utf8.RuneCountInString(words[to]) + 1
			to++
		} else {
			from--
			length -= utf8.RuneCountInString(words[from]) + 1
		}
	}
	if from == to {
		return words
	}
	return slices.Concat(words[:from], []string{fmt.Sprintf("[%d arguments left out]", to-from)}, words[to:])
}

// fed is the beginning of a command's stdin.
func fed(input []byte) string {
	switch {
	case len(input) == 0:
		return ""
	case !utf8.Valid(input):
		return " < " + show.Bytes(len(input)) + ", not text"
	}
	return " < " + strconv.Quote(show.Shorten(string(input), inputInLine))
}

// unclear reports whether a character makes it hard to see where a word ends.
func unclear(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_@%+=:,./-", r)
}

// stdinText describes a program's stdin, for people.
func stdinText(input []byte) string {
	if !utf8.Valid(input) {
		return "on stdin it gets " + show.Bytes(len(input)) + ", not text"
	}
	return fmt.Sprintf("on stdin it gets %s: %s", show.Bytes(len(input)), strconv.Quote(show.Shorten(string(input), inputInNote)))
}

// note adds a note for people to a plan, once.
func note(p *palyra.Plan, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, has := range p.Detail.Notes {
		if has == text {
			return
		}
	}
	p.Detail.Notes = append(p.Detail.Notes, text)
}
