package rpc_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/rpc"
)

// browse sends a request to the console as a browser might, and returns the answer
// with its body.
func (w *world) browse(method, path, host, body string, head http.Header) (*http.Response, string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.console+path, strings.NewReader(body))
	w.must(err)
	for k, v := range head {
		req.Header[k] = v
	}
	if host != "" {
		req.Host = host
	}
	res, err := w.browser().Do(req)
	w.must(err)
	raw, err := io.ReadAll(res.Body)
	w.must(err)
	_ = res.Body.Close()
	return res, string(raw)
}

const statusPath = "/palyra.v1.StatusService/GetStatus"

func asJSON(h http.Header) http.Header {
	h = h.Clone()
	h.Set("Content-Type", "application/json")
	return h
}

// A name that leads to the console and is not its own is refused, whatever else
// comes with it (DNS rebinding); so is every other spelling.
func TestConsoleIsCalledByItsName(t *testing.T) {
	w := newWorld(t, nil)
	_, port, _ := net.SplitHostPort(w.console)
	good := asJSON(cookieHead(w.cookie(w.owner, "user:alice", palyra.RoleOwner)))
	for host, want := range map[string]int{
		"palyra.localhost:" + port: 200,
		"127.0.0.1:" + port:        403, "localhost:" + port: 403, "[::1]:" + port: 403, "palyra.localhost": 403, "palyra.localhost:1": 403,
		"x.palyra.localhost:" + port: 403, "palyra.localhost.:" + port: 403, "PALYRA.localhost:" + port: 403, "xpalyra.localhost:" + port: 403,
		"evil.example": 403, "evil.example:" + port: 403, "localhost": 403, "127.0.0.1": 403, "127.0.0.1:1": 403, "LOCALHOST:" + port: 403,
		"localhost.:" + port: 403, "127.1:" + port: 403, "0.0.0.0:" + port: 403, "127.0.0.1:" + port + ".evil.example": 403,
		"evil.example@127.0.0.1:" + port: 403, "2130706433:" + port: 403, "localhost:" + port + ":80": 403,
	} {
		for _, path := range []string{statusPath, "/healthz", "/login", "/"} {
			method := http.MethodGet
			if path == statusPath {
				method = http.MethodPost
			}
			res, body := w.browse(method, path, host, "{}", good)
			if res.StatusCode != want {
				t.Errorf("%s%s: %d %s", host, path, res.StatusCode, body)
			}
			if want == 403 && !strings.Contains(body, "not served under that name") {
				t.Errorf("%s: %s", host, body)
			}
		}
	}
	if a := w.journal.alerts(); len(a) == 0 || a[0].Reason != palyra.ReasonForeignOrigin {
		t.Errorf("%+v", a)
	}
}

// Another site's page, or one of another port of this machine, can send nothing
// that counts, and reads nothing.
func TestConsoleServesItsOwnPagesOnly(t *testing.T) {
	w := newWorld(t, nil)
	good := asJSON(cookieHead(w.cookie(w.owner, "user:alice", palyra.RoleOwner)))
	own := "http://" + w.console
	_, port, _ := net.SplitHostPort(w.console)
	for name, c := range map[string]struct {
		head http.Header
		want int
	}{
		"itself":            {http.Header{"Origin": {own}, "Sec-Fetch-Site": {"same-origin"}}, 200},
		"an old browser":    {http.Header{"Origin": {own}}, 200},
		"no browser":        {nil, 200},
		"evil.example":      {http.Header{"Origin": {"http://evil.example"}}, 403},
		"cross-site":        {http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		"another port":      {http.Header{"Origin": {"http://127.0.0.1:1"}, "Sec-Fetch-Site": {"same-site"}}, 403},
		"another name":      {http.Header{"Origin": {"http://localhost:" + port}}, 403},
		"null":              {http.Header{"Origin": {"null"}}, 403},
		"empty":             {http.Header{"Origin": {""}}, 403},
		"two":               {http.Header{"Origin": {own, own}}, 403},
		"https":             {http.Header{"Origin": {"https://" + w.console}}, 403},
		"lies about itself": {http.Header{"Origin": {"http://evil.example"}, "Sec-Fetch-Site": {"same-origin"}}, 403},
	} {
		head := good.Clone()
		for k, v := range c.head {
			head[k] = v
		}
		for _, path := range []string{statusPath, "/logout-not", "/login"} {
			res, body := w.browse(http.MethodPost, path, "", "{}", head)
			if refused := res.StatusCode == 403 && strings.Contains(body, "site"); refused != (c.want == 403) {
				t.Errorf("%s %s: %d %s", name, path, res.StatusCode, body)
			}
			for h := range res.Header {
				if strings.HasPrefix(h, "Access-Control-") {
					t.Errorf("%s %s: %s", name, path, h)
				}
			}
		}
	}
	res, _ := w.browse(http.MethodOptions, statusPath, "", "", http.Header{
		"Origin": {"http://evil.example"}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"palyra-intent"},
	})
	if res.StatusCode < 400 || res.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a preflight: %d %v", res.StatusCode, res.Header)
	}
	if res, _ := w.browse(http.MethodGet, statusPath+"?encoding=json&message=%7B%7D", "", "", good); res.StatusCode == 200 {
		t.Error("a method can be called by a link")
	}
}

// Whom another page led to the console sees nothing of it that could be clicked on, signed in or not.
func TestOnlyItsPeopleAreLedToTheConsole(t *testing.T) {
	w := newWorld(t, nil)
	cookie := w.cookie(w.owner, "user:alice", palyra.RoleOwner)
	for site, own := range map[string]bool{"none": true, "same-origin": true, "same-site": false, "cross-site": false, "": false, "x": false} {
		for _, signedIn := range []bool{true, false} {
			head := http.Header{}
			if signedIn {
				head = cookieHead(cookie)
			}
			head["Sec-Fetch-Site"] = []string{site}
			res, body := w.browse(http.MethodGet, "/", "", "", head)
			led := strings.Contains(body, `<a href="/">open the console</a>`) && !strings.Contains(body, "<script")
			if res.StatusCode != 200 || led == own || strings.Contains(body, `id="root"`) != (own && signedIn) {
				t.Errorf("%q, signed in %v: %d %s", site, signedIn, res.StatusCode, body)
			}
		}
	}
	head := cookieHead(cookie)
	head["Sec-Fetch-Site"] = []string{"same-origin", "cross-site"}
	if _, body := w.browse(http.MethodGet, "/", "", "", head); strings.Contains(body, `id="root"`) {
		t.Error("a browser that says two things is believed the better one")
	}
	if _, body := w.browse(http.MethodGet, "/", "", "", cookieHead(cookie)); !strings.Contains(body, `id="root"`) {
		t.Error("a browser that says nothing does not get the console")
	}
}

// The sockets are no browser's.
func TestSocketsRefuseBrowsers(t *testing.T) {
	b := newBench(t, rpc.New)
	m := find(t, "GetStatus")
	for _, door := range []string{"agent", "operator"} {
		for name, head := range map[string]http.Header{
			"origin": {"Origin": {"http://palyra"}}, "null": {"Origin": {"null"}}, "empty": {"Origin": {""}},
			"fetch": {"Sec-Fetch-Site": {"none"}}, "empty fetch": {"Sec-Fetch-Site": {""}},
		} {
			if got := b.send(door, m, m.request(t), head); got != palyra.ReasonForeignOrigin {
				t.Errorf("%s %s: %q", door, name, got)
			}
		}
	}
	if seen := b.parts.Seen(); len(seen) > 0 {
		t.Errorf("reached %v", seen)
	}
}

// Every answer of the console keeps to itself, refusals too; no page has a script
// or a style in it, and nothing lists what there is.
func TestConsolePagesKeepToThemselves(t *testing.T) {
	w := newWorld(t, nil)
	good := cookieHead(w.cookie(w.owner, "user:alice", palyra.RoleOwner))
	for path, kind := range map[string]string{
		"/": "text/html", "/login?code=x": "text/html", "/healthz": "text/plain", "/page/page.css": "text/css",
		"/assets/console.js": "text/javascript", "/assets/console.css": "text/css", "/assets/": "text/plain", "/assets": "text/plain",
		"/icon.svg": "image/svg+xml", "/inputs.sha256": "text/plain",
		"/page/login.js": "text/javascript", "/nothing": "text/plain", "/page/": "text/plain", "/page/home.html": "text/plain",
		"/page/../console.go": "",
	} {
		for who, host := range map[string]string{"good": "", "evil": "evil.example"} {
			res, body := w.browse(http.MethodGet, path, host, "", good)
			csp := res.Header.Get("Content-Security-Policy")
			if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") ||
				res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("X-Frame-Options") != "DENY" ||
				res.Header.Get("Referrer-Policy") != "same-origin" || res.Header.Get("Cache-Control") != "no-store" ||
				res.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" || res.Header.Get("Cross-Origin-Opener-Policy") != "same-origin" {
				t.Errorf("%s %s: %v", who, path, res.Header)
			}
			if res.Header.Get("Server") != "" || strings.Contains(body, "page.css\"") && path == "/page/" {
				t.Errorf("%s %s tells too much: %s", who, path, body)
			}
			if who == "good" && !strings.HasPrefix(res.Header.Get("Content-Type"), kind) {
				t.Errorf("%s is %s", path, res.Header.Get("Content-Type"))
			}
			for _, bad := range []string{"<script>", "<style", "onclick=", "onload=", "style=", "javascript:"} {
				if kind == "text/html" && strings.Contains(body, bad) {
					t.Errorf("%s has %s in it", path, bad)
				}
			}
		}
	}
}

// A slow, silent or too large request to the console is ended; so is one that does
// not read.
func TestConsoleSlowAndLarge(t *testing.T) {
	w := newTightWorld(t, 64, tight)
	for name, sent := range map[string]string{
		"nothing":      "",
		"half headers": "GET / HTTP/1.1\r\nHost: " + w.console + "\r\n",
		"half a form": "POST /login HTTP/1.1\r\nHost: " + w.console +
			"\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nc",
		"half a call": "POST " + statusPath + " HTTP/1.1\r\nHost: " + w.console +
			"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"refused":    "POST /login HTTP/1.1\r\nHost: " + w.console + "\r\nOrigin: http://evil.example\r\nContent-Length: 100\r\n\r\nc",
		"other host": "POST /login HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 100\r\n\r\nc",
		"two hosts":  "GET / HTTP/1.1\r\nHost: " + w.console + "\r\nHost: evil.example\r\n\r\n",
		"no host":    "GET / HTTP/1.1\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", w.consoleAt)
		w.must(err)
		defer func() { _ = conn.Close() }()
		_, err = io.WriteString(conn, sent)
		w.must(err)
		w.must(conn.SetDeadline(time.Now().Add(20 * time.Second)))
		raw, err := io.ReadAll(conn)
		if err != nil || strings.Contains(string(raw), "200 OK") {
			t.Errorf("%s: %v %q", name, err, raw)
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.console+"/", nil)
	req.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	if res, err := w.browser().Do(req); err == nil { // or it was cut off
		if _ = res.Body.Close(); res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a large header: %d", res.StatusCode)
		}
	}
	code := w.code(w.owner, "user:alice", palyra.RoleOwner)
	large := url.Values{"code": {code}, "x": {strings.Repeat("x", 64<<10)}}
	if res, err := w.browser().PostForm("http://"+w.console+"/login", large); err == nil { // or it was cut off
		if _ = res.Body.Close(); res.StatusCode != http.StatusBadRequest {
			t.Errorf("a large form: %d", res.StatusCode)
		}
	}
	if res := w.signIn(code); res.StatusCode != http.StatusSeeOther {
		t.Errorf("the large form used the code up: %d", res.StatusCode)
	}
	head := asJSON(cookieHead(w.cookie(w.owner, "user:alice", palyra.RoleOwner)))
	w.parts.Seen()
	req, _ = http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.console+statusPath,
		strings.NewReader(`{"x":"`+strings.Repeat("x", 2<<20)+`"}`))
	req.Header = head
	if res, err := w.browser().Do(req); err == nil {
		if _ = res.Body.Close(); res.StatusCode == http.StatusOK {
			t.Errorf("a large call: %d", res.StatusCode)
		}
	}
	if seen := w.parts.Seen(); len(seen) > 0 {
		t.Errorf("a large call reached %v", seen)
	}
	if res, _ := w.browse(http.MethodGet, "/healthz", "", "", nil); res.StatusCode != 200 {
		t.Errorf("afterwards: %d", res.StatusCode)
	}
}

// A browser that does not read its stream has the console's only place, and the
// next one gets it.
func TestConsoleClientThatDoesNotRead(t *testing.T) {
	w := newTightWorld(t, 1, tight)
	for i := range 20000 {
		w.parts.Entries = append(w.parts.Entries, palyra.Entry{Seq: int64(i + 1), Kind: strings.Repeat("k", 500)})
	}
	cookie := w.cookie(w.owner, "user:alice", palyra.RoleOwner)
	conn, err := net.Dial("tcp", w.consoleAt)
	w.must(err)
	defer func() { _ = conn.Close() }()
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	body := "\x00\x00\x00\x00\x02{}"
	_, err = fmt.Fprintf(conn, "POST /palyra.v1.JournalService/TailJournal HTTP/1.1\r\nHost: %s\r\nCookie: palyra_session=%s\r\n"+
		"Palyra-Page: %s\r\n"+
		"Content-Type: application/connect+json\r\nContent-Length: %d\r\n\r\n%s", w.console, cookie, pageSecret, len(body), body)
	w.must(err)
	if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q %v", line, err)
	}
	for end := time.Now().Add(20 * time.Second); ; {
		res, _ := w.browse(http.MethodGet, "/healthz", "", "", nil)
		if res.StatusCode == http.StatusOK {
			return
		}
		if res.StatusCode == http.StatusTooManyRequests && res.Header.Get("Retry-After") == "" {
			t.Fatal("no word about when to come again")
		}
		if time.Now().After(end) {
			t.Fatalf("the handler is still held: %d", res.StatusCode)
		}
	}
}

// Connections that say nothing use up their own door's places and no descriptors
// beyond.
func TestConnectionsAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	for range 600 {
		c, err := net.Dial("tcp", w.consoleAt)
		w.must(err)
		open = append(open, c)
	}
	first := open[0]
	w.must(first.SetReadDeadline(time.Now().Add(soon)))
	if _, err := first.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("one too many is kept: %v", err)
	}
	if got := w.send("operator", find(t, "GetStatus"), find(t, "GetStatus").request(t), nil); got != let {
		t.Errorf("the operator's socket: %q", got)
	}
}
