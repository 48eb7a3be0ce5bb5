package dotenv

import (
	"bytes"

	"palyra/internal/pattern"
)

// span is a value in a text, without its quotes.
type span struct {
	from, to int
	name     string // of its variable; empty: it stands in a comment
	always   bool   // it is masked however short it is: a part of something longer
	as       string // what takes its place
}

// reader reads a text line by line.
type reader struct {
	text []byte
	at   int
	out  []span
	open bool // a line that is a word alone would go on with what stands before it: a value that is empty so far, or such a line
}

var bom = []byte("\xef\xbb\xbf")

// The beginnings of lines. Names are those of shells, with dots and hyphens.
var (
	assigns = pattern.Later(`^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)(?:[ \t]*=|:[ \t])[ \t]*`)
	exports = pattern.Later(`^[ \t]*export[ \t]+([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*$`)
	bare    = pattern.Later(`^([A-Za-z_][A-Za-z0-9_]*)[ \t]*$`)
	blank   = pattern.Later(`^[ \t]*$`)
	// Assignments that somebody took out are assignments.
	commented = pattern.Later(`^[ \t#]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_.-]*)[ \t]*=[ \t]*`)
	word      = pattern.Later(`[^ \t]+`)
	remark    = pattern.Later(`[ \t]#`)
	// Names as most files have them: what is encoded has no such underscores, or has small letters too.
	screaming = pattern.Later(`^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$`)
	// Values that say what they are beside a remark.
	switches = pattern.Later(`^(?i:true|false|yes|no|on|off)$`)
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
	if m := assigns().FindSubmatchIndex(line); m != nil {
		if encoded(line[m[2]:m[3]], line[m[3]:]) {
			return begin, false
		}
		return r.value(string(line[m[2]:m[3]]), begin+m[1])
	}
	r.at = next
	trimmed := bytes.TrimLeft(line, " \t")
	switch {
	case blank().Match(line):
		return 0, true
	case len(trimmed) > 0 && trimmed[0] == '#':
		return begin, r.comment(end-len(trimmed), end)
	}
	if m := exports().FindSubmatch(line); m != nil {
		return begin, isName(m[1])
	}
	if m := bare().FindSubmatch(line); m != nil && isName(m[1]) && !r.open {
		r.open = true
		return 0, true
	}
	return begin, false
}

// isName reports whether a word that stands alone can be nothing but a name.
func isName(w []byte) bool { return len(w) < MinSecret || whole(string(w)) }

// encoded reports whether a name with the rest of its line is rather a secret, with the signs that fill it up at its end.
func encoded(name, rest []byte) bool {
	more := bytes.TrimLeft(rest, "=: \t")
	return (len(more) == 0 || more[0] == '#') && looksSecret(name) && (bytes.Contains(rest, []byte("==")) || !screaming().Match(name))
}

// value reads the value of a variable, which begins at a byte.
func (r *reader) value(name string, from int) (cut int, ok bool) {
	r.open = false
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
			return from, len(rest) == 0 || r.remark(name, from, end-len(rest), end)
		}
		// Something follows the quotes: shells put it together, others read it otherwise.
		r.out = append(r.out, span{from: from, to: trimRight(r.text, from, end), name: name})
		r.at = next
		return from, r.text[end-1] != '\\'
	}
	to, at := end, -1
	if m := remark().FindIndex(r.text[max(from-1, 0):end]); m != nil && from > 0 {
		at = max(from-1, 0) + m[0] + 1
		to = max(from, at)
	}
	to = trimRight(r.text, from, to)
	if end > from && r.text[end-1] == '\\' { // to some it goes on in the next line
		return from, false
	}
	r.out = append(r.out, span{from: from, to: to, name: name})
	r.at, r.open = next, to == from
	if at >= 0 {
		return from, r.remark(name, from, at, end)
	}
	return 0, true
}

// remark reads what stands behind a value, from a # on. To some that is a part of the value: where both are as long as a secret it is
// masked, unless it is words about something that is none.
func (r *reader) remark(name string, value, from, to int) bool {
	text := r.text[from:to]
	if !oneLine(text) {
		return false
	}
	told := string(bytes.Trim(r.text[value:trimRight(r.text, value, from)], "'\"`"))
	words := len(text) < 2 || text[1] == ' ' || text[1] == '\t' || text[1] == '#'
	if trimRight(r.text, from, to)-value < MinSecret || words && (len(told) >= MinSecret || told == "" || number().MatchString(told) ||
		switches().MatchString(told)) {
		return r.comment(from, to)
	}
	for from++; from < to && (r.text[from] == ' ' || r.text[from] == '\t'); {
		from++
	}
	r.out = append(r.out, span{from: from, to: trimRight(r.text, from, to), name: name, always: true})
	return true
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
	if m := commented().FindSubmatchIndex(text); m != nil && !encoded(text[m[2]:m[3]], text[m[3]:]) {
		end := trimRight(r.text, from+m[1], to)
		begin := from + m[1]
		if n := end - begin; n >= 2 && r.text[begin] == r.text[end-1] && bytes.IndexByte([]byte("'\"`"), r.text[begin]) >= 0 {
			begin, end = begin+1, end-1
		}
		r.out = append(r.out, span{from: begin, to: end, name: string(text[m[2]:m[3]])})
		return true
	}
	for _, m := range word().FindAllIndex(text, -1) {
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

var credentials = pattern.Later(`^[a-z][a-z0-9+.-]*://[^/]*@`)

// looksSecret reports whether a word of a comment is no word: letters and digits together, and no address without a password.
func looksSecret(w []byte) bool {
	if len(w) < minToken || placeholder().Match(w) {
		return false
	}
	if bytes.Contains(w, []byte("://")) {
		return credentials().Match(bytes.ToLower(w))
	}
	return bytes.ContainsAny(w, "0123456789") && bytes.ContainsAny(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
}
