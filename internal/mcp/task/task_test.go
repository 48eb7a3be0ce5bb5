package task_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/mcp/task"
)

// TestLift: the wish of a call is where the library leaves it, and nothing else is changed.
func TestLift(t *testing.T) {
	const whole = `{"id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":1.50,"task":"t"},"task":{"ttl":5},` +
		`"_meta":{"progressToken":7}}}` + "\n"
	for in, want := range map[string]string{
		whole: `{"id":1,"method":"tools/call","params":{"_meta":{"palyra/task":{"ttl":5},"progressToken":7},` +
			`"arguments":{"n":1.50,"task":"t"},"name":"x"}}` + "\n",
		`{"id":1,"method":"tools/call","params":{"name":"x","task":{}}}`: `{"id":1,"method":"tools/call","params":{"_meta":{"palyra/task":{}},"name":"x"}}`,
	} {
		if d := cmp.Diff(want, string(task.Lift([]byte(in)))); d != "" {
			t.Error(d)
		}
	}
	for _, same := range []string{
		`{"id":1,"method":"tools/call","params":{"name":"x","arguments":{"task":{}}}}`,
		`{"id":1,"method":"tools/list","params":{"task":{"of":"tools/call"}}}`,
		`{"id":1,"method":"tools/call","params":{"name":"x","task":{},"_meta":5}}`,
		`[{"id":1,"method":"tools/call","params":{"name":"x","task":{}}}]`,
		`{"method":"tools/call","params":{"task"`, `"task" tools/call`, ``,
	} {
		if got := task.Lift([]byte(same)); string(got) != same {
			t.Errorf("%s became %s", same, got)
		}
	}
}

// FuzzLift: whatever comes, what is not a call with a wish stays as it is; of one that is, only the wish moves.
func FuzzLift(f *testing.F) {
	f.Add([]byte(`{"id":1,"method":"tools/call","params":{"name":"x","task":{"ttl":5},"_meta":{"a":1}}}`))
	f.Add([]byte(`{"method":"tools/call","params":{"task":null}}`))
	f.Add([]byte(`{"method":"tools/call","params":{"task":1,"task":2}} {"task":3}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		out := task.Lift(bytes.Clone(in))
		if bytes.Equal(in, out) {
			return
		}
		var was, is struct {
			ID     json.RawMessage
			Method string
			Params map[string]any
		}
		if json.Unmarshal(in, &was) != nil || json.Unmarshal(out, &is) != nil || is.Method != was.Method || is.Method != "tools/call" {
			t.Fatalf("%s became %s", in, out)
		}
		meta, _ := is.Params["_meta"].(map[string]any)
		if d := cmp.Diff(was.Params["task"], meta["palyra/task"]); d != "" || is.Params["task"] != nil {
			t.Error(d)
		}
		delete(was.Params, "task")
		delete(meta, "palyra/task")
		if was.Params["_meta"] == nil {
			delete(was.Params, "_meta")
			if len(meta) == 0 {
				delete(is.Params, "_meta")
			}
		}
		if d := cmp.Diff(was.Params, is.Params); d != "" {
			t.Error(d)
		}
	})
}

// TestWords: what servers say about tasks is read, and only of the revision that has them.
func TestWords(t *testing.T) {
	greeting := `{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}}`
	if calls, cancel := task.Offered([]byte(greeting)); !calls || !cancel {
		t.Error("tasks are not seen")
	}
	for _, none := range []string{
		`{"protocolVersion":"2025-06-18","capabilities":{"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}}`,
		`{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"requests":{"sampling":{}}}}}`, `{}`, `[`, `{"capabilities":{"tasks":7}}`,
	} {
		if calls, _ := task.Offered([]byte(none)); calls {
			t.Errorf("tasks are seen in %s", none)
		}
	}
	got := task.Supports([]byte(`{"tools":[{"name":"a","execution":{"taskSupport":"required"}},{"name":"b","execution":
		{"taskSupport":"optional"}},{"name":"c","execution":{"taskSupport":"forbidden"}},{"name":"d","execution":{"taskSupport":"perhaps"}},{"name":"e"}]}`))
	if d := cmp.Diff(map[string]task.Support{"a": task.Required, "b": task.Optional}, got); d != "" {
		t.Error(d)
	}
}

// TestAnswer: a server may make a task, or answer at once.
func TestAnswer(t *testing.T) {
	var made, answered task.Answer
	err := json.Unmarshal([]byte(`{"task":{"taskId":"T","status":"working","ttl":null}}`), &made)
	if err != nil || made.Task == nil || made.Task.ID != "T" {
		t.Errorf("%v %+v", err, made)
	}
	err = json.Unmarshal([]byte(`{"content":[{"type":"text","text":"now"}]}`), &answered)
	if err != nil || answered.Task != nil || len(answered.Result.Content) != 1 {
		t.Errorf("%v %+v", err, answered)
	}
}

// TestMark: a tool's schema is as it was, numbers and all.
func TestMark(t *testing.T) {
	list := &mcp.ListToolsResult{Tools: []*mcp.Tool{
		{Name: "a", InputSchema: json.RawMessage(`{"type":"object","maximum":12345678901234567890}`)},
		{Name: "b", InputSchema: json.RawMessage(`{"type":"object"}`)},
	}}
	r, err := task.Mark(list, func(name string) bool { return name == "a" })
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(r)
	want := `{"cacheScope":"","tools":[{"execution":{"taskSupport":"optional"},"inputSchema":{"maximum":12345678901234567890,"type":"object"},"name":"a"},` +
		`{"inputSchema":{"type":"object"},"name":"b"}],"ttlMs":0}`
	if d := cmp.Diff(want, string(raw)); err != nil || d != "" {
		t.Error(err, d)
	}
}
