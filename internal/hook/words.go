package hook

// ClaudeCode is the agent, and the MCP client, whose settings have rules and hooks.
const ClaudeCode = "claude-code"

// Codex is Codex as an agent with hooks.
const Codex = "codex"

// ToolSeparator stands between the names of a server and of its tool.
const ToolSeparator = "__"

// The ways in which a hook answers for a shell command.
const (
	Rewrite = "rewrite"
	Check   = "check"
)
