package policy

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/cedar-policy/cedar-go"
)

// maxUnread bounds how many statements of a file are said not to parse.
const maxUnread = 20

// syntaxProblems says what is wrong with a file that does not parse. The parser stops at the first fault, so
// each statement is parsed by itself, where it stands. The parser's own complaint is kept where every
// statement parses alone.
func syntaxProblems(name, text string, err error, places []statement) []Problem {
	var out []Problem
	for _, s := range places {
		var p cedar.Policy
		if len(out) == maxUnread || p.UnmarshalCedar([]byte(text[s.offset:s.end])) == nil {
			continue
		}
		alone := blank(text[:s.offset]) + text[s.offset:s.end]
		if _, err := cedar.NewPolicyListFromBytes(name, []byte(alone)); err != nil {
			out = append(out, rewordParserError(alone, parseProblem(name, err, s)))
		}
	}
	if len(out) == 0 {
		return []Problem{rewordParserError(text, parseProblem(name, err, statement{line: 1, column: 1}))}
	}
	return out
}

// blank is a text with the same lines and columns and nothing but spaces in them.
func blank(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return ' '
	}, text)
}

// The parser's complaints that name what it found, and stand one token behind it.
var (
	saysExact  = regexp.MustCompile(`^".*": exact got (.*) want (\S+)$`)
	saysEffect = regexp.MustCompile(`^".*": unexpected effect: (.*)$`)
	saysOther  = regexp.MustCompile(`^".*": (expected string|invalid primary)$`)
)

// rewordParserError words a complaint of the parser for people and places it at the fault. A complaint that
// it does not know stays as it is.
func rewordParserError(text string, p Problem) Problem {
	expected, found, named := "", "", true
	if m := saysExact.FindStringSubmatch(p.Text); m != nil {
		expected, found = fmt.Sprintf("%q", m[2]), m[1]
	} else if m := saysEffect.FindStringSubmatch(p.Text); m != nil {
		expected, found = "permit or forbid", m[1]
	} else if m := saysOther.FindStringSubmatch(p.Text); m != nil {
		expected, named = map[string]string{"expected string": "a text in quotes", "invalid primary": "a value"}[m[1]], false
	} else {
		return p
	}
	if named && found == "" {
		p.Text = "expected " + expected + ", found the end of the file"
		return p
	}
	word, line, column := tokenBefore(text, p.Line, p.Column, found)
	if word == "" {
		return p
	}
	p.Line, p.Column, p.Text = line, column, fmt.Sprintf("expected %s, found %q", expected, word)
	return p
}

// tokenBefore finds the last token before a place: one that begins with like, or any where like is empty. The
// word is empty when there is no such token.
func tokenBefore(text string, line, column int, like string) (word string, atLine, atColumn int) {
	s := scanner{src: text, line: 1, column: 1}
	for s.pos < len(text) && (s.line < line || s.line == line && s.column < column) {
		rest := text[s.pos:]
		n := 1
		switch {
		case strings.HasPrefix(rest, "//"):
			n = lengthThrough(rest, "\n", 2)
		case strings.HasPrefix(rest, "/*"):
			n = lengthThrough(rest, "*/", 2)
		case strings.ContainsRune(" \t\r\n", rune(rest[0])):
		default:
			if n = width(rest); strings.HasPrefix(rest, like) {
				word, atLine, atColumn = rest[:max(n, len(like))], s.line, s.column
			}
		}
		s.skip(n)
	}
	return word, atLine, atColumn
}
