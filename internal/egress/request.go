package egress

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"palyra"
)

// request is a plain HTTP request, of which only the head was read.
type request struct {
	head
	parsed *http.Request
	at     target // its target, by its own words
	path   string // the target that the server gets
	whole  bool   // the target was a URL
	stood  bool   // its address stood for a name, which the server gets instead
}

// rename sets the host that an address in a request stands for.
func (r *request) rename(t target) {
	r.stood = r.at != t
	r.at = t
}

// readRequest waits for the next request on a connection and reads its head, by our strict rules
// and by those of net/http, which must agree.
func (s *Session) readRequest(c *stream, port int) (*request, error) {
	c.within(s.guard.times.first)
	size := 0
	for have := 0; size == 0; {
		b, err := c.more(have)
		if err != nil {
			return nil, err
		}
		if have == 0 {
			c.within(s.guard.times.head)
		}
		have = len(b)
		if size, err = headSize(b); errors.Is(err, errMore) {
			err = goodStart(b)
		}
		if err != nil {
			return nil, err
		}
	}
	b, err := c.br.Peek(size)
	if err != nil {
		return nil, err
	}
	h, err := parseHead(b)
	if err != nil {
		return nil, err
	}
	r := &request{head: h, path: h.target}
	if h.method == http.MethodConnect { // nothing of a CONNECT is passed on
		_, err = c.br.Discard(size)
	} else if r.parsed, err = http.ReadRequest(c.br); err == nil && (r.parsed.Method != h.method || r.parsed.RequestURI != h.target) {
		err = errAuthority
	}
	if err != nil {
		return nil, badHead("it cannot be read")
	}
	return r, r.locate(port)
}

// locate finds out which host a request is for. Everything in it that names a host must name the same.
func (r *request) locate(port int) error {
	if r.method == http.MethodConnect {
		t, err := parseTarget(r.target)
		r.at = t
		if err == nil && r.hasBody() {
			err = badHead("CONNECT has no body")
		}
		return asBadHead(err)
	}
	says, given := r.get("host")
	var err error
	if given > 0 {
		if r.at, err = webTarget(says, port); err != nil {
			return err
		}
	}
	if strings.HasPrefix(r.target, "/") || r.target == "*" && r.method == http.MethodOptions {
		return nil
	}
	name, rest, err := r.authority()
	if err != nil {
		return err
	}
	at, err := webTarget(name, port)
	if err != nil {
		return err
	}
	if given > 0 && at != r.at {
		return errAuthority
	}
	r.at, r.path, r.whole = at, rest, true
	return nil
}

func (r *request) hasBody() bool {
	length, n := r.get("content-length")
	_, chunked := r.get("transfer-encoding")
	return chunked > 0 || n > 0 && strings.Trim(length, "0") != ""
}

// upgrades reports whether a request asks for a WebSocket, the only upgrade that is let through.
func (r *request) upgrades() bool {
	to, n := r.get("upgrade")
	return n == 1 && r.minor == 1 && strings.EqualFold(to, "websocket") && r.method == http.MethodGet && !r.hasBody() &&
		slices.Contains(r.tokens("connection"), "upgrade")
}

// hop are fields that are between a client and its proxy.
var hop = []string{
	"connection", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate", "upgrade", "http2-settings", "te", "trailer", "expect",
}

// last reports whether a connection takes no request after this one. That is so for every request
// with a body: a server that overlooks the body would read unchecked requests in it, and so it is
// told to close.
func (r *request) last() bool { return r.parsed.Close || r.hasBody() }

// waits reports whether the client wants a 100 Continue before it sends the body. The guard sends
// it at once: it cannot be relied on what a server does with a body that it has refused.
func (r *request) waits() bool {
	_, n := r.get("expect")
	return n > 0 && r.minor == 1 && r.hasBody()
}

// onward writes the head for the server. Fields stay unchanged, except those about this connection.
func (r *request) onward() []byte {
	var b strings.Builder
	b.WriteString(r.method + " " + r.path + " HTTP/1." + strconv.Itoa(int(r.minor)) + "\r\n")
	if _, n := r.get("host"); n == 0 || r.stood {
		b.WriteString("Host: " + webHost(r.at) + "\r\n")
	}
	for _, f := range r.fields {
		if !slices.Contains(hop, f.name) && !(r.stood && f.name == "host") {
			b.WriteString(f.line + "\r\n")
		}
	}
	switch {
	case r.upgrades():
		b.WriteString("Connection: Upgrade\r\nUpgrade: websocket\r\n")
	case r.last():
		b.WriteString("Connection: close\r\n")
	case r.minor == 0:
		b.WriteString("Connection: keep-alive\r\n")
	}
	b.WriteString("\r\n")
	return []byte(b.String())
}

// webHost writes a target as a Host field does.
func webHost(t target) string {
	if t.port == 80 && !t.addr.Is6() {
		return t.host.String()
	}
	return t.String()
}

// credentials returns the user and password that a client gave to the proxy.
func (r *request) credentials() (user, password string) {
	value, n := r.get("proxy-authorization")
	scheme, coded, _ := strings.Cut(value, " ")
	if n != 1 || !strings.EqualFold(scheme, "basic") {
		return "", ""
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(coded))
	if err != nil {
		return "", ""
	}
	user, password, _ = strings.Cut(string(b), ":")
	return user, password
}

// statusOf maps a refusal to HTTP.
func statusOf(e *palyra.Error) int {
	switch e.Code {
	case palyra.Denied:
		return http.StatusForbidden
	case palyra.Invalid:
		return http.StatusBadRequest
	case palyra.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusBadGateway
}
