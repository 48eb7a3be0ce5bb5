package hook

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Dialect is how an agent asks and is answered.
type Dialect string

// The dialects. Codex and opencode's plugin of ours speak Claude Code's.
const (
	Claude        Dialect = "claude"
	GeminiWords   Dialect = "gemini"
	CopilotWords  Dialect = "copilot" // and VS Code's at once
	CursorWords   Dialect = "cursor"
	cursorShell           = "beforeShellExecution"
	cursorMCP             = "beforeMCPExecution"
	cursorRead            = "beforeReadFile"
	cursorMCPTool         = "MCP:" // what preToolUse calls tools of MCP servers
)

// CursorEvents are those that Cursor's hook answers.
func CursorEvents() []string { return []string{"preToolUse", cursorShell, cursorMCP, cursorRead} }

// Asked is what an agent asks about: one use of a tool.
type Asked struct {
	Tool       string
	Input      map[string]json.RawMessage
	Dir        string // where the agent works
	Session    string
	Transcript string
	Use        string // the id of this use of the tool
	Server     string // of MCP, where the agent says so
	Elsewhere  bool   // another event asks about it
	Line       bool   // it is a command line as it will be run, after all hooks that could change it
}

// Read reads what an agent asks. A field is taken by its exact name: a decoder into a struct would take "Command" for
// "command", and another program would not.
func (a AgentProgram) Read(raw []byte) (asked Asked, err error) {
	var doc Object
	if !utf8.Valid(raw) || json.Unmarshal(raw, &doc) != nil || doc == nil {
		return asked, errors.New("it is not one JSON object in UTF-8")
	}
	event, err := doc.first("hook_event_name", "hookEventName")
	if err != nil {
		return asked, err
	}
	if a.Dialect == CursorWords {
		return readCursor(doc, event)
	}
	if event != a.Event && (a.Dialect != CopilotWords || event != "") {
		return asked, errors.New("it is of another event than " + a.Event)
	}
	for at, names := range map[*string][]string{
		&asked.Tool: {"tool_name", "toolName"}, &asked.Dir: {"cwd"}, &asked.Session: {"session_id", "sessionId"},
		&asked.Transcript: {"transcript_path"}, &asked.Use: {"tool_use_id"},
	} {
		if a.Dialect != CopilotWords { // the others know one name
			names = names[:1]
		}
		if *at, err = doc.first(names...); err != nil {
			return asked, err
		}
	}
	var mcp Object
	if json.Unmarshal(doc["mcp_context"], &mcp) == nil {
		asked.Server, _ = mcp.Text("server_name")
	}
	input := doc["tool_input"]
	if input == nil && a.Dialect == CopilotWords {
		input = doc["toolArgs"]
	}
	return asked, asked.take(input, a.Dialect == CopilotWords)
}

// take reads the input of a tool: an object, or the text of one from those that send that.
func (a *Asked) take(raw json.RawMessage, asText bool) error {
	var text string
	if asText && json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	if json.Unmarshal(raw, &a.Input) != nil || a.Input == nil {
		return errors.New("tool_input is not an object")
	}
	return nil
}

var notName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// readCursor reads Cursor's events, each of which has fields of its own.
func readCursor(doc Object, event string) (asked Asked, err error) {
	if asked.Session, err = doc.Text("conversation_id"); err != nil {
		return asked, err
	}
	if asked.Dir, err = doc.Text("cwd"); err != nil {
		return asked, err
	}
	var roots []string
	if asked.Dir == "" && json.Unmarshal(doc["workspace_roots"], &roots) == nil && len(roots) > 0 {
		asked.Dir = roots[0]
	}
	switch event {
	case cursorShell:
		asked.Tool, asked.Input, asked.Line = "Shell", Object{"command": doc["command"]}, true
		return asked, nil
	case cursorRead: // it has the file's content too, which nobody needs to see
		asked.Tool, asked.Input = "Read", Object{"path": doc["file_path"]}
		return asked, nil
	case cursorMCP, "preToolUse":
	default:
		return asked, errors.New("it is of an event that is not known")
	}
	if asked.Tool, err = doc.Text("tool_name"); err != nil {
		return asked, err
	}
	asked.Elsewhere = event == "preToolUse" && strings.HasPrefix(asked.Tool, cursorMCPTool)
	if event == cursorMCP {
		asked.Tool = "mcp" + ToolSeparator + notName.ReplaceAllString(strings.TrimPrefix(asked.Tool, cursorMCPTool), "_")
	}
	return asked, asked.take(doc["tool_input"], true)
}

// Object is a JSON object by its exact keys.
type Object map[string]json.RawMessage

// Text is a string field; "" when it is missing. It refuses a value that is no string, or that a program could not get
// unchanged.
func (f Object) Text(name string) (string, error) {
	raw, ok := f[name]
	if !ok || string(raw) == "null" {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", errors.New(name + " is not text")
	}
	if strings.IndexByte(s, 0) >= 0 || strings.ContainsRune(s, utf8.RuneError) {
		return "", errors.New(name + " holds characters that cannot be passed on")
	}
	return s, nil
}

// first is the first of these fields that is there.
func (f Object) first(names ...string) (string, error) {
	for _, name := range names {
		if s, err := f.Text(name); s != "" || err != nil {
			return s, err
		}
	}
	return "", nil
}
