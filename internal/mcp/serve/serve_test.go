package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"palyra"
	"palyra/client"
	"palyra/internal/mcp/serve"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// stdio connects a client over pipes, as one that starts the program does. hangUp
// ends it without a word.
func stdio(t *testing.T, s *serve.Server) (p *peer, hangUp func()) {
	t.Helper()
	p, c := newPeer()
	return p, connect(t, s, p, c)
}

// connect connects a client as stdio does.
func connect(t *testing.T, s *serve.Server, p *peer, c *mcp.Client) (hangUp func()) {
	t.Helper()
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := s.Stdio(t.Context(), toServer, fromServer)
		_ = fromServer.Close() // as the end of the process does
		done <- err
	}()
	session, err := c.Connect(t.Context(), &mcp.IOTransport{Reader: toClient, Writer: fromClient}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.ClientSession = session
	hangUp = func() { _ = fromClient.Close() }
	t.Cleanup(func() {
		_ = session.Close()
		hangUp()
		_ = toClient.Close()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return hangUp
}

func await[T any](t *testing.T, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(time.Minute):
		t.Fatal("not in time: " + what)
	}
	return v
}

func TestToolsAreShown(t *testing.T) {
	p, _ := stdio(t, server(t, newDaemon(), nil))
	list, err := p.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*mcp.Tool{}
	for _, tool := range list.Tools {
		got[tool.Name] = tool
	}
	echo, run := got["palyra_echo"], got["palyra_process_run"]
	if len(got) != 4 || echo == nil || run == nil || got["palyra_call_wait"] == nil || got["palyra_call_output"] == nil {
		t.Fatalf("tools %v", got)
	}
	if echo.Title != "Echo" || !echo.Annotations.ReadOnlyHint || *echo.Annotations.DestructiveHint || *echo.Annotations.OpenWorldHint {
		t.Errorf("echo: %+v %+v", echo, echo.Annotations)
	}
	if run.Annotations.ReadOnlyHint || !*run.Annotations.DestructiveHint || !*run.Annotations.OpenWorldHint ||
		run.Title != "palyra.process.run" {
		t.Errorf("run: %+v", run.Annotations)
	}
	if schema, _ := json.Marshal(echo.InputSchema); !strings.Contains(string(schema), `"text"`) || echo.OutputSchema != nil {
		t.Errorf("schema %s", schema)
	}
}

// TestNamesThatMeet: a tool of another server cannot take the place of one of
// Palyra's, nor of this server's own.
func TestNamesThatMeet(t *testing.T) {
	d := newDaemon()
	bad := echoTool()
	bad.Name = "palyra.call.output"
	wide := echoTool()
	wide.Name, wide.InputSchema = "mcp.x.y", json.RawMessage(`[1]`)
	d.set(echoTool(), bad, wide)
	p, _ := stdio(t, server(t, d, nil))
	r, err := p.call(t.Context(), "palyra_call_output", map[string]any{})
	if err != nil || !r.IsError || len(d.made()) != 0 {
		t.Errorf("%v: %v calls were made by %+v", err, d.made(), r)
	}
	if r, err = p.call(t.Context(), "mcp_x_y", map[string]any{}); err != nil || r.IsError {
		t.Errorf("a tool with an odd schema: %v %+v", err, r)
	}
}

// TestSchemasThatTheLibraryDislikes: one tool of a stranger must not end the server
// for all the others.
func TestSchemasThatTheLibraryDislikes(t *testing.T) {
	d := newDaemon()
	odd := echoTool()
	odd.Name, odd.InputSchema = "mcp.x.y", json.RawMessage(`{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"a b"}}}`)
	d.set(echoTool(), odd)
	p, _ := stdio(t, server(t, d, nil))
	for _, name := range []string{"mcp_x_y", "palyra_echo"} {
		if r, err := p.call(t.Context(), name, map[string]any{}); err != nil || r.IsError {
			t.Errorf("%s: %v %+v", name, err, r)
		}
	}
}

func TestCallIsProposedAndAnswered(t *testing.T) {
	d := newDaemon()
	p, _ := stdio(t, server(t, d, nil))
	r, err := p.call(t.Context(), "palyra_echo", map[string]any{"text": "hello <you>"})
	if err != nil {
		t.Fatal(err)
	}
	if got := words(t, r); got != `{"text":"hello <you>"}` || r.IsError {
		t.Errorf("text %q, error %v", got, r.IsError)
	}
	f := fields(t, r)
	if f["outcome"] != "finished" || f["call_id"] != "C1" {
		t.Errorf("fields %v", f)
	}
	if _, there := f["attestation"]; there {
		t.Error("the attestation is for people, not for models")
	}
	made := d.made()
	if len(made) != 1 || made[0].Tool != "palyra.echo" || made[0].Surface != palyra.SurfaceMCP || made[0].Workspace != "/w" ||
		made[0].Key == "" {
		t.Fatalf("calls %+v", made)
	}
	if !strings.HasPrefix(made[0].Session, "mcp/test-client/") {
		t.Errorf("session %q", made[0].Session)
	}
	if _, err := p.call(t.Context(), "palyra_echo", nil); err != nil {
		t.Fatal(err)
	}
	if again := d.made(); again[1].Session != made[0].Session || again[1].Key == made[0].Key || string(again[1].Arguments) != "{}" {
		t.Errorf("the second call %+v", again[1])
	}
}

func TestRefusalIsAToolError(t *testing.T) {
	d := newDaemon()
	d.onCall = func(_ context.Context, r client.CallRequest, _ func(client.CallEvent)) (palyra.Outcome, error) {
		return palyra.Outcome{
			Outcome: palyra.OutcomeRefused, Tool: r.Tool, ReasonCode: palyra.ReasonPolicyDenied, Reason: "policy forbids it",
			Remedy: "ask differently", CallID: "C9", ExitCode: 126,
		}, nil
	}
	p, _ := stdio(t, server(t, d, nil))
	r, err := p.call(t.Context(), "palyra_process_run", map[string]any{})
	if err != nil || !r.IsError {
		t.Fatalf("%v %+v", err, r)
	}
	if got := words(t, r); got != "refused: policy forbids it (policy_denied)\nremedy: ask differently\ncall C9\n" {
		t.Errorf("%q", got)
	}
	if f := fields(t, r); f["outcome"] != "refused" || f["reason_code"] != "policy_denied" || f["remedy"] != "ask differently" {
		t.Errorf("%v", f)
	}
}

// TestErrorsTellNoPlace: neither where the daemon listens nor the cause of an
// error reaches a client.
func TestErrorsTellNoPlace(t *testing.T) {
	d := newDaemon()
	fault := error(errors.New("open /home/ann/secret: denied"))
	d.onCall = func(context.Context, client.CallRequest, func(client.CallEvent)) (palyra.Outcome, error) {
		return palyra.Outcome{}, fault
	}
	p, _ := stdio(t, server(t, d, func(c *serve.Config) { c.PendingAfter = 50 * time.Millisecond }))
	for range 2 {
		r, err := p.call(t.Context(), "palyra_echo", nil)
		if err != nil || !r.IsError {
			t.Fatalf("%v %+v", err, r)
		}
		if raw, _ := json.Marshal(r); strings.Contains(string(raw), "/home/ann") {
			t.Errorf("%s", raw)
		}
		fault = palyra.Errorf(palyra.Unavailable, client.ReasonNoDaemon, "no daemon listens on /home/ann/agent.sock").WithRemedy("palyra up")
	}
}

// TestPendingWaitsForTheName: a daemon that takes its time to accept a call is not one
// that is away, and the client gets the name to wait for. Of a call that was never
// accepted nobody claims that it was not made.
func TestPendingWaitsForTheName(t *testing.T) {
	for name, c := range map[string]struct {
		takes   time.Duration
		outcome string
		reason  palyra.Reason
	}{
		"late":  {3 * time.Second, "pending", ""},
		"never": {time.Hour, "failed", client.ReasonConnectionLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDaemon()
				d.onCall = func(ctx context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
					select {
					case <-time.After(c.takes):
						return asks(ctx, r, watch)
					case <-ctx.Done():
						return palyra.Outcome{}, ctx.Err()
					}
				}
				p, _ := stdio(t, server(t, d, func(c *serve.Config) { c.PendingAfter = time.Second }))
				r, err := p.call(t.Context(), "palyra_process_run", map[string]any{})
				if err != nil {
					t.Fatal(err)
				}
				f := fields(t, r)
				if f["outcome"] != c.outcome || (f["call_id"] == "C1") != (c.reason == "") ||
					c.reason != "" && f["reason_code"] != string(c.reason) || strings.Contains(words(t, r), "palyra up") {
					t.Errorf("%v %s", f, words(t, r))
				}
			})
		})
	}
}

func TestApprovalWaitsWithProgress(t *testing.T) {
	d := newDaemon()
	answered := make(chan struct{})
	d.onCall = func(_ context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
		watch(accepted("C1"))
		watch(question("A1"))
		<-answered
		watch(client.CallEvent{ApprovalResolved: &client.ApprovalResolved{ApprovalID: "A1", Answer: palyra.AnswerAllow}})
		return palyra.Outcome{Outcome: palyra.OutcomeFinished, Tool: r.Tool, CallID: "C1", Stdout: "made\n"}, nil
	}
	p, _ := stdio(t, server(t, d, nil))
	done := make(chan *mcp.CallToolResult, 1)
	go func() {
		r, _ := p.call(t.Context(), "palyra_process_run", map[string]any{})
		done <- r
	}()
	for n := 0; n < 3; {
		if note := await(t, p.progress, "progress"); strings.Contains(note, "A1") {
			if strings.Contains(note, "palyra approvals") || !strings.Contains(note, "run make") {
				t.Errorf("note %q", note)
			}
			n++
		}
	}
	close(answered)
	if r := await(t, done, "result"); words(t, r) != "made\n" {
		t.Errorf("%q", words(t, r))
	}
}

func TestPendingThenWait(t *testing.T) {
	d := newDaemon()
	d.onCall = asks
	decided := make(chan struct{})
	d.onWatch = func(ctx context.Context, id palyra.CallID, watch func(client.CallEvent)) (palyra.Outcome, error) {
		watch(accepted(id))
		watch(question("A1"))
		select {
		case <-decided:
			return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: id, Tool: "palyra.process.run", Stdout: "late"}, nil
		case <-ctx.Done():
			return palyra.Outcome{}, ctx.Err()
		}
	}
	p, _ := stdio(t, server(t, d, func(c *serve.Config) { c.PendingAfter = 50 * time.Millisecond }))
	r, err := p.call(t.Context(), "palyra_process_run", map[string]any{})
	if err != nil || r.IsError {
		t.Fatalf("%v %+v", err, r)
	}
	f := fields(t, r)
	if f["outcome"] != "pending" || f["call_id"] != "C1" || f["approval_id"] != "A1" ||
		!strings.Contains(words(t, r), `palyra_call_wait {"call_id":"C1"}`) {
		t.Errorf("%v: %s", f, words(t, r))
	}
	if r, err = p.call(t.Context(), "palyra_call_wait", map[string]any{"call_id": "C1"}); err != nil || fields(t, r)["outcome"] != "pending" {
		t.Fatalf("%v %+v", err, r)
	}
	close(decided)
	for _, args := range []map[string]any{{"call_id": "C1", "timeout_s": 30}, {}} { // the latest call needs no name
		if r, err = p.call(t.Context(), "palyra_call_wait", args); err != nil || words(t, r) != "late" {
			t.Errorf("%v %+v", err, r)
		}
	}
	select {
	case id := <-d.cancelled:
		t.Errorf("%s was cancelled", id)
	default:
	}
}

func TestWaitRefusesNonsense(t *testing.T) {
	d := newDaemon()
	d.onGet = func(id palyra.CallID) (palyra.Call, error) { return palyra.Call{ID: id}, nil }
	p, _ := stdio(t, server(t, d, nil))
	for _, c := range []struct {
		tool string
		args any
	}{
		{"palyra_call_wait", nil},
		{"palyra_call_wait", map[string]any{"call_id": 7}},
		{"palyra_call_wait", map[string]any{"call_id": "C", "timeout_s": -1}},
		{"palyra_call_wait", map[string]any{"call_id": "C", "timeout_s": 1 << 40}},
		{"palyra_call_wait", map[string]any{"call_id": strings.Repeat("C", 65)}},
		{"palyra_call_output", nil},
		{"palyra_call_output", map[string]any{"call_id": "C", "stream": "stdout"}}, // has not ended
		{"palyra_call_output", map[string]any{"call_id": "C", "stream": "stdout", "limit": 1 << 30}},
		{"palyra_call_output", map[string]any{"call_id": "C", "stream": "stdout", "offset": -1}},
	} {
		if r, err := p.call(t.Context(), c.tool, c.args); err != nil || !r.IsError {
			t.Errorf("%s %v: %v %+v", c.tool, c.args, err, r)
		}
	}
}

func TestNewWantsItsParts(t *testing.T) {
	if _, err := serve.New(t.Context(), serve.Config{Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("no daemon is needed")
	}
	if _, err := serve.New(t.Context(), serve.Config{Backend: newDaemon()}); err == nil {
		t.Error("no log is needed")
	}
}
