//go:build agents

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/agent/agenttest"
	"palyra/internal/hook"
	"palyra/internal/standin"
)

// opencodeMCP: opencode, with the entry that docs/mcp.md has.
func opencodeMCP(t *testing.T, b *table) {
	s, m, run := opencode(t, b, palyras)
	s.play(m, scenes(s.work, palyras), run)
	s.keep("opencode.jsonl")
}

// opencodeHook: its own tools behind the plugin.
func opencodeHook(t *testing.T, b *table) {
	s, m, run := opencode(t, b, opencodes)
	s.hooked(m, hook.OpenCode, run)
}

// hooked installs the hook, plays the matrix, has the doctor look, and plays on without a daemon.
func (s *stage) hooked(m *model, agent string, run func(ctx context.Context) ([]byte, error)) {
	s.palyraIn("hook", "install", agent)
	s.play(m, matrix(s.work, s.with), run)
	s.examined(agent)
	s.daemon.stop()
	s.play(m, without(s.work, s.with), run)
}

// examined has 'palyra hook doctor' look at an agent, and puts what it says into the table.
func (s *stage) examined(agent string) {
	s.t.Helper()
	cmd := s.palyra("hook", "doctor", agent, "--json")
	cmd.Env = append(cmd.Environ(), "HOME="+s.home, "PATH="+filepath.Join(s.dir, "node_modules", ".bin")+":"+os.Getenv("PATH"))
	began := time.Now()
	out, err := cmd.Output()
	var got struct {
		Agents []struct {
			Trust, Note string
			Tools       []struct {
				Tool, Verdict string
				OnFailure     string `json:"on_failure"`
				OnCrash       string `json:"on_crash"`
			}
		}
	}
	if jerr := json.Unmarshal(out, &got); err != nil || jerr != nil || len(got.Agents) != 1 || len(got.Agents[0].Tools) == 0 {
		s.t.Errorf("the doctor: %v %v\n%s", err, jerr, out)
		return
	}
	for _, tool := range got.Agents[0].Tools {
		if tool.Verdict != "rewritten" && tool.Verdict != "only judged" {
			s.t.Errorf("%s: %+v", agent, tool)
		}
		said := fmt.Sprintf("%s; the hook fails: %s; is killed: %s", tool.Verdict, tool.OnFailure, tool.OnCrash)
		s.table.add(s.t, row{
			s.way, "doctor: " + tool.Tool, time.Since(began), []result{{standin.Result{Raw: string(out), Texts: []string{said}}}}, "held",
		})
	}
}

// copilotHook: Copilot's own tools behind its file of hooks.
func copilotHook(t *testing.T, b *table) {
	s := newAgentStage(t, b, copilots)
	m := plainModel(t, s)
	srv := agenttest.NewFunc(t, m.answer)
	env := append(os.Environ(), "PWD="+s.work, "HOME="+s.home, "COPILOT_OFFLINE=true", "COPILOT_PROVIDER_BASE_URL="+srv.URL+"/v1",
		"COPILOT_PROVIDER_TYPE=openai", "COPILOT_MODEL=gpt-5", "COPILOT_PROVIDER_API_KEY=stub", "COPILOT_HOME="+filepath.Join(s.home, ".copilot"),
		"COPILOT_AUTO_UPDATE=false")
	s.hooked(m, hook.Copilot, func(ctx context.Context) ([]byte, error) {
		cmd := exec.CommandContext(ctx, s.program("copilot"), "-p", "go", "--allow-all-tools", "--allow-all-paths", "--no-color")
		cmd.Dir, cmd.Env, cmd.Stdin, cmd.WaitDelay = s.work, env, strings.NewReader(""), 5*time.Second
		return cmd.CombinedOutput()
	})
}

// plainModel is one whose calls are the agent's own tools.
func plainModel(t *testing.T, s *stage) *model {
	return &model{t: t, d: s.daemon, wrap: func(c step) agenttest.ToolCall {
		return agenttest.ToolCall{Name: c.tool, Args: encoded(c.args)}
	}, ready: func(agenttest.Request) bool { return true }}
}

// opencode prepares it.
func opencode(t *testing.T, b *table, with tools) (*stage, *model, func(ctx context.Context) ([]byte, error)) {
	s := newAgentStage(t, b, with)
	m := plainModel(t, s)
	if with == palyras {
		m.wrap = func(c step) agenttest.ToolCall {
			return agenttest.ToolCall{Name: "palyra_" + c.tool, Args: encoded(c.args)}
		}
	}
	srv := agenttest.NewFunc(t, m.answer)
	servers := map[string]any{}
	if with == palyras {
		servers["palyra"] = map[string]any{
			"type": "local", "command": []string{s.tapped(), "--home", s.daemon.home, "mcp", "serve"}, "enabled": true, "timeout": 120_000,
		}
	}
	config, _ := json.Marshal(map[string]any{
		"model": "stub/tiny", "small_model": "stub/tiny", "autoupdate": false,
		"provider": map[string]any{"stub": map[string]any{
			"npm": "@ai-sdk/openai-compatible", "options": map[string]any{"baseURL": srv.URL + "/v1", "apiKey": "sk-stub"},
			"models": map[string]any{"tiny": map[string]any{"name": "tiny", "tool_call": true}},
		}},
		"mcp": servers,
	})
	file := filepath.Join(s.home, ".config", "opencode", "opencode.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	s.write(file, string(config), 0o600)
	env := append(os.Environ(), "PWD="+s.work, "HOME="+s.home, "XDG_CONFIG_HOME="+filepath.Join(s.home, ".config"),
		"XDG_DATA_HOME="+filepath.Join(s.home, ".local"),
		"XDG_CACHE_HOME="+filepath.Join(s.home, ".cache"), "XDG_STATE_HOME="+filepath.Join(s.home, ".state"))
	return s, m, func(ctx context.Context) ([]byte, error) {
		cmd := exec.CommandContext(ctx, s.program("opencode"), "run", "go")
		cmd.Dir, cmd.Env, cmd.WaitDelay = s.work, env, 5*time.Second // what it started may outlive it
		return cmd.CombinedOutput()
	}
}

// geminiMCP: Gemini's program, with the entry that docs/mcp.md has.
func geminiMCP(t *testing.T, b *table) {
	s, m, run := gemini(t, b, palyras)
	all := scenes(s.work, palyras)
	all[len(all)-1].want = refusedShell // of an error it gives the whole answer, as JSON
	s.play(m, all, run)
	s.keep("gemini.jsonl")
}

// geminiHook: its own tools behind the hook.
func geminiHook(t *testing.T, b *table) {
	s, m, run := gemini(t, b, geminis)
	s.hooked(m, hook.Gemini, run)
}

// gemini prepares it.
func gemini(t *testing.T, b *table, with tools) (*stage, *model, func(ctx context.Context) ([]byte, error)) {
	s := newAgentStage(t, b, with)
	m := plainModel(t, s)
	servers := map[string]any{}
	if with == palyras {
		m.wrap = func(c step) agenttest.ToolCall {
			return agenttest.ToolCall{Name: "mcp_palyra_" + c.tool, Args: encoded(c.args)}
		}
		servers["palyra"] = map[string]any{
			"command": s.tapped(), "args": []string{"--home", s.daemon.home, "mcp", "serve"}, "timeout": 120_000, "trust": true,
		}
	}
	srv := agenttest.NewFunc(t, m.answer)
	settings, _ := json.Marshal(map[string]any{
		"security": map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"}, "folderTrust": map[string]any{"enabled": false}},
		"privacy":  map[string]any{"usageStatisticsEnabled": false}, "general": map[string]any{"disableAutoUpdate": true},
		"mcpServers": servers,
	})
	file := filepath.Join(s.home, ".gemini", "settings.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	s.write(file, string(settings), 0o600)
	env := append(os.Environ(), "PWD="+s.work, "HOME="+s.home, "GEMINI_API_KEY=stub", "GOOGLE_GEMINI_BASE_URL="+srv.URL,
		"GEMINI_TELEMETRY_ENABLED=false", "NO_BROWSER=1", "GEMINI_CLI_TRUST_WORKSPACE=true")
	return s, m, func(ctx context.Context) ([]byte, error) {
		cmd := exec.CommandContext(ctx, s.program("gemini"), "-m", "gemini-2.5-flash", "--approval-mode", "yolo", "-p", "go")
		cmd.Dir, cmd.Env, cmd.Stdin, cmd.WaitDelay = s.work, env, strings.NewReader(""), 5*time.Second
		return cmd.CombinedOutput()
	}
}
