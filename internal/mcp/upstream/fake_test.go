package upstream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
	"palyra/internal/catalog"
	"palyra/internal/mcp/upstream"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"
)

// fake is a server in this process that does as it is told.
type fake struct {
	mu     sync.Mutex
	tools  []map[string]any
	starts atomic.Int64
	live   atomic.Int64
	answer func(c *conn, m message) bool // false: as usual
	refuse error                         // of the next start
	plan   string                        // part of the start plan
	out    []palyra.EgressFlow           // what it reached
	forgot []string                      // names, and how many servers there were then
	keeps  error                         // of Forget
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// conn is one start of a fake.
type conn struct {
	f    *fake
	in   io.Reader
	out  io.WriteCloser
	done chan struct{}
	once sync.Once
	pipe []io.Closer
	mine io.WriteCloser
	read io.ReadCloser
	asks chan message // that we were answered
}

func (c *conn) Pipes() (io.WriteCloser, io.ReadCloser) { return c.mine, c.read }
func (c *conn) Flows() ([]palyra.EgressFlow, int64)    { return c.f.flows(), 0 }
func (c *conn) Done() <-chan struct{}                  { return c.done }
func (c *conn) Last() (string, []byte) {
	return "with exit code 7", []byte("first\nlast words\x1b[31m\n")
}

func (c *conn) Held() (string, palyra.Enforcement) {
	return "sandbox_fake", palyra.Enforcement{
		Mode: "strict", Mechanisms: []string{"walls"},
		Limits: map[string]palyra.Hold{"memory": "cgroup"},
	}
}

func (c *conn) Stop(string) {
	c.once.Do(func() {
		for _, p := range c.pipe {
			_ = p.Close()
		}
	})
}

func (c *conn) say(format string, args ...any) error {
	_, err := fmt.Fprintf(c.out, format+"\n", args...)
	return err
}

func (c *conn) result(id json.RawMessage, v any) error {
	raw, _ := json.Marshal(v)
	return c.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, raw)
}

func (c *conn) serve() {
	defer close(c.done)
	defer c.f.live.Add(-1)
	defer c.Stop("")
	lines := bufio.NewReader(c.in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		if m.Method == "" {
			select {
			case c.asks <- message{ID: m.ID, Params: line}:
			default:
			}
			continue
		}
		if c.f.answer != nil && c.f.answer(c, m) {
			continue
		}
		if m.ID != nil && c.usual(m) != nil {
			return
		}
	}
}

func (c *conn) usual(m message) error {
	switch m.Method {
	case "initialize":
		return c.result(m.ID, map[string]any{
			"protocolVersion": "2025-11-25", "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "fake\x1b", "version": "1"},
		})
	case "tools/list":
		c.f.mu.Lock()
		defer c.f.mu.Unlock()
		return c.result(m.ID, map[string]any{"tools": c.f.tools})
	case "tools/call":
		return c.result(m.ID, map[string]any{"content": []any{map[string]any{"type": "text", "text": "done"}}})
	}
	return c.result(m.ID, map[string]any{})
}

func tool(name, description string) map[string]any {
	return map[string]any{"name": name, "description": description, "inputSchema": map[string]any{"type": "object"}}
}

// reached sets what the server has reached so far.
func (f *fake) reached(flows ...palyra.EgressFlow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out = flows
}

func (f *fake) flows() []palyra.EgressFlow {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]palyra.EgressFlow(nil), f.out...)
}

func (f *fake) set(tools ...map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tools = tools
}

// Resolve implements upstream.Launcher.
func (f *fake) Resolve(_ context.Context, _ string, d palyra.UpstreamDefinition) (palyra.Plan, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return palyra.Plan{
		Tool: "run", Arguments: json.RawMessage(`{}`), Tier: palyra.TierC, Argv: append([]string{f.plan}, d.Command...), Egress: d.Egress,
		Workspace: palyra.WorkspaceRef{Path: d.Workspace}, Enforcement: palyra.Enforcement{Mode: "strict"},
	}, nil
}

// Start implements upstream.Launcher.
func (f *fake) Start(context.Context, string, palyra.Plan) (upstream.Process, error) {
	f.mu.Lock()
	err := f.refuse
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	f.starts.Add(1)
	f.live.Add(1)
	theirIn, mine := io.Pipe()
	read, theirOut := io.Pipe()
	c := &conn{
		f: f, in: theirIn, out: theirOut, done: make(chan struct{}), mine: mine, read: read, pipe: []io.Closer{theirIn, theirOut},
		asks: make(chan message, 8),
	}
	go c.serve()
	return c, nil
}

// Forget implements upstream.Launcher.
func (f *fake) Forget(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgot = append(f.forgot, fmt.Sprintf("%s %d", name, f.live.Load()))
	return f.keeps
}

// noNetwork refuses everything.
type noNetwork struct{}

func (noNetwork) Check(h []string) ([]string, error) { return h, nil }
func (noNetwork) Open(context.Context, palyra.Plan) (upstream.Way, error) {
	return loopback{}, nil
}

// loopback dials what tests listen on.
type loopback struct{}

func (loopback) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}
func (loopback) Flows() ([]palyra.EgressFlow, int64) { return nil, 0 }
func (loopback) Close() ([]palyra.EgressFlow, int64) { return nil, 0 }

// recorder keeps events.
type recorder struct {
	mu     sync.Mutex
	events []palyra.Event
}

func (r *recorder) Append(_ *store.Tx, e palyra.Event) (palyra.Position, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	return palyra.Position{}, nil
}

func (r *recorder) count(kind string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind() == kind {
			n++
		}
	}
	return n
}

// shelf keeps artifacts.
type shelf struct{ kept [][]byte }

func (s *shelf) Keep(_ context.Context, _ palyra.SessionID, _ palyra.CallID, data []byte) (palyra.ID, error) {
	s.kept = append(s.kept, data)
	return "ARTIFACT", nil
}

// world is a registry with everything around it.
type world struct {
	*upstream.Registry
	t       *testing.T
	fake    *fake
	journal *recorder
	catalog *catalog.Catalog
	shelf   *shelf
	db      *store.DB
	conf    upstream.Config
}

// Resolve plans a call, as the real planner does.
func (w *world) Resolve(ctx context.Context, c *palyra.Call) (palyra.Plan, error) {
	t, ok := w.Tool(c.Proposal.Tool)
	if !ok {
		return palyra.Plan{}, palyra.Errorf(palyra.NotFound, palyra.ReasonQuarantined, "no such tool")
	}
	p := palyra.Plan{
		Tool: t.Name, Arguments: c.Proposal.Arguments, Source: t.Source, Capabilities: t.Capabilities, Tier: t.Tier,
		Limits: palyra.Limits{WallMS: 5000, OutputBytes: 1 << 20},
	}
	return p, w.Plan(ctx, c, &p)
}

func newWorld(t *testing.T, change ...func(*upstream.Config)) *world {
	t.Helper()
	engine, err := sqlite.Open(filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), engine, upstream.Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	cat, err := catalog.New(catalog.Config{Tools: []palyra.Tool{{
		Name: "palyra.fs.read", InputSchema: json.RawMessage(`{"type":"object"}`),
		MaxInput: 1,
	}}, MaxCalls: 100})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, fake: &fake{}, journal: &recorder{}, catalog: cat, shelf: &shelf{}, db: db}
	w.fake.set(tool("add", "Adds."), tool("sub", "Subtracts."))
	w.conf = upstream.Config{
		DB: db, Journal: w.journal, Launcher: w.fake, Network: noNetwork{}, Catalog: cat, Artifacts: w.shelf, Version: "1",
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Start: 5 * time.Second, First: time.Millisecond,
	}
	for _, f := range change {
		f(&w.conf)
	}
	w.open()
	t.Cleanup(func() {
		w.Close()
		if n := w.fake.live.Load(); n != 0 {
			t.Errorf("%d servers are left", n)
		}
	})
	return w
}

func (w *world) open() {
	w.t.Helper()
	var err error
	if w.Registry, err = upstream.New(w.t.Context(), w.conf); err != nil {
		w.t.Fatal(err)
	}
}

func stdio(name string, approve bool) upstream.AddRequest {
	return upstream.AddRequest{
		Name: name, Approve: approve, By: "user:a",
		Definition: palyra.UpstreamDefinition{Transport: palyra.TransportStdio, Command: []string{"server"}},
	}
}

func (w *world) add(name string, approve bool) palyra.Upstream {
	w.t.Helper()
	u, err := w.Add(w.t.Context(), stdio(name, approve))
	if err != nil {
		w.t.Fatal(err)
	}
	return u
}

// call judges and grants a call as the gate would, and runs it.
func (w *world) call(ctx context.Context, name string) palyra.Result {
	w.t.Helper()
	c, g := w.granted(name)
	return w.launch(ctx, g, c)
}

// launch resolves the call again and runs it, as the gate does.
func (w *world) launch(ctx context.Context, g palyra.Grant, c *palyra.Call) palyra.Result {
	w.t.Helper()
	now, err := w.Resolve(ctx, c)
	if err != nil {
		err = g.Plan().Unresolved(ctx, err)
	}
	var l palyra.Launch
	if err == nil {
		l, err = g.Confirm(now)
	}
	if err != nil {
		refusal := palyra.RefusalOf(palyra.LayerTier, err)
		return palyra.Result{Refusal: &refusal}
	}
	return w.Run(ctx, l, c)
}

func (w *world) granted(name string) (*palyra.Call, palyra.Grant) {
	w.t.Helper()
	return w.grantedAs("CALL", name)
}

func (w *world) grantedAs(id palyra.CallID, name string) (*palyra.Call, palyra.Grant) {
	w.t.Helper()
	c := &palyra.Call{
		ID: id, Proposal: palyra.Proposal{Tool: palyra.ToolName(name), Arguments: json.RawMessage(`{}`)},
		Verdict: palyra.Verdict{Effect: palyra.Allow},
	}
	var err error
	if c.Plan, err = w.Resolve(w.t.Context(), c); err == nil {
		c.Digest, err = c.Plan.Digest()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	g, err := palyra.NewGrant("GRANT", c, time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return c, g
}

func named(u palyra.Upstream, name string) palyra.UpstreamTool {
	for _, t := range u.Tools {
		if t.Name == name {
			return t
		}
	}
	return palyra.UpstreamTool{}
}
