package command

import (
	"slices"
	"strings"
)

// plainAwk reports whether an awk program can only read and print. Everything by which awk writes files, runs
// programs or opens others needs one of these marks, and awk cannot make code out of text. A comparison with
// > is refused with the rest.
func plainAwk(text string) bool {
	for _, mark := range []string{">", "|", "@", "system", "getline", "ARG", "SYMTAB", "\\\n", "\\\r", "\x00"} {
		if strings.Contains(text, mark) {
			return false
		}
	}
	return true
}

// plainJq reports whether a jq program reads its input and nothing else.
func plainJq(text string) bool {
	for _, mark := range []string{"import", "include", "modulemeta"} {
		if strings.Contains(text, mark) {
			return false
		}
	}
	return true
}

// plainYq reports whether an expression of yq reads its input and nothing else: it names only members, and
// functions that are known to compute. Both programs of that name have it.
func plainYq(text string) bool {
	for _, mark := range []string{"load", "env", "system", "eval", "import", "include", "modulemeta", "input", "file", "$", "\\"} {
		if strings.Contains(strings.ToLower(text), mark) {
			return false
		}
	}
	before := ' '
	for i := 0; i < len(text); i++ {
		c := text[i]
		if !letter(c) || letter(byte(before)) || before == '.' {
			before = rune(c)
			continue
		}
		name := text[i:]
		if end := strings.IndexFunc(name, func(r rune) bool { return r > 'z' || !letter(byte(r)) && !(r >= '0' && r <= '9') }); end >= 0 {
			name = name[:end]
		}
		if i += len(name) - 1; strings.HasPrefix(strings.TrimLeft(text[i+1:], " "), "(") && !slices.Contains(yqFunctions, name) {
			return false
		}
		before = 'a'
	}
	return true
}

var yqFunctions = []string{
	"select", "map", "has", "sort_by", "group_by", "unique_by", "contains", "join", "split", "test", "map_values",
	"with_entries", "del", "and", "or", "not", "first", "pick",
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }

// plainSed reports whether a sed script is made of the commands that only print, skip and substitute. All of e, r,
// R, w, W, a, i, c, labels and files are refused, and so is anything that versions of sed read differently.
func plainSed(text string) bool {
	p := &sedText{rest: text}
	for _, c := range text {
		if c < ' ' && c != '\t' {
			return false
		}
	}
	for p.command() {
	}
	return p.rest == "" && !p.bad && p.open == 0
}

type sedText struct {
	rest string
	open int // blocks
	bad  bool
}

// command reads one command and tells whether another may follow.
func (p *sedText) command() bool {
	p.skip(" \t;")
	if p.rest == "" || p.bad {
		return false
	}
	p.addresses()
	p.skip(" \t")
	p.accept("!")
	p.skip(" \t")
	if p.rest == "" || p.bad {
		p.bad = true
		return false
	}
	c := p.rest[0]
	p.rest = p.rest[1:]
	switch {
	case c == '{':
		p.open++
		return true
	case c == '}':
		p.open--
		p.bad = p.bad || p.open < 0
	case strings.IndexByte("pdDPqQ=nNgGhHxlz", c) >= 0:
	case c == 's' || c == 'y':
		p.substitute(c)
	default:
		p.bad = true
	}
	return p.end()
}

// end asks for what may follow a command.
func (p *sedText) end() bool {
	p.skip(" \t")
	if p.bad || p.rest == "" {
		return false
	}
	if strings.IndexByte(";}", p.rest[0]) < 0 {
		p.bad = true
		return false
	}
	return true
}

func (p *sedText) addresses() {
	p.address()
	if p.accept(",") {
		p.skip(" \t")
		if !p.accept("+") {
			p.accept("~")
		}
		p.address()
	}
}

func (p *sedText) address() {
	switch {
	case p.accept("$"):
	case p.accept("/"):
		p.pattern('/')
		p.skip("IM")
	default:
		p.skip("0123456789")
		if p.accept("~") {
			p.skip("0123456789")
		}
	}
}

func (p *sedText) substitute(command byte) {
	if p.rest == "" || strings.IndexByte("/|,#:@!%_+", p.rest[0]) < 0 {
		p.bad = true
		return
	}
	delim := p.rest[0]
	p.rest = p.rest[1:]
	p.pattern(delim)
	p.readUntil(delim)
	if command == 's' {
		p.skip("gpiIm0123456789")
	}
}

// pattern reads an expression up to its delimiter. Some versions take a delimiter
// inside brackets for a part of the expression: where that matters it is refused.
func (p *sedText) pattern(delim byte) {
	before := p.rest
	p.readUntil(delim)
	body := before[:len(before)-len(p.rest)]
	if p.bad || !bracketsClosed(body[:len(body)-1]) {
		p.bad = true
	}
}

// bracketsClosed tells that no bracket is open at the end of an expression.
func bracketsClosed(body string) bool {
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '\\':
			i++
		case '[':
			n := bracketEnd(body[i+1:])
			if n < 0 {
				return false
			}
			i += 1 + n
		}
	}
	return true
}

// bracketEnd returns where the bracket that was opened ends, or -1. The first ]
// is one of its members, and so is everything in [: :].
func bracketEnd(s string) int {
	if strings.Contains(s, "[.") || strings.Contains(s, "[=") {
		return -1 // rare, and read differently
	}
	i := 0
	if strings.HasPrefix(s, "^") {
		i++
	}
	if strings.HasPrefix(s[i:], "]") {
		i++
	}
	for ; i < len(s); i++ {
		if strings.HasPrefix(s[i:], "[:") {
			n := strings.Index(s[i+2:], ":]")
			if n < 0 {
				return -1
			}
			i += n + 3
			continue
		}
		if s[i] == ']' {
			return i
		}
	}
	return -1
}

// readUntil reads up to a delimiter that no backslash hides.
func (p *sedText) readUntil(delim byte) {
	for i := 0; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '\\':
			i++
		case delim:
			p.rest = p.rest[i+1:]
			return
		}
	}
	p.bad, p.rest = true, ""
}

func (p *sedText) accept(s string) bool {
	rest, ok := strings.CutPrefix(p.rest, s)
	p.rest = rest
	return ok
}

func (p *sedText) skip(set string) { p.rest = strings.TrimLeft(p.rest, set) }
