package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/mcp/serve"
)

// wire is a client that writes the protocol by hand.
type wire struct {
	t   *testing.T
	out io.WriteCloser
	in  *bufio.Reader
	ids int
}

type wireAnswer struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result struct {
		taskFields
		Task         taskFields      `json:"task"`
		Tasks        []taskFields    `json:"tasks"`
		Next         string          `json:"nextCursor"`
		Capabilities json.RawMessage `json:"capabilities"`
		Tools        []struct {
			Name      string
			Execution struct{ TaskSupport string }
		} `json:"tools"`
		IsError bool `json:"isError"`
		Content []struct{ Text string }
		Meta    map[string]any `json:"_meta"`
	} `json:"result"`
	Error *struct {
		Code    int
		Message string
		Data    struct {
			Reason string `json:"reason_code"`
			Remedy string
		}
	} `json:"error"`
}

type taskFields struct {
	ID      string `json:"taskId"`
	Status  string
	Message string `json:"statusMessage"`
	Created string `json:"createdAt"`
	TTL     *int64
	Poll    int64 `json:"pollInterval"`
}

// dial connects one that speaks a revision.
func dial(t *testing.T, s *serve.Server, revision, capabilities string) *wire {
	t.Helper()
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := s.Stdio(t.Context(), toServer, fromServer)
		_ = fromServer.Close()
		done <- err
	}()
	w := &wire{t: t, out: fromClient, in: bufio.NewReader(toClient)}
	t.Cleanup(func() {
		_ = fromClient.Close()
		go func() { _, _ = io.Copy(io.Discard, toClient) }()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	const hello = `{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"wire","version":"1"}}`
	said := string(w.ask("initialize", fmt.Sprintf(hello, revision, capabilities)).Result.Capabilities)
	if got := strings.Contains(said, `"tasks":{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}`); got != (revision == "2025-11-25") {
		t.Errorf("%s: tasks are offered: %t", revision, got)
	}
	w.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return w
}

func (w *wire) write(line string) {
	w.t.Helper()
	if _, err := io.WriteString(w.out, line+"\n"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) ask(method, params string) wireAnswer {
	w.t.Helper()
	w.ids++
	line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q`, w.ids, method)
	if params != "" {
		line += `,"params":` + params
	}
	w.write(line + "}")
	return w.answer(w.ids)
}

func (w *wire) answer(id int) wireAnswer {
	w.t.Helper()
	for {
		line, err := w.in.ReadBytes('\n')
		if err != nil {
			w.t.Fatal(err)
		}
		var a wireAnswer
		if err := json.Unmarshal(bytes.TrimSpace(line), &a); err != nil {
			w.t.Fatalf("%v: %s", err, line)
		}
		if a.Method == "" && string(a.ID) == fmt.Sprint(id) {
			return a
		}
	}
}

// status asks until a task is so.
func (w *wire) status(id, status string) taskFields {
	w.t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for range 500 {
		a := w.ask("tasks/get", fmt.Sprintf(`{"taskId":%q}`, id))
		if a.Error != nil {
			w.t.Fatalf("%+v", a.Error)
		}
		if a.Result.Status == status {
			return a.Result.taskFields
		}
		<-look.C
	}
	w.t.Fatalf("the task is not %s", status)
	return taskFields{}
}

const taskOfRun = `{"name":"palyra_process_run","arguments":{"argv":["make"]},"task":{"ttl":60000}}`

// TestTask: the answer is a task, while the person is asked; then its result is that of the call.
func TestTask(t *testing.T) {
	d := newDaemon()
	yes := make(chan struct{})
	d.onCall = func(ctx context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
		watch(accepted("C1"))
		watch(question("A1"))
		<-yes
		return palyra.Outcome{Outcome: palyra.OutcomeFinished, Tool: r.Tool, CallID: "C1", Stdout: "made\n"}, nil
	}
	w := dial(t, server(t, d, func(c *serve.Config) { c.PendingAfter = time.Millisecond }), "2025-11-25", `{}`)
	for _, tool := range w.ask("tools/list", "").Result.Tools {
		own := strings.HasPrefix(tool.Name, "palyra_call_")
		if got := tool.Execution.TaskSupport; own && got != "" || !own && got != "optional" {
			t.Errorf("%s says %q", tool.Name, got)
		}
	}
	a := w.ask("tools/call", taskOfRun)
	made := a.Result.Task
	if made.ID == "" || made.Status != "working" || made.TTL == nil || *made.TTL != 60000 || made.Poll == 0 || made.Created == "" ||
		a.Result.Meta["io.modelcontextprotocol/model-immediate-response"] == nil {
		t.Fatalf("%+v", a)
	}
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for w.status(made.ID, "working").Message != "waiting for a person to answer approval A1 in Palyra: run make" {
		<-look.C
	}
	close(yes)
	got := w.ask("tasks/result", fmt.Sprintf(`{"taskId":%q}`, made.ID))
	related, _ := got.Result.Meta["io.modelcontextprotocol/related-task"].(map[string]any)
	if got.Error != nil || got.Result.IsError || got.Result.Content[0].Text != "made\n" || related["taskId"] != made.ID {
		t.Errorf("%+v", got)
	}
	w.status(made.ID, "completed")
	if a := w.ask("tasks/cancel", fmt.Sprintf(`{"taskId":%q}`, made.ID)); a.Error == nil || a.Error.Code != -32602 {
		t.Errorf("a task that is over is cancelled: %+v", a)
	}
	if calls := d.made(); len(calls) != 1 || string(calls[0].Arguments) != `{"argv":["make"]}` {
		t.Errorf("%+v", calls)
	}
}

// TestTaskCancelled: a cancel ends the call; a client that only gives up waiting for the result does not.
func TestTaskCancelled(t *testing.T) {
	d := newDaemon()
	d.onCall = func(_ context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
		watch(accepted("C1"))
		watch(question("A1"))
		id := <-d.cancelled
		return palyra.Outcome{
			Outcome: palyra.OutcomeCancelled, Tool: r.Tool, CallID: id, ReasonCode: palyra.ReasonCancelled, Reason: "withdrawn",
		}, nil
	}
	w := dial(t, server(t, d, nil), "2025-11-25", `{}`)
	id := w.ask("tools/call", taskOfRun).Result.Task.ID
	w.ids++
	w.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tasks/result","params":{"taskId":%q}}`, w.ids, id))
	w.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,"reason":"later"}}`, w.ids))
	w.status(id, "working")
	if a := w.ask("tasks/cancel", fmt.Sprintf(`{"taskId":%q}`, id)); a.Error != nil || a.Result.Status != "cancelled" {
		t.Errorf("%+v", a)
	}
	w.status(id, "cancelled")
	if a := w.ask("tasks/result", fmt.Sprintf(`{"taskId":%q}`, id)); !a.Result.IsError || !strings.Contains(a.Result.Content[0].Text, "withdrawn") {
		t.Errorf("%+v", a)
	}
}

// TestTaskRefused: what is refused is a task that failed, and says why.
func TestTaskRefused(t *testing.T) {
	d := newDaemon()
	d.onCall = func(_ context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
		watch(accepted("C1"))
		return palyra.Outcome{
			Outcome: palyra.OutcomeRefused, Tool: r.Tool, CallID: "C1", ReasonCode: palyra.ReasonApprovalDenied, Reason: "no",
		}, nil
	}
	w := dial(t, server(t, d, nil), "2025-11-25", `{}`)
	id := w.ask("tools/call", taskOfRun).Result.Task.ID
	if f := w.status(id, "failed"); !strings.Contains(f.Message, "approval_denied") {
		t.Errorf("%+v", f)
	}
}

// TestTaskBadInput: what makes no sense is refused, and makes no call.
func TestTaskBadInput(t *testing.T) {
	d := newDaemon()
	w := dial(t, server(t, d, nil), "2025-11-25", `{}`)
	for params, code := range map[string]int{
		`{"name":"palyra_process_run","task":5}`:                  -32602,
		`{"name":"palyra_process_run","task":null}`:               -32602,
		`{"name":"palyra_process_run","task":[]}`:                 -32602,
		`{"name":"palyra_process_run","task":{"ttl":-1}}`:         -32602,
		`{"name":"palyra_process_run","task":{"ttl":"1h"}}`:       -32602,
		`{"name":"palyra_process_run","task":{"ttl":1e300}}`:      -32602,
		`{"name":"palyra_call_wait","arguments":{},"task":{}}`:    -32601,
		`{"name":"palyra_nothing","arguments":{},"task":{}}`:      -32601,
		`{"name":"palyra_process_run","_meta":{"palyra/task":7}}`: -32602,
	} {
		if a := w.ask("tools/call", params); a.Error == nil || a.Error.Code != code {
			t.Errorf("%s: %+v", params, a)
		}
	}
	for _, ask := range [][2]string{
		{"tasks/get", ""},
		{"tasks/get", `{}`},
		{"tasks/get", `{"taskId":"other"}`},
		{"tasks/result", `{"taskId":""}`},
		{"tasks/cancel", ""},
		{"tasks/cancel", `{"taskId":"other"}`},
		{"tasks/list", `{"cursor":"other"}`},
	} {
		if a := w.ask(ask[0], ask[1]); a.Error == nil || a.Error.Code != -32602 {
			t.Errorf("%v: %+v", ask, a)
		}
	}
	if a := w.ask("tasks/list", ""); a.Error != nil || len(a.Result.Tasks) != 0 {
		t.Errorf("%+v", a)
	}
	if len(d.made()) != 0 {
		t.Errorf("calls were made: %+v", d.made())
	}
	a := w.ask("tools/call", `{"name":"palyra_process_run","task":{"ttl":99999999999999}}`)
	if a.Error != nil || *a.Result.Task.TTL != 24*3600*1000 {
		t.Errorf("%+v", a)
	}
}

// TestTaskOfOtherRevisions: older clients get what they always got.
func TestTaskOfOtherRevisions(t *testing.T) {
	w := dial(t, server(t, newDaemon(), nil), "2025-06-18", `{}`)
	if a := w.ask("tools/call", taskOfRun); a.Error != nil || a.Result.Task.ID != "" || len(a.Result.Content) == 0 {
		t.Errorf("%+v", a)
	}
	for _, tool := range w.ask("tools/list", "").Result.Tools {
		if tool.Execution.TaskSupport != "" {
			t.Errorf("%+v", tool)
		}
	}
	if a := w.ask("tasks/list", ""); a.Error == nil || a.Error.Code != -32601 {
		t.Errorf("%+v", a)
	}
}

// TestTaskLimits: a session has so many tasks and no more, and pages through them.
func TestTaskLimits(t *testing.T) {
	d := newDaemon()
	d.onCall = asks
	w := dial(t, server(t, d, nil), "2025-11-25", `{}`)
	for i := range 32 {
		if a := w.ask("tools/call", taskOfRun); a.Error != nil {
			t.Fatalf("%d: %+v", i, a)
		}
	}
	if a := w.ask("tools/call", taskOfRun); a.Error == nil || a.Error.Data.Reason != "too_many_pending" || a.Error.Data.Remedy == "" {
		t.Errorf("%+v", a)
	}
	seen, cursor, pages := map[string]bool{}, "", 0
	for {
		a := w.ask("tasks/list", fmt.Sprintf(`{"cursor":%q}`, cursor))
		for _, task := range a.Result.Tasks {
			seen[task.ID] = true
		}
		pages++
		if cursor = a.Result.Next; cursor == "" {
			break
		}
	}
	if len(seen) != 32 || pages != 2 {
		t.Errorf("%d tasks on %d pages", len(seen), pages)
	}
}

// TestTaskOver: when its time is up a task is not there any more. Its call is left as it is.
func TestTaskOver(t *testing.T) {
	d := newDaemon()
	left := make(chan struct{})
	d.onCall = func(ctx context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
		defer close(left)
		return asks(ctx, r, watch)
	}
	w := dial(t, server(t, d, nil), "2025-11-25", `{}`)
	made := w.ask("tools/call", `{"name":"palyra_process_run","task":{"ttl":1}}`).Result.Task
	if *made.TTL != 1000 {
		t.Errorf("%+v", made)
	}
	await(t, left, "the task lets go of its call")
	if a := w.ask("tasks/get", fmt.Sprintf(`{"taskId":%q}`, made.ID)); a.Error == nil || a.Error.Code != -32602 {
		t.Errorf("%+v", a)
	}
	if len(d.cancelled) != 0 {
		t.Error("the call was withdrawn")
	}
}

// TestTaskView: a client that can show questions shows that of a task while it waits for the result, and its answer decides nothing.
func TestTaskView(t *testing.T) {
	d := newDaemon()
	d.onCall = asks
	w := dial(t, server(t, d, func(c *serve.Config) { c.ViewAfter = time.Millisecond }), "2025-11-25", `{"elicitation":{"form":{}}}`)
	id := w.ask("tools/call", taskOfRun).Result.Task.ID
	w.ids++
	w.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tasks/result","params":{"taskId":%q}}`, w.ids, id))
	var view struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Message string
			Meta    map[string]map[string]string `json:"_meta"`
		}
	}
	for view.Method != "elicitation/create" {
		line, err := w.in.ReadBytes('\n')
		if err != nil || json.Unmarshal(line, &view) != nil {
			t.Fatalf("%v %s", err, line)
		}
	}
	if !strings.Contains(view.Params.Message, "A1") || view.Params.Meta["io.modelcontextprotocol/related-task"]["taskId"] != id {
		t.Errorf("%+v", view)
	}
	w.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"seen":"I answer it in another terminal"}}}`, view.ID))
	if f := w.status(id, "working"); len(d.cancelled) != 0 || !strings.Contains(f.Message, "A1") {
		t.Errorf("%+v", f)
	}
}
