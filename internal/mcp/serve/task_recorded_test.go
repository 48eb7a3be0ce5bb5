package serve_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// TestRecordedTasks sends what a program on the official TypeScript SDK 1.32.2 sent (TestTasksOnTheOfficialSDK in internal/e2e
// records it): a task that is allowed, one that is denied, one that is cancelled while its person is asked.
func TestRecordedTasks(t *testing.T) {
	d := newDaemon()
	answered := map[string]chan struct{}{}
	for _, name := range []string{"yes", "no", "never"} {
		answered[name] = make(chan struct{})
	}
	d.onCall = func(ctx context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
		watch(accepted("C1"))
		watch(question("A1"))
		out := palyra.Outcome{Tool: r.Tool, CallID: "C1", Outcome: palyra.OutcomeFinished, Stdout: "made\n"}
		name := strings.TrimSuffix(string(r.Arguments[strings.Index(string(r.Arguments), "stdio-")+6:]), `"],"command":"touch"}`)
		select {
		case <-answered[name]:
		case <-d.cancelled:
			out.Outcome, out.ReasonCode = palyra.OutcomeCancelled, palyra.ReasonCancelled
		case <-ctx.Done():
			return palyra.Outcome{}, ctx.Err()
		}
		if name == "no" {
			out.Outcome, out.ReasonCode = palyra.OutcomeRefused, palyra.ReasonApprovalDenied
		}
		return out, nil
	}
	lines := sessions(t, "testdata/typescript-tasks.jsonl")[0]
	w := dial(t, server(t, d, nil), "2025-11-25", `{}`)
	recorded, live, name := "", "", ""
	var ended []string
	for _, line := range lines[2:] { // dial has said hello
		var m struct {
			ID     int
			Method string
			Params struct {
				TaskID    string `json:"taskId"`
				Arguments struct{ Args []string }
			}
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		switch m.Method {
		case "tools/call":
			recorded, name = "", strings.TrimPrefix(m.Params.Arguments.Args[0], "stdio-")
		case "tasks/get", "tasks/cancel", "tasks/result":
			recorded = m.Params.TaskID
			line = strings.ReplaceAll(line, recorded, live)
		}
		if m.Method == "tasks/result" && name != "never" {
			close(answered[name])
		}
		w.write(strings.TrimSpace(line))
		a := w.answer(m.ID)
		if a.Error != nil {
			t.Fatalf("%s: %+v", line, a.Error)
		}
		switch m.Method {
		case "tools/call":
			live = a.Result.Task.ID
		case "tasks/result":
			ended = append(ended, w.ended(live))
		case "tasks/list":
			if len(a.Result.Tasks) != 3 {
				t.Errorf("%+v", a.Result.Tasks)
			}
		}
	}
	if got := strings.Join(ended, " "); got != "completed failed cancelled" {
		t.Error(got)
	}
}

// ended is how a task is, by an id that no recorded message has.
func (w *wire) ended(id string) string {
	w.ids = max(w.ids, 1000)
	return w.ask("tasks/get", `{"taskId":"`+id+`"}`).Result.Status
}
