//go:build linux

package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/hooktest"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/quick"
	"palyra/internal/hook"
)

func TestHookWorksInTheProject(t *testing.T) {
	for _, c := range []struct{ project, dir, root, rel string }{
		{"", "/w/a", "/w/a", "."},
		{"/w", "/w/a/b", "/w", "a/b"},
		{"/w", "/w", "/w", "."},
		{"/w", "/other", "/other", "."},
		{"/w", "/w/../other", "/other", "."},
		{"w", "/w/a", "/w/a", "."},
	} {
		h, err := readHook(claude, []byte(hooktest.JSON(t, c.dir, "Read", map[string]any{"file_path": "x"})), c.project)
		if err != nil || h.root != c.root || h.rel != c.rel {
			t.Errorf("%+v: %+v %v", c, h, err)
		}
	}
}

var claude, _ = hook.Find("claude-code")

// The tools of other agents come to the same calls as Claude Code's, with their own names and places.
func TestHookMapsOtherAgents(t *testing.T) {
	dir := t.TempDir()
	noError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("one two"), 0o600))
	at := func(p string) string { return filepath.Join(dir, p) }
	for _, c := range []struct {
		agent, event, tool string
		input              map[string]any
		want               string
	}{
		{hook.Gemini, "BeforeTool", "write_file", map[string]any{"file_path": "a", "content": "x"}, `palyra.fs.write {"content":"x","make_dirs":true,"path":"` + at("a") + `"}`},
		{hook.Gemini, "BeforeTool", "replace", map[string]any{"file_path": at("f"), "old_string": "one", "new_string": "1", "instruction": "x"}, `palyra.fs.write {"content":"1 two","mode":"overwrite","path":"` + at("f") + `"}`},
		{hook.Gemini, "BeforeTool", "run_shell_command", map[string]any{"command": "ls", "dir_path": "sub"}, `palyra.process.run {"command":"/bin/sh","args":["-c","ls"],"cwd":"sub"}`},
		{hook.Gemini, "BeforeTool", "run_shell_command", map[string]any{"command": "ls", "dir_path": " x"}, `hook.run_shell_command {"input":{"command":"ls","dir_path":" x"},"tool":"run_shell_command"}`},
		{hook.Gemini, "BeforeTool", "run_shell_command", map[string]any{"command": "ls", "other": 1}, `hook.run_shell_command {"input":{"command":"ls","other":1},"tool":"run_shell_command"}`},
		{hook.Gemini, "BeforeTool", "read_file", map[string]any{"file_path": "/w/a", "start_line": 3}, `hook.read {"input":{"file_path":"/w/a"},"tool":"Read"}`},
		{hook.Gemini, "BeforeTool", "google_web_search", map[string]any{"query": "x"}, `hook.google_web_search {"input":{"query":"x"},"tool":"google_web_search"}`},
		{hook.OpenCode, "tool.execute.before", "edit", map[string]any{"filePath": at("f"), "oldString": "two", "newString": "2"}, `palyra.fs.write {"content":"one 2","mode":"overwrite","path":"` + at("f") + `"}`},
		{hook.OpenCode, "tool.execute.before", "webfetch", map[string]any{"url": "https://a.example/", "format": "text"}, `palyra.http.fetch {"url":"https://a.example/"}`},
		{hook.Copilot, "PreToolUse", "Read", map[string]any{"path": at("f")}, `palyra.fs.read {"path":"` + at("f") + `"}`},
		{hook.Cursor, "preToolUse", "Write", map[string]any{"path": at("n"), "contents": "x"}, `palyra.fs.write {"content":"x","make_dirs":true,"path":"` + at("n") + `"}`},
	} {
		agent, _ := hook.Find(c.agent)
		raw := strings.Replace(hooktest.JSON(t, dir, c.tool, c.input), `"PreToolUse"`, `"`+c.event+`"`, 1)
		h, err := readHook(agent, []byte(raw), "")
		noError(t, err)
		r, err := h.request(hookOptions{shell: "/bin/sh"})
		if got := string(r.Tool) + " " + string(r.Arguments); err != nil || got != c.want || r.Workspace != dir {
			t.Errorf("%s %s: %s in %s (%v), want %s", c.agent, c.tool, got, r.Workspace, err, c.want)
		}
	}
}

// Cursor's last event lets a line pass that the hook made itself, and no other.
func TestHookKnowsItsOwnLine(t *testing.T) {
	cursor, _ := hook.Find(hook.Cursor)
	dir, o := t.TempDir(), hookOptions{agent: cursor, shell: "/bin/sh", mode: hook.Rewrite}
	inv := &invocation.Invocation{Home: "/p"}
	call := func(command string) *hookCall {
		raw, err := json.Marshal(map[string]any{
			"hook_event_name": "beforeShellExecution", "conversation_id": "s", "cwd": dir, "command": command,
		})
		noError(t, err)
		h, err := readHook(cursor, raw, "")
		noError(t, err)
		return h
	}
	self, err := quick.Self()
	noError(t, err)
	for _, command := range []string{"ls", "echo 'a b' && x", "x", `a'b`, ""} {
		line, err := call("x").rewritten(o, self, inv.Home, command)
		noError(t, err)
		if !call(line).isRewritten(inv, o) {
			t.Errorf("%q is not known", line)
		}
		for _, other := range []string{
			line + "; rm x", "x; " + line, line + " x", strings.Replace(line, "--as-agent", "", 1), command, " " + line,
		} {
			if call(other).isRewritten(inv, o) {
				t.Errorf("%q passes", other)
			}
		}
	}
}

// What the agent's tools come to in Palyra's words.
func TestHookMapsTools(t *testing.T) {
	dir := t.TempDir()
	noError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("one two two"), 0o600))
	at := func(p string) string { return filepath.Join(dir, p) }
	for _, c := range []struct {
		tool  string
		input map[string]any
		want  string
	}{
		{"Read", map[string]any{"file_path": "/w/a", "offset": 3}, `hook.read {"input":{"file_path":"/w/a"},"tool":"Read"}`},
		{"Read", map[string]any{"file_path": "sub/../a"}, `palyra.fs.read {"path":"` + at("a") + `"}`},
		{"LS", map[string]any{"path": "/w"}, `hook.ls {"input":{"path":"/w"},"tool":"LS"}`},
		{"Write", map[string]any{"file_path": "/w/a", "content": "<x>"}, `palyra.fs.write {"content":"<x>","make_dirs":true,"path":"/w/a"}`},
		{
			"Edit",
			map[string]any{"file_path": at("f"), "old_string": "one", "new_string": "1"},
			`palyra.fs.write {"content":"1 two two","mode":"overwrite","path":"` + at("f") + `"}`,
		},
		{
			"Edit",
			map[string]any{"file_path": at("f"), "old_string": "two", "new_string": "2", "replace_all": true},
			`palyra.fs.write {"content":"one 2 2","mode":"overwrite","path":"` + at("f") + `"}`,
		},
		{
			"Edit",
			map[string]any{"file_path": at("f"), "old_string": "two", "new_string": "2"},
			`hook.edit {"input":{"file_path":"` + at("f") + `","new_string":"2","old_string":"two"},"tool":"Edit"}`,
		},
		{
			"Edit",
			map[string]any{"file_path": at("none"), "old_string": "", "new_string": "2"},
			`hook.edit {"input":{"file_path":"` + at("none") + `","new_string":"2","old_string":""},"tool":"Edit"}`,
		},
		{"MultiEdit", map[string]any{"file_path": at("f"), "edits": []any{
			map[string]any{"old_string": "one", "new_string": "two"}, map[string]any{"old_string": "two", "new_string": "3", "replace_all": true},
		}}, `palyra.fs.write {"content":"3 3 3","mode":"overwrite","path":"` + at("f") + `"}`},
		{"Glob", map[string]any{"pattern": "**/*.{go,ts}"}, `palyra.fs.list {"path":"` + dir + `","recursive":true}`},
		{"Glob", map[string]any{"pattern": "/etc/*"}, `hook.glob {"input":{"pattern":"/etc/*"},"tool":"Glob"}`},
		{"Glob", map[string]any{"pattern": "{/etc,x}/*"}, `hook.glob {"input":{"pattern":"{/etc,x}/*"},"tool":"Glob"}`},
		{"Glob", map[string]any{"pattern": "a/../../x"}, `hook.glob {"input":{"pattern":"a/../../x"},"tool":"Glob"}`},
		{"Grep", map[string]any{"pattern": "(?<=x)y", "path": "/w/a"}, `hook.grep {"input":{"path":"/w/a"},"tool":"Grep"}`},
		{"Grep", map[string]any{"pattern": "(?<=x)y", "path": at("f")}, `palyra.fs.search {"path":"` + at("f") + `","pattern":"\\(\\?<=x\\)y"}`},
		{"LS", map[string]any{"path": dir}, `palyra.fs.list {"path":"` + dir + `"}`},
		{"Monitor", map[string]any{"command": "ls", "description": "x"}, `palyra.process.run {"command":"/bin/sh","args":["-c","ls"],"cwd":"."}`},
		{"WebFetch", map[string]any{"url": "https://a.example/", "prompt": "x"}, `palyra.http.fetch {"url":"https://a.example/"}`},
		{"Bash", map[string]any{"command": "ls"}, `palyra.process.run {"command":"/bin/sh","args":["-c","ls"],"cwd":"."}`},
		{"Task", map[string]any{"prompt": "x"}, `hook.task {"input":{"prompt":"x"},"tool":"Task"}`},
		{"mcp__GitHub__list", map[string]any{}, `hook.mcp__github__list {"input":{},"tool":"mcp__GitHub__list"}`},
	} {
		h, err := readHook(claude, []byte(hooktest.JSON(t, dir, c.tool, c.input)), "")
		if err != nil {
			t.Fatal(err)
		}
		r, err := h.request(hookOptions{shell: "/bin/sh"})
		if got := string(r.Tool) + " " + string(r.Arguments); err != nil || got != c.want ||
			r.Workspace != dir || r.Surface != palyra.SurfaceHook {
			t.Errorf("%s: %s (%v), want %s", c.tool, got, err, c.want)
		}
	}
}

// What a file has whose secret values are masked is not sent to be judged, by whatever name it is edited.
func TestHookSendsNoSecrets(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	noError(t, os.Mkdir(at("ws"), 0o700))
	dir = at("ws")
	for _, name := range []string{".env", "prod.env~", "app.secrets", "real", "plain", "code"} {
		noError(t, os.WriteFile(at(name), []byte("A="+name+"secretsecret1\nPORT=1\n"), 0o600))
	}
	noError(t, os.Symlink("../ws/real", at("current.env")))
	noError(t, os.Symlink(".env", at("link")))
	noError(t, os.Link(at(".env"), at("twin")))
	inv := &invocation.Invocation{Home: t.TempDir(), Env: []string{"PALYRA_DOTENV_NAMES=*.secrets"}}
	ask := func(tool string, input map[string]any, inv *invocation.Invocation) string {
		t.Helper()
		agent := claude
		if tool == "apply_patch" {
			agent, _ = hook.Find(hook.Codex)
		}
		h, err := readHook(agent, []byte(hooktest.JSON(t, dir, tool, input)), "")
		noError(t, err)
		h.masked = maskedBy(t.Context(), inv)
		r, err := h.request(hookOptions{})
		noError(t, err)
		return string(r.Tool) + " " + string(r.Arguments)
	}
	for name, sent := range map[string]bool{
		".env": false, "prod.env~": false, "app.secrets": false, "real": false, "current.env": false, "link": false, "twin": false,
		"plain": true, "code": true,
	} {
		edit := map[string]any{"file_path": at(name), "old_string": "PORT=1", "new_string": "PORT=2"}
		patch := map[string]any{"command": "*** Begin Patch\n*** Update File: " + name + "\n@@\n-PORT=1\n+PORT=2\n*** End Patch\n"}
		for tool, input := range map[string]map[string]any{
			"Edit": edit, "MultiEdit": {"file_path": at(name), "edits": []any{edit}}, "apply_patch": patch,
		} {
			if got := ask(tool, input, inv); strings.Contains(got, "secretsecret") != sent || strings.HasPrefix(got, "palyra.fs.write ") != sent {
				t.Errorf("%s of %s: %s", tool, name, got)
			}
		}
	}
	edit := map[string]any{"file_path": at("plain"), "old_string": "PORT=1", "new_string": "PORT=2"}
	for what, inv := range map[string]*invocation.Invocation{
		"a configuration that cannot be read": {Home: inv.Home, Env: []string{"PALYRA_DOTENV_NAMES=/"}},
		"files that nobody can find":          inv,
	} {
		if inv.Env[0] != "PALYRA_DOTENV_NAMES=/" {
			noError(t, os.Symlink("/proc/self/cwd/plain", at("odd.env")))
		}
		if got := ask("Edit", edit, inv); strings.Contains(got, "secretsecret") {
			t.Errorf("%s: %s", what, got)
		}
	}
}

// The agent's tools read a path in their own way: with a sign for the home directory,
// without space at its ends, its letters in another form. What they would find
// elsewhere than we is never judged as a file of the workspace.
func TestHookPathsThatAgentsReadOtherwise(t *testing.T) {
	dir := t.TempDir()
	odd := []string{
		"~/.ssh/id_rsa", "~", "~root/x", " /etc/shadow", "/etc/shadow\n", "\u00a0/etc/shadow", "\ufeff/etc/shadow", dir + "/e\u0301/x",
		"\u212b/x", "\u1112\u1161\u11ab", "\u0344", "\u0958", "\ufb1d", "\U0002f800", "\u0387",
	}
	for _, path := range odd {
		noError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o700))
		_ = os.WriteFile(filepath.Join(dir, path), []byte("one"), 0o600) // as an agent would, to have it pass
		for tool, input := range map[string]map[string]any{
			"Read": {"file_path": path}, "NotebookRead": {"notebook_path": path}, "LS": {"path": path}, "Glob": {"pattern": "*", "path": path},
			"Grep": {"pattern": "x", "path": path}, "Write": {"file_path": path, "content": "x"},
			"Edit":      {"file_path": path, "old_string": "one", "new_string": "two"},
			"MultiEdit": {"file_path": path, "edits": []any{map[string]any{"old_string": "one", "new_string": "two"}}},
		} {
			h, err := readHook(claude, []byte(hooktest.JSON(t, dir, tool, input)), "")
			noError(t, err)
			if r, err := h.request(hookOptions{}); err != nil || string(r.Tool) != "hook."+strings.ToLower(tool) {
				t.Errorf("%s of %q: %s %v", tool, path, r.Tool, err)
			}
		}
	}
	for _, path := range []string{"a b", "a~", "./~", "größe/файл/ファイル/文件/파일", "x…", "😀"} {
		if !plainPath(path) {
			t.Errorf("%q is asked about", path)
		}
	}
}

// What a pattern leads to is known, and all of it is judged, or it is asked about as
// it is.
func TestHookPatterns(t *testing.T) {
	for pattern, plain := range map[string]bool{
		"{.,x}{.,x}/etc/*": false, ".{.,x}/*": false, "{a,b/.}./*": false, "{a.,b}./*": false, "{x,/etc}/*": false, "{~,x}/*": false,
		"~/*":           false,
		"**/*.{ts,tsx}": true, "{src,test}/**/*.go": true, "**/{index,main}.ts": true, "*.min.{js,css}": true,
	} {
		h, err := readHook(claude, []byte(hooktest.JSON(t, "/w", "Glob", map[string]any{"pattern": pattern})), "")
		noError(t, err)
		if r, err := h.request(hookOptions{}); err != nil || (r.Tool == "palyra.fs.list") != plain {
			t.Errorf("%q: %s %v", pattern, r.Tool, err)
		}
	}
	for pattern, want := range map[string]string{
		strings.Repeat("x", 1000): "palyra.fs.search", strings.Repeat("x", 1001): "hook.grep", strings.Repeat(".", 501): "hook.grep",
		strings.Repeat("x", 400) + "PRIVATE KEY": "palyra.fs.search",
	} {
		h, err := readHook(claude, []byte(hooktest.JSON(t, "/w", "Grep", map[string]any{"pattern": pattern})), "")
		noError(t, err)
		r, err := h.request(hookOptions{})
		if err != nil || string(r.Tool) != want || !strings.Contains(string(r.Arguments), pattern[len(pattern)-1:]) ||
			strings.Contains(pattern, "KEY") != strings.Contains(string(r.Arguments), "KEY") {
			t.Errorf("%d bytes: %s %v", len(pattern), r.Tool, err)
		}
	}
}

// A key in another spelling is another key, to the agent and to us.
func TestHookKeysAreExact(t *testing.T) {
	in := `{"hook_event_name":"PreToolUse","cwd":"/w","tool_name":"Write","Tool_Name":"Read","tool_input":{"file_path":"/w/a","FILE_PATH":"/w/b","content":"x","Content":"y"}}`
	h, err := readHook(claude, []byte(in), "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.request(hookOptions{})
	if err != nil || r.Tool != "palyra.fs.write" || string(r.Arguments) != `{"content":"x","make_dirs":true,"path":"/w/a"}` {
		t.Errorf("%s %s %v", r.Tool, r.Arguments, err)
	}
}

// waitingDesk is a daemon on which a check waits.
type waitingDesk struct {
	asked  []client.CallRequest
	gone   []palyra.CallID
	second palyra.Outcome
	cancel error
	first  palyra.Outcome // what became of the first after all
}

func (d *waitingDesk) Check(ctx context.Context, r client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
	d.asked = append(d.asked, r)
	if r.NoWait {
		return d.second, nil
	}
	watch(client.CallEvent{Accepted: &client.CallAccepted{CallID: "C1"}})
	if _, told := ctx.Deadline(); told { // a daemon that knows when it is over may say so first
		return palyra.Outcome{}, errors.New("the caller's deadline passed")
	}
	<-ctx.Done()
	return palyra.Outcome{}, ctx.Err()
}

func (d *waitingDesk) CancelCall(_ context.Context, id palyra.CallID) error {
	d.gone = append(d.gone, id)
	return d.cancel
}

func (d *waitingDesk) WatchCall(context.Context, palyra.CallID, func(client.CallEvent)) (palyra.Outcome, error) {
	return d.first, nil
}

// Who waited long enough lets go of the call and leaves the question: a second
// check joins it before the first one goes.
func TestHookLeavesTheQuestionOpen(t *testing.T) {
	ctx, done := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer done()
	d := &waitingDesk{second: palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonApprovalNotAwaited}}
	out, err := patient(ctx, d, client.CallRequest{Tool: "x"})
	if err != nil || out.ReasonCode != palyra.ReasonApprovalNotAwaited || len(d.asked) != 2 || !d.asked[1].NoWait ||
		!slices.Equal(d.gone, []palyra.CallID{"C1"}) {
		t.Errorf("%+v %v %+v", out, err, d)
	}
	if !strings.Contains(out.Reason, "nobody answered while the hook waited") || strings.Contains(out.Remedy, "no-wait") { // the hook waited
		t.Errorf("a question that nobody could answer later: %s; %s", out.Reason, out.Remedy)
	}
	d = &waitingDesk{
		cancel: palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "ended"),
		first:  palyra.Outcome{Outcome: palyra.OutcomeAllowed},
	}
	if out, err = patient(ctx, d, client.CallRequest{}); err == nil && out.Outcome != palyra.OutcomeAllowed {
		t.Errorf("an answer that came as we let go: %+v %v", out, err)
	}
	d = &waitingDesk{second: palyra.Outcome{Outcome: palyra.OutcomeAllowed}, cancel: errors.New("gone")}
	if out, err = patient(ctx, d, client.CallRequest{}); err == nil {
		t.Errorf("a failure passed for a yes: %+v", out)
	}
}

// An edit that would take all memory, or all the time that the agent waits, is asked
// about as it came: a hook that is killed or late is one that said yes.
func TestHookEditIsBounded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, bytes.Repeat([]byte("a"), maxEdited), 0o600); err != nil {
		t.Fatal(err)
	}
	var flips []any
	for i := range maxSteps + 1 {
		old, to := "a", "b"
		if i%2 == 1 {
			old, to = to, old
		}
		flips = append(flips, map[string]any{"old_string": old, "new_string": to, "replace_all": true})
	}
	for tool, input := range map[string]map[string]any{
		"Edit":      {"file_path": path, "old_string": "a", "new_string": strings.Repeat("b", 1<<19), "replace_all": true},
		"MultiEdit": {"file_path": path, "edits": flips},
	} {
		h, err := readHook(claude, []byte(hooktest.JSON(t, dir, tool, input)), "")
		if err != nil {
			t.Fatal(err)
		}
		if r, err := h.request(hookOptions{}); err != nil || string(r.Tool) != "hook."+strings.ToLower(tool) {
			t.Errorf("%s: %s %v", tool, r.Tool, err)
		}
	}
}

// What nobody has answered yet is no failure of the agent's: it is told what is open
// and to wait. How it is answered is for the person: an agent with a shell of its own
// would do it.
func TestHookTellsOfAnOpenQuestion(t *testing.T) {
	d := decided(new(invocation.Invocation), palyra.Outcome{
		Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonApprovalNotAwaited, ApprovalID: "A1", CallID: "C1",
		Reason: "the caller does not wait", Remedy: "call without --no-wait",
	})
	if d.Decision != "deny" || strings.Contains(d.Reason, "palyra approvals") || !strings.Contains(d.Message, "palyra approvals watch") ||
		strings.Contains(d.Message, "decide") || !strings.Contains(d.Reason, "call C1") || strings.Contains(d.Reason, "--no-wait") {
		t.Errorf("%+v", d)
	}
}

// Whatever comes in: it is refused, or understood the same way a strict reader of
// the same bytes would.
func FuzzReadHook(f *testing.F) {
	f.Add([]byte(hooktest.JSON(f, "/w", "Bash", map[string]any{"command": "ls"})), "/w")
	f.Add([]byte(hooktest.JSON(f, "/w/a", "Edit", map[string]any{"file_path": "/w/x", "old_string": "a", "new_string": "b"})), "")
	f.Add([]byte(`{"tool_name":"Glob","cwd":"/","hook_event_name":"PreToolUse","tool_input":{"pattern":"..","path":1}}`), "/")
	f.Fuzz(func(t *testing.T, raw []byte, project string) {
		h, err := readHook(claude, raw, project)
		if err != nil {
			return
		}
		if !filepath.IsAbs(h.root) || !filepath.IsLocal(h.rel) || filepath.Join(h.root, h.rel) != h.Dir || !toolForm().MatchString(h.Tool) {
			t.Fatalf("%+v", h)
		}
		r, err := h.request(hookOptions{shell: "/bin/sh"})
		if err == nil && (!json.Valid(r.Arguments) ||
			!strings.HasPrefix(string(r.Tool), "palyra.") && !strings.HasPrefix(string(r.Tool), "hook.")) {
			t.Fatalf("%s %q", r.Tool, r.Arguments)
		}
		if s, err := h.fields.text("command"); err == nil {
			if line, err := h.rewritten(hookOptions{shell: "/bin/sh"}, "/p", "", s); err == nil && strings.Contains(line, "\x00") {
				t.Fatalf("%q", line)
			}
		}
	})
}

// The tools of Palyra's own server are told from others by the very name that was vouched for.
func TestHookKnowsTheOwnServer(t *testing.T) {
	for tool, want := range map[string]bool{
		"mcp__palyra__palyra_fs_read": true, "mcp__palyra__other": false, "mcp__palyra2__palyra_fs_read": false,
		"mcp__x__palyra__palyra_fs_read": false, "palyra_fs_read": false, "Bash": false,
		// of servers that a project named so
		"mcp__palyra__palyra_x__run": false, "mcp__palyra__palyra__run": false, "mcp__palyra___palyra_x": false,
	} {
		if got := (&hookCall{Asked: hook.Asked{Tool: tool}}).goesToPalyra("palyra"); got != want {
			t.Errorf("%s: %v", tool, got)
		}
		if (&hookCall{Asked: hook.Asked{Tool: tool}}).goesToPalyra("") {
			t.Errorf("%s passes where nobody vouched for a server", tool)
		}
	}
	if (&hookCall{Asked: hook.Asked{Tool: "mcp__a__b__palyra_x"}}).goesToPalyra("a__b") {
		t.Error("a tool of the server a passes as one of a__b")
	}
	for _, c := range []struct {
		server, tool string
		want         bool
	}{
		{"palyra", "mcp_palyra_palyra_fs_read", true},
		{"palyra", "mcp_palyra_other", false},
		{"palyra", "mcp_palyra_evil_palyra_fs_read", false},
		{"palyra", "palyra_fs_read", false},
		{"other", "mcp_palyra_palyra_fs_read", false},
	} { // of an agent that says itself whose tool it is
		if got := (&hookCall{Asked: hook.Asked{Tool: c.tool, Server: c.server}}).goesToPalyra("palyra"); got != c.want {
			t.Errorf("%s of %s: %v", c.tool, c.server, got)
		}
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
