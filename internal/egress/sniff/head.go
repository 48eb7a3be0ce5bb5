package sniff

import (
	"bytes"
	"net/http"
	"strings"

	"palyra"
)

// The most fields of a head, and bytes of a method.
const (
	MaxFields = 256
	maxMethod = 32
)

// Head is the head of a request, read so strictly that no two readers can understand it differently.
type Head struct {
	Method, Target string
	Minor          byte // of HTTP/1
	Fields         []Field
}

// Field is a line of a head.
type Field struct {
	Name  string // lower-case
	Value string
	Line  string // as received, without space around the value
}

// BadHead is the fault of a head.
type BadHead string

// Error implements error.
func (b BadHead) Error() string { return string(b) }

// HeadSize returns the size of the head at the beginning of b, including the empty line, or
// ErrMore. Lines end in CR LF and nothing else.
func HeadSize(b []byte) (int, error) {
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], '\n')
		switch {
		case i < 0:
			return 0, ErrMore
		case i == 0 || b[at+i-1] != '\r':
			return 0, BadHead("a line does not end in CR LF")
		case i == 1 && at == 0:
			return 0, BadHead("it begins with an empty line")
		case i == 1:
			return at + 2, nil
		}
		at += i + 1
	}
}

// GoodStart checks the first line as soon as it is complete, so that nothing is waited for after a
// line that is no request.
func GoodStart(b []byte) error {
	line, _, whole := bytes.Cut(b, []byte("\r\n"))
	if !whole {
		return nil
	}
	_, err := parseRequestLine(string(line))
	return err
}

// ParseHead reads a whole head.
func ParseHead(b []byte) (Head, error) {
	lines := strings.Split(strings.TrimSuffix(string(b), "\r\n\r\n"), "\r\n")
	if len(lines) > MaxFields+1 {
		return Head{}, BadHead("it has too many fields")
	}
	h, err := parseRequestLine(lines[0])
	if err != nil {
		return Head{}, err
	}
	for _, l := range lines[1:] {
		f, err := parseField(l)
		if err != nil {
			return Head{}, err
		}
		h.Fields = append(h.Fields, f)
	}
	return h, h.framed()
}

func parseRequestLine(l string) (Head, error) {
	parts := strings.Split(l, " ")
	if len(parts) != 3 {
		return Head{}, BadHead("the request line is not method, target and version")
	}
	h := Head{Method: parts[0], Target: parts[1]}
	switch parts[2] {
	case "HTTP/1.1":
		h.Minor = 1
	case "HTTP/1.0":
	default:
		return Head{}, BadHead("only HTTP/1.0 and HTTP/1.1 are understood here")
	}
	for i := range len(h.Method) {
		if !isToken(h.Method[i]) {
			return Head{}, BadHead("the method is not a word")
		}
	}
	for i := range len(h.Target) {
		if c := h.Target[i]; c <= ' ' || c >= 0x7f || c == '#' || c == '\\' {
			return Head{}, BadHead("the target has a character that URLs do not have")
		}
	}
	if h.Method == "" || len(h.Method) > maxMethod || h.Target == "" {
		return Head{}, BadHead("the request line is not method, target and version")
	}
	return h, h.meant()
}

// echoes are methods for testing proxies and servers. Their answers repeat the request, with
// everything that was added to it on the way.
var echoes = []string{"TRACE", "TRACK", "DEBUG"}

// meant refuses methods that are never passed on, in any spelling: servers differ in whether capitals matter.
func (h Head) meant() error {
	for _, m := range echoes {
		if strings.EqualFold(h.Method, m) {
			return palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied,
				"%s is not passed on: it gives back what was sent, and what was added on the way", m).
				WithRemedy("use GET or another method for data")
		}
	}
	if h.Method != http.MethodConnect && strings.EqualFold(h.Method, http.MethodConnect) {
		return BadHead("CONNECT is written in capitals")
	}
	return nil
}

func parseField(l string) (Field, error) {
	name, value, ok := strings.Cut(l, ":")
	if !ok || name == "" {
		return Field{}, BadHead("a line is not a field")
	}
	for i := range len(name) {
		if !isToken(name[i]) { // a space: folded, or before the colon
			return Field{}, BadHead("a field's name is not a word")
		}
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return Field{}, BadHead("a field has a control character")
		}
	}
	value = strings.Trim(value, " \t")
	return Field{strings.ToLower(name), value, name + ": " + value}, nil
}

// framed refuses heads that do not say clearly where their body ends, or which host they are for.
func (h Head) framed() error {
	_, hosts := h.Get("host")
	length, lengths := h.Get("content-length")
	coding, codings := h.Get("transfer-encoding")
	switch {
	case hosts > 1 || hosts == 0 && h.Minor == 1:
		return BadHead("it must have one Host field")
	case lengths+codings > 1:
		return BadHead("it says more than once how long its body is")
	case lengths == 1 && (length == "" || len(length) > 18 || strings.Trim(length, "0123456789") != ""):
		return BadHead("Content-Length is not a number")
	case codings == 1 && (h.Minor == 0 || !strings.EqualFold(coding, "chunked")):
		return BadHead("the only Transfer-Encoding understood here is chunked")
	}
	return nil
}

// Get returns the last value of a field, and how many there are.
func (h Head) Get(name string) (value string, n int) {
	for _, f := range h.Fields {
		if f.Name == name {
			value, n = f.Value, n+1
		}
	}
	return value, n
}

// Tokens returns the words of a field that is a list, in lower case.
func (h Head) Tokens(name string) []string {
	var out []string
	for _, f := range h.Fields {
		if f.Name == name {
			for w := range strings.SplitSeq(strings.ToLower(f.Value), ",") {
				out = append(out, strings.Trim(w, " \t"))
			}
		}
	}
	return out
}

// Authority splits an absolute target into the authority and the target for the server:
// "http://host:port/path" → "host:port", "/path".
func (h Head) Authority() (host, rest string, err error) {
	const scheme = "http://"
	if len(h.Target) < len(scheme) || !strings.EqualFold(h.Target[:len(scheme)], scheme) {
		return "", "", BadHead("the target is not an http URL; for https the proxy wants CONNECT")
	}
	after := h.Target[len(scheme):]
	end := strings.IndexAny(after, "/?")
	if end < 0 {
		end = len(after)
	}
	host, rest = after[:end], after[end:]
	switch {
	case rest == "" && h.Method == "OPTIONS":
		rest = "*"
	case !strings.HasPrefix(rest, "/"):
		rest = "/" + rest
	}
	return host, rest, nil
}
