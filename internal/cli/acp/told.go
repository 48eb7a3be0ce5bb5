package acp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	sdk "github.com/coder/acp-go-sdk"

	"palyra"
)

// told is what an agent has said of a tool call before it asks for the permission: some say the kind there and not
// in the question.
type told struct {
	kind sdk.ToolKind
	tool string // its own name, where the agent says it
}

// Bounds on what is remembered.
const (
	maxTold = 1024 // tool calls, of all sessions
	maxName = 128
)

type toldKey struct {
	session sdk.SessionId
	call    sdk.ToolCallId
}

// tellings remember the latest tool calls.
type tellings struct {
	mu    sync.Mutex // guards what follows; a leaf
	all   map[toldKey]told
	order []toldKey
}

// hears reads an agent's news in the order in which they come, before any question that follows them.
func (t *tellings) hears(params json.RawMessage) {
	var m struct {
		ID     sdk.SessionId `json:"sessionId"`
		Update struct {
			What string         `json:"sessionUpdate"`
			Call sdk.ToolCallId `json:"toolCallId"`
			Kind sdk.ToolKind   `json:"kind"`
			Meta struct {
				ClaudeCode struct {
					Tool string `json:"toolName"`
				} `json:"claudeCode"`
			} `json:"_meta"`
		} `json:"update"`
	}
	if json.Unmarshal(params, &m) != nil || m.Update.What != "tool_call" && m.Update.What != "tool_call_update" {
		return
	}
	u := m.Update
	if u.Call == "" || len(m.ID) > maxID || len(u.Call) > maxID || len(u.Kind) > maxName || len(u.Meta.ClaudeCode.Tool) > maxName {
		return
	}
	key := toldKey{m.ID, u.Call}
	t.mu.Lock()
	defer t.mu.Unlock()
	is, there := t.all[key]
	if u.Kind != "" {
		is.kind = u.Kind
	}
	if u.Meta.ClaudeCode.Tool != "" {
		is.tool = u.Meta.ClaudeCode.Tool
	}
	if !there {
		t.order = append(t.order, key)
		if len(t.order) > maxTold {
			delete(t.all, t.order[0])
			t.order = t.order[1:]
		}
	}
	if t.all == nil {
		t.all = map[toldKey]told{}
	}
	t.all[key] = is
}

// heardOf is what was said of a tool call.
func (t *tellings) heardOf(id sdk.SessionId, call sdk.ToolCallId) told {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[toldKey{id, call}]
}

// byEditor are tools of Zed's adapter of Claude Code (claude-code-acp 0.16.2) that do what they do by asking the editor.
// The adapter's own server has the name before any other one.
var byEditor = []string{
	"mcp__acp__Read", "mcp__acp__Write", "mcp__acp__Edit", "mcp__acp__Bash", "mcp__acp__BashOutput", "mcp__acp__KillShell",
}

// comesAgain reports whether a tool does nothing by itself: what it does is asked of the editor, and so of the gate, which
// would ask a person twice for one thing. That adapter reads and writes files of Claude Code's own by itself.
func (n *talk) comesAgain(t told, input map[string]any) bool {
	if !slices.Contains(byEditor, t.tool) {
		return false
	}
	if t.kind == sdk.ToolKindExecute {
		return true
	}
	path, _ := input["file_path"].(string)
	if _, _, err := n.place(path); err != nil || strings.Contains(filepath.ToSlash(path), "/.claude") {
		return false
	}
	own := os.Getenv("CLAUDE_CONFIG_DIR")
	return own == "" || !strings.HasPrefix(path, own)
}

// onceOption is the agent's option for this once.
func onceOption(options []sdk.PermissionOption) (sdk.PermissionOptionId, bool) {
	for _, o := range options {
		if o.Kind == sdk.PermissionOptionKindAllowOnce {
			return o.OptionId, true
		}
	}
	return "", false
}

// writes is the write that the words of a tool call without a diff come to: a whole file's new content.
func (n *talk) writes(input map[string]any) (palyra.ToolName, any, string) {
	path, is := input["file_path"].(string)
	text, has := input["content"].(string)
	if !is || !has || len(input) != 2 {
		return "", nil, ""
	}
	root, clean, err := n.place(path)
	if err != nil {
		return "", nil, ""
	}
	return palyra.ToolFileWrite, map[string]any{"path": clean, "content": text, "make_dirs": true}, root
}
