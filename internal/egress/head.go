package egress

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"palyra"
)

// The most fields of a head, and bytes of a method.
const (
	maxFields = 256
	maxMethod = 32
)

// head is the head of a request, read so strictly that no two readers can
// understand it differently.
type head struct {
	method, target string
	minor          byte // of HTTP/1
	fields         []field
}

type field struct {
	name  string // lower-case
	value string
	line  string // as received, without space around the value
}

// badHead is the fault of a head.
type badHead string

// Error implements error.
func (b badHead) Error() string { return string(b) }

// headSize returns the size of the head at the beginning of b, including the empty line, or
// errMore. Lines end in CR LF and nothing else.
func headSize(b []byte) (int, error) {
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], '\n')
		switch {
		case i < 0:
			return 0, errMore
		case i == 0 || b[at+i-1] != '\r':
			return 0, badHead("a line does not end in CR LF")
		case i == 1 && at == 0:
			return 0, badHead("it begins with an empty line")
		case i == 1:
			return at + 2, nil
		}
		at += i + 1
	}
}

// goodStart checks the first line as soon as it is complete, so that nothing is waited for after a
// line that is no request.
func goodStart(b []byte) error {
	line, _, whole := bytes.Cut(b, []byte("\r\n"))
	if !whole {
		return nil
	}
	_, err := parseRequestLine(string(line))
	return err
}

// parseHead reads a whole head.
func parseHead(b []byte) (head, error) {
	lines := strings.Split(strings.TrimSuffix(string(b), "\r\n\r\n"), "\r\n")
	if len(lines) > maxFields+1 {
		return head{}, badHead("it has too many fields")
	}
	h, err := parseRequestLine(lines[0])
	if err != nil {
		return head{}, err
	}
	for _, l := range lines[1:] {
		f, err := parseField(l)
		if err != nil {
			return head{}, err
		}
		h.fields = append(h.fields, f)
	}
	return h, h.framed()
}

func parseRequestLine(l string) (head, error) {
	parts := strings.Split(l, " ")
	if len(parts) != 3 {
		return head{}, badHead("the request line is not method, target and version")
	}
	h := head{method: parts[0], target: parts[1]}
	switch parts[2] {
	case "HTTP/1.1":
		h.minor = 1
	case "HTTP/1.0":
	default:
		return head{}, badHead("only HTTP/1.0 and HTTP/1.1 are understood here")
	}
	for i := range len(h.method) {
		if !isToken(h.method[i]) {
			return head{}, badHead("the method is not a word")
		}
	}
	for i := range len(h.target) {
		if c := h.target[i]; c <= ' ' || c >= 0x7f || c == '#' || c == '\\' {
			return head{}, badHead("the target has a character that URLs do not have")
		}
	}
	if h.method == "" || len(h.method) > maxMethod || h.target == "" {
		return head{}, badHead("the request line is not method, target and version")
	}
	return h, h.meant()
}

// echoes are methods for testing proxies and servers. Their answers repeat the request, with
// everything that was added to it on the way.
var echoes = []string{"TRACE", "TRACK", "DEBUG"}

// meant refuses methods that are never passed on, in any spelling: servers differ in whether
// capitals matter.
func (h head) meant() error {
	for _, m := range echoes {
		if strings.EqualFold(h.method, m) {
			return palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "%s is not passed on: it gives back what was sent, and what was added on the way", m).
				WithRemedy("use GET or another method for data")
		}
	}
	if h.method != http.MethodConnect && strings.EqualFold(h.method, http.MethodConnect) {
		return badHead("CONNECT is written in capitals")
	}
	return nil
}

func parseField(l string) (field, error) {
	name, value, ok := strings.Cut(l, ":")
	if !ok || name == "" {
		return field{}, badHead("a line is not a field")
	}
	for i := range len(name) {
		if !isToken(name[i]) { // a space: folded, or before the colon
			return field{}, badHead("a field's name is not a word")
		}
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return field{}, badHead("a field has a control character")
		}
	}
	value = strings.Trim(value, " \t")
	return field{strings.ToLower(name), value, name + ": " + value}, nil
}

// framed refuses heads that do not say clearly where their body ends, or which
// host they are for.
func (h head) framed() error {
	_, hosts := h.get("host")
	length, lengths := h.get("content-length")
	coding, codings := h.get("transfer-encoding")
	switch {
	case hosts > 1 || hosts == 0 && h.minor == 1:
		return badHead("it must have one Host field")
	case lengths+codings > 1:
		return badHead("it says more than once how long its body is")
	case lengths == 1 && (length == "" || len(length) > 18 || strings.Trim(length, "0123456789") != ""):
		return badHead("Content-Length is not a number")
	case codings == 1 && (h.minor == 0 || !strings.EqualFold(coding, "chunked")):
		return badHead("the only Transfer-Encoding understood here is chunked")
	}
	return nil
}

// get returns the last value of a field, and how many there are.
func (h head) get(name string) (value string, n int) {
	for _, f := range h.fields {
		if f.name == name {
			value, n = f.value, n+1
		}
	}
	return value, n
}

// tokens returns the words of a field that is a list, in lower case.
func (h head) tokens(name string) []string {
	var out []string
	for _, f := range h.fields {
		if f.name == name {
			for w := range strings.SplitSeq(strings.ToLower(f.value), ",") {
				out = append(out, strings.Trim(w, " \t"))
			}
		}
	}
	return out
}

// authority splits an absolute target into the authority and the target for the server:
// "http://host:port/path" → "host:port", "/path".
func (h head) authority() (host, rest string, err error) {
	const scheme = "http://"
	if len(h.target) < len(scheme) || !strings.EqualFold(h.target[:len(scheme)], scheme) {
		return "", "", badHead("the target is not an http URL; for https the proxy wants CONNECT")
	}
	after := h.target[len(scheme):]
	end := strings.IndexAny(after, "/?")
	if end < 0 {
		end = len(after)
	}
	host, rest = after[:end], after[end:]
	switch {
	case rest == "" && h.method == "OPTIONS":
		rest = "*"
	case !strings.HasPrefix(rest, "/"):
		rest = "/" + rest
	}
	return host, rest, nil
}

// webTarget reads an authority, whose port may be missing.
func webTarget(s string, port int) (target, error) {
	if _, _, ok := splitTarget(s); ok {
		t, err := parseTarget(s)
		return t, asBadHead(err)
	}
	h, err := parseHost(s)
	return target{h, port}, asBadHead(err)
}

func asBadHead(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errAuthority, err)
}

var errAuthority = errors.New("it does not say clearly which host it is for")
