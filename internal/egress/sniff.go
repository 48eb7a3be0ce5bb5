package egress

import (
	"bytes"
	"slices"
	"strings"
)

// speech is the kind of a client's first bytes, as far as they name a host: a server with many
// names chooses by it.
type speech int

const (
	unclear speech = iota // not known yet
	opaque                // neither of the others, so far
	secure                // TLS
	web                   // HTTP, or bytes that a lenient server could take for it
)

// classify looks at the first bytes that a client sent. Bytes that some lenient server reads as a
// request, whatever the method and whatever counts as a blank, are web. It must not wait for more
// bytes than other clients send: those begin with something that is no word, or send whole lines,
// or a NUL. So bytes that are opaque before their first line is complete may still become web; the
// tunnel goes on watching them.
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

// watch looks for a request in the first line with a visible character, while it is passed on.
type watch struct {
	whole bool   // the line is complete and no request
	seen  int    // bytes of the line from the first visible one
	tail  []byte // the last of these bytes
}

const (
	version = "HTTP/"
	maxLine = 4 << 20 // no server reads request lines this long
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

// isSSH reports whether a client speaks SSH, which does not name hosts.
func isSSH(b []byte) bool { return bytes.HasPrefix(b, []byte("SSH-2.0-")) }
