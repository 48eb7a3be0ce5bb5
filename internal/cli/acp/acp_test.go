package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/coder/acp-go-sdk"

	"palyra"
	"palyra/client"
)

func TestInitialize(t *testing.T) {
	editor, agent, done := proxied(t, newDaemon(), nil)
	heard := make(chan string, 1)
	agent.on("initialize", func(_ context.Context, params json.RawMessage) (any, *sdk.RequestError) {
		heard <- string(params)
		return json.RawMessage(`{"protocolVersion":1,"_meta":{"x":1},"agentCapabilities":{"loadSession":true},"authMethods":[` +
			`{"id":"plain","name":"p","_meta":{"terminal-auth":{"command":"evil"}}},{"id":"t","name":"t","type":"terminal","args":["evil"]}]}`), nil
	})
	got := editor.ask("initialize", `{"protocolVersion":1,"_meta":{"y":1},"clientCapabilities":{"fs":{"readTextFile":false},"auth":{"terminal":true},"_meta":{"terminal-auth":true}}}`)
	if said := <-heard; strings.Contains(said, "auth") || strings.Contains(said, "_meta") || !strings.Contains(said, `"terminal":true`) {
		t.Errorf("the agent hears of %s", said)
	}
	if strings.Contains(got, "evil") || strings.Contains(got, "_meta") || !strings.Contains(got, `"plain"`) || !strings.Contains(got, "loadSession") {
		t.Errorf("the editor hears of %s", got)
	}
	_ = editor.raw.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestFiles(t *testing.T) {
	d := newDaemon()
	_, agent := between(t, d, nil)
	if got := agent.ask("fs/read_text_file", `{"sessionId":"one","path":"/w/a.txt"}`); got != `{"content":"one\ntwo\n"}` {
		t.Error(got)
	}
	if got := agent.ask("fs/read_text_file", `{"sessionId":"one","path":"/w/a.txt","line":2,"limit":1}`); got != `{"content":"two\n"}` {
		t.Error(got)
	}
	agent.ask("fs/write_text_file", `{"sessionId":"two","path":"/v/sub/../b.txt","content":"<x>"}`)
	made := d.made()
	last := made[len(made)-1]
	if last.Tool != palyra.ToolFileWrite || last.Workspace != "/v" || string(last.Arguments) != `{"content":"<x>","make_dirs":true,"path":"/v/b.txt"}` ||
		last.Surface != palyra.SurfaceACP || last.Session == made[0].Session {
		t.Errorf("%+v", last)
	}
	before := len(made)
	for _, path := range []string{"/etc/passwd", "/w/../etc/passwd", "/wx/a", "/v/b.txt", "a.txt", "", "~/x", "/w/a\u0000b"} {
		raw, _ := json.Marshal(path)
		for _, method := range []string{"fs/read_text_file", "fs/write_text_file"} {
			agent.refused(method, fmt.Sprintf(`{"sessionId":"one","path":%s,"content":"x"}`, raw), "path")
		}
	}
	agent.refused("fs/read_text_file", `{"sessionId":"three","path":"/w/a"}`, "no such session")
	agent.refused("fs/read_text_file", `{"sessionId":"one","path":"/w/a","line":-1}`, "negative")
	agent.refused("fs/read_text_file", `{"sessionId":7}`, "cannot be read")
	if n := len(d.made()); n != before {
		t.Errorf("%d calls were made", n-before)
	}
}

// TestRefusedFiles: what the gate refuses is an error with its reason and remedy, and so is a daemon that is away.
func TestRefusedFiles(t *testing.T) {
	d := newDaemon()
	d.play = refuses
	_, agent := between(t, d, nil)
	agent.refused("fs/write_text_file", `{"sessionId":"one","path":"/w/a","content":"x"}`, "not this (policy_denied, call C1); remedy: do that")
	d = newDaemon()
	d.play = away
	_, agent = between(t, d, nil)
	for _, method := range []string{"fs/write_text_file", "fs/read_text_file"} {
		raw, err := agent.try(method, `{"sessionId":"one","path":"/w/a","content":"x"}`)
		if err == nil || !strings.Contains(err.Error(), "palyra up") || strings.Contains(err.Error(), "/home/ann") {
			t.Errorf("%s %v", raw, err)
		}
	}
}

// TestAllOfAFile: a long file is read in pages, and one that is too long is refused.
func TestAllOfAFile(t *testing.T) {
	whole := strings.Repeat("0123456789abcde\n", (3<<20)/16)
	d := newDaemon()
	d.play = func(_ context.Context, r client.CallRequest, _ bool, watch func(client.CallEvent)) (palyra.Outcome, error) {
		var a struct{ Offset, Limit int }
		_ = json.Unmarshal(r.Arguments, &a)
		watch(accepted)
		to := min(a.Offset+a.Limit, len(whole))
		out, _ := json.Marshal(filePage{Content: whole[a.Offset:to], EOF: to == len(whole), Next: int64(to)})
		return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: "C1", Output: out}, nil
	}
	_, agent := between(t, d, nil)
	var got sdk.ReadTextFileResponse
	if err := json.Unmarshal([]byte(agent.ask("fs/read_text_file", `{"sessionId":"one","path":"/w/a"}`)), &got); err != nil || got.Content != whole {
		t.Errorf("%v, %d bytes", err, len(got.Content))
	}
	whole = strings.Repeat(whole, 3)
	agent.refused("fs/read_text_file", `{"sessionId":"one","path":"/w/a"}`, "more than")
}

func TestUnknownMethods(t *testing.T) {
	editor, agent := between(t, newDaemon(), nil)
	for _, method := range []string{"_zed/open", "elicitation/create", "mcp/connect", "fs/delete", "session/prompt", "initialize"} {
		agent.refused(method, `{"sessionId":"one"}`, "-32601")
	}
	agent.says("_agent/thing", `{"done":true}`) // the editor may ask what it likes
	if got := editor.ask("_agent/thing", `{}`); got != `{"done":true}` {
		t.Error(got)
	}
	_ = agent.conn.SendNotification(t.Context(), "_zed/run", map[string]string{"command": "evil"})
	_ = agent.conn.SendNotification(t.Context(), "session/update", json.RawMessage(`{"sessionId":"stranger","update":{}}`))
	_ = agent.conn.SendNotification(t.Context(), "session/update", json.RawMessage(`{"sessionId":"one","update":{"sessionUpdate":"plan","entries":[]}}`))
	if n := <-editor.news; !strings.Contains(n, `"plan"`) {
		t.Errorf("the editor heard %s", n)
	}
}

func TestModes(t *testing.T) {
	editor, agent := between(t, newDaemon(), nil)
	agent.says("session/set_mode", `{}`)
	agent.says("session/set_config_option", `{}`)
	editor.ask("session/set_mode", `{"sessionId":"one","modeId":"plan"}`)
	editor.refused("session/set_mode", `{"sessionId":"one","modeId":"bypassPermissions"}`, "--any-mode")
	editor.refused("session/set_config_option", `{"sessionId":"one","configId":"mode","value":"full-access"}`, "--any-mode")
	agent.says("session/new", `{"sessionId":"three","modes":{"currentModeId":"yolo"}}`)
	editor.ask("session/new", `{"cwd":"/w","mcpServers":[]}`)
	editor.heard("asks nobody")
	editor, agent = between(t, newDaemon(), func(c *Config) { c.AnyMode = true })
	agent.says("session/set_mode", `{}`)
	editor.ask("session/set_mode", `{"sessionId":"one","modeId":"bypassPermissions"}`)
}

// TestSessionsOfTheEditor: an agent cannot have a session in a directory that the editor did not name, nor take over another one.
func TestSessionsOfTheEditor(t *testing.T) {
	d := newDaemon()
	editor, agent := between(t, d, nil)
	agent.says("session/new", `{"sessionId":"one"}`)
	editor.refused("session/new", `{"cwd":"/","mcpServers":[]}`, "id of another one")
	agent.refused("fs/read_text_file", `{"sessionId":"one","path":"/etc/passwd"}`, "outside")
	for _, answer := range []string{`{}`, `{"sessionId":""}`, `{"sessionId":"` + strings.Repeat("x", 513) + `"}`, `[]`} {
		agent.says("session/new", answer)
		editor.refused("session/new", `{"cwd":"/w","mcpServers":[]}`, "refused")
	}
	editor.refused("session/new", `{"cwd":"relative","mcpServers":[]}`, "absolute")
	agent.says("session/load", `{}`)
	editor.ask("session/load", `{"sessionId":"old","cwd":"/o","additionalDirectories":["/more"],"mcpServers":[]}`)
	agent.ask("fs/read_text_file", `{"sessionId":"old","path":"/more/x"}`)
	if made := d.made(); made[len(made)-1].Workspace != "/more" {
		t.Errorf("%+v", made)
	}
	agent.says("session/close", `{}`)
	editor.ask("session/close", `{"sessionId":"old"}`)
	agent.refused("fs/read_text_file", `{"sessionId":"old","path":"/o/x"}`, "no such session")
}

// TestHostileMessages: what is no message is dropped, one that is too large ends the connection, and too many are refused.
func TestHostileMessages(t *testing.T) {
	d := newDaemon()
	d.play = d.waits
	editor, agent := between(t, d, nil)
	for _, line := range []string{"hello\n", "[]\n", "{}\n", `{"method":7}` + "\n", `{"id":1,"method":"session/update"}` + "\n", "\x00\xff\n"} {
		if _, err := agent.raw.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	refused := make(chan error, 2*maxAtOnce)
	for range 2 * maxAtOnce {
		go func() {
			_, err := agent.try("fs/read_text_file", `{"sessionId":"one","path":"/w/a"}`)
			refused <- err
		}()
	}
	for range maxAtOnce {
		if err := <-refused; err == nil || !strings.Contains(err.Error(), "too many") {
			t.Fatalf("%v", err)
		}
	}
	_ = editor.conn.SendNotification(t.Context(), "session/cancel", map[string]string{"sessionId": "one"})
	for range maxAtOnce {
		if err := <-refused; err == nil || strings.Contains(err.Error(), "too many") {
			t.Fatalf("%v", err)
		}
	}
}

func TestHugeMessage(t *testing.T) {
	_, agent, done := proxied(t, newDaemon(), nil)
	go func() {
		block := bytes.Repeat([]byte("x"), 1<<20)
		_, err := agent.raw.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"fs/write_text_file","params":{"content":"`))
		for err == nil {
			_, err = agent.raw.Write(block)
		}
	}()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "ended the connection") {
		t.Error(err)
	}
}

// TestEditWhole: an edit is judged as the write that it comes to; what is not plain, as a tool of which nothing is known.
func TestEditWhole(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "a.txt"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	n := &talk{roots: []string{dir}}
	diff := func(path string, old *string, with string) []sdk.ToolCallContent {
		return []sdk.ToolCallContent{{Diff: &sdk.ToolCallContentDiff{Path: path, OldText: old, NewText: with}}}
	}
	text := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		content []sdk.ToolCallContent
		want    string // "": not plain
	}{
		"a part":         {diff(file, text("one"), "1"), "1 two two"},
		"twice there":    {diff(file, text("two"), "2"), ""},
		"not there":      {diff(file, text("three"), "3"), ""},
		"the whole":      {diff(file, text("one two two"), "new"), "new"},
		"a new file":     {diff(filepath.Join(dir, "b.txt"), nil, "new"), "new"},
		"a part of none": {diff(filepath.Join(dir, "b.txt"), text("x"), "new"), ""},
		"outside":        {diff("/etc/passwd", nil, "x"), ""},
		"two diffs":      {append(diff(file, nil, "x"), diff(file, nil, "y")...), ""},
		"through a link": {diff(link, text("one"), "1"), ""},
	} {
		tool, args, _ := n.edit(c.content)
		got, _ := args.(map[string]any)
		if (tool == "") != (c.want == "") || c.want != "" && got["content"] != c.want {
			t.Errorf("%s: %s %v", name, tool, args)
		}
	}
}
