//go:build linux

package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/client"
)

// taskEvent is what the program on the TypeScript SDK says about a task.
type taskEvent struct {
	Event   string
	Message string
	Names   []string
	Offers  map[string]any
	Meta    map[string]any
	Task    struct {
		ID      string `json:"taskId"`
		Status  string
		Message string `json:"statusMessage"`
		TTL     int64
	}
	Tasks  []struct{ Status string }
	Result struct {
		IsError bool
		Content []struct{ Text string }
		Meta    map[string]any `json:"_meta"`
	}
}

// taskClient is a run of that program.
type taskClient struct {
	t     *testing.T
	lines *bufio.Scanner
}

func startTasks(t *testing.T, server any, calls ...map[string]any) *taskClient {
	t.Helper()
	exe, modules := node(t)
	one, _ := json.Marshal(server)
	two, _ := json.Marshal(calls)
	cmd := exec.CommandContext(t.Context(), exe, filepath.Join(modules, "tasks.mjs"), string(one), string(two))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil && t.Context().Err() == nil {
			t.Errorf("tasks.mjs: %v", err)
		}
	})
	c := &taskClient{t: t, lines: bufio.NewScanner(out)}
	c.lines.Buffer(nil, 4<<20)
	return c
}

// next returns the next event of a kind. It passes over what is said of tasks, unless that is asked for.
func (c *taskClient) next(kind string) taskEvent {
	c.t.Helper()
	for c.lines.Scan() {
		var e taskEvent
		if err := json.Unmarshal(c.lines.Bytes(), &e); err != nil {
			c.t.Fatalf("%v: %s", err, c.lines.Text())
		}
		if e.Event == kind {
			return e
		}
		if e.Event != "taskStatus" {
			c.t.Fatalf("%s instead of %s", c.lines.Text(), kind)
		}
	}
	c.t.Fatalf("the program ended without %s: %v", kind, c.lines.Err())
	return taskEvent{}
}

// status waits until a task is said to be so.
func (c *taskClient) status(status, word string) {
	c.t.Helper()
	for {
		if e := c.next("taskStatus"); e.Task.Status == status && strings.Contains(e.Task.Message, word) {
			return
		}
	}
}

// overStdio has the program start the server. PALYRA_AGENTS_RECORD=1 writes what it sends into testdata, for a
// test of internal/mcp/serve that sends it again.
func (d *daemon) overStdio() map[string]any {
	command, args := bin(d.t, "palyra"), d.mcpArgs("--pending-after", "1s")
	if os.Getenv("PALYRA_AGENTS_RECORD") != "" {
		file := filepath.Join("..", "mcp", "serve", "testdata", "typescript-tasks.jsonl")
		args = append([]string{"-c", `tee "$0" | "$@"`, file, command}, args...)
		command = "/bin/sh"
	}
	return map[string]any{"command": command, "args": args}
}

func touching(name string, more map[string]any) map[string]any {
	c := map[string]any{"name": "palyra_process_run", "arguments": map[string]any{"command": "touch", "args": []string{name}}}
	for k, v := range more {
		c[k] = v
	}
	return c
}

// TestTasksOnTheOfficialSDK: a client on the official TypeScript SDK calls a tool as a task. It has the task while a
// person is asked, may take longer over it than its own time for a request, and gets the result; a no holds, and
// says why; a cancel withdraws the question. It is so over both transports.
func TestTasksOnTheOfficialSDK(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart(unlimited...)
	person := d.client(client.OperatorDoor)
	url, token := d.mcpHTTP("--pending-after", "1s")
	for name, server := range map[string]map[string]any{"stdio": d.overStdio(), "http": {"url": url, "token": token}} {
		c := startTasks(t, server, touching(name+"-yes", map[string]any{"timeout_ms": 2000, "ttl": 600000}),
			touching(name+"-no", map[string]any{"result_after": true}),
			touching(name+"-never", map[string]any{"cancel_on": "approval", "result_after": true}))
		said := c.next("tools")
		if !slices.Contains(said.Names, "palyra_process_run") || slices.Contains(said.Names, "palyra_call_wait") || said.Offers["cancel"] == nil {
			t.Errorf("%s: offers %v, tools %v", name, said.Offers, said.Names)
		}
		d.taskAllowed(c, person, name+"-yes")
		d.taskDenied(c, person, name+"-no")
		d.taskCancelled(c, person, name+"-never")
		if all := c.next("list").Tasks; len(all) != 3 {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

func (d *daemon) touched(name string, want bool) {
	d.t.Helper()
	if got := exists(filepath.Join(d.work, name)); got != want {
		d.t.Errorf("%s: there %t, want %t", name, got, want)
	}
}

func (d *daemon) taskAllowed(c *taskClient, person *client.Client, name string) {
	d.t.Helper()
	if task := c.next("taskCreated").Task; task.Status != "working" || task.TTL != 600000 {
		d.t.Errorf("%+v", task)
	}
	a := d.pending(person)
	c.status("working", string(a.ID))
	for range 4 { // it looks once a second: longer than it waits for any answer
		c.status("working", string(a.ID))
	}
	d.decide(a, "allow")
	if r := c.next("result").Result; r.IsError || r.Meta["io.modelcontextprotocol/related-task"] == nil {
		d.t.Errorf("%+v", r)
	}
	d.touched(name, true)
}

func (d *daemon) taskDenied(c *taskClient, person *client.Client, name string) {
	d.t.Helper()
	c.next("taskCreated")
	d.decide(d.pending(person), "deny")
	c.status("failed", "denied the call (approval_denied)")
	c.next("error")
	if r := c.next("after").Result; !r.IsError || !strings.Contains(r.Content[0].Text, "approval_denied") {
		d.t.Errorf("%+v", r)
	}
	d.touched(name, false)
}

func (d *daemon) taskCancelled(c *taskClient, person *client.Client, name string) {
	d.t.Helper()
	c.next("taskCreated")
	if got := c.next("cancelled").Task.Status; got != "cancelled" {
		d.t.Errorf("the task is %s", got)
	}
	open, err := person.Approvals(d.t.Context(), client.ApprovalFilter{})
	for _, a := range open.Approvals {
		if a.Pending() {
			d.t.Errorf("%s is still asked", a.ID)
		}
	}
	if err != nil {
		d.t.Error(err)
	}
	c.next("error")
	if r := c.next("after").Result; !r.IsError {
		d.t.Errorf("%+v", r)
	}
	d.touched(name, false)
}

// TestTasksOfOthers: a task is its session's. Another client with the same token does not see it, by its id neither.
func TestTasksOfOthers(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.mustStart(unlimited...)
	url, token := d.mcpHTTP()
	server := map[string]any{"url": url, "token": token, "shows": true}
	first := startTasks(t, server, touching("mine", map[string]any{"result_at_once": true}))
	first.next("tools")
	id := first.next("taskCreated").Task.ID
	a := d.pending(d.client(client.OperatorDoor))
	if view := first.next("view"); !strings.Contains(view.Message, string(a.ID)) || view.Meta["io.modelcontextprotocol/related-task"] == nil {
		t.Errorf("%+v", view)
	}
	second := startTasks(t, server, map[string]any{"of": id})
	second.next("tools")
	for range 3 {
		if e := second.next("unseen"); !strings.Contains(e.Message, "no such task") {
			t.Errorf("%+v", e)
		}
	}
	if all := second.next("list").Tasks; len(all) != 0 {
		t.Errorf("%+v", all)
	}
	d.decide(a, "allow")
	if r := first.next("result").Result; r.IsError {
		t.Errorf("%+v", r)
	}
}
