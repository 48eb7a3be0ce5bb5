package hook

// ClaudeCode is the agent, and the MCP client, whose settings have rules and hooks.
const ClaudeCode = "claude-code"

// The other agents with hooks, by name.
const (
	Codex    = "codex"
	Gemini   = "gemini"
	OpenCode = "opencode"
	Copilot  = "copilot"
	VSCode   = "vscode"
	Cursor   = "cursor"
)

// ToolSeparator stands between the names of a server and of its tool.
const ToolSeparator = "__"

// SessionEnd is the event of a session that is over.
const SessionEnd = "SessionEnd"

// The ways in which a hook answers for a shell command.
const (
	Rewrite = "rewrite"
	Check   = "check"
)
