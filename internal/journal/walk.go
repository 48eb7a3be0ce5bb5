package journal

import (
	"errors"
	"strconv"
	"unicode/utf8"

	"palyra/internal/canon"
)

// Verification looks at every entry, so it walks the canonical bytes in place
// instead of decoding them. The walk accepts exactly what canon.Decode accepts.

// fields are the parts of an entry, as they stand in its bytes.
type fields struct {
	seq              int64
	kind, call, time []byte
	body             []byte // canonical bytes of the body
}

var (
	errShape = errors.New("not a journal entry: other fields than body, call_id, kind, seq, time")
	errForm  = errors.New("not in canonical form")
)

// parseEntry walks an entry and returns its parts.
func parseEntry(b []byte) (fields, error) {
	w := walker{b: b}
	var f fields
	if !w.tag('m') {
		return f, errShape
	}
	n, ok := w.count()
	if !ok || (n != 4 && n != 5) {
		return f, errShape
	}
	if !w.key("body") {
		return f, errShape
	}
	start := w.i
	if start >= len(b) || b[start] != 'm' {
		return f, errShape
	}
	if !w.value(1) {
		return f, errForm
	}
	f.body = b[start:w.i]
	if n == 5 && (!w.key("call_id") || !w.text('s', &f.call) || len(f.call) == 0) {
		return f, errShape
	}
	var seq []byte
	if !w.key("kind") || !w.text('s', &f.kind) || !w.key("seq") || !w.text('n', &seq) ||
		!w.key("time") || !w.text('s', &f.time) || w.i != len(b) {
		return f, errShape
	}
	var err error
	if f.seq, err = strconv.ParseInt(string(seq), 10, 64); err != nil || !normal(seq) {
		return f, errShape
	}
	return f, nil
}

// walker is a place in canonical bytes.
type walker struct {
	b []byte
	i int
}

func (w *walker) tag(t byte) bool {
	if w.i >= len(w.b) || w.b[w.i] != t {
		return false
	}
	w.i++
	return true
}

// count reads a minimal decimal and its colon.
func (w *walker) count() (int, bool) {
	start, n := w.i, 0
	for w.i < len(w.b) && w.b[w.i] >= '0' && w.b[w.i] <= '9' {
		if n = n*10 + int(w.b[w.i]-'0'); n > len(w.b) {
			return 0, false
		}
		w.i++
	}
	if w.i == start || (w.b[start] == '0' && w.i > start+1) {
		return 0, false
	}
	return n, w.tag(':')
}

// text reads a string or number and gives its bytes.
func (w *walker) text(tag byte, to *[]byte) bool {
	if !w.tag(tag) {
		return false
	}
	n, ok := w.count()
	if !ok || w.i+n > len(w.b) {
		return false
	}
	*to = w.b[w.i : w.i+n]
	w.i += n
	return tag != 's' || utf8.Valid(*to)
}

// key reads one given key.
func (w *walker) key(name string) bool {
	var got []byte
	return w.text('s', &got) && string(got) == name
}

// value walks one value of any kind.
func (w *walker) value(depth int) bool {
	if depth > canon.MaxDepth || w.i >= len(w.b) {
		return false
	}
	var s []byte
	switch w.b[w.i] {
	case 'z', 't', 'f':
		w.i++
		return true
	case 'n':
		return w.text('n', &s) && normal(s)
	case 's':
		return w.text('s', &s)
	case 'l':
		return w.list(depth)
	case 'm':
		return w.pairs(depth)
	}
	return false
}

func (w *walker) list(depth int) bool {
	w.i++
	n, ok := w.count()
	for ; ok && n > 0; n-- {
		ok = w.value(depth + 1)
	}
	return ok
}

func (w *walker) pairs(depth int) bool {
	w.i++
	n, ok := w.count()
	var last []byte
	for i := 0; ok && i < n; i++ {
		var k []byte
		ok = w.text('s', &k) && (i == 0 || string(k) > string(last)) && w.value(depth+1)
		last = k
	}
	return ok
}

// normal reports whether a number is in canon's one form. Whole numbers of up
// to 21 digits are seen at a glance; canon itself judges the rest.
func normal(s []byte) bool {
	digits := s
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > 21 || digits[0] == '0' {
		return judged(s)
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return judged(s)
		}
	}
	return true
}

func judged(s []byte) bool {
	if len(s) == 1 && s[0] == '0' {
		return true
	}
	_, err := canon.Decode(appendText(nil, 'n', string(s)))
	return err == nil
}
