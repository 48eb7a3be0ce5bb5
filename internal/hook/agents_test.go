package hook

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestAgents: every table can be read, says where it is from, and compares tools only with those that are known.
func TestAgents(t *testing.T) {
	want := []string{ClaudeCode, Codex, Copilot, Cursor, Gemini, OpenCode, VSCode}
	slices.Sort(want)
	if !slices.Equal(Names(), want) {
		t.Fatalf("%q", Names())
	}
	for _, name := range Names() {
		a, _ := Find(name)
		if a.Name != name || a.Title == "" || a.Program == "" || a.ReadOn == "" || a.Event == "" || len(a.Tools) == 0 {
			t.Errorf("%+v", a)
		}
		if a.Source != "program" && a.Source != "documentation" || a.Source == "program" && a.Version == "" {
			t.Errorf("%s: where it is from: %q %q", name, a.Source, a.Version)
		}
		if a.Fails != "open" && a.Fails != "closed" {
			t.Errorf("%s: what a failure does: %q", name, a.Fails)
		}
		for tool, is := range a.Tools {
			_, known := likes[is.Like]
			if !known && is.Like != Talk && !a.Plain {
				t.Errorf("%s: %s is like %q", name, tool, is.Like)
			}
		}
	}
}

// TestLike: what other agents call their tools, and that a field nobody knows makes the call unknown.
func TestLike(t *testing.T) {
	for _, c := range []struct{ agent, tool, input, like, fields string }{
		{Gemini, "run_shell_command", `{"command":"ls","description":"x"}`, "Bash", `{"command":"ls"}`},
		{Gemini, "run_shell_command", `{"command":"ls","dir_path":"a","is_background":true}`, "Bash", `{"command":"ls","directory":"a","run_in_background":true}`},
		{Gemini, "run_shell_command", `{"command":"ls","sudo":true}`, "", ``},
		{Gemini, "run_shell_command", `{"Command":"ls"}`, "", ``},
		{Gemini, "replace", `{"file_path":"a","old_string":"b","new_string":"c","allow_multiple":true,"instruction":"x"}`, "Edit", `{"file_path":"a","new_string":"c","old_string":"b","replace_all":true}`},
		{Gemini, "write_todos", `{}`, "", ``},
		{Gemini, "web_fetch", `{"prompt":"x"}`, "", ``},
		{OpenCode, "edit", `{"filePath":"a","oldString":"b","newString":"c"}`, "Edit", `{"file_path":"a","new_string":"c","old_string":"b"}`},
		{OpenCode, "bash", `{"command":"ls","workdir":"/x"}`, "Bash", `{"command":"ls","directory":"/x"}`},
		{Copilot, "Bash", `{"command":"ls","description":"x"}`, "Bash", `{"command":"ls"}`},
		{Copilot, "create", `{"path":"a","file_text":"b"}`, "Write", `{"content":"b","file_path":"a"}`},
		{VSCode, "run_in_terminal", `{"command":"ls","explanation":"x","isBackground":false}`, "Bash", `{"command":"ls","run_in_background":false}`},
		{Cursor, "StrReplace", `{"path":"a","old_string":"b","new_string":"c"}`, "Edit", `{"file_path":"a","new_string":"c","old_string":"b"}`},
		{ClaudeCode, "Bash", `{"command":"ls","timeout":1}`, "Bash", `{"command":"ls","timeout":1}`},
		{ClaudeCode, "Workflow", `{}`, "", ``},
	} {
		a, _ := Find(c.agent)
		var in map[string]json.RawMessage
		if err := json.Unmarshal([]byte(c.input), &in); err != nil {
			t.Fatal(err)
		}
		like, fields, ok := a.Like(c.tool, in)
		got := ""
		if ok {
			raw, _ := json.Marshal(fields)
			got = string(raw)
		}
		if like != c.like || got != c.fields || ok != (c.like != "") {
			t.Errorf("%s %s %s: %q %s %v", c.agent, c.tool, c.input, like, got, ok)
		}
	}
}

// TestWords: what each agent asks and is answered in, as its program reads it.
func TestWords(t *testing.T) {
	for _, c := range []struct{ agent, asks, tool, dir, session, deny, rewrite, nothing string }{
		{
			Gemini, `{"session_id":"s1","transcript_path":"/t","cwd":"/w","hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":{"command":"ls"}}`,
			"run_shell_command", "/w", "s1",
			`{"decision":"deny","reason":"why","systemMessage":"you"}`,
			`{"decision":"allow","hookSpecificOutput":{"hookEventName":"BeforeTool","tool_input":{"command":"x"}}}`, `{}`,
		},
		{
			OpenCode, `{"hook_event_name":"tool.execute.before","tool_name":"bash","tool_input":{"command":"ls"},"cwd":"/w","session_id":"s1"}`,
			"bash", "/w", "s1",
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"why"},"systemMessage":"you"}`,
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"","updatedInput":{"command":"x"}}}`, `{}`,
		},
		{
			Copilot, `{"hook_event_name":"PreToolUse","session_id":"s1","cwd":"/w","tool_name":"Bash","tool_input":{"command":"ls"}}`,
			"Bash", "/w", "s1",
			`{"permissionDecision":"deny","permissionDecisionReason":"why","hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"why"},"systemMessage":"you"}`,
			`{"permissionDecision":"allow","permissionDecisionReason":"","modifiedArgs":{"command":"x"},"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"","updatedInput":{"command":"x"}}}`, `{}`,
		},
		{
			Copilot, `{"sessionId":"s1","timestamp":1,"cwd":"/w","toolName":"bash","toolArgs":"{\"command\":\"ls\"}"}`, "bash", "/w", "s1",
			"", "", "",
		},
		{
			Cursor, `{"hook_event_name":"preToolUse","conversation_id":"s1","workspace_roots":["/w"],"tool_name":"Shell","tool_input":{"command":"ls"}}`,
			"Shell", "/w", "s1", `{"permission":"deny","user_message":"you","agent_message":"why"}`,
			`{"permission":"allow","updated_input":{"command":"x"}}`, `{"permission":"allow"}`,
		},
		{
			Cursor, `{"hook_event_name":"beforeShellExecution","conversation_id":"s1","cwd":"/w","command":"ls"}`, "Shell", "/w", "s1", "", "", "",
		},
		{
			Cursor, `{"hook_event_name":"beforeMCPExecution","conversation_id":"s1","cwd":"/w","tool_name":"a:b c","tool_input":"{}"}`,
			"mcp__a_b_c", "/w", "s1", "", "", "",
		},
	} {
		a, _ := Find(c.agent)
		asked, err := a.Read([]byte(c.asks))
		if err != nil || asked.Tool != c.tool || asked.Dir != c.dir || asked.Session != c.session || asked.Input == nil {
			t.Errorf("%s: %+v %v", c.asks, asked, err)
		}
		if c.deny == "" {
			continue
		}
		for want, w := range map[string]Answer{
			c.deny: {Decision: Deny, Reason: "why", Message: "you"}, c.nothing: {},
			c.rewrite: {Decision: Allow, Input: map[string]json.RawMessage{"command": json.RawMessage(`"x"`)}},
		} {
			if got, err := json.Marshal(a.Words(w)); err != nil || string(got) != want {
				t.Errorf("%s: %s, want %s", c.agent, got, want)
			}
		}
	}
}

// TestReadRefuses: what is not asked in an agent's own words is not read as something else.
func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ agent, asks string }{
		{Gemini, `{"hook_event_name":"PreToolUse","tool_name":"x","tool_input":{},"cwd":"/"}`},
		{Gemini, `{"hook_event_name":"BeforeTool","tool_name":"x","tool_input":"{}","cwd":"/"}`},
		{Gemini, `{"hook_event_name":"BeforeTool","tool_name":"x","cwd":"/"}`},
		{Gemini, `{"hook_event_name":"BeforeTool","tool_name":7,"tool_input":{},"cwd":"/"}`},
		{ClaudeCode, `{"hookEventName":"PostToolUse","tool_name":"x","tool_input":{}}`},
		{Copilot, `{"hook_event_name":"PostToolUse","tool_name":"x","tool_input":{}}`},
		{Copilot, `{"toolName":"x","toolArgs":"[]"}`},
		{Cursor, `{"hook_event_name":"afterFileEdit"}`},
		{Cursor, `[]`},
		{Cursor, "{\"hook_event_name\":\"preToolUse\",\"tool_name\":\"\xff\"}"},
	} {
		a, _ := Find(c.agent)
		if asked, err := a.Read([]byte(c.asks)); err == nil {
			t.Errorf("%s: %s is %+v", c.agent, c.asks, asked)
		}
	}
}

// FuzzRead: nothing that an agent could be made to send breaks it, and a call always has a tool's input.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"hook_event_name":"BeforeTool","tool_name":"x","tool_input":{"a":1},"cwd":"/"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, name := range Names() {
			a, _ := Find(name)
			if asked, err := a.Read(raw); err == nil && asked.Input == nil {
				t.Fatalf("%s: %+v", name, asked)
			}
		}
	})
}
