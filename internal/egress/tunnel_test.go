package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/internal/egress/sniff"
)

// ways are the doors that lead to a connection with a server.
var ways = map[string]func(b *bench, name string, port int) *net.TCPConn{
	doorDirect: func(b *bench, name string, port int) *net.TCPConn { return dialTo(b, b.door(name, port)) },
	doorConnect: func(b *bench, name string, port int) *net.TCPConn {
		c, code, body := b.connectTo(target{host{name: name}, port}.String())
		if code != 200 {
			b.Fatal(code, body)
		}
		return c
	},
	doorSOCKS: func(b *bench, name string, port int) *net.TCPConn {
		c, code := b.socksTo(target{host{name: name}, port})
		if code != socksOK {
			b.Fatal(code)
		}
		return c
	},
}

func eachWay(t *testing.T, f func(t *testing.T, way func(b *bench, name string, port int) *net.TCPConn)) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) { f(t, way) })
	}
}

func TestTLSThroughEveryDoor(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			g, w := newGuard(t, Config{})
			srv, ca := site(t, "good.example")
			w.at(443, srv.Listener.Addr())
			b := open(t, g, w, "good.example:443")
			c := tls.Client(way(b, "good.example", 443), &tls.Config{RootCAs: ca.pool, ServerName: "good.example"})
			if _, err := io.WriteString(c, "GET /x HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			all, err := io.ReadAll(c)
			if err != nil || !strings.Contains(string(all), "host=good.example path=/x") {
				t.Fatal(string(all), err)
			}
			if f := b.flow("good.example", palyra.FlowAllowed); f.Door != name || f.Address != "127.0.0.1" || f.In < 500 || f.Out < 200 {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestAnotherNameInTLS(t *testing.T) {
	eachWay(t, func(t *testing.T, way func(b *bench, name string, port int) *net.TCPConn) {
		for _, tc := range []struct{ sni, seen string }{
			{"evil.example", "evil.example"},
			{"sub.good.example", "sub.good.example"},
			{"", "good.example"}, // none at all
		} {
			g, w := newGuard(t, Config{})
			reached := serveCount(t, w, 443)
			b := open(t, g, w, "good.example:443")
			c := tls.Client(way(b, "good.example", 443), &tls.Config{ServerName: tc.sni, InsecureSkipVerify: true})
			if err := c.Handshake(); err == nil || !strings.Contains(err.Error(), "access denied") {
				t.Errorf("%q: %v", tc.sni, err)
			}
			b.flow(tc.seen, palyra.FlowDenied)
			if n := reached(); n != 0 {
				t.Errorf("%q: %d bytes went out", tc.sni, n)
			}
		}
	})
}

// A ClientHello in many records, in many packets, byte by byte.
func TestAFragmentedClientHello(t *testing.T) {
	for _, sni := range []string{"good.example", "evil.example"} {
		g, w := newGuard(t, Config{})
		srv, ca := site(t, "good.example")
		w.at(443, srv.Listener.Addr())
		b := open(t, g, w, "good.example:443")
		raw := ways[doorDirect](b, "good.example", 443)
		_ = raw.SetNoDelay(true)
		c := tls.Client(&crumbs{Conn: raw, records: 40}, &tls.Config{RootCAs: ca.pool, ServerName: sni})
		err := c.HandshakeContext(t.Context())
		if good := sni == "good.example"; (err == nil) != good {
			t.Errorf("%s: %v", sni, err)
		}
	}
}

// crumbs cuts the first record that is written into many, and those into bytes.
type crumbs struct {
	net.Conn
	records int
}

// Write implements net.Conn.
func (c *crumbs) Write(b []byte) (int, error) {
	if c.records == 0 {
		return c.Conn.Write(b)
	}
	for _, one := range splitRecord(b, c.records) {
		if _, err := c.Conn.Write([]byte{one}); err != nil {
			return 0, err
		}
	}
	c.records = 0
	return len(b), nil
}

func splitRecord(b []byte, n int) []byte {
	var out []byte
	body := b[sniff.RecordHead:]
	for step := len(body)/n + 1; len(body) > 0; {
		k := min(step, len(body))
		out = append(append(out, b[0], b[1], b[2], byte(k>>8), byte(k)), body[:k]...)
		body = body[k:]
	}
	return out
}

// After a HelloRetryRequest the client says its name again.
func TestASecondClientHello(t *testing.T) {
	for _, second := range []string{"good.example", "evil.example"} {
		g, w := newGuard(t, Config{})
		ca := newAuthority(t, "good.example")
		names := make(chan string, 4)
		w.at(443, serve(t, func(c *net.TCPConn) {
			s := tls.Server(c, &tls.Config{
				Certificates: []tls.Certificate{ca.cert}, CurvePreferences: []tls.CurveID{tls.CurveP384},
			})
			if s.Handshake() == nil {
				names <- s.ConnectionState().ServerName
				_, _ = io.WriteString(s, "welcome")
			}
		}))
		b := open(t, g, w, "good.example:443")
		raw := ways[doorConnect](b, "good.example", 443)
		// P-384 is known to the client and not offered at first, so it is asked again.
		r := &renamer{Conn: raw, second: second}
		c := tls.Client(r, &tls.Config{
			RootCAs: ca.pool, ServerName: "good.example", CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP384}, MinVersion: tls.VersionTLS13,
		})
		err := c.Handshake()
		if r.hellos != 2 {
			t.Fatal("the server did not ask for a second ClientHello")
		}
		if second == "good.example" {
			if err != nil || <-names != "good.example" {
				t.Fatal(err)
			}
			continue
		}
		if err == nil || len(names) > 0 {
			t.Error("the second name was not looked at")
		}
		b.flow("evil.example", palyra.FlowDenied)
	}
}

// renamer writes another name into the second ClientHello.
type renamer struct {
	net.Conn
	second string
	hellos int
}

// Write implements net.Conn.
func (r *renamer) Write(b []byte) (int, error) {
	out := b
	if i := strings.Index(string(b), "good.example"); i >= 0 {
		if r.hellos++; r.hellos == 2 {
			out = []byte(strings.Replace(string(b), "good.example", r.second, 1))
		}
	}
	if n, err := r.Conn.Write(out); err != nil {
		return n, err
	}
	return len(b), nil
}

func TestAnotherHostInHTTP(t *testing.T) {
	eachWay(t, func(t *testing.T, way func(b *bench, name string, port int) *net.TCPConn) {
		for _, port := range []int{80, 8080} {
			g, w := newGuard(t, Config{})
			srv, _ := site(t)
			w.at(port, srv.Listener.Addr())
			b := open(t, g, w, target{host{name: "good.example"}, port}.String())
			at := "good.example"
			if port != 80 {
				at += ":8080"
			}
			got := talk(t, way(b, "good.example", port), "GET /1 HTTP/1.1\r\nHost: "+at+"\r\n\r\n"+
				"GET http://"+at+"/2 HTTP/1.1\r\nHost: "+at+"\r\n\r\nGET /3 HTTP/1.1\r\nHost: evil.example\r\n\r\nGET /4 HTTP/1.1\r\nHost: "+at+
				"\r\n\r\n")
			for want, n := range map[string]int{"path=/1": 1, "path=/2": 1, " 403 ": 1, "path=/3": 0, "path=/4": 0} {
				if strings.Count(got, want) != n {
					t.Errorf("%d %s: %q", port, want, got)
				}
			}
			b.flow("evil.example", palyra.FlowDenied)
			b.flow("good.example", palyra.FlowAllowed)
		}
	})
}

// What a lenient server could take for a request, on a port where anything goes.
func TestAlmostHTTP(t *testing.T) {
	g, w := newGuard(t, Config{})
	reached := serveCount(t, w, 8080)
	b := open(t, g, w, "good.example:8080")
	for _, say := range []string{
		"GET http://evil.example/ HTTP/1.1\r\nHost: good.example:8080\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: good.example:8081\r\n\r\n",
		"get / http/1.1\r\nHost: evil.example\r\n\r\n",
		"\r\n\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		" GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"GET\t/\tHTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"GET / HTTP/1.1\nHost: evil.example\n\n",
		"GET / HTTP/1.1\r\nHost : evil.example\r\n\r\n",
		"GET / HTTP/1.1\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"CONNECT evil.example:443 HTTP/1.1\r\nHost: good.example:8080\r\n\r\n",
		"CONNECT good.example:8080 HTTP/1.1\r\nHost: good.example:8080\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: good.example:8080\r\nHost: evil.example\r\n\r\n",
		strings.Repeat("A", 64) + " / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"0GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"SSH-2.0-x HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"GET //evil.example/ HTTP/1.0\r\nHost: evil.example\r\n\r\n",
		"GET /\r\nHost: evil.example\r\n\r\n", // HTTP/0.9, and yet
		"GET\vhttp://evil.example/\nHost: evil.example\r\n\r\n",
		"GET\v/\vHTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"GET\f/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"GET\r/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"\vGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"\x1cGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"GET\x1f/\x1dHTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"\x85GET\x85/\x85HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"\xa0GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"GET /\x00 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"\x00GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"\x01GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", // some trim all of those
		"\x01\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"(GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"GET\xe2\x80\x83/\xe2\x80\x83HTTP/1.1\r\nHost: evil.example\r\n\r\n", // spaces of Unicode
		"{} http/1.1\r\nHost: evil.example\r\n\r\n",
	} {
		got := talk(t, ways[doorDirect](b, "good.example", 8080), say)
		if !strings.HasPrefix(got, "HTTP/1.1 40") || strings.Contains(got, " 200 ") {
			t.Errorf("%q: %q", say, got)
		}
	}
	if n := reached(); n != 0 {
		t.Errorf("%d bytes went out", n)
	}
}

func TestHTTP2WithoutTLS(t *testing.T) {
	g, w := newGuard(t, Config{})
	reached := serveCount(t, w, 80)
	b := open(t, g, w, "good.example:80")
	if got := talk(t, ways[doorDirect](b, "good.example", 80),
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); !strings.Contains(got, " 400 ") {
		t.Errorf("%q", got)
	}
	if reached() != 0 {
		t.Error("it went out")
	}
}

// Protocols where the server speaks first, or that are nothing we know.
func TestOtherProtocols(t *testing.T) {
	eachWay(t, func(t *testing.T, way func(b *bench, name string, port int) *net.TCPConn) {
		for name, tc := range map[string]struct {
			port          int
			greeting, say string
		}{
			"SMTP":              {25, "220 hello\r\n", "EHLO me.example\r\n"},
			"SSH at 443":        {443, "SSH-2.0-server\r\n", "SSH-2.0-OpenSSH_9.2 Debian\r\n"},
			"postgres":          {5432, "", "\x00\x00\x00\x08\x04\xd2\x16\x2f"},
			"git":               {9418, "", "0033git-upload-pack /x.git\x00host=good.example\x00"},
			"redis":             {6379, "", "*1\r\n$4\r\nPING\r\n"},
			"almost TLS":        {6000, "", "\x16\x04abc"},
			"a line":            {6000, "", "NICK someone\r\n"},
			"a long word":       {6000, "", strings.Repeat("x", 64) + "\r\n"},
			"only the server":   {6000, "here you are", ""},
			"one at 443, first": {443, "hello", ""},
		} {
			g, w := newGuard(t, Config{})
			w.at(tc.port, echo(t, tc.greeting))
			b := open(t, g, w, target{host{name: "good.example"}, tc.port}.String())
			c := way(b, "good.example", tc.port)
			greeting := make([]byte, len(tc.greeting))
			if _, err := io.ReadFull(c, greeting); err != nil || string(greeting) != tc.greeting {
				t.Fatalf("%s: %q %v", name, greeting, err)
			}
			if _, err := io.WriteString(c, tc.say); err != nil {
				t.Fatal(err)
			}
			_ = c.CloseWrite()
			rest, err := io.ReadAll(c)
			if err != nil || string(rest) != tc.say {
				t.Errorf("%s: %q %v", name, rest, err)
			}
			if f := b.flow("good.example", palyra.FlowAllowed); f.In != int64(len(tc.greeting+tc.say)) || f.Out != int64(len(tc.say)) {
				t.Errorf("%s: %+v", name, f)
			}
		}
	})
}

func TestNeitherTLSNorHTTPWhereItMustBe(t *testing.T) {
	for _, port := range []int{80, 443} {
		g, w := newGuard(t, Config{})
		reached := serveCount(t, w, port)
		b := open(t, g, w, target{host{name: "good.example"}, port}.String())
		for _, say := range []string{
			"\x00\x01\x02", "EHLO x\r\n", "\x16\x03\x01\x00\x00", "\x16\x03\x01\xff\xff",
			"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00",
		} {
			c := ways[doorDirect](b, "good.example", port)
			if _, err := io.WriteString(c, say); err != nil {
				t.Fatal(err)
			}
			all, err := io.ReadAll(c)
			if err == nil && !strings.HasPrefix(string(all), "\x15\x03\x01\x00\x02\x02\x31") || err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%d %q: %q %v", port, say, all, err)
			}
		}
		b.end()
		if reached() != 0 {
			t.Error("it went out")
		}
	}
}

func TestARefusedDirectConnectionIsReset(t *testing.T) {
	g, w := newGuard(t, Config{})
	b := open(t, g, w, "good.example:443")
	for _, at := range []string{
		b.door("evil.example", 443), b.door("good.example", 80),
		strings.Replace(b.door("good.example", 443), "127.18.0.16", "127.0.0.1", 1),
	} {
		c, err := net.Dial("tcp", at)
		if err == nil {
			_, err = c.Read(make([]byte, 1))
			_ = c.Close()
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v", at, err)
		}
	}
	b.untouched()
	b.flow("evil.example", palyra.FlowDenied)
	b.flow("good.example", palyra.FlowDenied)
	b.flow("127.0.0.1", palyra.FlowDenied)
}

func TestWebSocket(t *testing.T) {
	for _, agree := range []bool{true, false} {
		g, w := newGuard(t, Config{})
		w.at(80, serve(t, func(c *net.TCPConn) {
			br := bufio.NewReader(c)
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if !agree || r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Connection") != "Upgrade" {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")
				_, _ = io.Copy(c, br)
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nfirst ")
			_, _ = io.Copy(c, br)
		}))
		b := open(t, g, w, "good.example:80")
		c := ways[doorDirect](b, "good.example", 80)
		const raw = "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"
		_, _ = io.WriteString(c,
			"GET /ws HTTP/1.1\r\nHost: good.example\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: x\r\n\r\n"+raw)
		_ = c.CloseWrite()
		all, _ := io.ReadAll(c)
		if got := string(all); strings.Contains(got, "first "+raw) != agree || strings.Contains(got, " 403 ") == agree {
			t.Errorf("agree=%v: %q", agree, got)
		}
	}
}

func TestOnlyWebSocketsUpgrade(t *testing.T) {
	g, w := newGuard(t, Config{})
	heads := make(chan http.Header, 1)
	w.at(80, serve(t, func(c *net.TCPConn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err == nil {
			heads <- r.Header
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n")
			_, _ = io.Copy(c, c)
		}
	}))
	b := open(t, g, w, "good.example:80")
	got := talk(t, ways[doorDirect](b, "good.example", 80),
		"GET / HTTP/1.1\r\nHost: good.example\r\nConnection: Upgrade, HTTP2-Settings, Host\r\nUpgrade: h2c\r\nHTTP2-Settings: "+
			"AAMAAABkAAQCAAAAAAIAAAAA\r\nProxy-Authorization: x\r\n\r\n")
	if h := <-heads; len(h) != 0 || strings.Contains(got, "101") {
		t.Errorf("%v %q", h, got)
	}
}

func TestBodiesBothWays(t *testing.T) {
	g, w := newGuard(t, Config{})
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Expect") != "" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.Copy(w, r.Body)
	})
	mux.HandleFunc("/early", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too much", http.StatusRequestEntityTooLarge)
	})
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "one ")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	srv := &http.Server{Handler: mux}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close(); <-served })
	w.at(80, l.Addr())
	b := open(t, g, w, "good.example:80")
	big := strings.Repeat("0123456789abcdef", 200_000)
	for name, body := range map[string]io.Reader{
		"of known size": strings.NewReader(big), "in chunks": io.MultiReader(strings.NewReader(big)), "awaited": strings.NewReader(big),
	} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://good.example/echo", body)
		if name == "awaited" {
			req.Header.Set("Expect", "100-continue")
		}
		resp, err := b.client().Do(req)
		if err != nil {
			t.Fatal(name, err)
		}
		all, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || string(all) != big {
			t.Errorf("%s: %d bytes, %v", name, len(all), err)
		}
	}
	resp, err := b.client().Post("http://good.example/early", "text/plain", io.MultiReader(strings.NewReader(big)))
	if err != nil || resp.StatusCode != 413 {
		t.Error("the early answer was lost:", err)
	}
	if err == nil {
		_ = resp.Body.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://good.example/stream", nil)
	if resp, err = b.client().Do(req); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 4)
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "one " {
		t.Errorf("a stream is held back: %q %v", first, err)
	}
	cancel()
	_ = resp.Body.Close()
}

// A body that a careless server would read as a request of its own.
func TestNoSecondRequestInABody(t *testing.T) {
	g, w := newGuard(t, Config{})
	heads := make(chan *http.Request, 1)
	w.at(80, serve(t, func(c *net.TCPConn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err == nil {
			heads <- r
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}
	}))
	b := open(t, g, w, "good.example:80")
	got := talk(t, ways[doorDirect](b, "good.example", 80),
		"GET / HTTP/1.1\r\nHost: good.example\r\nExpect: 100-continue\r\nContent-Length: 40\r\n\r\n"+
			"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\nxxx")
	if r := <-heads; !r.Close || r.Header.Get("Expect") != "" {
		t.Errorf("the server was not told to stop after it: %+v", r)
	}
	if !strings.Contains(got, "Connection: close") {
		t.Errorf("%q", got)
	}
}
