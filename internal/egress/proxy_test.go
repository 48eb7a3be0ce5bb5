package egress

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/egress/sniff"
)

// client is a Go program that uses the proxy variables.
func (b *bench) client() *http.Client {
	b.Helper()
	u := &url.URL{Scheme: "http", Host: b.at[0].String(), User: url.UserPassword(proxyUser, b.token)}
	tr := &http.Transport{Proxy: http.ProxyURL(u)}
	b.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func get(t testing.TB, c *http.Client, url string) (int, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(all)
}

func TestPlainHTTPThroughTheProxy(t *testing.T) {
	g, w := newGuard(t, Config{})
	srv, _ := site(t)
	w.at(80, srv.Listener.Addr())
	b := open(t, g, w, "good.example:80")
	c := b.client()
	for range 3 {
		if code, body := get(t, c, "http://GOOD.example./a%2Fb?q=1"); code != 200 || !strings.Contains(body, "path=/a%2Fb?q=1") {
			t.Fatal(code, body)
		}
	}
	if _, dials := w.seen(); len(dials) != 1 || dials[0].String() != "127.0.0.1:80" {
		t.Errorf("the connection was not kept, or went elsewhere: %v", dials)
	}
	if f := b.flow("good.example", palyra.FlowAllowed); f.Door != doorHTTP || f.Address != "127.0.0.1" || f.In < 3*20 || f.Out < 3*20 {
		t.Errorf("%+v", f)
	}
}

func TestARefusalSaysWhy(t *testing.T) {
	g, w := newGuard(t, Config{})
	b := open(t, g, w, "good.example:443")
	for _, port := range []string{"", ":443", ":8080"} {
		code, body := get(t, b.client(), "http://evil.example"+port)
		var told struct {
			Code   string `json:"reason_code"`
			Host   string `json:"host"`
			Remedy string `json:"remedy"`
		}
		if err := json.Unmarshal([]byte(body), &told); err != nil || code != 403 || told.Code != "egress_denied" || told.Host != "evil.example" ||
			!strings.Contains(told.Remedy, "evil.example:") {
			t.Errorf("%d %s", code, body)
		}
	}
	if _, code, body := b.connectTo("evil.example:443"); code != 403 || !strings.Contains(body, `"host":"evil.example"`) {
		t.Errorf("%d %s", code, body)
	}
	if _, code, _ := b.connectTo("good.example:80"); code != 403 {
		t.Error("another port was let through")
	}
	b.untouched()
	if f := b.flow("evil.example", palyra.FlowDenied); f.Address != "" || f.In+f.Out != 0 {
		t.Errorf("%+v", f)
	}
}

func TestTheProxyWantsTheToken(t *testing.T) {
	g, w := newGuard(t, Config{})
	b := open(t, g, w, "good.example:80")
	for _, auth := range []string{
		"", "Proxy-Authorization: Basic cGFseXJhOng=\r\n", "Proxy-Authorization: Bearer " + b.token + "\r\n", "Proxy-Authorization: Basic !\r\n",
		b.authorization() + b.authorization(), "Authorization" + strings.TrimPrefix(b.authorization(), "Proxy-Authorization"),
	} {
		for _, line := range []string{
			"GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\n",
			"CONNECT good.example:80 HTTP/1.1\r\nHost: good.example\r\n",
		} {
			c := b.proxyConn()
			got := talk(t, c, strings.Repeat(line+auth+"\r\n", maxAttempts))
			if strings.Count(got, "HTTP/1.1 407 ") != maxAttempts || strings.Count(got, "Proxy-Authenticate: Basic") != maxAttempts {
				t.Errorf("%q: %q", auth, got)
			}
		}
	}
	if got := talk(t, b.proxyConn(),
		"POST http://good.example/ HTTP/1.1\r\nHost: good.example\r\nContent-Length: 3\r\n\r\nabc"); !strings.Contains(got, " 407 ") {
		t.Errorf("%q", got)
	}
	b.untouched()
}

// A client that waits to be asked for the token, as git does.
func TestTheTokenAfterTheChallenge(t *testing.T) {
	g, w := newGuard(t, Config{})
	srv, _ := site(t)
	w.at(80, srv.Listener.Addr())
	b := open(t, g, w, "good.example:80")
	const line = "GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\n"
	got := talk(t, b.proxyConn(), line+"\r\n"+line+b.authorization()+"Connection: close\r\n\r\n")
	if !strings.Contains(got, "407") || !strings.Contains(got, "host=good.example") {
		t.Errorf("%q", got)
	}
}

func TestEveryRequestIsDecided(t *testing.T) {
	g, w := newGuard(t, Config{})
	srv, _ := site(t)
	w.at(80, srv.Listener.Addr())
	b := open(t, g, w, "good.example:80", "other.example:80")
	a := b.authorization()
	got := talk(t, b.proxyConn(), "GET http://good.example/1 HTTP/1.1\r\nHost: good.example\r\n"+a+"\r\n"+
		"GET http://other.example/2 HTTP/1.1\r\nHost: other.example\r\n"+a+"\r\n"+
		"GET http://evil.example/3 HTTP/1.1\r\nHost: evil.example\r\n"+a+"\r\n"+
		"GET http://good.example/4 HTTP/1.1\r\nHost: good.example\r\n"+a+"\r\n")
	for want, n := range map[string]int{"host=good.example path=/1": 1, "host=other.example path=/2": 1, " 403 ": 1, "path=/4": 0} {
		if strings.Count(got, want) != n {
			t.Errorf("%s: %q", want, got)
		}
	}
	if strings.Contains(got, b.token) {
		t.Error("the token went out")
	}
	if _, dials := w.seen(); len(dials) != 2 {
		t.Errorf("two hosts by %d connections", len(dials))
	}
	b.flow("other.example", palyra.FlowAllowed)
}

// Requests that two readers could understand differently, and what names a host
// in more than one way.
func TestUnclearRequests(t *testing.T) {
	g, w := newGuard(t, Config{})
	reached := serveCount(t, w, 80)
	b := open(t, g, w, "good.example:80", "other.example:80")
	const line = "POST http://good.example/ HTTP/1.1\r\n"
	const ok = "Host: good.example\r\n"
	for name, req := range map[string]string{
		"two lengths":             line + ok + "Content-Length: 1\r\nContent-Length: 1\r\n",
		"length and chunked":      line + ok + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
		"chunked and length":      line + ok + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
		"length list":             line + ok + "Content-Length: 1, 1\r\n",
		"signed length":           line + ok + "Content-Length: +1\r\n",
		"odd coding":              line + ok + "Transfer-Encoding: chunked, identity\r\n",
		"hidden coding":           line + ok + "Transfer-Encoding: \x0bchunked\r\n",
		"coding of 1.0":           strings.Replace(line, "1.1", "1.0", 1) + ok + "Transfer-Encoding: chunked\r\n",
		"coding with space":       line + ok + "Transfer-Encoding : chunked\r\n",
		"folded":                  line + ok + "X: a\r\n b\r\n",
		"folded host":             line + "Host:\r\n good.example\r\n",
		"space first":             line + " Host: good.example\r\n",
		"two hosts":               line + ok + "Host: other.example\r\n",
		"no host":                 line,
		"another host":            line + "Host: other.example\r\n",
		"another port":            line + "Host: good.example:81\r\n",
		"user":                    "POST http://good.example@other.example/ HTTP/1.1\r\nHost: other.example\r\n",
		"user in host":            line + "Host: a@good.example\r\n",
		"backslash":               "POST http://good.example\\@other.example/ HTTP/1.1\r\n" + ok,
		"fragment":                "POST http://good.example#@other.example/ HTTP/1.1\r\n" + ok,
		"https":                   "POST https://good.example/ HTTP/1.1\r\n" + ok,
		"ftp":                     "POST ftp://good.example/ HTTP/1.1\r\n" + ok,
		"a path":                  "POST / HTTP/1.1\r\n" + ok,
		"a star":                  "POST * HTTP/1.1\r\n" + ok,
		"bare LF":                 line + "Host: good.example\n",
		"bare CR":                 line + ok + "X: a\rHost: other.example\r\n",
		"NUL":                     line + ok + "X: a\x00\r\n",
		"no colon":                line + ok + "X\r\n",
		"empty name":              line + ok + ": x\r\n",
		"0.9":                     "GET http://good.example/\r\n",
		"2.0":                     "PRI * HTTP/2.0\r\n",
		"1.2":                     "POST http://good.example/ HTTP/1.2\r\n" + ok,
		"lower-case version":      "POST http://good.example/ http/1.1\r\n" + ok,
		"two spaces":              "POST  http://good.example/ HTTP/1.1\r\n" + ok,
		"tab":                     "POST\thttp://good.example/ HTTP/1.1\r\n" + ok,
		"space in the target":     "POST http://good.example/ x HTTP/1.1\r\n" + ok,
		"an empty line first":     "\r\n" + line + ok,
		"a number":                "POST http://2130706433/ HTTP/1.1\r\nHost: 2130706433\r\n",
		"octal":                   "POST http://0177.0.0.1/ HTTP/1.1\r\nHost: 0177.0.0.1\r\n",
		"port zero":               "POST http://good.example:0/ HTTP/1.1\r\nHost: good.example:0\r\n",
		"port with zeros":         "POST http://good.example:0080/ HTTP/1.1\r\nHost: good.example:0080\r\n",
		"port with a sign":        "POST http://good.example:+80/ HTTP/1.1\r\nHost: good.example:+80\r\n",
		"an empty port":           "POST http://good.example:/ HTTP/1.1\r\nHost: good.example:\r\n",
		"a body of CONNECT":       "CONNECT good.example:80 HTTP/1.1\r\n" + ok + "Content-Length: 5\r\n",
		"CONNECT to a URL":        "CONNECT http://good.example:80/ HTTP/1.1\r\n" + ok,
		"CONNECT without a port":  "CONNECT good.example HTTP/1.1\r\n" + ok,
		"CONNECT with a user":     "CONNECT a@good.example:80 HTTP/1.1\r\n" + ok,
		"CONNECT bare IPv6":       "CONNECT ::1:80 HTTP/1.1\r\n" + ok,
		"IPv6 zone":               "CONNECT [fe80::1%25lo]:80 HTTP/1.1\r\n" + ok,
		"high bytes in a name":    "POST http://good\xff.example/ HTTP/1.1\r\nHost: good\xff.example\r\n",
		"non-ASCII target":        "POST http://good.example/\xc3\xa9 HTTP/1.1\r\n" + ok,
		"control in the method":   "PO\x01ST http://good.example/ HTTP/1.1\r\n" + ok,
		"a method without end":    strings.Repeat("A", 40) + " http://good.example/ HTTP/1.1\r\n" + ok,
		"very many fields":        line + ok + strings.Repeat("X: y\r\n", sniff.MaxFields+1),
		"a very long field":       line + ok + "X: " + strings.Repeat("y", sniff.Most) + "\r\n",
		"a length beyond numbers": line + ok + "Content-Length: 99999999999999999999\r\n",
	} {
		got := talk(t, b.proxyConn(), req+b.authorization()+"\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, `"remedy"`) || strings.Count(got, "HTTP/1.1 400 ") != 1 {
			t.Errorf("%s: %q", name, got)
		}
	}
	if n := reached(); n != 0 {
		t.Errorf("%d of them went out", n)
	}
	b.untouched()
}
