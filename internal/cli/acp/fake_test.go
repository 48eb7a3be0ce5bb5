package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"palyra"
	"palyra/client"
)

// daemon pretends to be one, and keeps the contract of a call: accepted first, then questions, then what is printed.
type daemon struct {
	play func(ctx context.Context, r client.CallRequest, check bool, watch func(client.CallEvent)) (palyra.Outcome, error)

	mu        sync.Mutex
	calls     []client.CallRequest
	cancelled chan palyra.CallID
	waiting   map[palyra.CallID]chan struct{} // closed by a cancel
}

func newDaemon() *daemon {
	return &daemon{cancelled: make(chan palyra.CallID, 64), waiting: map[palyra.CallID]chan struct{}{}}
}

func (d *daemon) called(ctx context.Context, r client.CallRequest, check bool, watch func(client.CallEvent)) (palyra.Outcome, error) {
	d.mu.Lock()
	d.calls = append(d.calls, r)
	d.mu.Unlock()
	if d.play != nil {
		return d.play(ctx, r, check, watch)
	}
	watch(accepted)
	o := palyra.Outcome{Outcome: palyra.OutcomeFinished, Tool: r.Tool, CallID: "C1", Output: json.RawMessage(`{"content":"one\ntwo\n","eof":true}`)}
	if check {
		o = palyra.Outcome{Outcome: palyra.OutcomeAllowed, Tool: r.Tool, CallID: "C1"}
	}
	return o, nil
}

func (d *daemon) made() []client.CallRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]client.CallRequest(nil), d.calls...)
}

func (d *daemon) Call(ctx context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
	return d.called(ctx, r, false, watch)
}

func (d *daemon) Check(ctx context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
	return d.called(ctx, r, true, watch)
}

func (d *daemon) WatchCall(context.Context, palyra.CallID, func(client.CallEvent)) (palyra.Outcome, error) {
	return palyra.Outcome{}, errors.New("nothing to watch")
}

func (d *daemon) CancelCall(_ context.Context, id palyra.CallID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ch := d.waiting[id]; ch != nil {
		close(ch)
		delete(d.waiting, id)
		return nil
	}
	d.cancelled <- id
	return nil
}

var (
	accepted = client.CallEvent{Accepted: &client.CallAccepted{CallID: "C1", SessionID: "S1"}}
	question = client.CallEvent{ApprovalRequested: &client.ApprovalRequested{ApprovalID: "A1", Summary: "write a.txt"}}
)

// waits is a call with an open question, until it is cancelled.
func (d *daemon) waits(ctx context.Context, r client.CallRequest, _ bool, watch func(client.CallEvent)) (palyra.Outcome, error) {
	d.mu.Lock()
	id, cancelled := palyra.CallID(fmt.Sprintf("W%d", len(d.calls))), make(chan struct{})
	for d.waiting[id] != nil {
		id += "x"
	}
	d.waiting[id] = cancelled
	d.mu.Unlock()
	watch(client.CallEvent{Accepted: &client.CallAccepted{CallID: id, SessionID: "S1"}})
	watch(question)
	select {
	case <-cancelled:
		return palyra.Outcome{Outcome: palyra.OutcomeCancelled, Tool: r.Tool, CallID: id, ReasonCode: palyra.ReasonCancelled}, nil
	case <-ctx.Done():
		return palyra.Outcome{}, ctx.Err()
	}
}

// refuses is a call that policy denies.
func refuses(_ context.Context, r client.CallRequest, _ bool, watch func(client.CallEvent)) (palyra.Outcome, error) {
	watch(accepted)
	return palyra.Outcome{
		Outcome: palyra.OutcomeRefused, Tool: r.Tool, CallID: "C1", ReasonCode: palyra.ReasonPolicyDenied, Reason: "not this", Remedy: "do that",
	}, nil
}

func away(context.Context, client.CallRequest, bool, func(client.CallEvent)) (palyra.Outcome, error) {
	return palyra.Outcome{}, palyra.Errorf(palyra.Unavailable, client.ReasonNoDaemon, "no daemon listens on /home/ann/agent.sock").
		WithRemedy("palyra up --detach")
}

type answer = func(ctx context.Context, params json.RawMessage) (any, *sdk.RequestError)

// end is one end of a connection, played by the test: it answers by its table and keeps notifications.
type end struct {
	t      *testing.T
	conn   *sdk.Connection
	raw    io.WriteCloser
	mu     sync.Mutex
	answer map[string]answer
	news   chan string
}

func newEnd(t *testing.T, out io.WriteCloser, in io.Reader) *end {
	e := &end{t: t, raw: out, news: make(chan string, 1024), answer: map[string]answer{}}
	e.conn = sdk.NewConnection(func(ctx context.Context, method string, params json.RawMessage) (any, *sdk.RequestError) {
		e.mu.Lock()
		f := e.answer[method]
		e.mu.Unlock()
		if f == nil {
			e.news <- method + " " + string(params)
			return map[string]any{}, nil
		}
		return f(ctx, params)
	}, out, in)
	return e
}

func (e *end) on(method string, f answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer[method] = f
}

// says has a method answered with a JSON text.
func (e *end) says(method, text string) {
	e.on(method, func(context.Context, json.RawMessage) (any, *sdk.RequestError) { return json.RawMessage(text), nil })
}

// ask sends a request, and fails the test if it is refused.
func (e *end) ask(method, params string) string {
	e.t.Helper()
	raw, err := e.try(method, params)
	if err != nil {
		e.t.Fatalf("%s: %v", method, err)
	}
	return raw
}

func (e *end) try(method, params string) (string, error) {
	ctx, done := context.WithTimeout(e.t.Context(), patience)
	defer done()
	raw, err := sdk.SendRequest[json.RawMessage](e.conn, ctx, method, json.RawMessage(params))
	return string(raw), err
}

// refused sends a request that must be refused in words with a text in them.
func (e *end) refused(method, params, with string) {
	e.t.Helper()
	raw, err := e.try(method, params)
	if err == nil || !strings.Contains(err.Error(), with) {
		e.t.Errorf("%s %.200s: %s, %v; want a refusal with %q", method, params, raw, err, with)
	}
}

// heard waits for a notification with a text in it.
func (e *end) heard(with string) string {
	e.t.Helper()
	late := time.After(patience)
	for {
		select {
		case n := <-e.news:
			if strings.Contains(n, with) {
				return n
			}
		case <-late:
			e.t.Fatalf("nothing is heard with %q", with)
		}
	}
}

const patience = 20 * time.Second

// between starts a proxy between an editor and an agent of the test's own, with a session "one" in /w and "two" in /v.
func between(t *testing.T, d Daemon, change func(*Config)) (editor, agent *end) {
	t.Helper()
	editor, agent, done := proxied(t, d, change)
	t.Cleanup(func() {
		_ = editor.raw.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for id, dir := range map[string]string{"one": "/w", "two": "/v"} {
		agent.says("session/new", `{"sessionId":"`+id+`"}`)
		editor.ask("session/new", `{"cwd":"`+dir+`","mcpServers":[]}`)
	}
	return editor, agent
}

func proxied(t *testing.T, d Daemon, change func(*Config)) (editor, agent *end, done chan error) {
	t.Helper()
	c := Config{Daemon: d, Agent: "agent", Shell: "/bin/sh", Log: slog.New(slog.DiscardHandler), ViewAfter: time.Millisecond}
	if change != nil {
		change(&c)
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	fromEditor, toProxy := io.Pipe()
	toEditor, fromProxy := io.Pipe()
	fromAgent, agentOut := io.Pipe()
	agentIn, proxyToAgent := io.Pipe()
	editor = newEnd(t, toProxy, toEditor)
	agent = newEnd(t, agentOut, agentIn)
	done = make(chan error, 1)
	go func() {
		err := p.Run(t.Context(), Pipes{fromEditor, fromProxy}, Pipes{fromAgent, proxyToAgent})
		for _, w := range []io.Closer{fromProxy, proxyToAgent, fromEditor, fromAgent} { // as the end of the process does
			_ = w.Close()
		}
		done <- err
	}()
	return editor, agent, done
}
