package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"palyra"
)

// corporate is a proxy of somebody's, which looks names up its own way.
func corporate(t testing.TB, to net.Addr, seen chan<- string) net.Addr {
	t.Helper()
	return serve(t, func(c *net.TCPConn) {
		br := bufio.NewReader(c)
		var refuse bool
		if first, err := br.Peek(1); err == nil && first[0] == socksVersion {
			refuse = !corporateSOCKS(c, br, seen)
		} else {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			seen <- r.Method + " " + r.RequestURI + " " + r.Header.Get("Proxy-Authorization")
			if refuse = strings.Contains(r.RequestURI, "blocked"); refuse {
				_, _ = io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
			} else {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: y\r\n\r\n")
			}
		}
		up, err := net.Dial("tcp", to.String())
		if err != nil || refuse {
			return
		}
		defer up.Close()
		go func() { _, _ = io.Copy(up, br); _ = up.(*net.TCPConn).CloseWrite() }()
		_, _ = io.Copy(c, up)
	})
}

func corporateSOCKS(c net.Conn, br *bufio.Reader, seen chan<- string) bool {
	_, _ = readVector(br, socksVersion)
	_, _ = c.Write([]byte{socksVersion, socksPassword})
	user, _ := readVector(br, socksAuth)
	password, _ := readBytes(br)
	_, _ = c.Write([]byte{socksAuth, 0})
	h, port, err := readSOCKS(br)
	if err != nil {
		return false
	}
	seen <- fmt.Sprintf("SOCKS %s:%d %s:%s", h, port, user, password)
	if strings.Contains(h.name, "blocked") {
		socksReply(c, socksForbidden)
		return false
	}
	_, _ = c.Write(append([]byte{socksVersion, socksOK, 0, socksName, 3}, "abc\x00\x50"...))
	return true
}

func TestUpstream(t *testing.T) {
	auth := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:pass word"))
	for scheme, want := range map[string]string{
		"http":   "CONNECT inner.example:443 " + auth,
		"socks5": "SOCKS inner.example:443 me:pass word",
	} {
		srv, ca := site(t, "inner.example")
		seen := make(chan string, 9)
		at := corporate(t, srv.Listener.Addr(), seen)
		g, w := newGuard(t, Config{Upstream: scheme + "://me:pass%20word@" + at.String(), PrivateRanges: []netip.Prefix{}})
		w.name("private.example", "10.0.0.1")
		b := open(t, g, w, "inner.example:443", "private.example:443", "blocked.example:443", "10.0.0.2:443")
		tc := tls.Client(ways[doorConnect](b, "inner.example", 443), &tls.Config{RootCAs: ca.pool, ServerName: "inner.example"})
		if err := tc.Handshake(); err != nil {
			t.Fatal(scheme, err)
		}
		_ = tc.Close()
		if got := <-seen; got != want {
			t.Errorf("%s: %s", scheme, got)
		}
		for to, code := range map[string]int{
			"private.example:443": 403, "evil.example:443": 403, "10.0.0.1:443": 403,
			"blocked.example:443": 502, "10.0.0.2:443": 200,
		} {
			c, got, body := b.connectTo(to)
			if got != code {
				t.Errorf("%s %s: %d %s", scheme, to, got, body)
			}
			_ = c.Close()
		}
		if f := b.flow("inner.example", palyra.FlowAllowed); f.Address != "127.0.0.1" {
			t.Errorf("%+v", f)
		}
	}
}

// Only a name that is known not to exist here is left to the proxy: whoever
// answers for a name could make the lookup of a private address fail.
func TestAnUpstreamGetsNoNameUnchecked(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		code int
	}{
		"no such host":  {&net.DNSError{Err: "no such host", IsNotFound: true}, 200},
		"too slow":      {context.DeadlineExceeded, 502},
		"timed out":     {&net.DNSError{Err: "timeout", IsTimeout: true, IsTemporary: true}, 502},
		"server failed": {&net.DNSError{Err: "server misbehaving", IsTemporary: true}, 502},
		"no addresses":  {nil, 502},
	} {
		seen := make(chan string, 9)
		at := corporate(t, echo(t, ""), seen)
		g, w := newGuard(t, Config{Upstream: "http://" + at.String(), PrivateRanges: []netip.Prefix{}})
		g.names.lookup = func(context.Context, string, string) ([]netip.Addr, error) { return nil, tc.err }
		b := open(t, g, w, "inner.example:7000")
		c, code, body := b.connectTo("inner.example:7000")
		if code != tc.code || (len(seen) > 0) != (tc.code == 200) {
			t.Errorf("%s: %d %s, the proxy was asked %d times", name, code, body, len(seen))
		}
		_ = c.Close()
		b.end()
	}
}

// A proxy that says nothing, too much, or nonsense.
func TestABadUpstream(t *testing.T) {
	for name, say := range map[string]string{
		"nothing": "", "nonsense": "hello\r\n\r\n", "no success": "HTTP/1.1 502 Bad\r\n\r\n",
		"too much": "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 4000),
	} {
		at := serve(t, func(c *net.TCPConn) {
			_, _ = io.WriteString(c, say)
			_ = c.CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		})
		for _, scheme := range []string{"http", "socks5"} {
			g, _ := newGuard(t, Config{Upstream: scheme + "://" + at.String()})
			_, _, err := g.dial(t.Context(), permit{target: named("good.example", 443)})
			if e := palyra.AsError(err); e.Code != palyra.Unavailable {
				t.Errorf("%s %s: %v", scheme, name, err)
			}
		}
	}
	g, _ := newGuard(t, Config{Upstream: "http://127.0.0.1:1"})
	if _, _, err := g.dial(t.Context(), permit{target: named("good.example", 443)}); !strings.Contains(err.Error(), "upstream") {
		t.Error(err)
	}
}
