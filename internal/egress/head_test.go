package egress

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"

	"palyra/internal/egress/sniff"
)

// FuzzRequest: what our strict reader takes, net/http understands the same way,
// before and after we write it anew, and the new head is as strict.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		"GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: Host, close\r\n\r\n0\r\n\r\n", "GET / HTTP/1.0\r\n\r\n",
		"CONNECT a.example:443 HTTP/1.1\r\nHost: b\r\nProxy-Authorization: Basic eDp5\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := readBytesRequest(b)
		if r == nil {
			return
		}
		if r.Method == http.MethodConnect {
			if r.hasBody() || r.at.port == 0 {
				t.Errorf("%+v", r)
			}
			return
		}
		if r.at == (target{}) { // HTTP/1.0 that does not say
			r.at = named("x.example", 80)
		}
		out := r.onward()
		again := readBytesRequest(out)
		if again == nil || again.whole || again.Method != r.Method || again.hasBody() != r.hasBody() || again.at != r.at {
			t.Fatalf("%q became %q", b, out)
		}
		if got, err := webTarget(again.parsed.Host, 80); err != nil || got != r.at {
			t.Errorf("%q: net/http says %s", out, again.parsed.Host)
		}
		if (again.parsed.ContentLength != 0) != r.hasBody() {
			t.Errorf("%q: a body of %d", out, again.parsed.ContentLength)
		}
		for _, hidden := range []string{"proxy-authorization", "http2-settings", "expect", "te"} {
			if _, n := again.Get(hidden); n > 0 {
				t.Errorf("%q", out)
			}
		}
		if c := again.parsed.Header.Get("Connection"); strings.Contains(c, ",") {
			t.Errorf("%q", out)
		}
	})
}

func readBytesRequest(b []byte) *request {
	size, err := sniff.HeadSize(b)
	if err != nil {
		return nil
	}
	h, err := sniff.ParseHead(b[:size])
	if err != nil {
		return nil
	}
	parsed, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
	if err != nil || parsed.Method != h.Method || parsed.RequestURI != h.Target {
		return nil
	}
	r := &request{Head: h, parsed: parsed, path: h.Target}
	if r.locate(80) != nil {
		return nil
	}
	return r
}
