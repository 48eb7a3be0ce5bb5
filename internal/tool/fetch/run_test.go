package fetch

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"palyra"
)

func TestFetch(t *testing.T) {
	w := newWorld(t)
	w.serve("example.com:443", true, func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rw.Header().Set("X-Seen", r.Method+" "+r.URL.RequestURI()+" "+r.Host+" "+r.Header.Get("X-Mine")+" "+r.Header.Get("Content-Type")+" "+
			string(body))
		rw.Header().Set("Set-Cookie", "a=b")
		rw.Header().Add("Vary", "a")
		rw.Header().Add("Vary", "b")
		rw.WriteHeader(http.StatusTeapot)
		fmt.Fprint(rw, "<é>")
	})
	r := w.must(args{"url": "HTTPS://Example.COM.:443/a%20b?x=é&y#frag", "headers": args{"x-mine": " v "}})
	if r.URL != "https://example.com/a%20b?x=%C3%A9&y" || r.Status != http.StatusTeapot || r.text() != "<é>" || r.Truncated ||
		r.Bytes != 4 || len(r.Redirects) != 0 {
		t.Errorf("%+v", r)
	}
	if got := r.Headers["X-Seen"]; got != "GET /a%20b?x=%C3%A9&y example.com v" {
		t.Errorf("%q", got)
	}
	if _, kept := r.Headers["Set-Cookie"]; kept || r.Headers["Vary"] != "a, b" {
		t.Errorf("%v", r.Headers)
	}
	r = w.must(args{"url": "https://example.com", "method": "POST", "body": "told"})
	if got := r.Headers["X-Seen"]; got != "POST / example.com  text/plain; charset=utf-8 told" {
		t.Errorf("%q", got)
	}
	r = w.must(args{
		"url": "https://example.com/", "method": "DELETE", "body_b64": base64.StdEncoding.EncodeToString([]byte{0xff}),
		"headers": args{"content-type": "a/b"},
	})
	if got := r.Headers["X-Seen"]; got != "DELETE / example.com  a/b \ufffd" {
		t.Errorf("%q", got)
	}
	if !slices.Equal(w.dialed, []string{"example.com:443", "example.com:443", "example.com:443"}) {
		t.Errorf("dialled %q", w.dialed)
	}
	if len(w.flows) != 3 || w.flows[0] != (palyra.EgressFlow{Door: "fetch", Host: "example.com", Verdict: "allow"}) {
		t.Errorf("flows %+v", w.flows)
	}
}

// Nothing goes round the session: no proxy of the environment, for no scheme.
func TestProxiesOfTheEnvironmentAreIgnored(t *testing.T) {
	w := newWorld(t)
	w.serve("proxy.test:80", false, func(rw http.ResponseWriter, r *http.Request) { t.Error("the proxy was asked for", r.URL) })
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, "http://"+w.at["proxy.test:80"])
	}
	w.serve("a.test:80", false, func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "direct") })
	w.serve("example.com:443", true, func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "direct") })
	for _, url := range []string{"http://a.test/", "https://example.com/"} {
		if r := w.must(args{"url": url}); r.text() != "direct" {
			t.Errorf("%s: %+v", url, r)
		}
	}
}

// A cookie that a hop sets is not sent with the next, nor delivered.
func TestCookiesAreDropped(t *testing.T) {
	w := newWorld(t)
	w.serve("a.test:80", false, func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") != "" || r.Header.Get("Referer") != "" {
			t.Errorf("%v", r.Header)
		}
		rw.Header().Set("Set-Cookie", "a=b; Path=/")
		rw.Header().Set("Set-Cookie2", "a=b")
		if r.URL.Path == "/1" {
			http.Redirect(rw, r, "/2", http.StatusFound)
		}
	})
	r := w.must(args{"url": "http://a.test/1"})
	for name := range r.Headers {
		if strings.HasPrefix(name, "Set-") {
			t.Error(r.Headers)
		}
	}
	if !slices.Equal(r.Redirects, []string{"http://a.test/2"}) || r.URL != "http://a.test/2" {
		t.Errorf("%+v", r)
	}
}

func TestCertificatesAreChecked(t *testing.T) {
	w := newWorld(t)
	s := w.serve("example.com:443", true, func(http.ResponseWriter, *http.Request) {})
	w.at["a.test:443"] = s.Listener.Addr().String()
	w.refused(reasonFailed, "another host", args{"url": "https://a.test/"})
	w.serve("a.test:80", false, func(http.ResponseWriter, *http.Request) {})
	w.at["example.com:8443"] = w.at["a.test:80"]
	w.refused(reasonFailed, "speak TLS", args{"url": "https://example.com:8443/"})
	w.roots = nil // the system's
	w.refused(reasonFailed, "trusts", args{"url": "https://example.com/"})
}

// What the session refuses, and servers that are no use, in words.
func TestNoAnswer(t *testing.T) {
	w := newWorld(t)
	w.raw("silent.test:80", func(c net.Conn) { answer(c, "") })
	w.raw("noise.test:80", func(c net.Conn) { fmt.Fprint(c, "\x1b[31mnothing\x00 like it\r\n\r\n") })
	w.raw("old.test:80", func(c net.Conn) { answer(c, "SSH-2.0-x\r\n") })
	w.raw("twice.test:80", func(c net.Conn) { answer(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab") })
	w.raw("early.test:80", func(c net.Conn) { answer(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nab") })
	w.raw("chunk.test:80", func(c net.Conn) { answer(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab") })
	w.raw("switch.test:80", func(c net.Conn) {
		answer(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
	})
	w.raw("hundred.test:80", func(c net.Conn) { answer(c, strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 10000)) })
	w.raw("head.test:80", func(c net.Conn) {
		answer(c, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", maxHead)+"\r\n\r\n")
	})
	for host, says := range map[string]string{
		"silent": "closed the connection", "noise": "no usable answer", "old": "no usable answer", "twice": "no usable answer",
		"early": "before it was complete", "chunk": "before it was complete",
		"switch": "another protocol", "hundred": "no usable answer", "head": "no usable answer", "missing": "no usable answer",
	} {
		_, err := w.fetch(args{"url": "http://" + host + ".test/"})
		w.wants(host, err, reasonFailed, says)
		if text := palyra.AsError(err).Text; strings.ContainsAny(text, "\x1b\x00\n") || len(text) > 400 {
			t.Errorf("%s: %q", host, text)
		}
	}
}

// answer reads a request's head and says something.
func answer(c net.Conn, text string) {
	buf := make([]byte, 4096)
	for all := ""; !strings.Contains(all, "\r\n\r\n"); {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		all += string(buf[:n])
	}
	_, _ = io.WriteString(c, text)
}

func TestSlow(t *testing.T) {
	w := newWorld(t)
	var asked atomic.Pointer[context.CancelFunc]
	drip := func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			fmt.Fprint(rw, "some")
			rw.(http.Flusher).Flush()
		}
		if cancel := asked.Swap(nil); cancel != nil {
			(*cancel)()
		}
		<-r.Context().Done()
	}
	w.serve("a.test:80", false, drip)
	for _, path := range []string{"head", "body"} {
		w.refused(palyra.ReasonTimedOut, "within 50 ms", args{"url": "http://a.test/" + path, "timeout_ms": 50})
		ctx, cancel := context.WithCancel(t.Context())
		asked.Store(&cancel) // once it is on its way
		_, err := w.fetchIn(ctx, args{"url": "http://a.test/" + path})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// The whole answer to HEAD, and those that have no body.
func TestNoBody(t *testing.T) {
	w := newWorld(t)
	w.serve("a.test:80", false, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Encoding", "gzip")
		switch r.URL.Path {
		case "/204":
			rw.WriteHeader(http.StatusNoContent)
		case "/304":
			rw.WriteHeader(http.StatusNotModified)
		default:
			rw.Header().Set("Content-Length", "123")
		}
	})
	for path, method := range map[string]string{"204": "GET", "304": "POST", "head": "HEAD"} {
		r := w.must(args{"url": "http://a.test/" + path, "method": method})
		if r.text() != "" || r.Bytes != 0 || r.Truncated || r.Headers["Content-Encoding"] != "gzip" {
			t.Errorf("%s: %+v", path, r)
		}
	}
}

// The plan that runs must be of the hosts that were judged.
func TestRunHoldsToThePlan(t *testing.T) {
	w := newWorld(t)
	w.serve("a.test:80", false, func(http.ResponseWriter, *http.Request) { t.Error("asked") })
	p, err := w.plan(Name, args{"url": "http://a.test/"})
	if err != nil {
		t.Fatal(err)
	}
	p.Egress = []string{"b.test:80"}
	_, err = fetcher{w.config()}.Run(t.Context(), toolEnv(), p)
	w.wants("other hosts", err, palyra.ReasonPlanChanged, "anew")
	denied := palyra.Errorf(palyra.Denied, palyra.ReasonEgressDenied, "not today")
	c := w.config()
	c.Open = func(context.Context, palyra.Plan) (Gateway, error) { return nil, denied }
	p.Egress = []string{"a.test:80"}
	if _, err = (fetcher{c}).Run(t.Context(), toolEnv(), p); !errors.Is(err, denied) {
		t.Error(err)
	}
	if len(w.dialed) != 0 {
		t.Errorf("dialled %q", w.dialed)
	}
}
