package canon

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Parse reads one JSON document strictly: no repeated keys, no invalid UTF-8, no lone surrogates, nothing after the
// value, bounded depth. Numbers stay text, in normal form. It accepts nothing that encoding/json would refuse.
func Parse(raw []byte) (any, error) {
	if !utf8.Valid(raw) {
		return nil, ErrText
	}
	p := parser{b: string(raw)}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.i != len(p.b) {
		return nil, p.flawAt(ErrRest)
	}
	return v, nil
}

// parser reads text that is known to be UTF-8.
type parser struct {
	b string
	i int
}

func (p *parser) bad(what string) error { return fmt.Errorf("canon: byte %d: %s", p.i, what) }

// flawAt says where a flaw is that has a name.
func (p *parser) flawAt(flaw error) error { return fmt.Errorf("%w, at byte %d", flaw, p.i) }

func (p *parser) space() {
	for p.i < len(p.b) {
		switch p.b[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

// next skips white space and returns the byte there, 0 at the end.
func (p *parser) next() byte {
	p.space()
	if p.i == len(p.b) {
		return 0
	}
	return p.b[p.i]
}

func (p *parser) value(depth int) (any, error) {
	if depth > MaxDepth {
		return nil, ErrDepth
	}
	switch c := p.next(); c {
	case '{':
		return p.object(depth)
	case '[':
		return p.list(depth)
	case '"':
		return p.text()
	case 't':
		return true, p.word("true")
	case 'f':
		return false, p.word("false")
	case 'n':
		return nil, p.word("null")
	case 0:
		return nil, p.bad("the text ends early")
	}
	n, err := p.number()
	return json.Number(n), err
}

func (p *parser) word(w string) error {
	if len(p.b)-p.i < len(w) || p.b[p.i:p.i+len(w)] != w {
		return p.bad("not a JSON value")
	}
	p.i += len(w)
	return nil
}

func (p *parser) list(depth int) (any, error) {
	p.i++
	list := []any{}
	if p.next() == ']' {
		p.i++
		return list, nil
	}
	for {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		switch p.next() {
		case ',':
			p.i++
		case ']':
			p.i++
			return list, nil
		default:
			return nil, p.bad("expected , or ]")
		}
	}
}

func (p *parser) object(depth int) (any, error) {
	p.i++
	m := map[string]any{}
	if p.next() == '}' {
		p.i++
		return m, nil
	}
	for {
		if err := p.member(m, depth); err != nil {
			return nil, err
		}
		switch p.next() {
		case ',':
			p.i++
		case '}':
			p.i++
			return m, nil
		default:
			return nil, p.bad("expected , or }")
		}
	}
}

func (p *parser) member(m map[string]any, depth int) error {
	if p.next() != '"' {
		return p.bad("expected a key")
	}
	k, err := p.text()
	if err != nil {
		return err
	}
	if _, dup := m[k]; dup {
		return p.flawAt(ErrRepeated)
	}
	if p.next() != ':' {
		return p.bad("expected :")
	}
	p.i++
	m[k], err = p.value(depth + 1)
	return err
}

// number takes the longest run of number characters, checks its form and returns its normal one.
func (p *parser) number() (string, error) {
	start := p.i
	digits := func() bool {
		from := p.i
		for p.i < len(p.b) && p.b[p.i] >= '0' && p.b[p.i] <= '9' {
			p.i++
		}
		return p.i > from
	}
	p.take("-")
	if p.take("0") == 0 && !digits() {
		return "", p.bad("not a JSON value")
	}
	if p.take(".") != 0 && !digits() {
		return "", p.flawAt(ErrNumber)
	}
	if p.take("eE") != 0 {
		p.take("+-")
		if !digits() {
			return "", p.flawAt(ErrNumber)
		}
	}
	return normal(p.b[start:p.i])
}

// take steps over the next byte if it is one of set, and returns it.
func (p *parser) take(set string) byte {
	if p.i < len(p.b) {
		for j := range len(set) {
			if p.b[p.i] == set[j] {
				p.i++
				return set[j]
			}
		}
	}
	return 0
}

// text reads a string. Without an escape it is a part of the document.
func (p *parser) text() (string, error) {
	p.i++
	rest := p.b[p.i:]
	n := ordinary(rest)
	p.i += n
	switch {
	case n == len(rest):
		return "", p.bad("the string does not end")
	case rest[n] == '"':
		p.i++
		return rest[:n], nil
	case rest[n] == '\\':
		return p.escaped([]byte(rest[:n]))
	}
	return "", p.bad("control character in a string")
}

// ordinary counts the bytes before the first that is not an ordinary one of a string: a quote, a backslash or a
// control character. It looks at eight at a time; a byte that differs from c has zero bits only where c does, and
// taking one from a zero byte borrows into its highest bit.
func ordinary(s string) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		quote, slash := w^('"'*ones), w^('\\'*ones)
		found := (quote-ones)&^quote | (slash-ones)&^slash | (w-' '*ones)&^w
		if found &= tops; found != 0 {
			return i + bits.TrailingZeros64(found)/8 // the lowest is never a false one
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c == '"' || c == '\\' || c < ' ' {
			return i
		}
	}
	return i
}

// escaped goes on with a string that has escapes; s is what came before.
func (p *parser) escaped(s []byte) (string, error) {
	for p.i < len(p.b) {
		c := p.b[p.i]
		p.i++
		switch {
		case c == '"':
			return string(s), nil
		case c < ' ':
			return "", p.bad("control character in a string")
		case c != '\\':
			s = append(s, c)
		default:
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			s = utf8.AppendRune(s, r)
		}
	}
	return "", p.bad("the string does not end")
}

// escape reads what follows a backslash. A lone surrogate, which other readers
// silently turn into U+FFFD and so give two texts one value, is refused.
func (p *parser) escape() (rune, error) {
	if p.i == len(p.b) {
		return 0, p.bad("the string does not end")
	}
	c := p.b[p.i]
	p.i++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		return p.codePoint()
	}
	return 0, p.bad("unknown escape")
}

func (p *parser) codePoint() (rune, error) {
	r, err := p.hex()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if p.take("\\") == 0 || p.take("u") == 0 {
		return 0, ErrSurrogate
	}
	low, err := p.hex()
	if err != nil {
		return 0, err
	}
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, ErrSurrogate
	}
	return r, nil
}

func (p *parser) hex() (rune, error) {
	if len(p.b)-p.i < 4 {
		return 0, p.bad("the string does not end")
	}
	for _, c := range []byte(p.b[p.i : p.i+4]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return 0, p.bad("bad escape")
		}
	}
	n, err := strconv.ParseUint(p.b[p.i:p.i+4], 16, 32)
	p.i += 4
	return rune(n), err
}
