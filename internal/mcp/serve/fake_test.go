package serve_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/client"
	"palyra/internal/mcp/serve"
)

// daemon pretends to be one: it answers at once unless a test says how.
type daemon struct {
	onCall  func(ctx context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error)
	onWatch func(ctx context.Context, id palyra.CallID, watch func(client.CallEvent)) (palyra.Outcome, error)
	onGet   func(id palyra.CallID) (palyra.Call, error)

	mu        sync.Mutex
	away      error // instead of the tools
	tools     []palyra.Tool
	calls     []client.CallRequest
	cancelled chan palyra.CallID
}

func echoTool() palyra.Tool {
	return palyra.Tool{
		Name: "palyra.echo", Title: "Echo", Description: "says it again", Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin, ReadOnly: true,
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`),
	}
}

func newDaemon() *daemon {
	run := palyra.Tool{
		Name: "palyra.process.run", Description: "runs", Capabilities: []palyra.Capability{palyra.ProcessExec, palyra.FilesystemRead},
		InputSchema: json.RawMessage(`{"type":"object"}`),
	}
	return &daemon{tools: []palyra.Tool{echoTool(), run}, cancelled: make(chan palyra.CallID, 16)}
}

func (d *daemon) set(tools ...palyra.Tool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tools = tools
}

func (d *daemon) comes() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = nil
}

func (d *daemon) goes() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = noDaemon()
}

func (d *daemon) made() []client.CallRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]client.CallRequest(nil), d.calls...)
}

func (d *daemon) Tools(context.Context) ([]palyra.Tool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tools, d.away
}

func (d *daemon) Call(ctx context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
	d.mu.Lock()
	d.calls = append(d.calls, r)
	d.mu.Unlock()
	if d.onCall != nil {
		return d.onCall(ctx, r, watch)
	}
	return palyra.Outcome{Outcome: palyra.OutcomeFinished, Tool: r.Tool, CallID: "C1", Output: r.Arguments}, nil
}

func (d *daemon) WatchCall(ctx context.Context, id palyra.CallID, watch func(client.CallEvent)) (palyra.Outcome, error) {
	return d.onWatch(ctx, id, watch)
}

func (d *daemon) GetCall(_ context.Context, id palyra.CallID) (palyra.Call, error) {
	return d.onGet(id)
}

func (d *daemon) CancelCall(_ context.Context, id palyra.CallID) error {
	d.cancelled <- id
	return nil
}

func accepted(id palyra.CallID) client.CallEvent {
	return client.CallEvent{Accepted: &client.CallAccepted{CallID: id, SessionID: "S1"}}
}

func question(id palyra.ApprovalID) client.CallEvent {
	return client.CallEvent{ApprovalRequested: &client.ApprovalRequested{ApprovalID: id, Summary: "run make"}}
}

// asks is a call that waits for a person until its client hangs up.
func asks(ctx context.Context, _ client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
	watch(accepted("C1"))
	watch(question("A1"))
	<-ctx.Done()
	return palyra.Outcome{}, ctx.Err()
}

// server starts one on the pretended daemon.
func server(t *testing.T, d *daemon, change func(*serve.Config)) *serve.Server {
	t.Helper()
	return serverOf(t, d, change)
}

func serverOf(t *testing.T, d serve.Daemon, change func(*serve.Config)) *serve.Server {
	t.Helper()
	c := serve.Config{
		Backend: d, Version: "test", Workspace: "/w", Log: slog.New(slog.DiscardHandler), Beat: 20 * time.Millisecond,
		Poll: 20 * time.Millisecond,
	}
	if change != nil {
		change(&c)
	}
	s, err := serve.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// peer is a client program on the SDK.
type peer struct {
	*mcp.ClientSession
	progress chan string
	changed  chan struct{}
	listed   chan struct{} // the list of resources is another one
}

func newPeer() (*peer, *mcp.Client) {
	p := &peer{progress: make(chan string, 1024), changed: make(chan struct{}, 64), listed: make(chan struct{}, 64)}
	return p, mcp.NewClient(&mcp.Implementation{Name: "Test Client", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { p.progress <- r.Params.Message },
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { p.changed <- struct{}{} },
		ResourceListChangedHandler:  func(context.Context, *mcp.ResourceListChangedRequest) { p.listed <- struct{}{} },
	})
}

// call calls a tool, with a token for progress.
func (p *peer) call(ctx context.Context, tool string, args any) (*mcp.CallToolResult, error) {
	params := &mcp.CallToolParams{Name: tool, Arguments: args}
	params.SetProgressToken(tool)
	return p.CallTool(ctx, params)
}

// texts are what a client gives to its model.
func texts(t *testing.T, r *mcp.CallToolResult) (all []string) {
	t.Helper()
	for _, c := range r.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			all = append(all, c.Text)
		case *mcp.ResourceLink:
		default:
			t.Fatalf("%T", c)
		}
	}
	if len(all) == 0 {
		t.Fatal("no text")
	}
	return all
}

func words(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	return strings.Join(texts(t, r), "\n")
}

// fields is the part of a result that programs read, and models are not shown.
func fields(t *testing.T, r *mcp.CallToolResult) map[string]any {
	t.Helper()
	if r.StructuredContent != nil {
		t.Fatal("structured content: clients would show it to the model in the place of the text")
	}
	all := map[string]any{}
	for _, key := range []string{"palyra/outcome", "palyra/page"} {
		m, _ := r.Meta[key].(map[string]any)
		for k, v := range m {
			all[k] = v
		}
	}
	if len(all) == 0 {
		t.Fatalf("no fields in %v", r.Meta)
	}
	return all
}
