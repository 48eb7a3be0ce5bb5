package egress

import (
	"bytes"
	"slices"
	"strings"
)

// speech is what a client begins with, as far as it names a host: a server that
// has many names picks one by it.
type speech int

const (
	unclear speech = iota // not yet told
	opaque                // neither of the others, as far as it goes
	secure                // TLS
	web                   // HTTP, or something that a lenient server could take for it
)

// classify looks at the first bytes that a client sent. What some lenient server
// reads as a request, whatever its method and whatever it takes for blanks, is
// web. It must not wait for more bytes than clients of other kinds send: those
// begin with something that is no word, or send whole lines, or a NUL. So what is
// opaque before its first line is whole may turn out to be web yet; it is watched
// on its way.
func classify(b []byte) speech {
	if len(b) > 0 && b[0] == recordHandshake {
		switch {
		case len(b) == 1:
			return unclear
		case b[1] == recordMajor:
			return secure
		}
	}
	var w watch
	if w.sees(b) {
		return web
	}
	line, odd := firstLine(b)
	word := 0
	for word < len(line) && isToken(line[word]) {
		word++
	}
	method := slices.Contains(methods, string(line[:word]))
	switch {
	case method && isPlace(line[word:]):
		return web
	case w.whole:
		return opaque
	case odd:
		return opaque
	case word == len(line) || method:
		return unclear
	case word == 0 || !blank(line[word]) || bytes.IndexByte(line, 0) >= 0:
		return opaque
	}
	return unclear
}

// methods are those that a server may serve without a version in the line, Host
// and all.
var methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"}

// isPlace reports whether what follows a method is what methods are used on.
func isPlace(b []byte) bool {
	for len(b) > 0 && blank(b[0]) {
		b = b[1:]
	}
	return bytes.HasPrefix(b, []byte("/")) || len(b) >= 5 && bytes.EqualFold(b[:5], []byte("http:"))
}

// firstLine returns the first line that has anything that shows, from there on;
// odd says that a NUL came before it, or anything that is no blank.
func firstLine(b []byte) (line []byte, odd bool) {
	at := hidden(b)
	odd = slices.ContainsFunc(b[:at], func(c byte) bool { return c == 0 || !blank(c) })
	line, _, _ = bytes.Cut(b[at:], []byte("\n"))
	return line, odd
}

// hidden is how much of b comes before the first character that everybody sees.
func hidden(b []byte) int {
	for i, c := range b {
		if c > ' ' && c < 0x7f {
			return i
		}
	}
	return len(b)
}

// blank reports whether somebody takes a byte for space between words: as ASCII
// has it, as Latin-1 has it, or since it looks like nothing.
func blank(c byte) bool {
	switch c {
	case 0, '\t', '\n', '\v', '\f', '\r', 0x1c, 0x1d, 0x1e, 0x1f, ' ', 0x85, 0xa0:
		return true
	}
	return false
}

// watch looks for a request in the first line that has anything that shows, as it
// goes by.
type watch struct {
	whole bool   // the line is over, and is none
	seen  int    // bytes of it, from the first that shows
	tail  []byte // the last of them
}

const (
	version = "HTTP/"
	maxLine = 4 << 20 // no server reads requests of such lines
)

// sees takes the next bytes, and reports whether the line is a request.
func (w *watch) sees(b []byte) bool {
	if w.seen == 0 {
		b = b[hidden(b):]
	}
	line, _, ended := bytes.Cut(b, []byte("\n"))
	start := line[:min(len(line), len(version))]
	if w.whole || hasVersion(line) || hasVersion(append(w.tail, start...)) {
		return !w.whole
	}
	w.seen += len(line)
	w.tail = append(w.tail, line[max(0, len(line)-len(version)):]...)
	w.tail = bytes.Clone(w.tail[max(0, len(w.tail)-len(version)):])
	w.whole = ended || w.seen > maxLine
	return false
}

// hasVersion reports whether the version of HTTP is in b, however it is written.
func hasVersion(b []byte) bool {
	const last = len(version) - 1
	for at := 0; ; at++ {
		i := bytes.IndexByte(b[at:], version[last])
		if i < 0 {
			return false
		}
		if at += i; at >= last && bytes.EqualFold(b[at-last:at+1], []byte(version)) {
			return true
		}
	}
}

// isToken reports whether c can be part of a method or a field's name.
func isToken(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c != 0 && strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// isSSH reports whether a client speaks SSH, which knows no names of hosts.
func isSSH(b []byte) bool { return bytes.HasPrefix(b, []byte("SSH-2.0-")) }
