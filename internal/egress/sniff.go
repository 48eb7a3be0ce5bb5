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
	for i, c := range b {
		if shows(c) {
			line, _, _ = bytes.Cut(b[i:], []byte("\n"))
			return line, odd
		}
		odd = odd || c == 0 || !blank(c)
	}
	return nil, odd
}

// shows reports whether a byte is a visible character to everybody.
func shows(c byte) bool { return c > ' ' && c < 0x7f }

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
	whole bool // the line is over, and is none
	text  bool // it has something that shows
	found int  // bytes of version that were just seen
}

const version = "HTTP/"

// sees takes the next bytes, and reports whether the line is a request.
func (w *watch) sees(b []byte) bool {
	for _, c := range b {
		if c == '\n' {
			if w.whole = w.text; w.whole {
				return false
			}
		}
		w.text = w.text || shows(c)
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		switch c {
		case version[w.found]:
			w.found++
		case version[0]:
			w.found = 1
		default:
			w.found = 0
		}
		if w.found == len(version) {
			return true
		}
	}
	return false
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
