package egress

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"palyra"
	"palyra/internal/egress/sniff"
)

// request is a plain HTTP request, of which only the head was read.
type request struct {
	sniff.Head
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
		if size, err = sniff.HeadSize(b); errors.Is(err, sniff.ErrMore) {
			err = sniff.GoodStart(b)
		}
		if err != nil {
			return nil, err
		}
	}
	b, err := c.br.Peek(size)
	if err != nil {
		return nil, err
	}
	h, err := sniff.ParseHead(b)
	if err != nil {
		return nil, err
	}
	r := &request{Head: h, path: h.Target}
	if h.Method == http.MethodConnect { // nothing of a CONNECT is passed on
		_, err = c.br.Discard(size)
	} else if r.parsed, err = http.ReadRequest(c.br); err == nil && (r.parsed.Method != h.Method || r.parsed.RequestURI != h.Target) {
		err = errAuthority
	}
	if err != nil {
		return nil, sniff.BadHead("it cannot be read")
	}
	return r, r.locate(port)
}

// locate finds out which host a request is for. Everything in it that names a host must name the same.
func (r *request) locate(port int) error {
	if r.Method == http.MethodConnect {
		t, err := parseTarget(r.Target)
		r.at = t
		if err == nil && r.hasBody() {
			err = sniff.BadHead("CONNECT has no body")
		}
		return asBadHead(err)
	}
	says, given := r.Get("host")
	var err error
	if given > 0 {
		if r.at, err = webTarget(says, port); err != nil {
			return err
		}
	}
	if strings.HasPrefix(r.Target, "/") || r.Target == "*" && r.Method == http.MethodOptions {
		return nil
	}
	name, rest, err := r.Authority()
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
	length, n := r.Get("content-length")
	_, chunked := r.Get("transfer-encoding")
	return chunked > 0 || n > 0 && strings.Trim(length, "0") != ""
}

// upgrades reports whether a request asks for a WebSocket, the only upgrade that is let through.
func (r *request) upgrades() bool {
	to, n := r.Get("upgrade")
	return n == 1 && r.Minor == 1 && strings.EqualFold(to, "websocket") && r.Method == http.MethodGet && !r.hasBody() &&
		slices.Contains(r.Tokens("connection"), "upgrade")
}

// hop are fields that are between a client and its proxy.
var hop = []string{
	"connection", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate", "upgrade", "http2-settings", "te",
	"trailer", "expect",
}

// last reports whether a connection takes no request after this one. That is so for every request with a body: a
// server that overlooks the body would read unchecked requests in it, and so it is told to close.
func (r *request) last() bool { return r.parsed.Close || r.hasBody() }

// waits reports whether the client wants a 100 Continue before it sends the body. The guard sends
// it at once: it cannot be relied on what a server does with a body that it has refused.
func (r *request) waits() bool {
	_, n := r.Get("expect")
	return n > 0 && r.Minor == 1 && r.hasBody()
}

// onward writes the head for the server. Fields stay unchanged, except those about this connection.
func (r *request) onward() []byte {
	var b strings.Builder
	b.WriteString(r.Method + " " + r.path + " HTTP/1." + strconv.Itoa(int(r.Minor)) + "\r\n")
	if _, n := r.Get("host"); n == 0 || r.stood {
		b.WriteString("Host: " + webHost(r.at) + "\r\n")
	}
	for _, f := range r.Fields {
		if !slices.Contains(hop, f.Name) && !(r.stood && f.Name == "host") {
			b.WriteString(f.Line + "\r\n")
		}
	}
	switch {
	case r.upgrades():
		b.WriteString("Connection: Upgrade\r\nUpgrade: websocket\r\n")
	case r.last():
		b.WriteString("Connection: close\r\n")
	case r.Minor == 0:
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
	value, n := r.Get("proxy-authorization")
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
