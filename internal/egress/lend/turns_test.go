package lend

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"palyra/secrets"
)

// speak opens TLS to the desk as a client that writes its requests itself.
func (b *bound) speak() (*tls.Conn, *bufio.Reader) {
	b.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(b.desk.Certificate())
	host, _, _ := net.SplitHostPort(b.at)
	c := tls.Client(b.connect(), &tls.Config{RootCAs: roots, ServerName: host})
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c, bufio.NewReader(c)
}

// text asks and returns the whole answer.
func (b *bound) text(c io.Writer, br *bufio.Reader, request string) (code int, body string) {
	b.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		b.Fatal(err)
	}
	r, err := http.NewRequest(strings.SplitN(request, " ", 2)[0], b.server.URL, nil)
	if err != nil {
		b.Fatal(err)
	}
	res, err := http.ReadResponse(br, r)
	if err != nil {
		b.Fatalf("%.80q: %v", request, err)
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatalf("%.80q: %v", request, err)
	}
	return res.StatusCode, string(raw)
}

// Requests of one connection are answered one after the other, whoever has to answer them.
func TestTurns(t *testing.T) {
	l := loan("h", secrets.Header, "X-Key", "")
	b := newBound(t, false, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			<-time.After(3 * slow)
		case "/none":
			w.WriteHeader(http.StatusNoContent)
			return
		case "/parts":
			for range 3 {
				_, _ = io.WriteString(w, "part ")
				w.(http.Flusher).Flush()
			}
		case "/long":
			_, _ = io.WriteString(w, strings.Repeat("0123456789", 50_000))
		}
		w.Header().Set("X-Echo", r.Header.Get("X-Key"))
		_, _ = io.WriteString(w, "hello")
	}, l)
	get := func(method, path string) string {
		return method + " " + path + " HTTP/1.1\r\nHost: " + b.at + "\r\nX-Key: " + l.Placeholder + "\r\n\r\n"
	}
	c, br := b.speak()
	for i, want := range []struct{ method, path, body string }{
		{"GET", "/", "hello"},
		{"GET", "/none", ""},
		{"GET", "/slow", "hello"},
		{"HEAD", "/", ""},
		{"GET", "/parts", "part part part hello"},
		{"GET", "/long", strings.Repeat("0123456789", 50_000) + "hello"},
		{"GET", "/", "hello"},
		{"POST", "/", "hello"}, // which is net/http's
		{"GET", "/slow", "hello"},
	} {
		if code, body := b.text(c, br, get(want.method, want.path)); body != want.body || code/100 != 2 {
			t.Fatalf("%d: %s %s: %d %.80q", i, want.method, want.path, code, body)
		}
		if got := b.got.Header.Get("X-Key"); got != value {
			t.Fatalf("%d: the server got %q", i, got)
		}
	}
	code, _ := b.text(c, br, strings.Replace(get("GET", "/"), b.at, "other.example", 1))
	if code != http.StatusMisdirectedRequest {
		t.Errorf("another host: %d", code)
	}
	c, br = b.speak()
	if code, _ := b.text(c, br, strings.Replace(get("GET", "/"), b.at, "other.example", 1)); code != http.StatusMisdirectedRequest {
		t.Errorf("another host, at first: %d", code)
	}
	if code, body := b.text(c, br, get("GET", "/")); code != 200 || body != "hello" {
		t.Errorf("after a refusal: %d %q", code, body)
	}
	both := get("GET", "/none") + get("GET", "/parts") // at once
	if code, _ := b.text(c, br, both); code != http.StatusNoContent {
		t.Errorf("the first of two: %d", code)
	}
	if _, body := b.text(c, br, get("GET", "/")); body != "part part part hello" {
		t.Errorf("the second of two: %q", body)
	}
}

// What a client or a server does in between ends no more than it must.
func TestTurnsThatEnd(t *testing.T) {
	l := loan("h", secrets.Header, "X-Key", "")
	gone, came := make(chan struct{}, 1), make(chan struct{}, 1)
	var asked atomic.Int32
	b := newBound(t, false, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.URL.Path {
		case "/wait":
			came <- struct{}{}
			<-r.Context().Done()
			gone <- struct{}{}
		case "/last":
			w.Header().Set("Connection", "close")
		case "/cut":
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
		}
	}, l)
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: " + b.at + "\r\n\r\n" }
	c, br := b.speak()
	for _, path := range []string{"/", "/last", "/", "/"} { // a server that ends its connection ends not the client's
		if code, _ := b.text(c, br, get(path)); code != 200 {
			t.Fatal(path, code)
		}
	}
	b.server.CloseClientConnections() // and one that does so when nobody asks
	if code, _ := b.text(c, br, get("/")); code != 200 || asked.Load() != 5 {
		t.Fatal(code, asked.Load())
	}
	if _, err := io.WriteString(c, get("/cut")); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := io.ReadAll(res.Body); err == nil || string(raw) != "half" {
		t.Errorf("an answer that is cut is %q, whole", raw)
	}
	c, _ = b.speak()
	if _, err := io.WriteString(c, get("/wait")); err != nil {
		t.Fatal(err)
	}
	<-came
	_ = c.Close()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the server still works for a client that is gone")
	}
}

// notPlain are requests that net/http must see, or refuse.
var notPlain = []string{
	"GET / HTTP/1.1\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nhOst: a\r\n\r\n",
	"GET / HTTP/1.1\nHost: a\n\n",
	"GET / HTTP/1.1\n\nHost: a\r\n\r\n",
	"GET / HTTP/1.1\r\nX: b\rHost: a\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\n\r\nbody",
	"GET / HTTP/1.0\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
	"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
	"GET https://a/ HTTP/1.1\r\nHost: b\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\n\r\n",
	"get / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Key\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: X-Key\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nTrailer: X\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\x00b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX: fine\r\nX: a\x7fb\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nX Y: b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\n b: c\r\n\r\n",
	"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"\x16\x03\x01\r\n\r\n", "\r\n\r\n", "GET /",
}

func newTurns() *turns {
	t := &turns{}
	t.text = bufio.NewReaderSize(&t.head, maxPlain)
	return t
}

func TestNotPlain(t *testing.T) {
	for _, head := range notPlain {
		if r, ok := newTurns().plain([]byte(head)); ok {
			t.Errorf("%q is plain: %v", head, r)
		}
	}
	for _, head := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD /x?y#z HTTP/1.1\r\nhost: a:443\r\nConnection: Keep-Alive\r\nAccept: */*\r\n\r\n",
	} {
		if r, ok := newTurns().plain([]byte(head)); !ok || r.Host == "" {
			t.Errorf("%q is not plain", head)
		}
	}
}

// What is taken for plain is what net/http's server makes of it, and it goes out as one request.
func FuzzPlain(f *testing.F) {
	for _, head := range append(notPlain, "GET /a//b/../c?d=%0a HTTP/1.1\r\nHost: a\r\nX: b\r\nX:  c \r\n\r\n") {
		f.Add([]byte(head))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		r, ok := newTurns().plain(head)
		if !ok || len(head) > maxPlain {
			return
		}
		inside, outside := net.Pipe()
		seen := make(chan *http.Request, 2)
		one := &single{conn: outside, ended: make(chan struct{})}
		server := &http.Server{
			ErrorLog: silent, ConnState: func(_ net.Conn, s http.ConnState) { one.state(s) },
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen <- r }),
		}
		go func() { _ = server.Serve(one) }()
		go func() { _, _ = inside.Write(head) }()
		res, err := http.ReadResponse(bufio.NewReader(inside), r)
		_ = inside.Close()
		<-one.ended
		if err != nil || res.StatusCode != http.StatusOK || len(seen) != 1 {
			t.Fatalf("%q: net/http has %d requests of it, %v %v", head, len(seen), res, err)
		}
		other := <-seen
		if r.Method != other.Method || r.Host != other.Host || r.URL.String() != other.URL.String() ||
			fmt.Sprint(r.Header) != fmt.Sprint(other.Header) {
			t.Fatalf("%q: %v %v", head, r, other)
		}
		r.URL.Scheme, r.URL.Host, r.RequestURI = "https", "a", ""
		var out strings.Builder
		if err := r.Write(&out); err != nil {
			return // it is refused
		}
		if strings.Count(out.String(), "\r\n\r\n") != 1 || !strings.HasSuffix(out.String(), "\r\n\r\n") {
			t.Fatalf("%q goes out as %q", head, out.String())
		}
	})
}
