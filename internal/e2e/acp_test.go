//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// puppetVariable makes the test binary an ACP agent that asks of its editor what the prompts say.
const puppetVariable = "PALYRA_TEST_ACP_PUPPET"

// rpcMessage is a message of JSON-RPC.
type rpcMessage struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// puppet is the agent: a prompt's text is a request, which it makes; the turn ends with the answer.
func puppet(in io.Reader, out io.Writer) {
	asked := map[string]json.RawMessage{} // our request → the prompt's
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	write := func(m rpcMessage) {
		m.Version = "2.0"
		raw, _ := json.Marshal(m)
		_, _ = out.Write(append(raw, '\n'))
	}
	for lines.Scan() {
		var m rpcMessage
		_ = json.Unmarshal(lines.Bytes(), &m)
		switch {
		case m.Method == "":
			raw, _ := json.Marshal(map[string]any{"stopReason": "end_turn", "_meta": map[string]any{"answer": m.Result, "error": m.Error}})
			write(rpcMessage{ID: asked[string(m.ID)], Result: raw})
		case m.Method == "initialize":
			write(rpcMessage{ID: m.ID, Result: json.RawMessage(`{"protocolVersion":1,"agentCapabilities":{}}`)})
		case m.Method == "session/new":
			write(rpcMessage{ID: m.ID, Result: json.RawMessage(`{"sessionId":"s1"}`)})
		case m.Method == "session/prompt":
			var p struct {
				Prompt []struct{ Text string }
			}
			_ = json.Unmarshal(m.Params, &p)
			var r rpcMessage
			_ = json.Unmarshal([]byte(p.Prompt[0].Text), &r)
			id := json.RawMessage(fmt.Sprint(1000 + len(asked)))
			asked[string(id)] = m.ID
			write(rpcMessage{ID: id, Method: r.Method, Params: r.Params})
		}
	}
}

// acpEditor is an editor that says yes to every dialog.
type acpEditor struct {
	t   testing.TB
	out io.WriteCloser

	mu      sync.Mutex
	next    int
	waiting map[string]chan rpcMessage
	dialogs chan string
}

func (d *daemon) acp() *acpEditor {
	d.t.Helper()
	self, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	cmd := d.palyra("acp", "--", self)
	cmd.Env, cmd.Stderr = append(cmd.Env, puppetVariable+"=1"), os.Stderr
	e := &acpEditor{t: d.t, waiting: map[string]chan rpcMessage{}, dialogs: make(chan string, 64)}
	if e.out, err = cmd.StdinPipe(); err != nil {
		d.t.Fatal(err)
	}
	in, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	heard := make(chan struct{})
	go func() { defer close(heard); e.listen(in) }()
	d.t.Cleanup(func() {
		_ = e.out.Close()
		<-heard
		if err := cmd.Wait(); err != nil {
			d.t.Errorf("palyra acp: %v", err)
		}
	})
	e.ask("initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{}})
	e.ask("session/new", map[string]any{"cwd": d.work, "mcpServers": []any{}})
	return e
}

func (e *acpEditor) write(m rpcMessage) {
	m.Version = "2.0"
	raw, _ := json.Marshal(m)
	e.mu.Lock()
	defer e.mu.Unlock()
	_, _ = e.out.Write(append(raw, '\n'))
}

func (e *acpEditor) listen(in io.Reader) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var m rpcMessage
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			e.t.Errorf("no message: %s", lines.Bytes())
			continue
		}
		switch {
		case m.Method == "":
			e.mu.Lock()
			ch := e.waiting[string(m.ID)]
			e.mu.Unlock()
			ch <- m
		case m.Method == "session/request_permission":
			var p struct {
				Options []struct {
					ID string `json:"optionId"`
				}
			}
			_ = json.Unmarshal(m.Params, &p)
			e.dialogs <- string(m.Params)
			raw, _ := json.Marshal(map[string]any{"outcome": map[string]string{"outcome": "selected", "optionId": p.Options[0].ID}})
			e.write(rpcMessage{ID: m.ID, Result: raw})
		}
	}
}

// ask sends a request and waits for the answer.
func (e *acpEditor) ask(method string, params any) json.RawMessage {
	e.t.Helper()
	raw, _ := json.Marshal(params)
	ch := make(chan rpcMessage, 1)
	e.mu.Lock()
	e.next++
	id := fmt.Sprint(e.next)
	e.waiting[id] = ch
	e.mu.Unlock()
	e.write(rpcMessage{ID: json.RawMessage(id), Method: method, Params: raw})
	select {
	case m := <-ch:
		if m.Error != nil {
			e.t.Fatalf("%s: %s", method, m.Error)
		}
		return m.Result
	case <-time.After(waitMost):
		e.t.Fatalf("%s: no answer", method)
		return nil
	}
}

// has the agent ask something, and returns the answer to it.
func (e *acpEditor) has(method string, params map[string]any) (answer, refused string) {
	e.t.Helper()
	params["sessionId"] = "s1"
	text, _ := json.Marshal(map[string]any{"method": method, "params": params})
	raw := e.ask("session/prompt", map[string]any{"sessionId": "s1", "prompt": []any{map[string]string{"type": "text", "text": string(text)}}})
	var got struct {
		Meta struct{ Answer, Error json.RawMessage } `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		e.t.Fatal(err)
	}
	if string(got.Meta.Error) == "null" {
		return string(got.Meta.Answer), ""
	}
	return "", string(got.Meta.Error)
}

// TestACP: what an agent asks of its editor goes through the gate, and the editor's yes is worth nothing.
func TestACP(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	owner := d.ownWork()
	file := filepath.Join(d.work, "a.txt")
	fresh := func() {
		save(t, file, []byte("one\n"))
		if err := os.Chown(file, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	fresh()
	e := d.acp()
	for _, method := range []string{"fs/read_text_file", "fs/write_text_file"} {
		if got, no := e.has(method, map[string]any{"path": file, "content": "x"}); !strings.Contains(no, "palyra up") {
			t.Errorf("%s without a daemon: %s %s", method, got, no)
		}
	}
	d.mustStart() // of a workspace that nobody made known everything asks
	for _, answer := range []palyra.Answer{palyra.AnswerDeny, palyra.AnswerAllow} {
		name := filepath.Join(d.work, string(answer))
		decided := e.decides(d, answer)
		got, no := e.has("fs/write_text_file", map[string]any{"path": name, "content": "two\n"})
		if err := <-decided; err != nil || (no == "") != (answer == palyra.AnswerAllow) {
			t.Errorf("%s: %v %s %s", answer, err, got, no)
		}
		if raw, err := os.ReadFile(name); (string(raw) == "two\n") != (answer == palyra.AnswerAllow) {
			t.Errorf("%s: %v %q", answer, err, raw)
		}
	}
	d.inWorkspace()
	fresh()
	if got, no := e.has("fs/read_text_file", map[string]any{"path": file}); got != `{"content":"one\n"}` {
		t.Errorf("%s %s", got, no)
	}
	save(t, filepath.Join(d.home, "secret"), []byte("hidden"))
	if err := os.Symlink(filepath.Join(d.home, "secret"), filepath.Join(d.work, "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(d.work, "link"), filepath.Join(d.home, "secret"), "/etc/hostname"} {
		if got, no := e.has("fs/read_text_file", map[string]any{"path": path}); no == "" || strings.Contains(got+no, "hidden") {
			t.Errorf("%s: %s %s", path, got, no)
		}
	}
	e.terminal(d)
	e.permission(d)
	d.verify()
}

// decides has a person answer once the editor has shown the question and said yes to it.
func (e *acpEditor) decides(d *daemon, answer palyra.Answer) <-chan error {
	decided := make(chan error, 1)
	ctx, done := context.WithTimeout(e.t.Context(), waitMost/3)
	go func() {
		defer done()
		select {
		case <-e.dialogs:
			_, err := d.decideNext(ctx, answer)
			decided <- err
		case <-ctx.Done():
			decided <- errors.New("the editor showed nothing")
		}
	}()
	return decided
}

// terminal has the agent run a program, which reaches its workspace and nothing of the daemon's.
func (e *acpEditor) terminal(d *daemon) {
	e.t.Helper()
	decided := e.decides(d, palyra.AnswerAllow)
	got, no := e.has("terminal/create", map[string]any{"command": "cat a.txt; cat " + filepath.Join(d.home, "secret") + "; exit 7"})
	var made struct {
		ID string `json:"terminalId"`
	}
	if err := json.Unmarshal([]byte(got), &made); err != nil || made.ID == "" {
		e.t.Fatalf("%s %s", got, no)
	}
	if got, no := e.has("terminal/wait_for_exit", map[string]any{"terminalId": made.ID}); got != `{"exitCode":7}` {
		e.t.Errorf("%s %s", got, no)
	}
	if err := <-decided; err != nil {
		e.t.Error(err)
	}
	got, _ = e.has("terminal/output", map[string]any{"terminalId": made.ID})
	if strings.Contains(got, "hidden") || !strings.Contains(got, "No such file") || !strings.Contains(got, `"truncated":false`) {
		e.t.Errorf("%s", got)
	}
	person := d.client(client.OperatorDoor)
	page, err := person.Calls(e.t.Context(), client.CallFilter{})
	if err != nil {
		e.t.Fatal(err)
	}
	ran := 0
	for _, c := range page.Calls {
		call, err := person.GetCall(e.t.Context(), c.ID)
		if err != nil {
			e.t.Fatal(err)
		}
		if call.Proposal.Tool == palyra.ToolProcessRun {
			ran++
			if call.Proposal.Surface != palyra.SurfaceACP || call.Plan.Tier != palyra.TierC {
				e.t.Errorf("%s %s", call.Proposal.Surface, call.Plan.Tier)
			}
		}
	}
	if ran != 1 {
		e.t.Errorf("%d programs are on record", ran)
	}
}

// permission has the agent ask for one: only a person's answer counts, and only once.
func (e *acpEditor) permission(d *daemon) {
	e.t.Helper()
	for answer, want := range map[palyra.Answer]string{palyra.AnswerAllow: "yes", palyra.AnswerDeny: "no"} {
		decided := e.decides(d, answer)
		got, no := e.has("session/request_permission", map[string]any{
			"toolCall": map[string]any{
				"toolCallId": "t1", "kind": "execute", "title": "push", "rawInput": map[string]string{"command": "git push " + want},
			},
			"options": []map[string]string{
				{"optionId": "always", "name": "Always", "kind": "allow_always"},
				{"optionId": "yes", "name": "Yes", "kind": "allow_once"},
				{"optionId": "no", "name": "No", "kind": "reject_once"},
			},
		})
		if err := <-decided; err != nil || !strings.Contains(got, `"optionId":"`+want+`"`) {
			e.t.Errorf("%s: %v %s %s", answer, err, got, no)
		}
	}
}
