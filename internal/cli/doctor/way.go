package doctor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"palyra/internal/hook"
	"palyra/internal/standin"
)

// way is how one agent is run without its window, with everything allowed that it would ask about by itself: so only the
// hook stands before the tools.
type way struct {
	argv    []string
	env     []string
	files   func(a arena) map[string]string // settings, besides the hook
	into    string                          // the file that the hook's settings are a part of, where it has others
	probes  []probe
	command probe // what a subagent does
}

// ways are those of the agents that can be run so.
var ways = map[string]way{
	hook.ClaudeCode: {
		argv: []string{
			"claude", "-p", mainPrompt, "--dangerously-skip-permissions", "--strict-mcp-config", "--mcp-config", "{{home}}/mcp.json",
		},
		env: []string{
			"ANTHROPIC_BASE_URL={{model}}", "ANTHROPIC_API_KEY=none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "IS_SANDBOX=1",
			"DISABLE_AUTOUPDATER=1",
		},
		files: func(a arena) map[string]string {
			return map[string]string{"mcp.json": object("mcpServers", object1("probe", server(a)))}
		},
		command: shell("Bash", "command", map[string]any{"description": "x"}),
		probes: []probe{
			shell("Bash", "command", map[string]any{"description": "x"}), write("Write", "file_path", "content"), read("Read", "file_path"),
			edit("Edit", "file_path", "old_string", "new_string", nil), foreign("mcp__probe__mark", ""),
			subagent("Agent", map[string]any{"description": "x", "subagent_type": "general-purpose"}),
		},
	},
	hook.Codex: {
		argv: []string{"codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", mainPrompt},
		files: func(a arena) map[string]string {
			words, _ := json.Marshal(serverWords(a)[1:])
			return map[string]string{".codex/config.toml": fmt.Sprintf(
				"model = \"gpt-5.5\"\nmodel_provider = \"doctor\"\n\n[model_providers.doctor]\nname = \"doctor\"\nbase_url = %q\n"+
					"wire_api = \"responses\"\n\n[projects.%q]\ntrust_level = \"trusted\"\n\n[mcp_servers.probe]\ncommand = %q\nargs = %s\n",
				a.model+"/v1", a.work, serverWords(a)[0], words)}
		},
		probes: []probe{
			shell("exec_command", "cmd", map[string]any{"yield_time_ms": 10000}), codexPatch(), foreign("mark", "mcp__probe"),
		},
	},
	hook.Gemini: {
		argv: []string{"gemini", "-m", "gemini-2.5-flash", "--approval-mode", "yolo", "-p", mainPrompt},
		env: []string{
			"GEMINI_API_KEY=none", "GOOGLE_GEMINI_BASE_URL={{model}}", "GEMINI_TELEMETRY_ENABLED=false", "NO_BROWSER=1",
			"GEMINI_CLI_TRUST_WORKSPACE=true",
		},
		into: ".gemini/settings.json",
		files: func(a arena) map[string]string {
			settings := map[string]any{
				"security": map[string]any{
					"auth":        map[string]any{"selectedType": "gemini-api-key"},
					"folderTrust": map[string]any{"enabled": false},
				},
				"privacy": map[string]any{"usageStatisticsEnabled": false},
				"general": map[string]any{"disableAutoUpdate": true, "enableAutoUpdate": false},
				"mcpServers": map[string]any{"probe": map[string]any{
					"command": serverWords(a)[0], "args": serverWords(a)[1:], "trust": true,
				}},
			}
			raw, _ := json.MarshalIndent(settings, "", "  ")
			return map[string]string{".gemini/settings.json": string(raw)}
		},
		probes: []probe{
			shell("run_shell_command", "command", nil), write("write_file", "file_path", "content"), read("read_file", "file_path"),
			edit("replace", "file_path", "old_string", "new_string", map[string]any{"instruction": "x"}), foreign("mcp_probe_mark", ""),
			subagent("invoke_agent", map[string]any{"agent_name": "generalist"}),
		},
		command: shell("run_shell_command", "command", nil),
	},
	hook.OpenCode: {
		argv: []string{"opencode", "run", mainPrompt},
		env: []string{
			"XDG_CONFIG_HOME={{home}}/.config", "XDG_DATA_HOME={{home}}/.local/share", "XDG_CACHE_HOME={{home}}/.cache",
			"XDG_STATE_HOME={{home}}/.local/state", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1",
		},
		files: func(a arena) map[string]string {
			raw, _ := json.Marshal(map[string]any{
				"model": "doctor/tiny", "small_model": "doctor/tiny", "autoupdate": false, "permission": "allow",
				"provider": map[string]any{"doctor": map[string]any{
					"npm": "@ai-sdk/openai-compatible", "options": map[string]any{"baseURL": a.model + "/v1", "apiKey": "none"},
					"models": map[string]any{"tiny": map[string]any{"name": "tiny", "tool_call": true}},
				}},
				"mcp": map[string]any{"probe": map[string]any{"type": "local", "command": serverWords(a), "enabled": true}},
			})
			return map[string]string{".config/opencode/opencode.json": string(raw)}
		},
		command: shell("bash", "command", map[string]any{"description": "x"}),
		probes: []probe{
			shell("bash", "command", map[string]any{"description": "x"}), write("write", "filePath", "content"), read("read", "filePath"),
			edit("edit", "filePath", "oldString", "newString", nil), fetch("webfetch", "url", map[string]any{"format": "text"}),
			foreign("probe_mark", ""), subagent("task", map[string]any{"description": "x", "subagent_type": "general"}),
		},
	},
	hook.Copilot: {
		argv: []string{
			"copilot", "-p", mainPrompt, "--allow-all-tools", "--allow-all-paths", "--no-color", "--additional-mcp-config", "@{{home}}/mcp.json",
		},
		env: []string{
			"COPILOT_OFFLINE=true", "COPILOT_PROVIDER_BASE_URL={{model}}/v1", "COPILOT_PROVIDER_TYPE=openai", "COPILOT_MODEL=gpt-5",
			"COPILOT_PROVIDER_API_KEY=none", "COPILOT_HOME={{home}}/.copilot", "COPILOT_AUTO_UPDATE=false",
		},
		files: func(a arena) map[string]string {
			return map[string]string{"mcp.json": object("mcpServers", object1("probe", map[string]any{
				"type": "local", "command": serverWords(a)[0], "args": serverWords(a)[1:], "tools": []string{"*"},
			}))}
		},
		command: shell("bash", "command", map[string]any{"description": "x"}),
		probes: []probe{
			shell("bash", "command", map[string]any{"description": "x"}), write("create", "path", "file_text"), read("view", "path"),
			edit("edit", "path", "old_str", "new_str", nil), foreign("probe-mark", ""),
			subagent("task", map[string]any{"description": "x", "agent_type": "general-purpose", "name": "probe", "mode": "sync"}),
		},
	},
}

// codexPatch is a probe of Codex's editor, which takes text.
func codexPatch() probe {
	return probe{tool: "apply_patch", name: "apply_patch", does: toolProbes, took: isThere, call: func(_ arena, mark string) standin.ToolCall {
		patch := "*** Begin Patch\n*** Add File: " + mark + "\n+new\n*** End Patch\n"
		return standin.ToolCall{Name: "apply_patch", Free: true, Args: []string{patch}}
	}}
}

// serverWords start the MCP server of the probes.
func serverWords(a arena) []string { return []string{a.server, "hook", "doctor-server", a.work} }

func server(a arena) map[string]any {
	return map[string]any{"type": "stdio", "command": serverWords(a)[0], "args": serverWords(a)[1:]}
}

func object1(name string, value any) map[string]any { return map[string]any{name: value} }

func object(name string, value any) string {
	raw, _ := json.Marshal(object1(name, value))
	return string(raw)
}

// prepare writes an agent's settings.
func (w way) prepare(a arena) error {
	for name, text := range w.files(a) {
		path := filepath.Join(a.home, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
