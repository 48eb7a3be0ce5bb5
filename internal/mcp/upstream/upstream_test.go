package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"palyra"
	"palyra/internal/mcp/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLife(t *testing.T) {
	w := newWorld(t)
	u := w.add("one", false)
	if u.State != palyra.UpstreamReady || u.Server != `fake\x1b 1, 2025-11-25` || len(u.Tools) != 2 ||
		named(u, "add").State != palyra.UpstreamToolQuarantined {
		t.Fatalf("%+v", u)
	}
	if _, ok := w.Tool("mcp.one.add"); ok {
		t.Error("a tool that nobody approved is known")
	}
	if _, err := w.Approve(t.Context(), "one", []palyra.UpstreamPin{{Digest: named(u, "add").Digest}}, "user:a",
		palyra.Signature{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.catalog.Get("mcp.one.add"); err != nil {
		t.Error(err)
	}
	if _, err := w.catalog.Get("mcp.one.sub"); palyra.CodeOf(err) != palyra.NotFound {
		t.Errorf("another one is offered too: %v", err)
	}
	res := w.call(t.Context(), "mcp.one.add")
	if res.Failure != nil || res.Refusal != nil || !strings.Contains(string(res.Output), "done") || res.Executor != "sandbox_fake" ||
		res.Enforcement.Limits["memory"] != "cgroup" {
		t.Errorf("%+v", res)
	}
	if err := w.Remove(t.Context(), "one", "user:a", palyra.Signature{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.catalog.Get("mcp.one.add"); palyra.CodeOf(err) != palyra.NotFound {
		t.Error(err)
	}
	for kind, n := range map[string]int{"upstream.added": 1, "upstream.approved": 1, "upstream.removed": 1, "upstream.quarantined": 0} {
		if w.journal.count(kind) != n {
			t.Errorf("%d lines of %s", w.journal.count(kind), kind)
		}
	}
	if all, err := w.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v %v", all, err)
	}
	w.add("one", true) // the name is free again
}

func TestKnownAfterARestart(t *testing.T) {
	w := newWorld(t)
	u := w.add("one", true)
	w.Close()
	w.open()
	if _, err := w.catalog.Get("mcp.one.add"); err != nil {
		t.Fatal(err)
	}
	again, err := w.Get(t.Context(), "one", false)
	if err != nil || again.State != palyra.UpstreamIdle || again.Digest != u.Digest || len(again.Tools) != 2 {
		t.Fatalf("%+v %v", again, err)
	}
	if w.fake.starts.Load() != 1 {
		t.Error("a server was started that nobody called")
	}
	if res := w.call(t.Context(), "mcp.one.add"); res.Failure != nil || res.Refusal != nil || w.fake.starts.Load() != 2 {
		t.Errorf("%+v", res)
	}
}

// TestChangedIsQuarantined: in every way in which a change can show.
func TestChangedIsQuarantined(t *testing.T) {
	other := func(key string, v any) map[string]any { m := tool("add", "Adds."); m[key] = v; return m }
	for name, changed := range map[string]map[string]any{
		"description": tool("add", "Adds. "),
		"title":       other("title", "Add"),
		"schema": other("inputSchema", map[string]any{
			"type":       "object",
			"properties": map[string]any{"x": map[string]any{"type": "string"}},
		}),
		"annotations": other("annotations", map[string]any{"destructiveHint": false}),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.add("one", true)
			c, g := w.granted("mcp.one.add")
			w.fake.set(changed, tool("sub", "Subtracts."), tool("new", "New."))
			u, err := w.Get(t.Context(), "one", true)
			if err != nil || named(u, "add").State != palyra.UpstreamToolQuarantined || named(u, "new").State != palyra.UpstreamToolQuarantined ||
				named(u, "sub").State != palyra.UpstreamToolActive {
				t.Fatalf("%+v %v", u, err)
			}
			if res := w.launch(t.Context(), g, c); res.Refusal == nil || res.Refusal.Reason != palyra.ReasonQuarantined {
				t.Errorf("%+v", res)
			}
			if n := w.journal.count("upstream.quarantined"); n != 2 {
				t.Errorf("%d lines", n)
			}
			if _, err := w.Approve(t.Context(), "one", []palyra.UpstreamPin{{Digest: named(u, "add").Pinned}}, "user:a",
				palyra.Signature{}); palyra.AsError(err).Reason != palyra.ReasonStaleDigest {
				t.Errorf("the old digest approves the new tool: %v", err)
			}
			w.fake.set(tool("add", "Adds."))
			u, err = w.Get(t.Context(), "one", true)
			if err != nil || named(u, "add").State != palyra.UpstreamToolActive || named(u, "sub").State != palyra.UpstreamToolGone ||
				named(u, "new").Name != "" {
				t.Errorf("back again: %+v %v", u, err)
			}
		})
	}
}

// TestFoundChangedAtTheCall: nobody looked, but the server that is started for a
// call has another tool than was approved.
func TestFoundChangedAtTheCall(t *testing.T) {
	w := newWorld(t)
	w.add("one", true)
	w.Close()
	w.open()
	c, g := w.granted("mcp.one.add")
	w.fake.set(tool("add", "Adds, and more."))
	called := false
	w.fake.answer = func(_ *conn, m message) bool { called = called || m.Method == "tools/call"; return false }
	if res := w.launch(t.Context(), g, c); res.Refusal == nil || res.Refusal.Reason != palyra.ReasonQuarantined || called {
		t.Errorf("called %t: %+v", called, res)
	}
}

func TestPlanChanged(t *testing.T) {
	w := newWorld(t)
	w.add("one", true)
	c, g := w.granted("mcp.one.add")
	w.fake.mu.Lock()
	w.fake.plan = "another program"
	w.fake.mu.Unlock()
	if res := w.launch(t.Context(), g, c); res.Refusal == nil || res.Refusal.Reason != palyra.ReasonPlanChanged ||
		!strings.Contains(res.Refusal.Text, "mcp:one/start") {
		t.Errorf("%+v", res)
	}
	if res := w.call(t.Context(), "mcp.one.add"); res.Refusal != nil || res.Failure != nil || w.fake.starts.Load() != 2 {
		t.Errorf("the server was not started anew: %+v", res)
	}
	if res := w.Run(t.Context(), palyra.Launch{}, c); res.Refusal == nil {
		t.Error("a call ran without a grant")
	}
	c.ID = "OTHER"
	if res := w.launch(t.Context(), g, c); res.Refusal == nil {
		t.Error("a call ran with another one's grant")
	}
}

func TestRefusedTools(t *testing.T) {
	w := newWorld(t)
	deep := any(map[string]any{"type": "string"})
	for range 100 {
		deep = map[string]any{"type": "object", "properties": map[string]any{"x": deep}}
	}
	schema := func(name string, s any) map[string]any {
		return map[string]any{"name": name, "description": "x", "inputSchema": s}
	}
	w.fake.set(
		tool("palyra.fs.read", "x"), tool("Palyra_FS-read", "x"), tool("palyra_new", "x"), tool("ok", "x"), tool("twice", "x"),
		tool("Twice", "x"),
		tool(strings.Repeat("n", 65), "x"), tool("ünï", "x"), tool("sp ace", "x"), tool("", "x"), tool("long", strings.Repeat("d", 33<<10)),
		schema("list", map[string]any{"type": "array"}), schema("deep", deep),
		schema("large", map[string]any{"type": "object", "description": strings.Repeat("s", 129<<10)}),
		schema("ref", map[string]any{"type": "object", "properties": map[string]any{"x": map[string]any{"$ref": "https://example.com/schema"}}}),
	)
	u := w.add("one", true)
	for _, tool := range u.Tools {
		if want := tool.Name == "ok"; (tool.State == palyra.UpstreamToolActive) != want {
			t.Errorf("%s is %s: %s", tool.Name, tool.State, tool.Why)
		}
		if tool.State == palyra.UpstreamToolRefused {
			if _, err := w.Approve(t.Context(), "one", []palyra.UpstreamPin{{Digest: tool.Digest}}, "user:a", palyra.Signature{}); err == nil {
				t.Errorf("%s was approved", tool.Name)
			}
		}
	}
	if got := w.catalog.List(); len(got) != 2 {
		t.Errorf("%d tools are offered", len(got))
	}
}

func TestAddRefuses(t *testing.T) {
	w := newWorld(t)
	w.add("one", false)
	for name, q := range map[string]upstream.AddRequest{
		"taken":     stdio("one", false),
		"palyra's":  stdio("palyra-x", false),
		"uppercase": stdio("One", false),
		"dots":      stdio("o.ne", false),
		"long":      stdio(strings.Repeat("a", 33), false),
		"nothing":   {Name: "two", Definition: palyra.UpstreamDefinition{Transport: palyra.TransportStdio}},
		"transport": {Name: "two", Definition: palyra.UpstreamDefinition{Transport: "carrier pigeon", Command: []string{"x"}}},
		"both": {Name: "two", Definition: palyra.UpstreamDefinition{
			Transport: palyra.TransportStdio, Command: []string{"x"},
			URL: "https://x",
		}},
		"password": {Name: "two", Definition: palyra.UpstreamDefinition{Transport: palyra.TransportHTTP, URL: "https://u:p@example.com"}},
		"file":     {Name: "two", Definition: palyra.UpstreamDefinition{Transport: palyra.TransportHTTP, URL: "file:///etc/passwd"}},
		"secret": {Name: "two", Definition: palyra.UpstreamDefinition{
			Transport: palyra.TransportStdio, Command: []string{"x"},
			Env: map[string]string{"A": "ghp_0123456789abcdefghij"},
		}},
		"zero": {Name: "two", Definition: palyra.UpstreamDefinition{Transport: palyra.TransportStdio, Command: []string{"x\x00"}}},
	} {
		if u, err := w.Add(t.Context(), q); err == nil {
			t.Errorf("%s: added as %+v", name, u)
		}
	}
	w.fake.mu.Lock()
	w.fake.refuse = palyra.Errorf(palyra.Unavailable, palyra.ReasonTierUnavailable, "no sandbox")
	w.fake.mu.Unlock()
	if _, err := w.Add(t.Context(), stdio("two", true)); palyra.AsError(err).Reason != palyra.ReasonTierUnavailable {
		t.Error(err)
	}
	if all, _ := w.List(t.Context()); len(all) != 1 {
		t.Errorf("%d are there", len(all))
	}
	if n := w.journal.count("upstream.added"); n != 1 {
		t.Errorf("%d lines", n)
	}
}

func TestSecretsAreRecognised(t *testing.T) {
	for text, want := range map[string]bool{
		"sk-proj-abcdefghijklmnop0123": true, "AKIAIOSFODNN7EXAMPLE": true, "Bearer abcdefghijkl": true, "postgres://u:pw@h/db": true,
		"eyJhbGciOi.eyJzdWIi.x": true, "-----BEGIN OPENSSH PRIVATE KEY-----": true, "a8F3kL0q9Zx7Vb2Nm5Tt1Rr4Yy6Uu8Ii": true,
		"": false, "production": false, "/home/user/some/long/path/to/a/project/dir": false, "https://example.com/a": false,
		"a-long-name-of-a-thing-that-has-words-in-it": false,
		"0123456789012345678901234567890123456789":    false,
	} {
		if got := upstream.LooksSecret(text) != ""; got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestCancelReachesTheServer(t *testing.T) {
	w := newWorld(t)
	w.add("one", true)
	asked, told := make(chan struct{}), make(chan struct{})
	w.fake.answer = func(_ *conn, m message) bool {
		switch m.Method {
		case "tools/call":
			close(asked)
			return true
		case "notifications/cancelled":
			close(told)
		}
		return false
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if res := w.call(ctx, "mcp.one.add"); res.Failure == nil || res.Failure.Reason != palyra.ReasonCancelled {
		t.Errorf("%+v", res)
	}
	select {
	case <-told:
	case <-time.After(time.Minute):
		t.Error("the server was not told")
	}
}

func TestContent(t *testing.T) {
	w := newWorld(t)
	w.add("one", true)
	content := []any{
		map[string]any{"type": "text", "text": "a < b"},
		map[string]any{"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
		map[string]any{"type": "resource", "resource": map[string]any{"uri": "file:///x", "blob": "aGVsbG8="}},
		map[string]any{"type": "resource_link", "uri": "https://x", "name": "x"},
	}
	w.fake.answer = func(c *conn, m message) bool {
		if m.Method == "tools/call" {
			_ = c.result(m.ID, map[string]any{"content": content, "structuredContent": map[string]any{"n": 1}, "isError": true})
		}
		return m.Method == "tools/call"
	}
	res := w.call(t.Context(), "mcp.one.add")
	var out upstream.Output
	if err := json.Unmarshal(res.Output, &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Content) != 4 || out.Content[0].Text != "a < b" || out.Content[1].Artifact == "" || out.Content[2].Artifact == "" ||
		!out.IsError || res.Failure == nil || res.ExitCode != 1 {
		t.Errorf("%+v %+v", out, res)
	}
	if len(w.shelf.kept) != 2 || string(w.shelf.kept[0]) != "hello" {
		t.Errorf("%q", w.shelf.kept)
	}
	content = []any{map[string]any{"type": "text", "text": strings.Repeat("x", 2<<20)}}
	if res = w.call(t.Context(), "mcp.one.add"); !res.Truncated || len(res.Output) > 1<<20 || len(w.shelf.kept) != 3 {
		t.Errorf("%d bytes, truncated %t", len(res.Output), res.Truncated)
	}
	for range 300 {
		content = append(content, map[string]any{"type": "text"})
	}
	content = content[1:]
	if res = w.call(t.Context(), "mcp.one.add"); !res.Truncated || !strings.Contains(string(res.Output), `"items_left_out":44`) {
		t.Errorf("%s", res.Output)
	}
}

func TestBackOff(t *testing.T) {
	w := newWorld(t, func(c *upstream.Config) { c.First = time.Hour })
	w.add("one", true)
	w.fake.answer = func(c *conn, m message) bool {
		if m.Method == "tools/call" {
			c.Stop("")
		}
		return m.Method == "tools/call"
	}
	if res := w.call(t.Context(), "mcp.one.add"); res.Failure == nil || res.Failure.Reason != palyra.ReasonUpstreamFailed ||
		!strings.Contains(res.Failure.Text, "exit code 7") {
		t.Errorf("%+v", res)
	}
	u, _ := w.Get(t.Context(), "one", false)
	if u.State != palyra.UpstreamFailing || !strings.Contains(u.Fault, `last words\x1b`) {
		t.Errorf("%s %q", u.State, u.Fault)
	}
	if res := w.call(t.Context(), "mcp.one.add"); res.Refusal == nil || !strings.Contains(res.Refusal.Remedy, "tried again in") ||
		w.fake.starts.Load() != 1 {
		t.Errorf("%+v", res)
	}
}

// TestNotAdded: what cannot be started is not there afterwards, so its remedy does
// not send people to look at it.
func TestNotAdded(t *testing.T) {
	w := newWorld(t)
	w.fake.answer = func(c *conn, m message) bool { c.Stop(""); return true }
	_, err := w.Add(t.Context(), upstream.AddRequest{
		Name: "one", Definition: palyra.UpstreamDefinition{Transport: palyra.TransportStdio, Command: []string{"fake"}}, By: "user:a",
	})
	e := palyra.AsError(err)
	if e.Reason != palyra.ReasonUpstreamFailed || !strings.Contains(e.Text, "last words") ||
		!strings.Contains(e.Remedy, "nothing was added") || strings.Contains(e.Remedy, "mcp show") {
		t.Errorf("%q %q", e.Text, e.Remedy)
	}
	if _, err := w.Get(t.Context(), "one", false); palyra.CodeOf(err) != palyra.NotFound {
		t.Error(err)
	}
}

func TestIdleServersStop(t *testing.T) {
	w := newWorld(t, func(c *upstream.Config) { c.Idle = 20 * time.Millisecond })
	w.add("one", true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Tend(ctx) }()
	for end := time.Now().Add(time.Minute); w.fake.live.Load() > 0; {
		if time.Now().After(end) {
			t.Fatal("it still runs")
		}
		<-time.After(time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if res := w.call(t.Context(), "mcp.one.add"); res.Failure != nil || res.Refusal != nil {
		t.Errorf("%+v", res)
	}
}

var errLost = errors.New("lost")

// TestNothingIsHalfAdded: where the record cannot be kept there is no upstream.
func TestNothingIsHalfAdded(t *testing.T) {
	w := newWorld(t)
	_ = w.db.Close()
	if _, err := w.Add(t.Context(), stdio("one", true)); err == nil {
		t.Fatal(errLost)
	}
	if all, _ := w.List(t.Context()); len(all) != 0 {
		t.Errorf("%v", all)
	}
	if len(w.catalog.List()) != 1 {
		t.Error("its tools are offered")
	}
	if _, err := w.Get(t.Context(), "one", false); palyra.CodeOf(err) != palyra.NotFound {
		t.Error(err)
	}
}

func FuzzTools(f *testing.F) {
	f.Add("add", "Adds.", `{"type":"object"}`)
	f.Add("a\x00", "\u202e", `{"type":["object"]}`)
	f.Fuzz(func(t *testing.T, name, description, schema string) {
		if !json.Valid([]byte(schema)) {
			return
		}
		w := newWorld(t)
		w.fake.set(map[string]any{"name": name, "description": description, "inputSchema": json.RawMessage(schema)})
		u, err := w.Add(t.Context(), stdio("one", true))
		if err != nil {
			return
		}
		for _, got := range u.Tools {
			if got.State == palyra.UpstreamToolActive &&
				(string(got.Tool) != "mcp.one."+got.Name || fmt.Sprintf("%q", got.Name) != `"`+got.Name+`"`) {
				t.Errorf("%+v", got)
			}
		}
	})
}

// TestClaims: what a server says of its tools is shown and changes nothing; what an
// operator says of one does, for what was approved and nothing else.
func TestClaims(t *testing.T) {
	w := newWorld(t)
	claim := func(description string) map[string]any {
		one := tool("add", description)
		one["annotations"] = map[string]any{"readOnlyHint": true, "destructiveHint": false, "openWorldHint": false, "idempotentHint": true}
		return one
	}
	w.fake.set(claim("Adds."), tool("sub", "Subtracts."))
	u := w.add("one", true)
	add := named(u, "add")
	if got := strings.Join(add.Claims, ", "); got != "read-only, not destructive, idempotent, does not reach out" || add.ReadOnly ||
		len(named(u, "sub").Claims) > 0 {
		t.Errorf("%q %+v", got, u)
	}
	readOnly := func(want bool) palyra.Plan {
		t.Helper()
		c, _ := w.granted("mcp.one.add")
		if got, _ := w.Tool("mcp.one.add"); got.ReadOnly != want || c.Plan.ReadOnly != want || !got.Sensitive() {
			t.Errorf("the tool is %v, the plan %v", got.ReadOnly, c.Plan.ReadOnly)
		}
		if got, err := w.catalog.Get("mcp.one.add"); err != nil || got.ReadOnly != want {
			t.Errorf("the catalog: %v %v", got.ReadOnly, err)
		}
		return c.Plan
	}
	approve := func(pin palyra.UpstreamPin) {
		t.Helper()
		if _, err := w.Approve(t.Context(), "one", []palyra.UpstreamPin{pin}, "user:a", palyra.Signature{}); err != nil {
			t.Fatal(err)
		}
	}
	if notes := strings.Join(readOnly(false).Detail.Notes, "\n"); !strings.Contains(notes, "says that the tool is: read-only, ") ||
		strings.Contains(notes, "operator has said") {
		t.Error(notes)
	}
	approve(palyra.UpstreamPin{Digest: add.Digest, ReadOnly: true})
	if notes := strings.Join(readOnly(true).Detail.Notes, "\n"); !strings.Contains(notes, "operator has said") {
		t.Error(notes)
	}
	w.Close()
	w.open() // it is durable
	readOnly(true)
	w.fake.set(claim("Adds, and more."), tool("sub", "Subtracts."))
	u, err := w.Get(t.Context(), "one", true)
	if err != nil || named(u, "add").State != palyra.UpstreamToolQuarantined {
		t.Fatalf("%+v %v", u, err)
	}
	approve(palyra.UpstreamPin{Digest: named(u, "add").Digest})
	readOnly(false) // another definition: nobody said it of that one
	last := w.journal.events[len(w.journal.events)-1].(palyra.UpstreamApproved)
	if last.Tools[0].Name != "add" || last.Tools[0].ReadOnly {
		t.Errorf("%+v", last)
	}
	if first := w.journal.events[2].(palyra.UpstreamApproved); !first.Tools[0].ReadOnly {
		t.Errorf("%+v", first)
	}
}
