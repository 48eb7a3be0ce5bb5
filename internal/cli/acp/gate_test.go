package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/coder/acp-go-sdk"

	"palyra"
	"palyra/client"
)

const options = `"options":[{"optionId":"always","name":"Always","kind":"allow_always"},{"optionId":"yes","name":"Yes","kind":"allow_once"},` +
	`{"optionId":"never","name":"Never","kind":"reject_always"},{"optionId":"no","name":"No","kind":"reject_once"}]`

func permission(call string) string {
	return `{"sessionId":"one","toolCall":` + call + `,` + options + `}`
}

const bash = `{"toolCallId":"t1","kind":"execute","title":"push","rawInput":{"command":"git push"}}`

func selected(id string) string { return `{"outcome":{"optionId":"` + id + `","outcome":"selected"}}` }

// TestPermissions: the gate's word is the answer, once; the editor is not asked.
func TestPermissions(t *testing.T) {
	d := newDaemon()
	editor, agent := between(t, d, nil)
	editor.on("session/request_permission", func(context.Context, json.RawMessage) (any, *sdk.RequestError) {
		t.Error("the editor was asked")
		return json.RawMessage(selected("always")), nil
	})
	if got := agent.ask("session/request_permission", permission(bash)); got != selected("yes") {
		t.Error(got)
	}
	if r := d.made()[0]; r.Tool != palyra.ToolProcessRun || string(r.Arguments) != `{"command":"/bin/sh","args":["-c","git push"],"cwd":"."}` {
		t.Errorf("%+v", r)
	}
	forever := strings.Replace(permission(bash), `"allow_once"`, `"allow_always"`, 1)
	if got := agent.ask("session/request_permission", forever); got != `{"outcome":{"outcome":"cancelled"}}` {
		t.Errorf("a yes for once became %s", got)
	}
	d.play = refuses
	if got := agent.ask("session/request_permission", permission(bash)); got != selected("no") {
		t.Error(got)
	}
	editor.heard("not this (policy_denied, call C1); remedy: do that")
	d.play = away
	if got := agent.ask("session/request_permission", permission(bash)); got != selected("no") {
		t.Errorf("without a daemon: %s", got)
	}
	editor.heard("palyra up")
	agent.refused("session/request_permission", strings.Replace(permission(bash), `"one"`, `"three"`, 1), "no such session")
}

// TestWhatPermissionsComeTo: what says all that it does is judged as that, and everything else as unknown.
func TestWhatPermissionsComeTo(t *testing.T) {
	d := newDaemon()
	_, agent := between(t, d, nil)
	for call, want := range map[string]string{
		`{"toolCallId":"t","kind":"execute","rawInput":{"command":["git","push"]}}`:                   `palyra.process.run {"command":"git","args":["push"],"cwd":"."}`,
		`{"toolCallId":"t","kind":"execute","rawInput":{"command":"ls","cwd":"/etc"}}`:                `hook.acp-execute `,
		`{"toolCallId":"t","kind":"execute","rawInput":{"command":"ls","cwd":"/w/a"}}`:                `palyra.process.run {"command":"/bin/sh","args":["-c","ls"],"cwd":"a"}`,
		`{"toolCallId":"t","kind":"execute","rawInput":{"command":["ls"],"workdir":"/w"}}`:            `palyra.process.run {"command":"ls","cwd":"."}`,
		`{"toolCallId":"t","kind":"execute","rawInput":{"command":"ls","cwd":"/w/a/../../etc"}}`:      `hook.acp-execute `,
		`{"toolCallId":"t","kind":"execute","rawInput":{"command":"ls","cwd":7}}`:                     `hook.acp-execute `,
		`{"toolCallId":"t","kind":"execute","rawInput":{"command":"ls","cwd":"/w/a","workdir":"/w"}}`: `hook.acp-execute `,
		`{"toolCallId":"t","kind":"edit","rawInput":{"file_path":"/w/n","content":"new"}}`:            `palyra.fs.write {"content":"new","make_dirs":true,"path":"/w/n"}`,
		`{"toolCallId":"t","kind":"edit","rawInput":{"file_path":"/etc/n","content":"new"}}`:          `hook.acp-edit `,
		`{"toolCallId":"t","kind":"edit","rawInput":{"file_path":"/w/n","content":"new","x":1}}`:      `hook.acp-edit `,
		`{"toolCallId":"t","kind":"execute","rawInput":{"command":["a",7]}}`:                          `hook.acp-execute `,
		`{"toolCallId":"t","kind":"execute"}`:                                                         `hook.acp-execute `,
		`{"toolCallId":"t","kind":"read","rawInput":{"file_path":"/w/a"}}`:                            `palyra.fs.read {"path":"/w/a"}`,
		`{"toolCallId":"t","kind":"read","rawInput":{"file_path":"/etc/shadow"}}`:                     `hook.acp-read `,
		`{"toolCallId":"t","kind":"fetch","title":"get","rawInput":{"url":"https://x.example"}}`:      `hook.acp-fetch `,
		`{"toolCallId":"t","title":"Something"}`:                                                      `hook.acp-other `,
	} {
		agent.ask("session/request_permission", permission(call))
		made := d.made()
		r := made[len(made)-1]
		if got := string(r.Tool) + " " + string(r.Arguments); !strings.HasPrefix(got, want) || r.Workspace != "/w" {
			t.Errorf("%s: %s", call, got)
		}
	}
}

// TestToldBefore: what an agent said of a tool call counts in the question about it, however fast that follows.
func TestToldBefore(t *testing.T) {
	d := newDaemon()
	_, agent := between(t, d, nil)
	tell := func(id, kind, tool string) {
		update := `{"sessionId":"one","update":{"sessionUpdate":"tool_call","toolCallId":"` + id + `","title":"x","kind":"` + kind +
			`","_meta":{"claudeCode":{"toolName":"` + tool + `"}}}}`
		if err := agent.conn.SendNotification(t.Context(), "session/update", json.RawMessage(update)); err != nil {
			t.Error(err)
		}
	}
	for i, c := range []struct{ kind, tool, input, want string }{
		{"execute", "Bash", `{"command":"git push"}`, `palyra.process.run {"command":"/bin/sh","args":["-c","git push"],"cwd":"."}`},
		{"edit", "Write", `{"file_path":"/w/n","content":"new"}`, `palyra.fs.write {"content":"new","make_dirs":true,"path":"/w/n"}`},
		{"execute", "mcp__acp__Bash", `{"command":"git push"}`, ""}, // it is asked of the editor next
		{"edit", "mcp__acp__Write", `{"file_path":"/w/n","content":"new"}`, ""},
		{"edit", "mcp__acp__Write", `{"file_path":"/etc/n","content":"new"}`, "hook.acp-edit "}, // which the adapter may do by itself
		{"edit", "mcp__acp__Write", `{"file_path":"/w/.claude/n","content":"new"}`, "palyra.fs.write "},
		{"execute", "mcp__acp2__Bash", `{"command":"git push"}`, "palyra.process.run "},
	} {
		id, before := fmt.Sprint("told", i), len(d.made())
		tell(id, c.kind, c.tool)
		if got := agent.ask("session/request_permission", permission(`{"toolCallId":"`+id+`","rawInput":`+c.input+`}`)); got != selected("yes") {
			t.Errorf("%s: %s", c.tool, got)
		}
		got := ""
		if made := d.made(); len(made) > before {
			got = string(made[before].Tool) + " " + string(made[before].Arguments)
		}
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s %s is judged as %q", c.tool, c.input, got)
		}
	}
}

// TestViews: a question is shown in the editor. A yes there does nothing; a no withdraws the call.
func TestViews(t *testing.T) {
	d := newDaemon()
	answered := make(chan struct{})
	d.play = func(ctx context.Context, r client.CallRequest, _ bool, watch func(client.CallEvent)) (palyra.Outcome, error) {
		watch(accepted)
		watch(question)
		select {
		case <-answered:
			return palyra.Outcome{Outcome: palyra.OutcomeAllowed, CallID: "C1"}, nil
		case id := <-d.cancelled:
			return palyra.Outcome{Outcome: palyra.OutcomeCancelled, CallID: id, ReasonCode: palyra.ReasonCancelled}, nil
		case <-ctx.Done():
			return palyra.Outcome{}, ctx.Err()
		}
	}
	editor, agent := between(t, d, nil)
	shown := make(chan string, 1)
	editor.on("session/request_permission", func(_ context.Context, params json.RawMessage) (any, *sdk.RequestError) {
		shown <- string(params)
		return json.RawMessage(selected(optionElsewhere)), nil
	})
	got := make(chan string, 1)
	ask := func() { got <- agent.ask("session/request_permission", permission(bash)) }
	go ask()
	if text := <-shown; !strings.Contains(text, "Palyra asks: write a.txt (approval A1)") || strings.Contains(text, `"yes"`) ||
		strings.Contains(text, "decide") {
		t.Errorf("shown is %s", text)
	}
	select {
	case text := <-got:
		t.Fatalf("the editor's yes made it %s", text)
	case id := <-d.cancelled:
		t.Fatalf("the editor's yes withdrew %s", id)
	default:
	}
	close(answered)
	if text := <-got; text != selected("yes") {
		t.Error(text)
	}
	answered = make(chan struct{})
	for _, no := range []string{selected(optionWithdraw), `{"outcome":{"outcome":"cancelled"}}`} {
		editor.says("session/request_permission", no)
		go ask()
		if text := <-got; text != selected("no") {
			t.Errorf("%s made it %s", no, text)
		}
	}
	for _, nothing := range []string{`{}`, `[]`, selected("yes"), `{"outcome":{"outcome":"allowed"}}`} {
		answered = make(chan struct{})
		editor.on("session/request_permission", func(context.Context, json.RawMessage) (any, *sdk.RequestError) {
			defer close(answered)
			return json.RawMessage(nothing), nil
		})
		go ask()
		if text := <-got; text != selected("yes") {
			t.Errorf("%s withdrew it: %s", nothing, text)
		}
	}
}

// TestCancel: the editor's cancel withdraws what waits and ends what runs, of its session only.
func TestCancel(t *testing.T) {
	d := newDaemon()
	d.play = d.waits
	editor, agent := between(t, d, nil)
	asked := make(chan struct{}, 8)
	editor.on("session/request_permission", func(ctx context.Context, _ json.RawMessage) (any, *sdk.RequestError) {
		asked <- struct{}{}
		<-ctx.Done()
		return nil, sdk.NewInternalError(nil)
	})
	got := make(chan string, 1)
	go func() { got <- agent.ask("session/request_permission", permission(bash)) }()
	<-asked
	_ = editor.conn.SendNotification(t.Context(), "session/cancel", map[string]string{"sessionId": "two"})
	agent.heard(`session/cancel {"sessionId":"two"}`)
	select {
	case text := <-got:
		t.Fatalf("another session's cancel made it %s", text)
	default:
	}
	_ = editor.conn.SendNotification(t.Context(), "session/cancel", map[string]string{"sessionId": "one"})
	if text := <-got; text != `{"outcome":{"outcome":"cancelled"}}` {
		t.Error(text)
	}
	agent.heard(`session/cancel {"sessionId":"one"}`)
	term := terminalOf(t, agent.ask("terminal/create", `{"sessionId":"one","command":"make"}`))
	<-asked
	_ = editor.conn.SendNotification(t.Context(), "session/cancel", map[string]string{"sessionId": "one"})
	if text := agent.ask("terminal/wait_for_exit", `{"sessionId":"one","terminalId":"`+term+`"}`); text != `{"exitCode":130}` {
		t.Error(text)
	}
}

func terminalOf(t *testing.T, raw string) string {
	t.Helper()
	var r sdk.CreateTerminalResponse
	if err := json.Unmarshal([]byte(raw), &r); err != nil || r.TerminalId == "" {
		t.Fatalf("%v %s", err, raw)
	}
	return r.TerminalId
}

func TestTerminals(t *testing.T) {
	d := newDaemon()
	end := make(chan struct{})
	d.play = func(_ context.Context, r client.CallRequest, _ bool, watch func(client.CallEvent)) (palyra.Outcome, error) {
		watch(accepted)
		watch(client.CallEvent{Output: &palyra.Chunk{Stream: "stdout", Data: []byte("hello é\n")}})
		select {
		case <-end:
			return palyra.Outcome{Outcome: palyra.OutcomeFinished, Tool: r.Tool, CallID: "C1", ExitCode: 3}, nil
		case <-d.cancelled:
			return palyra.Outcome{Outcome: palyra.OutcomeCancelled, CallID: "C1", ReasonCode: palyra.ReasonCancelled}, nil
		}
	}
	editor, agent := between(t, d, nil)
	term := terminalOf(t, agent.ask("terminal/create",
		`{"sessionId":"one","command":"make","args":["all"],"cwd":"/w/sub","env":[{"name":"A","value":"b"},{"name":"CLAUDECODE","value":"1"}]}`))
	in := `{"sessionId":"one","terminalId":"` + term + `"}`
	for strings.Contains(agent.ask("terminal/output", in), `"output":""`) {
	}
	if got := agent.ask("terminal/output", in); got != `{"output":"hello é\n","truncated":false}` {
		t.Error(got)
	}
	for _, method := range []string{"terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"} {
		agent.refused(method, `{"sessionId":"two","terminalId":"`+term+`"}`, "no such terminal")
		agent.refused(method, `{"sessionId":"one","terminalId":"x"}`, "no such terminal")
	}
	_ = agent.conn.SendNotification(t.Context(), "session/update", json.RawMessage(
		`{"sessionId":"one","update":{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[{"type":"terminal","terminalId":"`+term+`"}]}}`))
	if news := editor.heard("tool_call_update"); strings.Contains(news, `"terminal"`) || !strings.Contains(news, `$ make all\nhello é`) {
		t.Error(news)
	}
	close(end)
	if got := agent.ask("terminal/wait_for_exit", in); got != `{"exitCode":3}` {
		t.Error(got)
	}
	agent.ask("terminal/release", in)
	agent.refused("terminal/output", in, "no such terminal")
	r := d.made()[0]
	if want := `{"command":"make","args":["all"],"cwd":"sub","env":{"A":"b"},"tier":"c"}`; string(r.Arguments) != want || !r.StreamOutput || r.Key == "" {
		t.Errorf("%s", r.Arguments)
	}
	for params, with := range map[string]string{
		`{"sessionId":"one","command":"ls","cwd":"/etc"}`:                                              "outside",
		`{"sessionId":"one","command":""}`:                                                             "needs a command",
		`{"sessionId":"three","command":"ls"}`:                                                         "no such session",
		`{"sessionId":"one","command":"ls","env":[{"name":"A","value":"1"},{"name":"A","value":"2"}]}`: "twice",
		`{"sessionId":"one","command":"ls","env":[{"name":"","value":"1"}]}`:                           "no name",
	} {
		agent.refused("terminal/create", params, with)
	}
}

// TestTerminalOutput: the last of the output is kept, from a whole character on; what did not run says why.
func TestTerminalOutput(t *testing.T) {
	d := newDaemon()
	d.play = func(_ context.Context, _ client.CallRequest, _ bool, watch func(client.CallEvent)) (palyra.Outcome, error) {
		watch(accepted)
		watch(client.CallEvent{Output: &palyra.Chunk{Data: []byte("aéb")}})
		return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: "C1"}, nil
	}
	_, agent := between(t, d, nil)
	run := func(params string) string {
		in := `{"sessionId":"one","terminalId":"` + terminalOf(t, agent.ask("terminal/create", params)) + `"}`
		agent.ask("terminal/wait_for_exit", in)
		return agent.ask("terminal/output", in)
	}
	if got := run(`{"sessionId":"one","command":"x","outputByteLimit":2}`); got != `{"exitStatus":{"exitCode":0},"output":"b","truncated":true}` {
		t.Error(got)
	}
	d.play = refuses
	if got := run(`{"sessionId":"one","command":"git push && true"}`); !strings.Contains(got, `"exitCode":126`) ||
		!strings.Contains(got, "not this (policy_denied, call C1); remedy: do that") {
		t.Error(got)
	}
	made := d.made()
	if got := string(made[len(made)-1].Arguments); got != `{"command":"/bin/sh","args":["-c","git push && true"],"cwd":".","tier":"c"}` {
		t.Error(got)
	}
	d.play = d.waits
	for range maxTerminals - 2 {
		agent.ask("terminal/create", `{"sessionId":"one","command":"x"}`)
	}
	agent.refused("terminal/create", `{"sessionId":"one","command":"x"}`, "release those")
}
