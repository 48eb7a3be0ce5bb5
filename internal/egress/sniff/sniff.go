// Package sniff reads the first bytes of a connection as far as they name a host: a TLS ClientHello, the head of an
// HTTP request.
//
// Promises. Bytes are read so strictly that no two readers can understand them differently, and within bounds. What some
// lenient server could take for a request is one.
//
// It decides nothing, and reads no connection itself: it is given what came so far.
package sniff

import (
	"bytes"
	"slices"
	"strings"
)

// The size of a buffer, which bounds the bytes that are checked before anything is passed on (a request's head, a
// ClientHello), and the bytes of a host's name.
const (
	Most    = 32 << 10
	MaxName = 253
)

// Speech is the kind of a client's first bytes, as far as they name a host: a server with many names chooses by it.
type Speech int

// The kinds.
const (
	Unclear Speech = iota // not known yet
	Opaque                // neither of the others, so far
	Secure                // TLS
	Web                   // HTTP, or bytes that a lenient server could take for it
)

// Classify looks at the first bytes that a client sent. Bytes that some lenient server reads as a request, whatever
// the method and whatever counts as a blank, are web. It must not wait for more bytes than other clients send:
// those begin with something that is no word, or send whole lines, or a NUL. So bytes that are Opaque before their
// first line is complete may still become web; the tunnel goes on watching them.
func Classify(b []byte) Speech {
	if len(b) > 0 && b[0] == RecordHandshake {
		switch {
		case len(b) == 1:
			return Unclear
		case b[1] == RecordMajor:
			return Secure
		}
	}
	var w Watch
	if w.Sees(b) {
		return Web
	}
	line, odd := firstLine(b)
	word := 0
	for word < len(line) && isToken(line[word]) {
		word++
	}
	method := slices.Contains(methods, string(line[:word]))
	switch {
	case method && isPlace(line[word:]):
		return Web
	case w.Whole:
		return Opaque
	case odd:
		return Opaque
	case word == len(line) || method:
		return Unclear
	case word == 0 || !blank(line[word]) || bytes.IndexByte(line, 0) >= 0:
		return Opaque
	}
	return Unclear
}

// methods are those that a server may serve without a version in the line, with a Host field all the same.
var methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"}

// isPlace reports whether b, which follows a method, looks like a request's target.
func isPlace(b []byte) bool {
	for len(b) > 0 && blank(b[0]) {
		b = b[1:]
	}
	return bytes.HasPrefix(b, []byte("/")) || len(b) >= 5 && bytes.EqualFold(b[:5], []byte("http:"))
}

// firstLine returns the first line with a visible character, from that on; odd means that a NUL, or
// another byte that is no blank, came before it.
func firstLine(b []byte) (line []byte, odd bool) {
	at := hidden(b)
	odd = slices.ContainsFunc(b[:at], func(c byte) bool { return c == 0 || !blank(c) })
	line, _, _ = bytes.Cut(b[at:], []byte("\n"))
	return line, odd
}

// hidden is the number of bytes before the first visible character.
func hidden(b []byte) int {
	for i, c := range b {
		if c > ' ' && c < 0x7f {
			return i
		}
	}
	return len(b)
}

// blank reports whether any server takes a byte for space between words: by ASCII, by Latin-1, or
// because it is invisible.
func blank(c byte) bool {
	switch c {
	case 0, '\t', '\n', '\v', '\f', '\r', 0x1c, 0x1d, 0x1e, 0x1f, ' ', 0x85, 0xa0:
		return true
	}
	return false
}

// Watch looks for a request in the first line with a visible character, while it is passed on.
type Watch struct {
	Whole bool   // the line is complete and no request
	seen  int    // bytes of the line from the first visible one
	tail  []byte // the last of these bytes
}

const (
	version = "HTTP/"
	maxLine = 4 << 20 // no server reads request lines this long
)

// Sees takes the next bytes, and reports whether the line is a request.
func (w *Watch) Sees(b []byte) bool {
	if w.seen == 0 {
		b = b[hidden(b):]
	}
	line, _, ended := bytes.Cut(b, []byte("\n"))
	start := line[:min(len(line), len(version))]
	if w.Whole || hasVersion(line) || hasVersion(append(w.tail, start...)) {
		return !w.Whole
	}
	w.seen += len(line)
	w.tail = append(w.tail, line[max(0, len(line)-len(version)):]...)
	w.tail = bytes.Clone(w.tail[max(0, len(w.tail)-len(version)):])
	w.Whole = ended || w.seen > maxLine
	return false
}

// hasVersion reports whether b contains a version of HTTP, in upper or lower case.
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

// IsSSH reports whether a client speaks SSH, which does not name hosts.
func IsSSH(b []byte) bool { return bytes.HasPrefix(b, []byte("SSH-2.0-")) }
