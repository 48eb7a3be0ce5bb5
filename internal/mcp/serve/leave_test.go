package serve_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/mcp/serve"
)

// waiting starts a call that waits for a person, and returns when the client was
// told so.
func waiting(t *testing.T, p *peer, ctx context.Context) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := p.call(ctx, "palyra_process_run", map[string]any{})
		done <- err
	}()
	for !strings.Contains(await(t, p.progress, "progress"), "A1") {
	}
	return done
}

func TestCancelEndsTheCall(t *testing.T) {
	d := newDaemon()
	d.onCall = asks
	p, _ := stdio(t, server(t, d, nil))
	ctx, cancel := context.WithCancel(t.Context())
	done := waiting(t, p, ctx)
	cancel()
	if id := await(t, d.cancelled, "cancel"); id != "C1" {
		t.Errorf("%s was cancelled", id)
	}
	if err := await(t, done, "answer"); err == nil {
		t.Error("a cancelled call has a result")
	}
}

// TestGoingAwayLeavesTheCall: a client that ends, and one whose own time was up,
// leave the call to be found again.
func TestGoingAwayLeavesTheCall(t *testing.T) {
	t.Run("hangs up", func(t *testing.T) {
		d := newDaemon()
		left := make(chan struct{})
		d.onCall = func(ctx context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
			defer close(left)
			return asks(ctx, r, watch)
		}
		p, hangUp := stdio(t, server(t, d, nil))
		done := waiting(t, p, t.Context())
		hangUp()
		await(t, left, "letting go")
		_ = p.Close()
		await(t, done, "answer")
		notCancelled(t, d)
	})
	t.Run("gives up", func(t *testing.T) {
		d := newDaemon()
		d.onCall = asks
		d.onWatch = func(context.Context, palyra.CallID, func(client.CallEvent)) (palyra.Outcome, error) {
			return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: "C1", Stdout: "found"}, nil
		}
		p, _ := stdio(t, server(t, d, func(c *serve.Config) { c.PendingAfter = 2 * time.Second }))
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := await(t, waiting(t, p, ctx), "answer"); err == nil {
			t.Error("there was a result in time")
		}
		r, err := p.call(t.Context(), "palyra_call_wait", nil)
		if err != nil || words(t, r) != "found" {
			t.Errorf("%v %+v", err, r)
		}
		notCancelled(t, d)
	})
}

func notCancelled(t *testing.T, d *daemon) {
	t.Helper()
	select {
	case id := <-d.cancelled:
		t.Errorf("%s was cancelled", id)
	default:
	}
}

// TestRestartWhileWaiting: a call that is on record is watched again, one that
// perhaps is not is proposed again with its key, never as a new one.
func TestRestartWhileWaiting(t *testing.T) {
	lost := palyra.Errorf(palyra.Unavailable, client.ReasonConnectionLost, "the daemon went away")
	stopping := palyra.Errorf(palyra.Unavailable, palyra.ReasonStopping, "the daemon is stopping")
	nobody := palyra.Errorf(palyra.Unavailable, client.ReasonNoDaemon, "no daemon")
	t.Run("on record", func(t *testing.T) {
		d := newDaemon()
		d.onCall = func(_ context.Context, _ client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
			watch(accepted("C1"))
			watch(question("A1"))
			return palyra.Outcome{}, stopping
		}
		tries := 0
		d.onWatch = func(_ context.Context, id palyra.CallID, watch func(client.CallEvent)) (palyra.Outcome, error) {
			if tries++; tries < 3 {
				return palyra.Outcome{}, nobody
			}
			return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: id, Stdout: "resumed"}, nil
		}
		p, _ := stdio(t, server(t, d, nil))
		r, err := p.call(t.Context(), "palyra_process_run", nil)
		if err != nil || words(t, r) != "resumed" || len(d.made()) != 1 {
			t.Errorf("%v %+v, %d calls", err, r, len(d.made()))
		}
	})
	t.Run("perhaps on record", func(t *testing.T) {
		d := newDaemon()
		d.onCall = func(_ context.Context, r client.CallRequest, _ func(client.CallEvent)) (palyra.Outcome, error) {
			if len(d.made()) < 3 {
				return palyra.Outcome{}, lost
			}
			return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: "C1", Stdout: "once"}, nil
		}
		p, _ := stdio(t, server(t, d, nil))
		r, err := p.call(t.Context(), "palyra_process_run", nil)
		if err != nil || words(t, r) != "once" {
			t.Fatalf("%v %+v", err, r)
		}
		made := d.made()
		if len(made) != 3 || made[0].Key != made[1].Key || made[1].Key != made[2].Key || made[0].Session != made[2].Session {
			t.Errorf("calls %+v", made)
		}
	})
}

func TestListChanges(t *testing.T) {
	d := newDaemon()
	p, _ := stdio(t, server(t, d, nil))
	more := echoTool()
	more.Name = "mcp.files.read"
	d.set(echoTool(), more)
	await(t, p.changed, "change of the list")
	deadline := time.Now().Add(time.Minute)
	for {
		list, err := p.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, tool := range list.Tools {
			names[tool.Name] = true
		}
		if names["mcp_files_read"] && !names["palyra_process_run"] {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("tools %v", names)
		}
		await(t, p.changed, "change of the list")
	}
}

// TestCancelWaitsForASlowDaemon: one that takes a call only after its client has
// cancelled it is told all the same.
func TestCancelWaitsForASlowDaemon(t *testing.T) {
	d := newDaemon()
	asked := make(chan struct{})
	d.onCall = func(ctx context.Context, _ client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
		close(asked)
		select {
		case <-time.After(2500 * time.Millisecond): // a disk that is busy
			watch(accepted("C1"))
			<-ctx.Done()
		case <-ctx.Done():
		}
		return palyra.Outcome{}, ctx.Err()
	}
	p, _ := stdio(t, server(t, d, nil))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := p.call(ctx, "palyra_echo", map[string]any{"text": "x"})
		done <- err
	}()
	await(t, asked, "call")
	cancel()
	if id := await(t, d.cancelled, "cancel"); id != "C1" {
		t.Errorf("%s", id)
	}
	await(t, done, "answer")
}

// A client that sends its requests and ends its input, as a script does, has an answer to each.
func TestRequestsBeforeTheEndAreAnswered(t *testing.T) {
	const input = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
		`"clientInfo":{"name":"script","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
{"jsonrpc":"2.0","id":3,"method":"ping"}
`
	for range 20 {
		var out bytes.Buffer
		if err := server(t, newDaemon(), nil).Stdio(t.Context(), strings.NewReader(input), &out); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{`"id":1,`, `"id":2,`, `"id":3,`} {
			if !strings.Contains(out.String(), id) {
				t.Fatalf("no answer with %s in %s", id, out.String())
			}
		}
	}
}
