package egress

import (
	"bytes"
	"strings"
)

// speech is what a client begins with, as far as it names a host: a server that
// has many names picks one by it.
type speech int

const (
	unclear speech = iota // not yet told
	opaque                // neither of the others
	secure                // TLS
	web                   // HTTP, or something that a lenient server could take for it
)

// classify looks at the first bytes that a client sent. It must not take for
// opaque what some lenient server reads as a request, whatever its method, and
// must not wait for more bytes than clients of other kinds send: those begin
// with something that is no word, or send whole lines, or a NUL.
func classify(b []byte) speech {
	if len(b) > 0 && b[0] == recordHandshake {
		switch {
		case len(b) == 1:
			return unclear
		case b[1] == recordMajor:
			return secure
		}
		return opaque
	}
	b = bytes.TrimLeft(b, "\r\n\t ")
	if len(b) == 0 {
		return unclear
	}
	word := 0
	for word < len(b) && isToken(b[word]) {
		word++
	}
	switch {
	case word == 0:
		return opaque
	case word == len(b):
		return unclear
	case b[word] != ' ' && b[word] != '\t':
		return opaque
	}
	return classifyLine(b[word:])
}

// classifyLine looks at what follows the first word.
func classifyLine(b []byte) speech {
	end := bytes.IndexByte(b, '\n')
	line := b
	if end >= 0 {
		line = b[:end]
	}
	switch {
	case bytes.IndexByte(line, 0) >= 0:
		return opaque
	case end < 0:
		return unclear
	case strings.Contains(strings.ToUpper(string(line)), "HTTP/"):
		return web
	}
	return opaque
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
