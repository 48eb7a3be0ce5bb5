package lend

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"palyra/secrets"
)

// together is a connection whose writes go out when it is told to.
type together struct {
	net.Conn
	held bytes.Buffer
	hold bool
}

func (c *together) Write(b []byte) (int, error) {
	if c.hold {
		return c.held.Write(b)
	}
	return c.Conn.Write(b)
}

// newWild is a server that writes what it wants: to the path /N the texts at answers[N], each in a TLS record of its own and
// all at once.
func newWild(t *testing.T, answers [][]string) *bound {
	l := loan("h", secrets.Header, "X-Key", "")
	b := newBound(t, false, nil, l)
	certificate := b.server.TLS.Certificates[0]
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			raw, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = raw.Close() }()
				c := &together{Conn: raw}
				secure := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}})
				for br := bufio.NewReader(secure); ; {
					r, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					c.hold = true
					for _, text := range answers[int(r.URL.Path[1]-'0')] {
						_, _ = io.WriteString(secure, text)
					}
					c.hold = false
					_, _ = c.held.WriteTo(raw)
				}
			}()
		}
	}()
	b.at = listener.Addr().String()
	for i := range b.desk.loans {
		b.desk.loans[i].Hosts = []string{b.at}
	}
	return b
}

// What a server sends behind an answer is no answer to what is asked next.
func TestNothingBehindAnAnswer(t *testing.T) {
	const poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
	plain := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	b := newWild(t, [][]string{
		{plain},
		{plain, poison},
		{"HTTP/1.1 204 No Content\r\nContent-Length: 20\r\n\r\n", poison},
		{"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", poison},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", poison},
		{plain + poison},
		{plain, poison[:20]},
		{"HTTP/1.1 200 OK\r\nContent-Length: 4058\r\n\r\n" + strings.Repeat("x", 4058) + poison}, // one buffer
		{"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + strings.Repeat("x", 5000), poison},
	})
	for path := range 9 {
		c, br := b.speak()
		for _, p := range []int{path, 0, path, 0} {
			code, body := b.text(c, br, "GET /"+string(rune('0'+p))+" HTTP/1.1\r\nHost: "+b.at+"\r\n\r\n")
			if strings.Contains(body, "poison") || p == 0 && (code != http.StatusOK || body != "hello") {
				t.Errorf("after %d: %d %.40q", path, code, body)
			}
		}
		_ = c.Close()
	}
}

// Heads that make no sense go no further.
func TestOddHeads(t *testing.T) {
	b := newWild(t, [][]string{
		{
			"HTTP/1.1 103 Early Hints\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\nLink: x\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		},
		{"HTTP/1.1 099 Odd\r\n\r\n"},
		{"HTTP/1.1 204 No Content\r\nContent-Length: 20\r\n\r\n"},
		{"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"},
		{strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", maxEarly+2)},
		{"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHead) + "\r\n\r\n"},
		{"nonsense\r\n\r\n"},
	})
	for path, want := range []int{http.StatusEarlyHints, 502, 204, 502, http.StatusEarlyHints, 502, 502} {
		c, br := b.speak()
		_, _ = io.WriteString(c, "GET /"+string(rune('0'+path))+" HTTP/1.1\r\nHost: "+b.at+"\r\n\r\n")
		res, err := http.ReadResponse(br, nil)
		if err != nil || res.StatusCode != want || want < 300 && res.Header.Get("Content-Length")+strings.Join(res.TransferEncoding, "") != "" {
			t.Errorf("%d: %v %+v", path, err, res)
		}
		_ = c.Close()
	}
}

// A defect in what happens to a request ends its connection, and nothing else.
func TestTurnsPanic(t *testing.T) {
	l := loan("h", secrets.Header, "X-Key", "")
	b := newBound(t, false, nil, l)
	client, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	inside, err := net.Dial("tcp", client.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	outside, err := client.Accept()
	if err != nil {
		t.Fatal(err)
	}
	way := b.way()
	way.Note = func(Use) { panic("a defect") }
	done := make(chan error, 1)
	go func() { done <- b.desk.Serve(outside, way) }()
	pool := b.transport(false).TLSClientConfig
	pool.ServerName = way.Name
	c := tls.Client(inside, pool)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+b.at+"\r\nX-Key: "+l.Placeholder+"\r\n\r\n")
	if got, err := io.ReadAll(c); err != nil || len(got) > 0 {
		t.Errorf("%q %v", got, err)
	}
	if err := <-done; err != nil || len(b.desk.places) > 0 {
		t.Errorf("%v, %d places are taken", err, len(b.desk.places))
	}
}

// A server that has nothing but HTTP/2 is reached by who speaks HTTP/1.1.
func TestOnlyNewer(t *testing.T) {
	l := loan("h", secrets.Header, "X-Key", "")
	b := newBound(t, false, nil, l)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+r.Header.Get("X-Key"))
	}))
	server.EnableHTTP2, server.Config.ErrorLog = true, silent
	server.TLS = &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		only := &tls.Config{Certificates: b.server.TLS.Certificates, NextProtos: []string{"h2"}}
		if !slices.Contains(h.SupportedProtos, "h2") {
			only.NextProtos[0] = "another"
		}
		return only, nil
	}}
	server.StartTLS()
	defer server.Close()
	b.at = strings.TrimPrefix(server.URL, "https://")
	b.desk.loans[0].Hosts = []string{b.at}
	c, br := b.speak()
	for range 3 {
		code, body := b.text(c, br, "GET / HTTP/1.1\r\nHost: "+b.at+"\r\nX-Key: "+l.Placeholder+"\r\n\r\n")
		if code != http.StatusOK || !strings.HasPrefix(body, "HTTP/2.0") || strings.Contains(body, value) {
			t.Fatalf("%d %q", code, body)
		}
	}
}
