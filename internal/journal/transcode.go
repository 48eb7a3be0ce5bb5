package journal

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"palyra/internal/canon"
)

// Every append turns an event's JSON into canonical bytes, inside the gate's transaction while others wait.
// canon.FromJSON takes JSON as anyone may write it; this takes it as encoding/json writes it, in one pass,
// and leaves unusual JSON (white space, surrogates, repeated keys, fractions) to canon. Where it answers, its
// answer is canon's.

// fromJSON returns the canonical bytes of a JSON text.
func fromJSON(raw []byte) ([]byte, error) {
	if utf8.Valid(raw) {
		t := transcoders.Get().(*transcoder)
		defer transcoders.Put(t)
		t.in, t.i, t.out, t.pairs = raw, 0, make([]byte, 0, len(raw)+len(raw)/4), t.pairs[:0]
		whole := t.value(0) && t.i == len(raw)
		out := t.out
		if t.in, t.out = nil, nil; whole {
			return out, nil
		}
	}
	return canon.FromJSON(raw)
}

// transcoders keeps scratch space; what it held is overwritten by the next use.
var transcoders = sync.Pool{New: func() any { return new(transcoder) }}

type transcoder struct {
	in  []byte
	i   int
	out []byte

	pairs []pair // of the objects that are open
	spare []byte
}

// pair is a key and its value in out, and the key's text.
type pair struct{ start, key, keyEnd, end int }

func (t *transcoder) peek() byte {
	if t.i < len(t.in) {
		return t.in[t.i]
	}
	return 0
}

func (t *transcoder) take(c byte) bool {
	if t.peek() != c {
		return false
	}
	t.i++
	return true
}

func (t *transcoder) value(depth int) bool {
	if depth > canon.MaxDepth {
		return false
	}
	switch t.peek() {
	case '{':
		return t.object(depth)
	case '[':
		return t.list(depth)
	case '"':
		_, ok := t.text()
		return ok
	case 't':
		return t.word("true", 't')
	case 'f':
		return t.word("false", 'f')
	case 'n':
		return t.word("null", 'z')
	}
	return t.number()
}

func (t *transcoder) word(word string, tag byte) bool {
	if !strings.HasPrefix(string(t.in[t.i:min(t.i+len(word), len(t.in))]), word) {
		return false
	}
	t.i += len(word)
	t.out = append(t.out, tag)
	return true
}

func (t *transcoder) number() bool {
	start := t.i
	for c := t.peek(); c == '-' || (c >= '0' && c <= '9'); c = t.peek() {
		t.i++
	}
	s := t.in[start:t.i]
	if c := t.peek(); c == '.' || c == 'e' || c == 'E' || len(s) == 0 || !normal(s) {
		return false
	}
	t.out = appendText(t.out, 'n', string(s))
	return true
}

// text writes a string and returns where its bytes begin.
func (t *transcoder) text() (at int, ok bool) {
	if !t.take('"') {
		return 0, false
	}
	start := t.i
	for c := t.peek(); c != '"' && c != '\\'; c = t.peek() {
		if c < 0x20 {
			return 0, false
		}
		t.i++
	}
	if t.take('"') {
		s := t.in[start : t.i-1]
		t.out = appendCount(t.out, 's', len(s))
		t.out = append(t.out, s...)
		return len(t.out) - len(s), true
	}
	return t.escaped(start)
}

// escaped goes on with a string in which an escape was met.
func (t *transcoder) escaped(start int) (at int, ok bool) {
	s := append([]byte(nil), t.in[start:t.i]...)
	for {
		c := t.peek()
		t.i++
		switch {
		case c == '"':
			t.out = appendCount(t.out, 's', len(s))
			t.out = append(t.out, s...)
			return len(t.out) - len(s), true
		case c < 0x20:
			return 0, false
		case c != '\\':
			s = append(s, c)
		default:
			r, ok := t.escape()
			if !ok {
				return 0, false
			}
			s = utf8.AppendRune(s, r)
		}
	}
}

var plainEscapes = map[byte]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape reads what follows a backslash.
func (t *transcoder) escape() (rune, bool) {
	c := t.peek()
	t.i++
	if c != 'u' {
		r, ok := plainEscapes[c]
		return r, ok
	}
	var r rune
	for range 4 {
		c := t.peek()
		t.i++
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		default: // canon reads the other spellings
			return 0, false
		}
	}
	return r, r < 0xD800 || r > 0xDFFF
}

func (t *transcoder) list(depth int) bool {
	t.i++
	start, n := len(t.out), 0
	if !t.take(']') {
		for {
			if !t.value(depth + 1) {
				return false
			}
			n++
			if t.take(']') {
				break
			}
			if !t.take(',') {
				return false
			}
		}
	}
	t.spare = append(t.spare[:0], t.out[start:]...)
	t.out = append(appendCount(t.out[:start], 'l', n), t.spare...)
	return true
}

func (t *transcoder) object(depth int) bool {
	t.i++
	start, base := len(t.out), len(t.pairs)
	if !t.take('}') && !t.members(depth) {
		return false
	}
	pairs := t.pairs[base:]
	t.pairs = t.pairs[:base]
	t.spare = append(t.spare[:0], t.out[start:]...)
	key := func(p pair) []byte { return t.spare[p.key-start : p.keyEnd-start] }
	slices.SortFunc(pairs, func(a, b pair) int { return bytes.Compare(key(a), key(b)) })
	t.out = appendCount(t.out[:start], 'm', len(pairs))
	for i, p := range pairs {
		if i > 0 && bytes.Equal(key(p), key(pairs[i-1])) {
			return false
		}
		t.out = append(t.out, t.spare[p.start-start:p.end-start]...)
	}
	return true
}

func (t *transcoder) members(depth int) bool {
	for {
		p := pair{start: len(t.out)}
		var ok bool
		if p.key, ok = t.text(); !ok || !t.take(':') {
			return false
		}
		p.keyEnd = len(t.out)
		if !t.value(depth + 1) {
			return false
		}
		p.end = len(t.out)
		t.pairs = append(t.pairs, p)
		if t.take('}') {
			return true
		}
		if !t.take(',') {
			return false
		}
	}
}

// lookup returns a string member of canonical bytes, empty when there is none.
func lookup(b []byte, name string) string {
	w := walker{b: b}
	if !w.tag('m') {
		return ""
	}
	n, ok := w.count()
	for ; ok && n > 0; n-- {
		var k, s []byte
		if !w.text('s', &k) {
			return ""
		}
		if string(k) == name {
			if !w.text('s', &s) {
				return ""
			}
			return string(s)
		}
		ok = w.value(1)
	}
	return ""
}
