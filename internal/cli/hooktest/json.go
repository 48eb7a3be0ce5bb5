// Package hooktest makes the hook input of agents, for tests of the hook and of the command.
package hooktest

import (
	"encoding/json"
	"testing"
)

// JSON is the input of a hook.
func JSON(t testing.TB, dir, tool string, input any) string {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"session_id": "0c3e-51", "transcript_path": "/x.jsonl", "cwd": dir, "permission_mode": "default", "hook_event_name": "PreToolUse",
		"tool_name": tool, "tool_input": input, "tool_use_id": "toolu_1",
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
