//go:build agents

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/agent/agenttest"
)

// opencodeMCP: opencode, with the entry that docs/mcp.md has.
func opencodeMCP(t *testing.T, b *table) {
	s := newAgentStage(t, b, palyras)
	m := &model{t: t, d: s.daemon, wrap: func(c step) agenttest.ToolCall {
		return agenttest.ToolCall{Name: "palyra_" + c.tool, Args: encoded(c.args)}
	}, ready: func(agenttest.Request) bool { return true }}
	srv := agenttest.NewFunc(t, m.answer)
	config, _ := json.Marshal(map[string]any{
		"model": "stub/tiny", "small_model": "stub/tiny", "autoupdate": false,
		"provider": map[string]any{"stub": map[string]any{
			"npm": "@ai-sdk/openai-compatible", "options": map[string]any{"baseURL": srv.URL + "/v1", "apiKey": "sk-stub"},
			"models": map[string]any{"tiny": map[string]any{"name": "tiny", "tool_call": true}},
		}},
		"mcp": map[string]any{"palyra": map[string]any{
			"type": "local", "command": []string{s.tapped(), "--home", s.daemon.home, "mcp", "serve"}, "enabled": true, "timeout": 120_000,
		}},
	})
	file := filepath.Join(s.home, ".config", "opencode", "opencode.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	s.write(file, string(config), 0o600)
	env := append(os.Environ(), "PWD="+s.work, "HOME="+s.home, "XDG_CONFIG_HOME="+filepath.Join(s.home, ".config"),
		"XDG_DATA_HOME="+filepath.Join(s.home, ".local"),
		"XDG_CACHE_HOME="+filepath.Join(s.home, ".cache"), "XDG_STATE_HOME="+filepath.Join(s.home, ".state"))
	s.play(m, scenes(s.work, palyras), func(ctx context.Context) ([]byte, error) {
		cmd := exec.CommandContext(ctx, s.program("opencode"), "run", "go")
		cmd.Dir, cmd.Env, cmd.WaitDelay = s.work, env, 5*time.Second // what it started may outlive it
		return cmd.CombinedOutput()
	})
	s.keep("opencode.jsonl")
}

// geminiMCP: Gemini's program, with the entry that docs/mcp.md has.
func geminiMCP(t *testing.T, b *table) {
	s := newAgentStage(t, b, palyras)
	m := &model{t: t, d: s.daemon, wrap: func(c step) agenttest.ToolCall {
		return agenttest.ToolCall{Name: "mcp_palyra_" + c.tool, Args: encoded(c.args)}
	}, ready: func(agenttest.Request) bool { return true }}
	srv := agenttest.NewFunc(t, m.answer)
	settings, _ := json.Marshal(map[string]any{
		"security": map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"}, "folderTrust": map[string]any{"enabled": false}},
		"privacy":  map[string]any{"usageStatisticsEnabled": false}, "general": map[string]any{"disableAutoUpdate": true},
		"mcpServers": map[string]any{"palyra": map[string]any{
			"command": s.tapped(), "args": []string{"--home", s.daemon.home, "mcp", "serve"}, "timeout": 120_000, "trust": true,
		}},
	})
	file := filepath.Join(s.home, ".gemini", "settings.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	s.write(file, string(settings), 0o600)
	env := append(os.Environ(), "PWD="+s.work, "HOME="+s.home, "GEMINI_API_KEY=stub", "GOOGLE_GEMINI_BASE_URL="+srv.URL,
		"GEMINI_TELEMETRY_ENABLED=false", "NO_BROWSER=1", "GEMINI_CLI_TRUST_WORKSPACE=true")
	all := scenes(s.work, palyras)
	all[len(all)-1].want = refusedShell // of an error it gives the whole answer, as JSON
	s.play(m, all, func(ctx context.Context) ([]byte, error) {
		cmd := exec.CommandContext(ctx, s.program("gemini"), "-m", "gemini-2.5-flash", "-p", "go")
		cmd.Dir, cmd.Env, cmd.Stdin, cmd.WaitDelay = s.work, env, strings.NewReader(""), 5*time.Second
		return cmd.CombinedOutput()
	})
	s.keep("gemini.jsonl")
}
