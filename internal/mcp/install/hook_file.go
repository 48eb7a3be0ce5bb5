package install

import (
	"encoding/json"
	"fmt"
)

// copilotFile is the file of hooks for Copilot's command line ("bash") and VS Code ("command").
func copilotFile(h HookEntry) string {
	doc, _ := encoded(map[string]any{
		"version": 1,
		"hooks": map[string]any{"PreToolUse": []any{map[string]any{
			"type": "command", "bash": h.Command, "command": h.Command, "timeoutSec": hookTimeout, "timeout": hookTimeout,
		}}},
	}, 0)
	return string(doc) + "\n"
}

// openCodePlugin is the plugin: it asks before each tool, and a tool that it could not ask about does not run.
func openCodePlugin(h HookEntry) string {
	line, _ := json.Marshal(h.Command)
	return fmt.Sprintf(`// Written by "palyra hook install opencode", which writes it anew; "palyra hook uninstall opencode" takes it away.
// Before each tool Palyra is asked. A tool that it says no to, or that it could not be asked about, does not run.
// command: %s
import { spawn } from "node:child_process"

const ask = (question) =>
  new Promise((answered, failed) => {
    const hook = spawn("/bin/sh", ["-c", %s], { stdio: ["pipe", "pipe", "pipe"] })
    const late = setTimeout(() => hook.kill("SIGKILL"), %d)
    let out = ""
    let why = ""
    hook.stdout.on("data", (piece) => (out += piece))
    hook.stderr.on("data", (piece) => (why += piece))
    hook.stdin.on("error", () => {})
    hook.on("error", failed)
    hook.on("close", (code) => {
      clearTimeout(late)
      if (code !== 0) return failed(new Error(why.trim() || "palyra: the hook failed, so the tool is blocked"))
      try {
        answered(JSON.parse(out))
      } catch {
        failed(new Error("palyra: the hook's answer cannot be read, so the tool is blocked"))
      }
    })
    hook.stdin.end(JSON.stringify(question))
  })

export const Palyra = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    const answer = await ask({
      hook_event_name: "tool.execute.before",
      tool_name: input.tool,
      tool_input: output.args ?? {},
      cwd: directory,
      session_id: input.sessionID,
    })
    const said = answer.hookSpecificOutput
    if (said === undefined) return
    if (said.permissionDecision !== "allow") throw new Error(said.permissionDecisionReason || "palyra: denied")
    if (said.updatedInput) {
      for (const name of Object.keys(output.args)) delete output.args[name]
      Object.assign(output.args, said.updatedInput)
    }
  },
})
`, h.Command, line, hookTimeout*1000)
}
