package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/egress/sniff"
)

func TestOldClientsGetTheHostNamed(t *testing.T) {
	g, w := newGuard(t, Config{})
	srv, _ := site(t)
	w.at(80, srv.Listener.Addr())
	b := open(t, g, w, "good.example:80")
	for say, want := range map[string]string{
		"GET /old HTTP/1.0\r\n\r\n":                                                                        "host=good.example path=/old",
		"GET /old HTTP/1.0\r\nHost: good.example:80\r\n\r\n":                                               "host=good.example:80 path=/old",
		"GET /dot HTTP/1.1\r\nHost: Good.Example.\r\nConnection: close\r\n\r\n":                            "path=/dot",
		"OPTIONS * HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n":                            " 200 OK",
		"HEAD /head HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n":                           "Content-Length: ",
		"GET /2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /3 HTTP/1.0\r\n\r\n":                         "path=/3",
		"PUT /x HTTP/1.1\r\nHost: good.example\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n": "X-Body: 3",
	} {
		if got := talk(t, ways[doorDirect](b, "good.example", 80), say); !strings.Contains(got, want) {
			t.Errorf("%q: %q", say, got)
		}
	}
}

// Servers that answer badly, or not at all.
func TestBadAnswers(t *testing.T) {
	for name, tc := range map[string]struct{ say, want string }{
		"nothing":         {"", " 502 "},
		"nonsense":        {"hello\r\n\r\n", " 502 "},
		"an endless head": {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 10000) + "\r\n", " 502 "},
		"interim forever": {strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 100), " 102 "},
		"cut short":       {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "abc"},
		"bad chunks":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", " 200 "},
		"until the end":   {"HTTP/1.0 200 OK\r\n\r\nall of it", "all of it"},
		"lines of LF":     {"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "\n\nok"},
		"chunks and trailer": {
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
			"abc\r\n0\r\nX-Sum: 1\r\n\r\n",
		},
		"a hint first": {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", " 204 "},
	} {
		g, w := newGuard(t, Config{})
		w.at(80, serve(t, func(c *net.TCPConn) {
			_, _ = io.ReadFull(c, make([]byte, 20))
			_, _ = io.WriteString(c, tc.say)
			_ = c.CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		}))
		b := open(t, g, w, "good.example:80")
		got := talk(t, ways[doorDirect](b, "good.example", 80), "GET / HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n")
		if !strings.Contains(got, tc.want) || len(got) > 2*sniff.Most {
			t.Errorf("%s: %.300q", name, got)
		}
	}
}

// A synthetic address in a request stands for its name, to us, to people and to
// the server.
func TestASyntheticAddressInAURL(t *testing.T) {
	asked := make(chan string, 9)
	g, w := newGuard(t, Config{Ask: func(_ context.Context, _ *palyra.Call, host string, port int) (Answer, error) {
		asked <- fmt.Sprint(host, ":", port)
		return Answer{}, errors.New("no")
	}})
	srv, _ := site(t)
	w.at(80, srv.Listener.Addr())
	b := openFor(t, g, w, &palyra.Call{}, "good.example:80")
	good, evil := b.synthetic("good.example").String(), b.synthetic("evil.example").String()
	if code, body := get(t, b.client(), "http://"+good+"/x"); code != 200 || body != "host=good.example path=/x" {
		t.Error(code, body)
	}
	if code, body := get(t, b.client(), "http://"+evil+"/"); code != 403 || !strings.Contains(body, "evil.example") {
		t.Error(code, body)
	}
	if got := <-asked; got != "evil.example:80" || len(asked) > 0 {
		t.Error("people were asked for", got)
	}
	if code, body := get(t, b.client(), "http://127.18.9.9/"); code != 403 || len(asked) > 0 {
		t.Error("an address that stands for nothing:", code, body)
	}
	for host, want := range map[string]string{good: "host=good.example path=/", evil: `"host":"evil.example"`, "127.18.9.9": " 403 "} {
		got := talk(t, ways[doorDirect](b, "good.example", 80), "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q", host, got)
		}
	}
}
