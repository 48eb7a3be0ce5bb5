//go:build linux

package e2e

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/client"
)

// goClient is a program on the Go SDK, connected to a server on its pipes.
type goClient struct {
	*mcp.ClientSession
	t        *testing.T
	progress chan string
}

func startGo(t *testing.T, d *daemon, more ...string) *goClient {
	t.Helper()
	g := &goClient{t: t, progress: make(chan string, 1024)}
	c := mcp.NewClient(&mcp.Implementation{Name: "palyra-go", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { g.progress <- r.Params.Message },
	})
	var err error
	g.ClientSession, err = c.Connect(t.Context(), &mcp.CommandTransport{Command: exec.Command(bin(t, "palyra"), d.mcpArgs(more...)...)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

type goAnswer struct {
	*mcp.CallToolResult
	err error
}

// call calls a tool on its own goroutine.
func (g *goClient) call(ctx context.Context, tool string, args map[string]any) <-chan goAnswer {
	params := &mcp.CallToolParams{Name: tool, Arguments: args}
	params.SetProgressToken(tool)
	ch := make(chan goAnswer, 1)
	go func() {
		r, err := g.CallTool(ctx, params)
		ch <- goAnswer{r, err}
	}()
	return ch
}

func (g *goClient) write(ctx context.Context, name string) <-chan goAnswer {
	return g.call(ctx, "palyra_fs_write", map[string]any{"path": name, "content": "x"})
}

// outcome is what became of a call.
func (g *goClient) outcome(ch <-chan goAnswer) map[string]any {
	g.t.Helper()
	select {
	case a := <-ch:
		if a.err != nil {
			g.t.Fatal(a.err)
		}
		f, _ := a.Meta["palyra/outcome"].(map[string]any)
		if a.IsError != (f["outcome"] != "finished" && f["outcome"] != "pending") {
			g.t.Errorf("error %v: %v", a.IsError, f)
		}
		if f != nil {
			f["content"] = a.Content // what a model is given
		}
		return f
	case <-time.After(waitMost):
		g.t.Fatal("no answer")
		return nil
	}
}

// asking waits until the client is told which approval is open.
func (g *goClient) asking(d *daemon, person *client.Client) palyra.Approval {
	g.t.Helper()
	a := d.pending(person)
	for {
		select {
		case note := <-g.progress:
			if strings.Contains(note, string(a.ID)) && !strings.Contains(note, "palyra approvals decide") {
				return a
			}
		case <-time.After(waitMost):
			g.t.Fatal("no progress")
		}
	}
}

// TestGoClient: a program on the Go SDK meets every way in which a call that needs
// an approval can end.
func TestGoClient(t *testing.T) {
	d := newDaemon(t)
	d.mustStart(append([]string{"PALYRA_APPROVALS_WAIT_MS=3000"}, unlimited...)...)
	person := d.client(client.OperatorDoor)
	g := startGo(t, d, "--pending-after", "10s")

	ch := g.write(t.Context(), "allowed")
	d.decide(g.asking(d, person), "allow")
	if f := g.outcome(ch); f["outcome"] != "finished" {
		t.Errorf("allow: %v", f)
	}

	ch = g.write(t.Context(), "denied")
	d.decide(g.asking(d, person), "deny")
	if f := g.outcome(ch); f["reason_code"] != "approval_denied" || f["remedy"] == "" {
		t.Errorf("deny: %v", f)
	}

	ch = g.write(t.Context(), "expired")
	if f := g.outcome(ch); f["reason_code"] != "approval_expired" {
		t.Errorf("expiry: %v", f)
	}

	ctx, cancel := context.WithCancel(t.Context())
	ch = g.write(ctx, "cancelled")
	a := g.asking(d, person)
	cancel()
	if x := <-ch; x.err == nil {
		t.Errorf("cancel: %+v", x)
	}
	settled(t, person, a.ID)
}

// TestPendingAndRestart: a call that takes longer than a client waits is answered
// with pending; the wait for it outlives the daemon.
func TestPendingAndRestart(t *testing.T) {
	d := newDaemon(t)
	d.mustStart(unlimited...)
	g := startGo(t, d, "--pending-after", "300ms")
	f := g.outcome(g.write(t.Context(), "late"))
	id, _ := f["call_id"].(string)
	if f["outcome"] != "pending" || id == "" || f["approval_id"] == "" {
		t.Fatalf("%v", f)
	}
	wait := g.call(t.Context(), "palyra_call_wait", map[string]any{"call_id": id, "timeout_s": 60})
	person := d.client(client.OperatorDoor)
	a := d.pending(person)
	d.kill()
	d.mustStart(unlimited...)
	d.decide(a, "allow")
	if f := g.outcome(wait); f["outcome"] != "finished" || f["call_id"] != id {
		t.Errorf("%v", f)
	}
	d.verify()
}

// TestRestartWhileTheCallWaits: the call itself goes on over a restart.
func TestRestartWhileTheCallWaits(t *testing.T) {
	d := newDaemon(t)
	d.mustStart(unlimited...)
	g := startGo(t, d, "--pending-after", "60s")
	ch := g.write(t.Context(), "resumed")
	a := g.asking(d, d.client(client.OperatorDoor))
	d.stop()
	d.mustStart(unlimited...)
	d.decide(a, "allow")
	if f := g.outcome(ch); f["outcome"] != "finished" {
		t.Errorf("%v", f)
	}
	if n := len(d.granted()); n != 1 {
		t.Errorf("%d calls were granted", n)
	}
}
