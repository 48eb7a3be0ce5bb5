package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra"
)

// tasker is a server that makes tasks of calls.
type tasker struct {
	mu     sync.Mutex
	heard  []string         // methods, in order
	wish   json.RawMessage  // of the call
	states []map[string]any // what tasks/get says, one after the other; the last stays
	result string           // of tasks/result: a whole message without its id
	made   map[string]any   // the answer to the call, in the place of a task
	id     string
}

// does answers as the test says. The tool add wants to be called as a task, sub as a request.
func (k *tasker) does(c *conn, m message) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heard = append(k.heard, m.Method)
	switch m.Method {
	case "initialize":
		none := map[string]any{}
		_ = c.result(m.ID, map[string]any{
			"protocolVersion": "2025-11-25", "serverInfo": map[string]any{"name": "fake", "version": "1"},
			"capabilities": map[string]any{
				"tools": none, "tasks": map[string]any{"cancel": none, "requests": map[string]any{"tools": map[string]any{"call": none}}},
			},
		})
	case "tools/list":
		as := tool("add", "Adds.")
		as["execution"] = map[string]any{"taskSupport": "required"}
		_ = c.result(m.ID, map[string]any{"tools": []any{as, tool("sub", "Subtracts.")}})
	case "tools/call":
		var p struct{ Task json.RawMessage }
		_ = json.Unmarshal(m.Params, &p)
		k.wish = p.Task
		if p.Task == nil {
			return false
		}
		made := k.made
		if made == nil {
			made = map[string]any{"task": k.state(map[string]any{"status": "working"})}
		}
		_ = c.result(m.ID, made)
	case "tasks/get":
		_ = c.result(m.ID, k.state(k.states[0]))
		if len(k.states) > 1 {
			k.states = k.states[1:]
		}
	case "tasks/result":
		_ = c.say(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, k.result)
	case "tasks/cancel":
		_ = c.result(m.ID, k.state(map[string]any{"status": "cancelled"}))
	default:
		return false
	}
	return true
}

func (k *tasker) state(of map[string]any) map[string]any {
	const now = "2026-11-19T00:00:00Z"
	s := map[string]any{"taskId": k.id, "ttl": nil, "createdAt": now, "lastUpdatedAt": now, "pollInterval": 1}
	for name, v := range of {
		s[name] = v
	}
	return s
}

func (k *tasker) asked() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(k.heard, " ")
}

// at is what a server says of its task, one after the other: a status, and after a space what it says about it.
func at(all ...string) (states []map[string]any) {
	for _, one := range all {
		status, message, _ := strings.Cut(one, " ")
		states = append(states, map[string]any{"status": status, "statusMessage": message})
	}
	return states
}

// TestTask: a tool that wants to be called as a task is, and is asked for until it is over; another one is not.
func TestTask(t *testing.T) {
	texts := func(text string) string { return `"result":{"content":[{"type":"text","text":"` + text + `"}]}` }
	other := []map[string]any{{"status": "completed", "taskId": "other"}}
	atOnce := map[string]any{"content": []any{map[string]any{"type": "text", "text": "at once"}}}
	for name, c := range map[string]struct {
		*tasker
		out, failure string
		cancels      bool
	}{
		"completed": {tasker: &tasker{
			states: at("working", "working half", "completed"), result: texts("summed"),
		}, out: "summed"},
		"failed, with a result": {tasker: &tasker{states: at("failed"), result: texts("too large")}, failure: "too large"},
		"failed, without": {
			tasker:  &tasker{states: at("failed no disk"), result: `"error":{"code":-32603,"message":"gone"}`},
			failure: "its task failed: no disk", cancels: true,
		},
		"cancelled by the server": {
			tasker:  &tasker{states: at("cancelled busy")},
			failure: "it cancelled its task: busy", cancels: true,
		},
		"it wants to be told more": {
			tasker:  &tasker{states: at("input_required"), result: `"error":{"code":-32603,"message":"nobody tells me"}`},
			failure: "nobody tells me", cancels: true,
		},
		"it goes on without": {tasker: &tasker{states: at("input_required"), result: texts("guessed")}, out: "guessed"},
		"an odd status":      {tasker: &tasker{states: at("dreaming\u001b")}, failure: "dreaming", cancels: true},
		"another task":       {tasker: &tasker{states: other}, failure: "another one", cancels: true},
		"a name without end": {tasker: &tasker{id: strings.Repeat("x", 300)}, failure: "too long"},
		"no task after all":  {tasker: &tasker{made: atOnce}, out: "at once"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			k := c.tasker
			if k.id == "" {
				k.id = "T1"
			}
			w.fake.answer = k.does
			w.add("calc", true)
			res := w.call(t.Context(), "mcp.calc.add")
			said := string(res.Output) + string(res.Stdout)
			if res.Failure != nil {
				said += res.Failure.Text
			}
			if want := c.out + c.failure; !strings.Contains(said, want) || (res.ExitCode != 0) != (c.failure != "") {
				t.Errorf("%d %q, want %q", res.ExitCode, said, want)
			}
			if got := strings.Contains(k.asked(), "tasks/cancel"); got != c.cancels {
				t.Errorf("cancelled: %t by %s", got, k.asked())
			}
			var wish struct{ TTL int64 }
			if err := json.Unmarshal(k.wish, &wish); err != nil || wish.TTL < 60_000 || wish.TTL > 4_000_000 {
				t.Errorf("%v: %s", err, k.wish)
			}
			if res := w.call(t.Context(), "mcp.calc.sub"); res.Failure != nil || k.wish != nil {
				t.Errorf("%+v: a tool that says nothing of tasks was called as %s", res.Failure, k.wish)
			}
		})
	}
}

// TestTaskCancelled: a call that is cancelled cancels the task, and then the server is ended, as for any call.
func TestTaskCancelled(t *testing.T) {
	w := newWorld(t)
	k := &tasker{id: "T1", states: at("working")}
	w.fake.answer = k.does
	w.add("calc", true)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		look := time.NewTicker(time.Millisecond)
		defer look.Stop()
		for !strings.Contains(k.asked(), "tasks/get") {
			<-look.C
		}
		cancel(palyra.Errorf(palyra.Denied, palyra.ReasonCancelled, "not any more"))
	}()
	res := w.call(ctx, "mcp.calc.add")
	if res.Failure == nil || !strings.HasSuffix(k.asked(), "tasks/cancel") {
		t.Errorf("%+v after %s", res.Failure, k.asked())
	}
}

// TestTasksWithoutEnd: a server gets so many of our tasks at once and no more.
func TestTasksWithoutEnd(t *testing.T) {
	w := newWorld(t)
	k := &tasker{id: "T1", states: at("working")}
	w.fake.answer = k.does
	w.add("calc", true)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	ended := make(chan palyra.Result, 17)
	for i := range 17 {
		c, g := w.grantedAs(palyra.CallID(fmt.Sprint("CALL", i)), "mcp.calc.add")
		wg.Go(func() { ended <- w.launch(ctx, g, c) })
	}
	select {
	case res := <-ended:
		if res.Failure == nil || !strings.Contains(res.Failure.Text, "16 tasks") {
			t.Errorf("%+v", res)
		}
	case <-time.After(time.Minute):
		t.Error("all of them are under way")
	}
}
