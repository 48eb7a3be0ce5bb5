package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/mcp/serve"
)

// message is one of the protocol, as far as it matters here.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Params struct {
		Name string `json:"name"`
	} `json:"params"`
}

// sessions reads what a real client sent, one list of lines for each time it was started.
func sessions(t *testing.T, file string) (all [][]string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if strings.Contains(line, `"method":"initialize"`) || strings.Contains(line, `"server-discover-probe-1"`) { // how a client begins
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], line)
	}
	return all
}

// TestRecordedClients sends what Claude Code 2.1.325 and Codex 0.166.0 sent (scripts/agents.sh
// records it): every call gets its result as text, and Codex's "decline", which it sends at
// once where nobody sits, withdraws nothing.
func TestRecordedClients(t *testing.T) {
	declines := 0
	for _, file := range []string{"testdata/claude-code.jsonl", "testdata/codex-exec.jsonl"} {
		calls := 0
		for _, lines := range sessions(t, file) {
			r := &replay{t: t, d: newDaemon(), allowed: make(chan struct{})}
			c, d := r.run(lines)
			calls, declines = calls+c, declines+d
		}
		if calls < 5 {
			t.Errorf("%s: %d calls", file, calls)
		}
	}
	if declines == 0 {
		t.Error("no decline was recorded")
	}
}

// replay is a server and a client that says what was recorded.
type replay struct {
	t       *testing.T
	d       *daemon
	allowed chan struct{} // the person has said yes
	out     io.Writer
	in      *bufio.Reader
	shown   json.RawMessage // the id of the open view
}

// tools are those that were called, and a person who is asked about some.
func (r *replay) tools() {
	read, write := echoTool(), echoTool()
	read.Name, write.Name = "palyra.fs.read", "palyra.process.run"
	r.d.set(read, write)
	out := palyra.Outcome{Outcome: palyra.OutcomeFinished, Tool: write.Name, CallID: "C1", Stdout: "made\n"}
	r.d.onCall = func(ctx context.Context, q client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
		watch(accepted("C1"))
		if q.Tool == read.Name {
			file := json.RawMessage(
				`{"path":"f","encoding":"text","content":"hello world","offset":0,"bytes":11,"size":11,"eof":true,"next_offset":11}`)
			return palyra.Outcome{Outcome: palyra.OutcomeFinished, Tool: q.Tool, CallID: "C1", Output: file}, nil
		}
		if !strings.Contains(string(q.Arguments), "touch") {
			return out, nil
		}
		watch(question("A1"))
		select {
		case <-r.allowed:
			return out, nil
		case <-ctx.Done():
			return palyra.Outcome{}, ctx.Err()
		}
	}
	r.d.onWatch = func(context.Context, palyra.CallID, func(client.CallEvent)) (palyra.Outcome, error) { return out, nil }
}

func (r *replay) run(lines []string) (calls, declines int) {
	t := r.t
	r.tools()
	s := server(t, r.d, func(c *serve.Config) { c.ViewAfter = time.Millisecond })
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := s.Stdio(t.Context(), toServer, fromServer)
		_ = fromServer.Close()
		done <- err
	}()
	r.out, r.in = fromClient, bufio.NewReader(toClient)
	for i, line := range lines {
		var m message
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		answers := i+1 < len(lines) && strings.Contains(lines[i+1], `"action"`)
		switch {
		case m.Method == "": // to a view
			declines++
			r.decline(m)
			calls += r.called(r.await("2"))
		case m.ID == nil, m.Method == "subscriptions/listen": // is answered by what follows
			r.send(line)
		case m.Method == "tools/call" && answers:
			r.send(line)
			r.await("view")
		case m.Method == "tools/call":
			if strings.Contains(line, "touch") { // the client cannot show it, and its person answers
				close(r.allowed)
			}
			r.send(line)
			calls += r.called(r.await(string(m.ID)))
		default:
			r.send(line)
			r.await(string(m.ID))
		}
	}
	_ = fromClient.Close()
	go func() { _, _ = io.Copy(io.Discard, toClient) }()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(r.d.cancelled) != 0 {
		t.Error("a call was withdrawn")
	}
	return calls, declines
}

func (r *replay) send(line string) {
	if _, err := io.WriteString(r.out, strings.TrimRight(line, "\n")+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

// decline sends the recorded answer to the view that is open, sees that the server has
// read it, and only then has the person say yes.
func (r *replay) decline(m message) {
	r.send(`{"jsonrpc":"2.0","id":` + string(r.shown) + `,"result":` + string(m.Result) + `}`)
	r.send(`{"jsonrpc":"2.0","id":99,"method":"ping"}`)
	r.await("99")
	close(r.allowed)
}

// await reads until the answer with an id, or a view, is there.
func (r *replay) await(id string) json.RawMessage {
	r.t.Helper()
	for {
		line, err := r.in.ReadBytes('\n')
		if err != nil {
			r.t.Fatalf("no %s: %v", id, err)
		}
		var m message
		if err := json.Unmarshal(bytes.TrimSpace(line), &m); err != nil {
			r.t.Fatalf("%s: %v", line, err)
		}
		if m.Method == "elicitation/create" {
			r.shown = m.ID
			if id == "view" {
				return nil
			}
		}
		if m.Method == "" && string(m.ID) == id {
			return m.Result
		}
	}
}

// called looks at the result of a call.
func (r *replay) called(result json.RawMessage) int {
	r.t.Helper()
	var got struct {
		IsError    bool            `json:"isError"`
		Structured json.RawMessage `json:"structuredContent"`
		Content    []struct{ Text string }
	}
	if err := json.Unmarshal(result, &got); err != nil || got.IsError || got.Structured != nil || len(got.Content) != 1 {
		r.t.Fatalf("%v %s", err, result)
	}
	if text := got.Content[0].Text; text != "made\n" && text != "hello world" {
		r.t.Errorf("the model is given %q", text)
	}
	return 1
}
