package lend

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"palyra"
	"palyra/secrets"
)

const value = `ghp_S3cr3t/Value+with=signs"0123456789`

// bound is a server with secrets bound to it, and a client that trusts the run's authority.
type bound struct {
	*testing.T
	desk   *Desk
	server *httptest.Server
	at     string
	client *http.Client
	mu     sync.Mutex
	notes  Use
	got    *http.Request
	body   string
}

func loan(name string, kind secrets.Kind, place, at string) secrets.Loan {
	return secrets.Loan{
		Binding:     secrets.Binding{Name: name, Secret: "s-" + name, Kind: kind, Place: place, Hosts: []string{at}},
		Placeholder: Placeholder([]byte(value)), Value: palyra.NewSecret([]byte(value)),
	}
}

// newBound starts a server that keeps what it was sent and then answers with answer, or with all that it got.
func newBound(t *testing.T, h2 bool, answer http.HandlerFunc, loans ...secrets.Loan) *bound {
	b := &bound{T: t}
	b.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		b.got, b.body = r, string(raw)
		b.mu.Unlock()
		if answer != nil {
			answer(w, r)
			return
		}
		for name, v := range r.Header {
			w.Header().Set("Echo-"+name, v[0])
		}
		fmt.Fprintf(w, "%s %v\n%s", r.URL, r.Header, raw)
	}))
	b.server.EnableHTTP2 = h2
	b.server.StartTLS()
	t.Cleanup(b.server.Close)
	b.at = strings.TrimPrefix(b.server.URL, "https://")
	for i := range loans {
		loans[i].Hosts = []string{b.at}
	}
	var err error
	if b.desk, err = New(loans, time.Now()); err != nil {
		t.Fatal(err)
	}
	b.desk.Trust(poolOf(b.server.Certificate()))
	b.client = &http.Client{Transport: b.transport(h2)}
	t.Cleanup(b.client.CloseIdleConnections)
	return b
}

func poolOf(c *x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(c)
	return p
}

// transport leads every connection to the desk.
func (b *bound) transport(h2 bool) *http.Transport {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(b.desk.Certificate())
	return &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return b.connect(), nil },
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: h2,
	}
}

// connect returns a connection that the desk answers.
func (b *bound) connect() net.Conn {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	inside, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	outside, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.desk.Serve(outside, b.way())
	}()
	b.Cleanup(func() { _ = inside.Close(); <-done })
	return inside
}

func (b *bound) way() Way {
	host, _, _ := net.SplitHostPort(b.at)
	return Way{
		Name: host, At: b.at, Head: 10 * time.Second, Idle: time.Minute,
		Dial: func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", b.at) },
		Note: func(u Use) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.notes.Used, b.notes.Stray = append(b.notes.Used, u.Used...), append(b.notes.Stray, u.Stray...)
		},
	}
}

// send sends a request and returns the answer, with its head as text.
func (b *bound) send(method, path, body string, header ...string) (int, string) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, b.server.URL+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := b.client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	return res.StatusCode, fmt.Sprintf("%s %v\n%s", res.Proto, res.Header, raw)
}

// unseen fails where a value can be found in any usual form.
func (b *bound) unseen(text string) {
	b.Helper()
	q, _ := json.Marshal(value)
	for what, form := range map[string]string{
		"raw": value, "base64": base64.RawStdEncoding.EncodeToString([]byte(value))[:len(value)], "hex": hex.EncodeToString([]byte(value)),
		"url": url.QueryEscape(value), "json": strings.Trim(string(q), `"`),
	} {
		if strings.Contains(text, form) {
			b.Errorf("the value came back, %s: %s", what, text)
		}
	}
}

func TestEveryPlace(t *testing.T) {
	header, login, query, field := loan("h", secrets.Header, "Authorization", ""), loan("b", secrets.Basic, "", ""),
		loan("q", secrets.Query, "key", ""), loan("f", secrets.Body, "auth.token", "")
	for _, h2 := range []bool{false, true} {
		b := newBound(t, h2, nil, header, login, query, field)
		code, text := b.send("GET", "/x?a=1&key="+query.Placeholder+"&b=%20", "", "Authorization", "Bearer "+header.Placeholder)
		if code != 200 || b.got.Header.Get("Authorization") != "Bearer "+value || b.got.URL.Query().Get("key") != value ||
			!strings.HasSuffix(b.got.URL.RawQuery, "&b=%20") || b.got.ProtoMajor != map[bool]int{false: 1, true: 2}[h2] {
			t.Errorf("h2 %v: %d %s: %v %v", h2, code, text, b.got.URL, b.got.Header)
		}
		b.unseen(text)
		encoded := "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+login.Placeholder))
		_, text = b.send("POST", "/", `{"n": 1.0, "auth": {"x":[{}], "token": "`+field.Placeholder+`" }}`, "Authorization", encoded,
			"Content-Type", "application/json")
		if _, password, _ := b.got.BasicAuth(); password != value {
			t.Errorf("basic: %v", b.got.Header)
		}
		q, _ := json.Marshal(value)
		if b.body != `{"n": 1.0, "auth": {"x":[{}], "token": `+string(q)+` }}` {
			t.Errorf("body %s", b.body)
		}
		b.unseen(text)
		slices.Sort(b.notes.Used)
		if got := strings.Join(slices.Compact(b.notes.Used), " "); got != "b f h q" || len(b.notes.Stray) > 0 {
			t.Errorf("noted %+v", b.notes)
		}
	}
}

func TestFormField(t *testing.T) {
	field := loan("f", secrets.Body, "token", "")
	b := newBound(t, false, nil, field)
	b.send("POST", "/", "a=b&token="+field.Placeholder, "Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	if b.body != "a=b&token="+url.QueryEscape(value) {
		t.Errorf("body %q", b.body)
	}
}

// In every other place a placeholder stays, and is told.
func TestStrays(t *testing.T) {
	l := loan("h", secrets.Header, "Authorization", "")
	b := newBound(t, false, nil, l)
	for what, send := range map[string]func(){
		"header": func() { b.send("GET", "/", "", "X-Other", l.Placeholder) },
		"path":   func() { b.send("GET", "/"+l.Placeholder, "") },
		"query":  func() { b.send("GET", "/?q="+l.Placeholder, "") },
		"basic": func() {
			b.send("GET", "/", "", "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("x:"+l.Placeholder)))
		},
		"body": func() { b.send("POST", "/", strings.Repeat("x", 40_000)+l.Placeholder) },
	} {
		b.notes = Use{}
		send()
		if len(b.notes.Used) > 0 || len(b.notes.Stray) == 0 || strings.Contains(fmt.Sprint(b.got.URL, b.got.Header, b.body), value) {
			t.Errorf("%s: %+v", what, b.notes)
		}
	}
}

// A value that a server sends back is masked, whatever the pieces in which it comes.
func TestMaskedAnswers(t *testing.T) {
	l := loan("h", secrets.Header, "Authorization", "")
	for _, skip := range []int{0, 1, 2} {
		text := strings.Join([]string{
			value, hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value))), url.QueryEscape(value),
			base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", skip) + value + "tail")),
			base64.URLEncoding.EncodeToString([]byte(strings.Repeat("é", skip) + value)),
		}, "\n")
		b := newBound(t, false, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Echo", value)
			for chunk := range slices.Chunk([]byte(text), 7) {
				_, _ = w.Write(chunk)
				w.(http.Flusher).Flush()
			}
		}, l)
		_, got := b.send("GET", "/", "")
		b.unseen(got)
		for line := range strings.SplitSeq(got, "\n") {
			if raw, err := base64.StdEncoding.DecodeString(line); err == nil {
				b.unseen(string(raw))
			}
			if raw, err := base64.URLEncoding.DecodeString(line); err == nil {
				b.unseen(string(raw))
			}
			if raw, err := hex.DecodeString(line); err == nil {
				b.unseen(string(raw))
			}
		}
		if len(got) < len(text) {
			t.Errorf("something is missing: %q", got)
		}
	}
}

// What comes before a response and after it is masked, too.
func TestMaskedAroundAnAnswer(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		b := newBound(t, h2, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "<"+value+">")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("Trailer", "X-Announced")
			_, _ = io.WriteString(w, "body")
			w.Header().Set("X-Announced", value)
			w.Header().Set(http.TrailerPrefix+"X-Late", value)
		}, loan("h", secrets.Header, "Authorization", ""))
		var hints string
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			hints += fmt.Sprint(code, h)
			return nil
		}}
		r, _ := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "GET", b.server.URL, nil)
		res, err := b.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		b.unseen(fmt.Sprint(hints, res.Header, string(body), res.Trailer))
		if !strings.Contains(hints, "103") || res.Trailer.Get("X-Announced") == "" || res.Trailer.Get("X-Late") == "" {
			t.Errorf("h2 %v: something is missing: %q %v", h2, hints, res.Trailer)
		}
	}
}

// Only requests and WebSockets are passed on.
func TestOtherProtocols(t *testing.T) {
	b := newBound(t, false, nil, loan("h", secrets.Header, "Authorization", ""))
	for what, args := range map[string][2]string{"CONNECT": {"CONNECT", ""}, "an upgrade": {"GET", "h2c"}} {
		r, _ := http.NewRequestWithContext(t.Context(), args[0], b.server.URL, nil)
		if args[1] != "" {
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", args[1])
		}
		if res, err := b.client.Do(r); err != nil || res.StatusCode != http.StatusMethodNotAllowed || b.got != nil {
			t.Errorf("%s: %v %v", what, res, err)
		}
	}
}

// FuzzMasked holds that a masked stream has no value in it and is otherwise what it was, however it is read.
func FuzzMasked(f *testing.F) {
	f.Add([]byte("a"), []byte("b"), uint8(3))
	f.Fuzz(func(t *testing.T, before, after []byte, step uint8) {
		m := masksOf([]secrets.Loan{loan("h", secrets.Header, "Authorization", "")})
		text := slices.Concat(before, []byte(value), after, []byte(value[:20]))
		src := io.Reader(bytes.NewReader(text))
		if step%2 == 0 {
			src = iotest.OneByteReader(src)
		}
		got, err := io.ReadAll(m.reader(io.NopCloser(src), -1, func() {}))
		if err != nil || len(got) != len(text) || bytes.Contains(got, []byte(value)) {
			t.Fatalf("%q: %v", got, err)
		}
		if !bytes.Contains(before, []byte(value)) && !bytes.HasPrefix(got, before) {
			t.Fatalf("%q is not %q", got, before)
		}
	})
}

// Who asks for another host than the one that was let through is refused.
func TestOtherHosts(t *testing.T) {
	b := newBound(t, false, nil, loan("h", secrets.Header, "Authorization", ""))
	r, _ := http.NewRequestWithContext(t.Context(), "GET", b.server.URL, nil)
	r.Host = "other.example"
	res, err := b.client.Do(r)
	if err != nil || res.StatusCode != http.StatusMisdirectedRequest || b.got != nil {
		t.Errorf("%v %v", res, err)
	}
	way := b.way()
	way.Name = "bound.example"
	for name, want := range map[string]func(error) bool{
		"other.example": IsOtherHost, "bound.example": func(e error) bool { return errors.Is(e, ErrClientTrust) },
	} {
		inside, outside := net.Pipe()
		result := make(chan error, 1)
		go func() { result <- b.desk.Serve(outside, way) }()
		_ = tls.Client(inside, &tls.Config{ServerName: name, RootCAs: x509.NewCertPool()}).Handshake()
		_ = inside.Close()
		if err := <-result; !want(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server whose certificate nobody vouches for gets nothing.
func TestUntrustedServer(t *testing.T) {
	l := loan("h", secrets.Header, "Authorization", "")
	b := newBound(t, false, nil, l)
	b.desk.Trust(x509.NewCertPool())
	code, text := b.send("GET", "/", "", "Authorization", l.Placeholder)
	if code != http.StatusBadGateway || !strings.Contains(text, "not trusted") {
		t.Errorf("%d %s", code, text)
	}
	if b.got != nil {
		t.Error("the server got a request")
	}
}

// The authority can vouch for bound hosts and for no other.
func TestAuthorityIsNarrow(t *testing.T) {
	a, err := newAuthority([]string{"api.example.com", "10.1.2.3"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	roots := poolOf(a.root)
	for host, good := range map[string]bool{
		"api.example.com": true, "10.1.2.3": true, "example.com": false, "bank.example": false, "10.1.2.4": false,
	} {
		c, err := a.certificate(host)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); (err == nil) != good {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestPlaceholder(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range []string{value, "twelve bytes", strings.Repeat("k", 5000), "sk-ant-api03-xyz"} {
		for range 100 {
			p := Placeholder([]byte(v))
			if seen[p] || len(p) < shortest || len(v) > shortest+12 && len(v) < 512 && len(p) != len(v) || strings.Contains(p, v) {
				t.Errorf("%q for %q", p, v)
			}
			seen[p] = true
		}
	}
	if p := Placeholder([]byte(value)); !strings.HasPrefix(p, "ghp_") {
		t.Errorf("%q", p)
	}
}

// A secret with line ends does not go into a head.
func TestUnfit(t *testing.T) {
	l := loan("h", secrets.Header, "X-Key", "")
	l.Value = palyra.NewSecret([]byte("first line\r\nEvil: yes"))
	b := newBound(t, false, nil, l)
	if code, text := b.send("GET", "/", "", "X-Key", l.Placeholder); code != http.StatusBadRequest || strings.Contains(text, "Evil") {
		t.Errorf("%d %s", code, text)
	}
}
