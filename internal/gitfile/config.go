package gitfile

import (
	"bytes"
	"fmt"
	"strings"
)

// Setting is one line of a configuration.
type Setting struct {
	Section string // in lower case
	Sub     string // the part in quotes, as it stands
	Key     string // in lower case
	Value   string
}

// maxSettings bounds a configuration.
const maxSettings = 10_000

// Config reads a configuration in the syntax of git-config.
func Config(text []byte) ([]Setting, error) {
	p := &configReader{rest: bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))}
	for len(p.rest) > 0 {
		if err := p.item(); err != nil {
			return nil, fmt.Errorf("gitfile: configuration: %w", err)
		}
		if len(p.out) > maxSettings {
			return nil, fmt.Errorf("gitfile: configuration: more than %d settings: %w", maxSettings, ErrLimit)
		}
	}
	return p.out, nil
}

type configReader struct {
	rest         []byte
	section, sub string
	out          []Setting
}

// next takes a character; a line end is one, however it is written.
func (p *configReader) next() (byte, bool) {
	if len(p.rest) == 0 {
		return '\n', false
	}
	c := p.rest[0]
	p.rest = p.rest[1:]
	if c == '\r' && len(p.rest) > 0 && p.rest[0] == '\n' {
		c, p.rest = '\n', p.rest[1:]
	}
	return c, true
}

// item reads a section, a setting, a comment or a blank.
func (p *configReader) item() error {
	c, _ := p.next()
	switch {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		return nil
	case c == '#' || c == ';':
		p.line()
		return nil
	case c == '[':
		return p.head()
	case letter(c):
		return p.setting(c)
	}
	return ErrFormat
}

// line passes over the rest of a line.
func (p *configReader) line() {
	for c, ok := p.next(); ok && c != '\n'; c, ok = p.next() {
	}
}

// head reads [section], [section.sub] or [section "sub"].
func (p *configReader) head() error {
	var name strings.Builder
	for {
		c, ok := p.next()
		switch {
		case !ok || c == '\n':
			return ErrFormat
		case c == ']':
			p.section, p.sub, _ = strings.Cut(strings.ToLower(name.String()), ".")
			return nil
		case c == ' ' || c == '\t':
			p.section = strings.ToLower(name.String())
			return p.quoted()
		case !letter(c) && !digit(c) && c != '-' && c != '.':
			return ErrFormat
		}
		name.WriteByte(c)
	}
}

// quoted reads the subsection up to the closing bracket.
func (p *configReader) quoted() error {
	c, ok := p.next()
	for ok && (c == ' ' || c == '\t') {
		c, ok = p.next()
	}
	if c != '"' {
		return ErrFormat
	}
	var sub strings.Builder
	for {
		c, ok := p.next()
		switch {
		case !ok || c == '\n':
			return ErrFormat
		case c == '"':
			p.sub = sub.String()
			if c, _ = p.next(); c != ']' {
				return ErrFormat
			}
			return nil
		case c == '\\':
			if c, ok = p.next(); !ok || c == '\n' {
				return ErrFormat
			}
		}
		sub.WriteByte(c)
	}
}

// setting reads a key and its value.
func (p *configReader) setting(first byte) error {
	if p.section == "" {
		return ErrFormat
	}
	key := []byte{first}
	c, ok := p.next()
	for ok && (letter(c) || digit(c) || c == '-') {
		key = append(key, c)
		c, ok = p.next()
	}
	for ok && (c == ' ' || c == '\t') {
		c, ok = p.next()
	}
	s := Setting{Section: p.section, Sub: p.sub, Key: strings.ToLower(string(key))}
	switch {
	case !ok || c == '\n': // a key alone is true
		s.Value = "true"
	case c == '#' || c == ';':
		s.Value = "true"
		p.line()
	case c == '=':
		var err error
		if s.Value, err = p.value(); err != nil {
			return err
		}
	default:
		return ErrFormat
	}
	p.out = append(p.out, s)
	return nil
}

// value reads up to the end of a line: quotes, escapes, comments, lines that go on.
func (p *configReader) value() (string, error) {
	var out []byte
	quote, keep := false, 0 // blanks at the end do not count unless they are quoted
	for {
		c, ok := p.next()
		switch {
		case !ok && quote, c == '\n' && quote:
			return "", ErrFormat
		case !ok || c == '\n':
			return string(out[:keep]), nil
		case c == 0:
			return "", ErrFormat
		case !quote && (c == '#' || c == ';'):
			p.line()
			return string(out[:keep]), nil
		case c == '"':
			quote = !quote
			keep = len(out)
		case c == '\\':
			e, err := p.escape()
			if err != nil {
				return "", err
			}
			out = append(out, e...)
			keep = len(out)
		case !quote && (c == ' ' || c == '\t'):
			if len(out) > 0 {
				out = append(out, c)
			}
		default:
			out = append(out, c)
			keep = len(out)
		}
	}
}

func (p *configReader) escape() (string, error) {
	c, ok := p.next()
	if !ok {
		return "", ErrFormat
	}
	switch c {
	case '\n':
		return "", nil
	case 't':
		return "\t", nil
	case 'b':
		return "\b", nil
	case 'n':
		return "\n", nil
	case '\\', '"':
		return string(c), nil
	}
	return "", ErrFormat
}

func letter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }
