// Package task has the words of MCP's tasks, as revision 2025-11-25 of the protocol defines them, which the official
// library does not know: a request that is made as a task is answered at once, and what comes of it is asked for later.
//
// Words: a task is a request that goes on after its answer; who asked is the requestor, and only that one may see it.
//
// Promises: what is not a request for a task passes through Lift unchanged, to the byte. It keeps nothing and judges
// nothing: tables, limits and who may see a task are those who use it.
package task

import (
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Revision is the one of the protocol that has these tasks. Older ones have none; the next one has others.
const Revision = "2025-11-25"

// Methods of the protocol.
const (
	MethodGet    = "tasks/get"
	MethodResult = "tasks/result"
	MethodList   = "tasks/list"
	MethodCancel = "tasks/cancel"
	MethodCall   = "tools/call"
)

// Status is how far a task is.
type Status string

// The statuses. The last three are final.
const (
	Working   Status = "working"
	Input     Status = "input_required" // the receiver wants the requestor to tell it something
	Completed Status = "completed"
	Failed    Status = "failed" // also a tool's result that says that it is an error
	Withdrawn Status = "cancelled"
)

// Known reports whether the protocol has such a status.
func (s Status) Known() bool { return s == Working || s == Input || s.Final() }

// Final reports whether a task with this status stays as it is.
func (s Status) Final() bool { return s == Completed || s == Failed || s == Withdrawn }

// Support says whether a tool may be called as a task. A tool that says nothing forbids it.
type Support string

// What a tool says.
const (
	Forbidden Support = "forbidden"
	Optional  Support = "optional"
	Required  Support = "required"
)

// Task is a task as the protocol shows it.
type Task struct {
	ID      string `json:"taskId"`
	Status  Status `json:"status"`
	Message string `json:"statusMessage,omitempty"`
	Created string `json:"createdAt"`
	Updated string `json:"lastUpdatedAt"`
	TTL     *int64 `json:"ttl"`                    // milliseconds from its creation; nil: for ever
	Poll    int64  `json:"pollInterval,omitempty"` // milliseconds between two looks
}

// Stamp is a time as tasks have it.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Wish is what a request that is to be a task says about it.
type Wish struct {
	TTL *int64 `json:"ttl,omitempty"`
}

// Created is the answer to a request that has become a task.
type Created struct {
	mcp.ResultBase
	Task Task `json:"task"`
}

// Shown is a task as the answer to a request about it.
type Shown struct {
	mcp.ResultBase
	Task
}

// Listed is one page of tasks.
type Listed struct {
	mcp.ResultBase
	Tasks []Task `json:"tasks"`
	Next  string `json:"nextCursor,omitempty"`
}

// Ref names a task in a request.
type Ref struct {
	mcp.ParamsBase
	ID string `json:"taskId"`
}

// Page asks for a page of tasks.
type Page struct {
	mcp.ParamsBase
	Cursor string `json:"cursor,omitempty"`
}

// Keys in _meta.
const (
	relatedKey   = "io.modelcontextprotocol/related-task"
	immediateKey = "io.modelcontextprotocol/model-immediate-response"
)

// Relate adds to _meta which task a message belongs to.
func Relate(m map[string]any, id string) map[string]any {
	if m == nil {
		m = map[string]any{}
	}
	m[relatedKey] = map[string]any{"taskId": id}
	return m
}

// Meanwhile is a _meta with what a model may be told before there is a result.
func Meanwhile(text string) map[string]any { return map[string]any{immediateKey: text} }

// Request asks for a tool as a task.
type Request struct {
	mcp.ParamsBase
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Task      Wish            `json:"task"`
}

// Answer is what comes back of a Request: a task, or at once a result, of a server that makes no task after all.
type Answer struct {
	mcp.ResultBase
	Task   *Task
	Result *mcp.CallToolResult
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Answer) UnmarshalJSON(b []byte) error {
	var is struct {
		Task *Task `json:"task"`
	}
	if err := json.Unmarshal(b, &is); err != nil {
		return err
	}
	if is.Task != nil {
		a.Task = is.Task
		return nil
	}
	a.Result = &mcp.CallToolResult{}
	return json.Unmarshal(b, a.Result)
}
