package upstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
)

// stateless answers as a server that knows nothing older than revision 2026-07-28.
// Whatever does not name that revision is refused.
func stateless(refusal string, more func(*conn, message) bool) func(*conn, message) bool {
	return func(c *conn, m message) bool {
		var p struct {
			Meta map[string]any `json:"_meta"`
		}
		_ = json.Unmarshal(m.Params, &p)
		switch {
		case m.ID == nil:
			return true
		case m.Method == "initialize" || p.Meta["io.modelcontextprotocol/protocolVersion"] != "2026-07-28":
			_ = c.say(`{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, refusal)
			return true
		case m.Method == "server/discover":
			_ = c.result(m.ID, map[string]any{
				"resultType": "complete", "supportedVersions": []string{"2026-07-28"},
				"capabilities": map[string]any{"tools": map[string]any{"listChanged": true}},
				"_meta":        map[string]any{"io.modelcontextprotocol/serverInfo": map[string]any{"name": "new", "version": "3"}},
			})
			return true
		case m.Method == "subscriptions/listen":
			_ = c.say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}`)
			return true
		}
		return more != nil && more(c, m)
	}
}

const (
	noMethod  = `{"code":-32601,"message":"method not found"}`
	noVersion = `{"code":-32022,"message":"unsupported protocol version","data":{"supported":["2026-07-28"]}}`
)

// TestStateless: a server that refuses the handshake is spoken to without, and
// everything holds for it that holds for others.
func TestStateless(t *testing.T) {
	for name, refusal := range map[string]string{"no method": noMethod, "no version": noVersion} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.answer = stateless(refusal, nil)
			u := w.add("one", true)
			if !strings.Contains(u.Server, "new 3, 2026-07-28") || len(u.Tools) != 2 || w.fake.starts.Load() != 2 {
				t.Fatalf("%+v after %d starts", u, w.fake.starts.Load())
			}
			if res := w.call(t.Context(), "mcp.one.add"); res.Failure != nil || res.Refusal != nil || !strings.Contains(string(res.Output), "done") {
				t.Errorf("%+v", res)
			}
			w.fake.set(tool("add", "Adds, and more."), tool("sub", "Subtracts."))
			if u, err := w.Get(t.Context(), "one", true); err != nil || named(u, "add").State != palyra.UpstreamToolQuarantined {
				t.Errorf("%+v %v", u, err)
			}
			if n := w.fake.starts.Load(); n != 2 {
				t.Errorf("%d starts: what it speaks is not remembered", n)
			}
		})
	}
}

// TestStatelessList: a server's word for how long its list of tools holds is not
// taken, neither from one that answers the handshake with the new revision.
func TestStatelessList(t *testing.T) {
	kept := func(c *conn, m message) bool {
		switch m.Method {
		case "initialize":
			_ = c.result(m.ID, map[string]any{
				"protocolVersion": "2026-07-28", "capabilities": map[string]any{"tools": map[string]any{}},
				"serverInfo": map[string]any{"name": "x", "version": "1"},
			})
		case "tools/list":
			c.f.mu.Lock()
			defer c.f.mu.Unlock()
			_ = c.result(m.ID, map[string]any{"resultType": "complete", "tools": c.f.tools, "ttlMs": 1 << 40, "cacheScope": "public"})
		default:
			return false
		}
		return true
	}
	for name, answer := range map[string]func(*conn, message) bool{"handshake": kept, "without": stateless(noMethod, kept)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fake.answer = answer
			w.add("one", true)
			w.fake.set(tool("add", "Adds, and more."))
			u, err := w.Get(t.Context(), "one", true)
			if err != nil || named(u, "add").State != palyra.UpstreamToolQuarantined || named(u, "sub").State != palyra.UpstreamToolGone {
				t.Errorf("%+v %v", u, err)
			}
		})
	}
}

// TestStatelessNews: it is asked to tell of changes, and heard.
func TestStatelessNews(t *testing.T) {
	w := newWorld(t)
	var one atomic.Pointer[conn]
	asked := make(chan struct{}, 8)
	inner := stateless(noMethod, nil)
	w.fake.answer = func(c *conn, m message) bool {
		if m.Method == "subscriptions/listen" && strings.Contains(string(m.Params), `"toolsListChanged":true`) {
			one.Store(c)
			asked <- struct{}{}
		}
		return inner(c, m)
	}
	w.add("one", true)
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Fatal("it is not asked")
	}
	w.fake.set(tool("add", "Adds, and more."), tool("sub", "Subtracts."))
	_ = one.Load().say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}`)
	for end := time.Now().Add(time.Minute); ; {
		u, err := w.Get(t.Context(), "one", false)
		if err == nil && named(u, "add").State == palyra.UpstreamToolQuarantined {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v %v", u, err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// TestStatelessHostile: what the new revision adds is of no use to a server.
func TestStatelessHostile(t *testing.T) {
	t.Run("a question", func(t *testing.T) {
		w := newWorld(t)
		w.fake.answer = stateless(noMethod, func(c *conn, m message) bool {
			if m.Method != "tools/call" {
				return false
			}
			_ = c.result(m.ID, map[string]any{
				"resultType": "input_required", "requestState": "x",
				"inputRequests": map[string]any{"a": map[string]any{
					"method": "elicitation/create",
					"params": map[string]any{"message": "the key?", "requestedSchema": map[string]any{"type": "object"}},
				}},
			})
			return true
		})
		w.add("one", true)
		if res := w.call(t.Context(), "mcp.one.add"); res.Failure == nil || res.Failure.Reason != palyra.ReasonUpstreamFailed ||
			!strings.Contains(res.Failure.Text, "tells servers nothing") {
			t.Errorf("%+v", res)
		}
	})
	t.Run("refuses both", func(t *testing.T) {
		w := newWorld(t)
		w.fake.answer = func(c *conn, m message) bool {
			_ = c.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"speak 2031-01-01","data":{"supported":["2031-01-01"]}}}`, m.ID)
			return true
		}
		_, err := w.Add(t.Context(), stdio("one", true))
		if e := palyra.AsError(err); err == nil || e.Reason != palyra.ReasonUpstreamFailed || !strings.Contains(e.Text, "speak 2031-01-01") ||
			w.fake.starts.Load() != 2 {
			t.Errorf("%v after %d starts", err, w.fake.starts.Load())
		}
	})
	t.Run("pages by other names", func(t *testing.T) {
		w := newWorld(t)
		n := 0
		w.fake.answer = stateless(noMethod, func(c *conn, m message) bool {
			if m.Method != "tools/list" {
				return false
			}
			page := map[string]any{"resultType": "complete", "tools": []any{tool("add", "Adds.")}, "nextCursor": fmt.Sprint("page", n)}
			if n++; strings.Contains(string(m.Params), "cursor") {
				page = map[string]any{"resultType": "complete", "tools": []any{tool("sub", strings.Repeat("x", 3<<20))}}
			}
			_ = c.result(m.ID, page)
			return true
		})
		w.add("one", true)
		for range 10 { // every look adds to what is kept, up to a bound
			if _, err := w.Get(t.Context(), "one", true); err != nil {
				t.Fatal(err)
			}
		}
		if starts := w.fake.starts.Load(); starts < 3 {
			t.Errorf("%d starts: the pages are kept for ever", starts)
		}
		if res := w.call(t.Context(), "mcp.one.add"); res.Failure != nil || res.Refusal != nil {
			t.Errorf("%+v", res)
		}
	})
}

// TestStatelessOverHTTP: a server on the official SDK that speaks the new revision
// only, and refuses a handshake as servers do.
func TestStatelessOverHTTP(t *testing.T) {
	for name, refuse := range map[string]func(http.ResponseWriter){
		"an answer": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":`+noVersion+`}`)
		},
		"text": func(w http.ResponseWriter) { http.Error(w, "no", http.StatusBadRequest) },
	} {
		t.Run(name, func(t *testing.T) {
			s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "4"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{"2026-07-28"}})
			mcp.AddTool(s, &mcp.Tool{Name: "add"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "far"}}}, nil, nil
			})
			inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
				&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
			far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if strings.Contains(string(body), `"initialize"`) {
					refuse(w)
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				inner.ServeHTTP(w, r)
			}))
			t.Cleanup(far.Close)
			w := newWorld(t)
			u, err := w.Add(t.Context(), http1(far.URL))
			if err != nil || !strings.Contains(u.Server, "sdk 4, 2026-07-28") {
				t.Fatalf("%+v %v", u, err)
			}
			if res := w.call(t.Context(), "mcp.far.add"); res.Failure != nil || !strings.Contains(string(res.Output), "far") {
				t.Errorf("%+v", res)
			}
			w.Close()
		})
	}
}

// TestRevisionIsNamed: requests after the handshake say what was agreed upon.
func TestRevisionIsNamed(t *testing.T) {
	var mu sync.Mutex
	said := map[string]string{}
	inner := webServer(t, nil)
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m message
		_ = json.Unmarshal(body, &m)
		mu.Lock()
		said[m.Method] = r.Header.Get("Mcp-Protocol-Version")
		mu.Unlock()
		req, _ := http.NewRequestWithContext(r.Context(), r.Method, inner, bytes.NewReader(body))
		req.Header = r.Header
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return
		}
		defer func() { _ = res.Body.Close() }()
		w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	}))
	t.Cleanup(far.Close)
	w := newWorld(t)
	if _, err := w.Add(t.Context(), http1(far.URL)); err != nil {
		t.Fatal(err)
	}
	_ = w.call(t.Context(), "mcp.far.add")
	mu.Lock()
	defer mu.Unlock()
	if said["tools/list"] != "2025-06-18" || said["tools/call"] != "2025-06-18" {
		t.Errorf("%v", said)
	}
}
