package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/mcp/task"
)

// callAsTask is a call that is to be a task, as the library knows it: it has the method of one, but takes other
// parameters and another answer. The filter sends it by its own name.
const callAsTask = "palyra/" + task.MethodCall

// Bounds of a server's tasks.
const (
	maxTaskID = 256
	maxTasks  = 16 // under way in one session
	leastPoll = 100 * time.Millisecond
	mostPoll  = 10 * time.Second // however seldom a server wants to be asked
	usualPoll = time.Second
	taskTTL   = time.Hour
	cancelFor = 2 * time.Second // for a server to hear that its task is not wanted any more
)

// sendTasks has the library send what tasks need.
func sendTasks(c *mcp.Client) error {
	return errors.Join(
		mcp.AddSendingCustomMethod[*task.Request, *task.Answer](c, callAsTask),
		mcp.AddSendingCustomMethod[*task.Ref, *task.Shown](c, task.MethodGet),
		mcp.AddSendingCustomMethod[*task.Ref, *task.Shown](c, task.MethodCancel),
		mcp.AddSendingCustomMethod[*task.Ref, *mcp.CallToolResult](c, task.MethodResult),
	)
}

// taskWords is what a server has said about tasks.
type taskWords struct {
	mu      sync.Mutex
	calls   bool // it takes calls as tasks
	cancels bool // and a cancel of them
	tools   map[string]task.Support
	listed  map[string]task.Support // of the list that is just being read, page by page
	running int
}

// list begins a list of tools; listedAll ends one that was read to its end.
func (w *taskWords) list() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listed = map[string]task.Support{}
}

func (w *taskWords) listedAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tools = w.listed
}

// hears reads what the library drops of a server's answers.
func (x *connection) hears(method string, result []byte) {
	switch method {
	case "initialize":
		calls, cancels := task.Offered(result)
		x.tasks.mu.Lock()
		defer x.tasks.mu.Unlock()
		x.tasks.calls, x.tasks.cancels = calls, cancels
	case "tools/list":
		of := task.Supports(result)
		x.tasks.mu.Lock()
		defer x.tasks.mu.Unlock()
		for name, s := range of {
			if x.tasks.listed != nil && len(x.tasks.listed) < maxTools {
				x.tasks.listed[name] = s
			}
		}
	}
}

// asTask reports whether a tool is called as a task: it may be, and its server takes such calls.
func (x *connection) asTask(name string) bool {
	x.tasks.mu.Lock()
	defer x.tasks.mu.Unlock()
	s := x.tasks.tools[name]
	return x.tasks.calls && (s == task.Optional || s == task.Required)
}

// enterTask counts a task in; leaveTask counts it out.
func (x *connection) enterTask() bool {
	x.tasks.mu.Lock()
	defer x.tasks.mu.Unlock()
	if x.tasks.running >= maxTasks {
		return false
	}
	x.tasks.running++
	return true
}

func (x *connection) leaveTask() {
	x.tasks.mu.Lock()
	defer x.tasks.mu.Unlock()
	x.tasks.running--
}

// callTask calls a tool as a task and asks for it until it is over. When ctx ends the server is told to cancel it.
func (x *connection) callTask(ctx context.Context, name string, args json.RawMessage) (*mcp.CallToolResult, error) {
	if !x.enterTask() {
		return nil, fmt.Errorf("it has %d tasks of ours under way already", maxTasks)
	}
	defer x.leaveTask()
	ttl := taskTTL.Milliseconds()
	if end, bound := ctx.Deadline(); bound {
		ttl = (time.Until(end) + time.Minute).Milliseconds()
	}
	a, err := mcp.CallCustomMethod[*task.Request, *task.Answer](ctx, x.client, callAsTask,
		&task.Request{Name: name, Arguments: args, Task: task.Wish{TTL: &ttl}})
	switch {
	case err != nil:
		return nil, err
	case a.Task == nil: // it made none after all
		return a.Result, nil
	case a.Task.ID == "" || len(a.Task.ID) > maxTaskID:
		return nil, errors.New("the name of its task is empty or too long")
	}
	res, err := x.followTask(ctx, *a.Task)
	if err != nil {
		x.cancelTask(ctx, a.Task.ID)
	}
	return res, err
}

// followTask asks for a task until it is over, and then for its result. A server that wants to be told something
// tells so to who waits for the result, and is refused there like any that asks.
func (x *connection) followTask(ctx context.Context, t task.Task) (*mcp.CallToolResult, error) {
	ref := &task.Ref{ID: t.ID}
	for !t.Status.Final() && t.Status != task.Input {
		if !t.Status.Known() {
			return nil, fmt.Errorf("it says of its task that it is %q", clipped(string(t.Status)))
		}
		if err := pause(ctx, t.Poll); err != nil {
			return nil, err
		}
		got, err := mcp.CallCustomMethod[*task.Ref, *task.Shown](ctx, x.client, task.MethodGet, ref)
		if err != nil {
			return nil, err
		}
		if got.ID != t.ID {
			return nil, errors.New("asked for its task, it tells of another one")
		}
		t = got.Task
	}
	if t.Status == task.Withdrawn {
		return nil, fmt.Errorf("it cancelled its task: %s", clipped(t.Message))
	}
	res, err := mcp.CallCustomMethod[*task.Ref, *mcp.CallToolResult](ctx, x.client, task.MethodResult, ref)
	switch {
	case err != nil && t.Status == task.Failed:
		return nil, fmt.Errorf("its task failed: %s", clipped(t.Message))
	case err != nil:
		return nil, err
	case res.NeedsInput():
		return nil, errInput
	}
	res.IsError = res.IsError || t.Status == task.Failed
	return res, nil
}

// pause waits before the next look at a task.
func pause(ctx context.Context, ms int64) error {
	wait := usualPoll
	if ms > 0 {
		wait = min(max(time.Duration(min(ms, mostPoll.Milliseconds()))*time.Millisecond, leastPoll), mostPoll)
	}
	after := time.NewTimer(wait)
	defer after.Stop()
	select {
	case <-after.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cancelTask tells the server that nobody waits for a task any more, if it takes that. Nothing depends on its answer.
func (x *connection) cancelTask(ctx context.Context, id string) {
	x.tasks.mu.Lock()
	takes := x.tasks.cancels
	x.tasks.mu.Unlock()
	if !takes {
		return
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cancelFor)
	defer done()
	_, _ = mcp.CallCustomMethod[*task.Ref, *task.Shown](ctx, x.client, task.MethodCancel, &task.Ref{ID: id})
}

func clipped(text string) string { return text[:min(len(text), 200)] }
