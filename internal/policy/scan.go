package policy

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of one statement. Cedar's parser, type checker and evaluator recurse over the expression and compare "has"
// guards with each other; these bounds keep hostile text from exhausting the stack or the clock. Hand-written
// policies stay far below them.
const (
	maxDepth  = 48
	maxTokens = 4096
	maxHas    = 64
)

// statement is where one policy stands in its file.
type statement struct {
	offset, end  int // bytes
	line, column int // of the first token; columns count characters
}

// scan finds the statements of a Cedar text without understanding them. It sees strings and comments as Cedar does,
// so that what it counts is what the parser will nest.
func scan(src string) ([]statement, *Problem) {
	s := scanner{src: src, line: 1, column: 1}
	for s.next() {
		if s.problem != nil {
			return nil, s.problem
		}
	}
	return s.done, s.problem
}

type scanner struct {
	src          string
	pos          int
	line, column int

	open    bool // inside a statement
	at      statement
	depth   int
	tokens  int
	guards  int  // attributes tested with has; "has a.b.c" tests three
	guarded bool // in the path after a has
	done    []statement
	problem *Problem
}

// next takes one token, comment or run of white space; false at the end.
func (s *scanner) next() bool {
	rest := s.src[s.pos:]
	switch {
	case rest == "":
		if s.open {
			s.close()
		}
		return false
	case strings.HasPrefix(rest, "//"):
		s.skip(lengthThrough(rest, "\n", 2))
	case strings.HasPrefix(rest, "/*"):
		s.skip(lengthThrough(rest, "*/", 2))
	case strings.ContainsRune(" \t\r\n", rune(rest[0])):
		s.skip(1)
	default:
		s.token(rest)
	}
	return s.problem == nil
}

func (s *scanner) token(rest string) {
	if !s.open {
		s.open, s.depth, s.tokens, s.guards, s.guarded = true, 0, 0, 0, false
		s.at = statement{offset: s.pos, line: s.line, column: s.column}
	}
	s.tokens++
	n := width(rest)
	word := rest[:n]
	s.guarded = word == "has" || s.guarded && (word == "." || isWord(word[0]))
	if s.guarded && (word == "has" || word == ".") {
		s.guards++
	}
	switch word {
	case "(", "[", "{", "if":
		s.depth++
	case ")", "]", "}", "else":
		s.depth = max(0, s.depth-1)
	case ";":
		s.skip(n)
		s.close()
		return
	}
	switch {
	case s.depth > maxDepth:
		s.fail("nested deeper than %d", maxDepth)
	case s.tokens > maxTokens:
		s.fail("a policy of more than %d tokens", maxTokens)
	case s.guards > maxHas:
		s.fail("more than %d uses of has in one policy", maxHas)
	}
	s.skip(n)
}

func (s *scanner) close() {
	s.open = false
	s.at.end = s.pos
	s.done = append(s.done, s.at)
}

func (s *scanner) fail(format string, args ...any) {
	s.problem = &Problem{Line: s.line, Column: s.column, Text: fmt.Sprintf(format, args...)}
}

// skip moves on by n bytes and keeps the position in characters.
func (s *scanner) skip(n int) {
	text := s.src[s.pos : s.pos+n]
	s.pos += n
	if lines := strings.Count(text, "\n"); lines > 0 {
		s.line += lines
		s.column = 1
		text = text[strings.LastIndexByte(text, '\n')+1:]
	}
	s.column += utf8.RuneCountInString(text)
}

// width is the length of the token at the start of text: a string, a word, or one character.
func width(text string) int {
	if text[0] == '"' {
		for i := 1; i < len(text); i++ {
			switch text[i] {
			case '\\':
				i++
			case '"', '\n':
				return i + 1
			}
		}
		return len(text)
	}
	n := 0
	for n < len(text) && isWord(text[n]) {
		n++
	}
	if n > 0 {
		return n
	}
	_, n = utf8.DecodeRuneInString(text)
	return n
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// lengthThrough is the length of text up to and including end, which is searched for from byte from on.
func lengthThrough(text, end string, from int) int {
	if i := strings.Index(text[from:], end); i >= 0 {
		return from + i + len(end)
	}
	return len(text)
}
