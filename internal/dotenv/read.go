package dotenv

import (
	"bytes"
	"regexp"
)

// span is a value in a text, without its quotes.
type span struct {
	from, to int
	name     string // of its variable; empty: it stands in a comment
	as       string // what takes its place
}

// reader reads a text line by line.
type reader struct {
	text []byte
	at   int
	out  []span
}

var bom = []byte("\xef\xbb\xbf")

// The beginnings of lines. Names are those of shells, with dots and hyphens.
var (
	assigns = regexp.MustCompile(`^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)(?:[ \t]*=|:[ \t])[ \t]*`)
	exports = regexp.MustCompile(`^[ \t]*export[ \t]+[A-Za-z_][A-Za-z0-9_.-]*[ \t]*$`)
	bare    = regexp.MustCompile(`^[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*$`)
	blank   = regexp.MustCompile(`^[ \t]*$`)
	// Assignments that somebody took out are assignments.
	commented = regexp.MustCompile(`^[ \t#]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*`)
	word      = regexp.MustCompile(`[^ \t]+`)
	remark    = regexp.MustCompile(`[ \t]#`)
)

// read finds the values of a file in the order in which they stand. From cut on it cannot be read; len(text): all of it can.
func read(text []byte) (values []span, cut int) {
	r := reader{text: text}
	if bytes.HasPrefix(text, bom) {
		r.at = len(bom)
	}
	for r.at < len(text) {
		if cut, ok := r.line(); !ok {
			return r.out, cut
		}
	}
	return r.out, len(text)
}

// end is where the line of the byte at i ends: its end itself, without a carriage return before it, and where the next begins.
func (r *reader) end(i int) (end, next int) {
	n := bytes.IndexByte(r.text[i:], '\n')
	if n < 0 {
		end, next = len(r.text), len(r.text)
	} else {
		end, next = i+n, i+n+1
	}
	if end > i && r.text[end-1] == '\r' {
		end--
	}
	return end, next
}

// line reads a line, with those that its value goes on in. False: it cannot be read from cut on.
func (r *reader) line() (cut int, ok bool) {
	begin := r.at
	end, next := r.end(begin)
	line := r.text[begin:end]
	if m := assigns.FindSubmatchIndex(line); m != nil {
		return r.value(string(line[m[2]:m[3]]), begin+m[1])
	}
	r.at = next
	trimmed := bytes.TrimLeft(line, " \t")
	switch {
	case blank.Match(line), exports.Match(line):
		return 0, true
	case len(trimmed) > 0 && trimmed[0] == '#':
		return begin, r.comment(end-len(trimmed), end)
	}
	if m := bare.FindSubmatch(line); m != nil && (len(m[1]) < MinSecret || whole(string(m[1]))) {
		return 0, true
	}
	return begin, false
}

// value reads the value of a variable, which begins at a byte.
func (r *reader) value(name string, from int) (cut int, ok bool) {
	end, next := r.end(from)
	if from < end && bytes.IndexByte([]byte("'\"`"), r.text[from]) >= 0 {
		closed := r.closing(from)
		if closed < 0 {
			return from, false
		}
		end, next = r.end(closed)
		rest := bytes.TrimLeft(r.text[closed+1:end], " \t")
		if len(rest) == 0 || rest[0] == '#' && len(rest) < end-closed-1 {
			r.out = append(r.out, span{from: from + 1, to: closed, name: name})
			r.at = next
			return from, len(rest) == 0 || r.comment(end-len(rest), end)
		}
		// Something follows the quotes: shells put it together, others read it otherwise.
		r.out = append(r.out, span{from: from, to: trimRight(r.text, from, end), name: name})
		r.at = next
		return 0, true
	}
	to, at := end, -1
	if m := remark.FindIndex(r.text[max(from-1, 0):end]); m != nil && from > 0 {
		at = max(from-1, 0) + m[0] + 1
		to = max(from, at)
	}
	to = trimRight(r.text, from, to)
	r.out = append(r.out, span{from: from, to: to, name: name})
	r.at = next
	if at >= 0 {
		return from, r.comment(at, end)
	}
	return 0, true
}

// closing is where the quotes end that begin at a byte; -1: nowhere.
func (r *reader) closing(from int) int {
	quote := r.text[from]
	for i := from + 1; i < len(r.text); i++ {
		switch {
		case r.text[i] == '\\' && quote == '"':
			i++
		case r.text[i] == quote:
			return i
		}
	}
	return -1
}

// trimRight is the end of text[from:to] without blanks.
func trimRight(text []byte, from, to int) int {
	for to > from && (text[to-1] == ' ' || text[to-1] == '\t') {
		to--
	}
	return to
}

// comment reads a comment. False: to some it could be more than that.
func (r *reader) comment(from, to int) bool {
	text := r.text[from:to]
	if !oneLine(text) {
		return false
	}
	if m := commented.FindSubmatchIndex(text); m != nil {
		end := trimRight(r.text, from+m[1], to)
		begin := from + m[1]
		if n := end - begin; n >= 2 && r.text[begin] == r.text[end-1] && bytes.IndexByte([]byte("'\"`"), r.text[begin]) >= 0 {
			begin, end = begin+1, end-1
		}
		r.out = append(r.out, span{from: begin, to: end, name: string(text[m[2]:m[3]])})
		return true
	}
	for _, m := range word.FindAllIndex(text, -1) {
		for m[0] < m[1] && text[m[0]] == '#' {
			m[0]++
		}
		if looksSecret(text[m[0]:m[1]]) {
			r.out = append(r.out, span{from: from + m[0], to: from + m[1]})
		}
	}
	return true
}

// oneLine reports whether nobody takes a text for more than one line.
func oneLine(text []byte) bool {
	for _, b := range text {
		if b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	for _, s := range []string{"\u0085", "\u2028", "\u2029"} {
		if bytes.Contains(text, []byte(s)) {
			return false
		}
	}
	return true
}

// minToken is how long a word of a comment is that is taken for a secret.
const minToken = 16

var credentials = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[^/]*@`)

// looksSecret reports whether a word of a comment is no word: letters and digits together, and no address without a password.
func looksSecret(w []byte) bool {
	if len(w) < minToken || placeholder.Match(w) {
		return false
	}
	if bytes.Contains(w, []byte("://")) {
		return credentials.Match(bytes.ToLower(w))
	}
	return bytes.ContainsAny(w, "0123456789") && bytes.ContainsAny(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
}
