package serve_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/client"
	"palyra/internal/mcp/serve"
)

// web serves over HTTP until the test ends.
func web(t *testing.T, s *serve.Server) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.HTTP(ctx, l, palyra.NewSecret([]byte(testToken))) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return "http://" + l.Addr().String() + serve.Path
}

// bearer shows the token.
type bearer struct{}

func (bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+testToken)
	return http.DefaultTransport.RoundTrip(r)
}

// The revisions: with sessions, and without.
const (
	older   = "2025-11-25"
	current = "2026-07-28"
)

func overHTTP(t *testing.T, url, revision string) *peer {
	t.Helper()
	p, c := newPeer()
	var err error
	p.ClientSession, err = c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer{}}},
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestHTTPSessionsAreApart(t *testing.T) {
	d := newDaemon()
	url := web(t, server(t, d, nil))
	for range 2 {
		p := overHTTP(t, url, older)
		for range 2 {
			if r, err := p.call(t.Context(), "palyra_echo", map[string]any{"text": "x"}); err != nil || r.IsError {
				t.Fatalf("%v %+v", err, r)
			}
		}
	}
	made := d.made()
	if len(made) != 4 || made[0].Session != made[1].Session || made[2].Session != made[3].Session || made[1].Session == made[2].Session {
		t.Errorf("calls %+v", made)
	}
}

// TestTheLatestCallIsOnesOwn: a client that is known by its name alone gets no call
// that it does not name; it may be another's.
func TestTheLatestCallIsOnesOwn(t *testing.T) {
	for revision, own := range map[string]bool{older: true, current: false} {
		t.Run(revision, func(t *testing.T) {
			d := newDaemon()
			d.onCall = func(_ context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
				watch(accepted("C1"))
				return palyra.Outcome{Outcome: palyra.OutcomeFinished, Tool: r.Tool, CallID: "C1"}, nil
			}
			d.onWatch = func(context.Context, palyra.CallID, func(client.CallEvent)) (palyra.Outcome, error) {
				return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: "C1"}, nil
			}
			url := web(t, server(t, d, nil))
			one, two := overHTTP(t, url, revision), overHTTP(t, url, revision)
			if r, err := one.call(t.Context(), "palyra_echo", map[string]any{"text": "x"}); err != nil || r.IsError {
				t.Fatalf("%v %+v", err, r)
			}
			if r, err := two.call(t.Context(), "palyra_call_wait", nil); err != nil || !r.IsError {
				t.Errorf("the other's call: %v %+v", err, r)
			}
			if r, err := one.call(t.Context(), "palyra_call_wait", nil); err != nil || r.IsError == own {
				t.Errorf("its own: %v %+v", err, r)
			}
			if r, err := one.call(t.Context(), "palyra_call_wait", map[string]any{"call_id": "C1"}); err != nil || r.IsError {
				t.Errorf("by its id: %v %+v", err, r)
			}
		})
	}
}

// TestHTTPCancelEndsTheCall: older revisions say that they cancel, the current one
// closes its request.
func TestHTTPCancelEndsTheCall(t *testing.T) {
	for _, revision := range []string{older, current} {
		t.Run(revision, func(t *testing.T) {
			d := newDaemon()
			d.onCall = asks
			p := overHTTP(t, web(t, server(t, d, nil)), revision)
			ctx, cancel := context.WithCancel(t.Context())
			done := waiting(t, p, ctx)
			cancel()
			if id := await(t, d.cancelled, "cancel"); id != "C1" {
				t.Errorf("%s", id)
			}
			await(t, done, "answer")
		})
	}
}

// TestStoppingAnswersWhoWaits: the end of the process leaves nobody hanging.
func TestStoppingAnswersWhoWaits(t *testing.T) {
	d := newDaemon()
	d.onCall = asks
	s := server(t, d, nil)
	ctx, stop := context.WithCancel(t.Context())
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.HTTP(ctx, l, palyra.NewSecret([]byte(testToken))) }()
	p := overHTTP(t, "http://"+l.Addr().String()+serve.Path, older)
	answer := waiting(t, p, t.Context())
	stop()
	if err := await(t, answer, "answer"); err != nil {
		t.Errorf("the client got no answer: %v", err)
	}
	if err := await(t, done, "the end"); err != nil {
		t.Error(err)
	}
	notCancelled(t, d)
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

func post(t *testing.T, h http.Handler, body string, header map[string]string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:7641/mcp", strings.NewReader(body))
	for k, v := range map[string]string{
		"Authorization": "Bearer " + testToken, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
	} {
		r.Header.Set(k, v)
	}
	for k, v := range header {
		switch k {
		case "Host":
			r.Host = v
		case "Path":
			r.URL.Path = v
		default:
			r.Header.Set(k, v)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// handler7641 answers without a network.
func handler7641(t *testing.T, s *serve.Server) http.Handler {
	t.Helper()
	h, err := s.Handler("127.0.0.1:7641", palyra.NewSecret([]byte(testToken)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for session := range s.MCP().Sessions() {
			_ = session.Close()
		}
	})
	return h
}

func TestDoorIsClosedToOthers(t *testing.T) {
	h := handler7641(t, server(t, newDaemon(), nil))
	for name, c := range map[string]struct {
		header map[string]string
		want   int
	}{
		"its own client": {nil, 200}, "by name": {map[string]string{"Host": "LocalHost:7641", "Origin": "http://localhost:7641"}, 200},
		"no token": {map[string]string{"Authorization": ""}, 401}, "basic": {map[string]string{"Authorization": "Basic " + testToken}, 401},
		"another token": {map[string]string{"Authorization": "Bearer " + testToken + "x"}, 401},
		"empty":         {map[string]string{"Authorization": "Bearer "}, 401},
		"rebound":       {map[string]string{"Host": "evil.example:7641"}, 403}, "another port": {map[string]string{"Host": "127.0.0.1:80"}, 403},
		"a page": {map[string]string{"Origin": "https://evil.example"}, 403}, "a file": {map[string]string{"Origin": "null"}, 403},
		"a page of another port": {map[string]string{"Origin": "http://localhost:3000"}, 403},
		"another path":           {map[string]string{"Path": "/"}, 404},
	} {
		if got := post(t, h, initialize, c.header).StatusCode; got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if got := post(t, h, strings.Repeat(" ", 13<<20), nil).StatusCode; got != http.StatusRequestEntityTooLarge {
		t.Errorf("a large message: %d", got)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	h := handler7641(t, server(t, newDaemon(), nil))
	for i := range 65 {
		res := post(t, h, initialize, nil)
		_, _ = io.Copy(io.Discard, res.Body)
		if want := map[bool]int{true: 503, false: 200}[i == 64]; res.StatusCode != want {
			t.Fatalf("session %d: %d", i, res.StatusCode)
		}
	}
}

func TestOnlyLoopbackAndOnlyWithAToken(t *testing.T) {
	s := server(t, newDaemon(), nil)
	for _, addr := range []string{"0.0.0.0:1", "192.0.2.1:1", "example.com:1", "127.0.0.1", ""} {
		if _, err := s.Handler(addr, palyra.NewSecret([]byte(testToken))); err == nil {
			t.Errorf("%q is served", addr)
		}
	}
	for _, token := range []string{"", "short"} {
		if _, err := s.Handler("127.0.0.1:1", palyra.NewSecret([]byte(token))); err == nil {
			t.Errorf("the token %q is taken", token)
		}
	}
	if _, err := s.Handler("[::1]:1", palyra.NewSecret([]byte(testToken))); err != nil {
		t.Error(err)
	}
}

// TestGivingUpOverHTTP: the cancel of an SDK whose time was up leaves the call.
func TestGivingUpOverHTTP(t *testing.T) {
	d := newDaemon()
	d.onCall = asks
	p := overHTTP(t, web(t, server(t, d, func(c *serve.Config) { c.PendingAfter = time.Second })), older)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := await(t, waiting(t, p, ctx), "answer"); err == nil {
		t.Error("an answer in time")
	}
	if err := p.Ping(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	notCancelled(t, d)
}

// A client that says it will send far too much is answered at once, as is one that
// has no token and sends its body slowly; one that sends next to nothing after a
// third of the time that bodies have.
func TestSlowAndDeclaredBodies(t *testing.T) {
	url := web(t, server(t, newDaemon(), nil))
	address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), serve.Path)
	for _, c := range []struct {
		size   int64
		token  string
		within time.Duration
	}{{16 << 30, testToken, 8 * time.Second}, {1000, testToken, 9 * 10 * time.Second}, {1000, "none", 8 * time.Second}} {
		size, within := c.size, c.within
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(within))
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: "+
			"application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n{",
			serve.Path, address, c.token, size)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(raw), "HTTP/1.1 4") {
			t.Errorf("%d bytes: %v %q", size, err, raw)
		}
		_ = conn.Close()
	}
}
