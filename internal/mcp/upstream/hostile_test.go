package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/mcp/upstream"
)

// TestHostileAtTheStart: a server that does not behave is not added, within bounds
// of time and memory, and nothing of it is left.
func TestHostileAtTheStart(t *testing.T) {
	for name, answer := range map[string]func(*conn, message) bool{
		"silence":   func(*conn, message) bool { return true },
		"garbage":   func(c *conn, _ message) bool { _ = c.say("this is not JSON at all"); return true },
		"an end":    func(c *conn, _ message) bool { c.Stop(""); return true },
		"other ids": func(c *conn, m message) bool { _ = c.result(json.RawMessage(`"other"`), map[string]any{}); return true },
		"a list": func(c *conn, m message) bool {
			_ = c.say(`{"jsonrpc":"2.0","id":%s,"result":[1,2]}`, m.ID)
			return true
		},
		"an error": func(c *conn, m message) bool {
			_ = c.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"no \u001b[31m"}}`, m.ID)
			return true
		},
		"another protocol": func(c *conn, m message) bool {
			_ = c.result(m.ID, map[string]any{
				"protocolVersion": "1492-10-12", "capabilities": map[string]any{},
				"serverInfo": map[string]any{"name": "x", "version": "1"},
			})
			return true
		},
		"a line without end": func(c *conn, _ message) bool {
			for c.say(`{"jsonrpc":"2.0","method":"x","params":{"a":"`+strings.Repeat("x", 1<<20)+`"%s`, strings.Repeat(",", 0)) == nil &&
				endless(c) {
			}
			return true
		},
		"nothing at all": func(c *conn, m message) bool {
			_ = c.say(`{"jsonrpc":"2.0","id":%s,"result":null}`, m.ID)
			return true
		},
		"pages that are too large together": func(c *conn, m message) bool {
			if m.Method != "tools/list" {
				return false
			}
			_ = c.result(m.ID, map[string]any{"tools": []any{tool("t"+string(m.ID), strings.Repeat("x", 5<<19))}, "nextCursor": "again"})
			return true
		},
		"pages without end": func(c *conn, m message) bool {
			if m.Method != "tools/list" {
				return false
			}
			_ = c.result(m.ID, map[string]any{"tools": []any{tool("t"+string(m.ID), "x")}, "nextCursor": "again"})
			return true
		},
		"too many tools": func(c *conn, m message) bool {
			if m.Method != "tools/list" {
				return false
			}
			var all []any
			for i := range 300 {
				all = append(all, tool(fmt.Sprintf("t%d", i), "x"))
			}
			_ = c.result(m.ID, map[string]any{"tools": all})
			return true
		},
		"a flood": func(c *conn, m message) bool {
			if m.Method != "tools/list" {
				return false
			}
			for c.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`) == nil {
			}
			return true
		},
		"a flood of requests": func(c *conn, m message) bool {
			if m.Method != "tools/list" {
				return false
			}
			go func() {
				for i := 0; c.say(`{"jsonrpc":"2.0","id":%d,"method":"sampling/createMessage","params":{}}`, i) == nil; i++ {
				}
			}()
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			start := 2 * time.Second // ends those that say nothing of use
			if name == "pages that are too large together" {
				start = 20 * time.Second // it must get as far as its bytes, also where the machine is busy
			}
			w := newWorld(t, func(c *upstream.Config) { c.Start = start })
			w.fake.answer = answer
			begun := time.Now()
			u, err := w.Add(t.Context(), stdio("one", true))
			if err == nil {
				t.Fatalf("added: %+v", u)
			}
			if e := palyra.AsError(err); e.Reason != palyra.ReasonUpstreamFailed || strings.Contains(e.Text, "\x1b") {
				t.Errorf("%v", err)
			}
			if e := palyra.AsError(err); name == "pages that are too large together" && !strings.Contains(e.Text, "bytes") {
				t.Errorf("%v", err)
			}
			if took := time.Since(begun); took > 2*time.Minute {
				t.Errorf("it took %s", took)
			}
			if all, _ := w.List(t.Context()); len(all) != 0 {
				t.Error("it is listed")
			}
		})
	}
}

// endless writes on in the same line until nobody reads.
func endless(c *conn) bool {
	chunk := []byte(strings.Repeat("y", 1<<20))
	for {
		if _, err := c.out.Write(chunk); err != nil {
			return false
		}
	}
}

// TestHostileLater: one that misbehaves in a call fails that call, and is started
// anew for the next.
func TestHostileLater(t *testing.T) {
	for name, answer := range map[string]func(*conn, message){
		"garbage":    func(c *conn, _ message) { _ = c.say("}{") },
		"an end":     func(c *conn, _ message) { c.Stop("") },
		"no content": func(c *conn, m message) { _ = c.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":"x"}}`, m.ID) },
		"content that is null": func(c *conn, m message) {
			_ = c.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[null]}}`, m.ID)
		},
		"odd content": func(c *conn, m message) {
			_ = c.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"soup"}]}}`, m.ID)
		},
		"a huge answer": func(c *conn, m message) {
			_ = c.say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, m.ID, strings.Repeat("x", 17<<20))
		},
		"an error": func(c *conn, m message) {
			_ = c.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"bad \u202e"}}`, m.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.add("one", true)
			w.fake.answer = func(c *conn, m message) bool {
				if m.Method == "tools/call" {
					answer(c, m)
				}
				return m.Method == "tools/call"
			}
			res := w.call(t.Context(), "mcp.one.add")
			if res.Failure == nil || res.Failure.Reason != palyra.ReasonUpstreamFailed || strings.ContainsRune(res.Failure.Text, '\u202e') {
				t.Errorf("%+v", res)
			}
			w.fake.answer = nil
			if res := w.call(t.Context(), "mcp.one.add"); res.Failure != nil || res.Refusal != nil {
				t.Errorf("the next one: %+v %+v", res.Failure, res.Refusal)
			}
		})
	}
}

// TestServersAreRefused what they ask of us, and told.
func TestServersAreRefused(t *testing.T) {
	w := newWorld(t)
	answers := make(chan string, 8)
	w.fake.answer = func(c *conn, m message) bool {
		if m.Method != "tools/call" {
			return false
		}
		go func() {
			for i, method := range []string{"sampling/createMessage", "roots/list", "elicitation/create", "ping"} {
				_ = c.say(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{}}`, 100+i, method)
				answers <- string((<-c.asks).Params)
			}
			_ = c.usual(m)
		}()
		return true
	}
	w.add("one", true)
	if res := w.call(t.Context(), "mcp.one.add"); res.Failure != nil {
		t.Fatalf("%+v", res)
	}
	for i := range 4 {
		if got := <-answers; strings.Contains(got, `"error"`) != (i < 3) {
			t.Errorf("%d: %s", i, got)
		}
	}
}

// TestListChanged: a server that says that its tools are others is looked at
// again, without a call.
// TestStoppedCallsStop: a server that goes on with a call that was cancelled is
// ended, and started anew for the next.
func TestStoppedCallsStop(t *testing.T) {
	w := newWorld(t)
	w.add("one", true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var at *conn
	w.fake.answer = func(c *conn, m message) bool {
		if m.Method == "tools/call" {
			at = c
			cancel()
		}
		return m.Method == "tools/call" || m.Method == "notifications/cancelled"
	}
	if res := w.call(ctx, "mcp.one.add"); res.Failure == nil || res.Failure.Reason != palyra.ReasonCancelled {
		t.Fatalf("%+v", res)
	}
	select {
	case <-at.done:
	case <-time.After(time.Minute):
		t.Fatal("the server runs on")
	}
	w.fake.answer = nil
	if res := w.call(t.Context(), "mcp.one.add"); res.Failure != nil || res.Refusal != nil {
		t.Errorf("the next one: %+v %+v", res.Failure, res.Refusal)
	}
	if n := w.fake.starts.Load(); n != 2 {
		t.Errorf("%d starts", n)
	}
}

func TestListChanged(t *testing.T) {
	w := newWorld(t)
	var at *conn
	w.fake.answer = func(c *conn, _ message) bool { at = c; return false }
	w.add("one", true)
	w.fake.set(tool("add", "Adds, and sends it on."))
	if err := at.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		if _, err := w.catalog.Get("mcp.one.add"); err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it is still offered")
		}
		<-time.After(time.Millisecond)
	}
	if w.journal.count("upstream.quarantined") != 1 {
		t.Error("no line")
	}
}

// webServer answers as one would over HTTP.
func webServer(t *testing.T, answer func(http.ResponseWriter, message) bool) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		var m message
		_ = json.NewDecoder(r.Body).Decode(&m)
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if answer != nil && answer(w, m) {
			return
		}
		var v any = map[string]any{}
		switch m.Method {
		case "initialize":
			v = map[string]any{
				"protocolVersion": "2025-06-18", "capabilities": map[string]any{"tools": map[string]any{}},
				"serverInfo": map[string]any{"name": "web", "version": "2"},
			}
		case "tools/list":
			v = map[string]any{"tools": []any{tool("add", "Adds.")}}
		case "tools/call":
			v = map[string]any{"content": []any{map[string]any{"type": "text", "text": "far"}}}
		}
		raw, _ := json.Marshal(v)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, raw)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func http1(url string) upstream.AddRequest {
	return upstream.AddRequest{Name: "far", Approve: true, Definition: palyra.UpstreamDefinition{Transport: palyra.TransportHTTP, URL: url}}
}

func TestOverHTTP(t *testing.T) {
	w := newWorld(t)
	url := webServer(t, nil)
	u, err := w.Add(t.Context(), http1(url))
	if err != nil || !strings.Contains(u.Server, "web 2") {
		t.Fatalf("%+v %v", u, err)
	}
	got, _ := w.Tool("mcp.far.add")
	if got.Tier != palyra.TierBuiltin || len(got.Capabilities) != 1 || got.Capabilities[0] != palyra.Network {
		t.Errorf("%+v", got)
	}
	c, _ := w.granted("mcp.far.add")
	if len(c.Plan.Egress) != 1 || !strings.HasSuffix(url, c.Plan.Egress[0]) {
		t.Errorf("%v for %s", c.Plan.Egress, url)
	}
	if res := w.call(t.Context(), "mcp.far.add"); res.Failure != nil || !strings.Contains(string(res.Output), "far") ||
		res.Executor != "builtin" {
		t.Errorf("%+v", res)
	}
}

func TestHostileOverHTTP(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, message) bool{
		"elsewhere": func(w http.ResponseWriter, _ message) bool {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return true
		},
		"without end": func(w http.ResponseWriter, _ message) bool {
			w.Header().Set("Content-Type", "application/json")
			for {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return true
				}
			}
		},
		"401": func(w http.ResponseWriter, _ message) bool { w.WriteHeader(http.StatusUnauthorized); return true },
		"html": func(w http.ResponseWriter, _ message) bool {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<html>"))
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *upstream.Config) { c.Start = 5 * time.Second })
			if u, err := w.Add(t.Context(), http1(webServer(t, answer))); err == nil {
				t.Errorf("%+v", u)
			}
		})
	}
}
