//go:build agents

package e2e

import (
	"bytes"
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
)

// TestAgents drives the real programs, each way, against a model of the test's own.
func TestAgents(t *testing.T) {
	for name, way := range map[string]func(*testing.T){
		"codex-exec": codexExec, "codex-window": codexWindow, "codex-sandbox": codexSandbox,
		"claude-mcp": claudeMCP, "claude-hook": claudeHook, "claude-agent-run": claudeInside,
	} {
		t.Run(name, way)
	}
}

func encoded(v any) []string {
	raw, _ := json.Marshal(v)
	return []string{string(raw)}
}

// codex prepares Codex, connected as 'palyra mcp install codex' does it.
func codex(t *testing.T) (*stage, *model, []string) {
	s := newAgentStage(t)
	m := &model{t: t, d: s.daemon, wrap: func(c step) agenttest.Call {
		return agenttest.Call{Name: c.tool, Namespace: "mcp__palyra", Args: encoded(c.args)}
	}, ready: func(r agenttest.Request) bool { return strings.Contains(r.Raw, `"name":"mcp__palyra"`) }}
	srv := agenttest.NewFunc(t, m.answer)
	config := filepath.Join(s.home, ".codex", "config.toml")
	if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
		t.Fatal(err)
	}
	s.write(config, fmt.Sprintf("model = \"stub\"\nmodel_provider = \"stub\"\n\n[model_providers.stub]\nname = \"stub\"\nbase_url = %q\nwire_api = \"responses\"\n\n[projects.%q]\ntrust_level = \"trusted\"\n", srv.URL+"/v1", s.work), 0o600)
	s.palyraIn("mcp", "install", "codex")
	s.tap(config)
	return s, m, append(os.Environ(), "HOME="+s.home, "CODEX_HOME="+filepath.Dir(config))
}

func codexExec(t *testing.T) {
	s, m, env := codex(t)
	s.play(m, false, func(ctx context.Context) ([]byte, error) {
		cmd := exec.CommandContext(ctx, s.program("codex"), "exec", "--skip-git-repo-check", "go")
		cmd.Dir, cmd.Env = s.work, env
		return cmd.CombinedOutput()
	})
	s.keep("codex-exec.jsonl")
}

// codexWindow does the same in Codex's own window, and looks at what it shows while
// Palyra waits.
func codexWindow(t *testing.T) {
	s, m, env := codex(t)
	window, socket := 0, ""
	tmux := func(args ...string) []byte {
		out, _ := exec.Command("tmux", append([]string{"-L", socket}, args...)...).CombinedOutput()
		return out
	}
	s.play(m, false, func(ctx context.Context) ([]byte, error) {
		window++
		socket = fmt.Sprintf("palyra-%s-%d", filepath.Base(s.home), window)
		defer tmux("kill-server")
		line := fmt.Sprintf("cd %s; HOME=%s CODEX_HOME=%s %s -s read-only -a on-request; sleep 1000", s.work, s.home, filepath.Join(s.home, ".codex"), s.program("codex"))
		cmd := exec.Command("tmux", "-L", socket, "new-session", "-d", "-x", "120", "-y", "50", line)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			return out, err
		}
		said, shown := false, ""
		for ctx.Err() == nil {
			<-time.After(500 * time.Millisecond)
			screen := tmux("capture-pane", "-p")
			switch {
			case !said && bytes.Contains(screen, []byte("Ask Codex to do anything")):
				tmux("send-keys", "go")
				<-time.After(time.Second)
				tmux("send-keys", "Enter")
				said = m.asked()
			case shown == "" && bytes.Contains(screen, []byte("Nothing is decided in this window")):
				shown = string(screen)
				fmt.Println("   the window shows:\n" + strings.TrimSpace(squeezed(shown)))
				if strings.Contains(shown, "Allow") {
					t.Errorf("an Allow that allows nothing:\n%s", shown)
				}
				tmux("send-keys", "Enter")
			case bytes.Contains(screen, []byte("• done")):
				return screen, nil
			}
		}
		return tmux("capture-pane", "-p"), ctx.Err()
	})
}

// asked reports whether the model was asked for this scene.
func (m *model) asked() bool {
	<-time.After(2 * time.Second)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done > m.before
}

func squeezed(screen string) string {
	var out []string
	for _, l := range strings.Split(screen, "\n") {
		if strings.TrimSpace(l) != "" {
			out = append(out, "   | "+l)
		}
	}
	return strings.Join(out, "\n")
}

// codexSandbox: in Codex's own sandbox the command says that it may not connect.
func codexSandbox(t *testing.T) {
	s, _, env := codex(t)
	cmd := exec.Command(s.program("codex"), "sandbox", bin(t, "palyra"), "--home", s.daemon.home, "exec", "--", "ls")
	cmd.Dir, cmd.Env = s.work, env
	out, err := cmd.CombinedOutput()
	fmt.Printf("\n== %s: %v\n%s\n", t.Name(), err, out)
	if !bytes.Contains(out, []byte("may not connect")) || bytes.Contains(out, []byte("palyra up")) {
		t.Errorf("%s", out)
	}
}

// claude prepares Claude Code.
func claude(t *testing.T, prefix string) (*stage, *model, []string) {
	s := newAgentStage(t)
	m := &model{t: t, d: s.daemon, wrap: func(c step) agenttest.Call {
		return agenttest.Call{Name: prefix + c.tool, Args: encoded(c.args)}
	}, ready: func(agenttest.Request) bool { return true }}
	srv := agenttest.NewFunc(t, m.answer)
	return s, m, append(os.Environ(), "HOME="+s.home, "ANTHROPIC_BASE_URL="+srv.URL, "ANTHROPIC_API_KEY=sk-stub", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "IS_SANDBOX=1")
}

func (s *stage) claude(env []string, more ...string) func(ctx context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		cmd := exec.CommandContext(ctx, s.program("claude"), append([]string{"-p", "go"}, more...)...)
		cmd.Dir, cmd.Env = s.work, env
		return cmd.CombinedOutput()
	}
}

func claudeMCP(t *testing.T) {
	s, m, env := claude(t, "mcp__palyra__")
	s.palyraIn("mcp", "install", "claude-code")
	s.tap(filepath.Join(s.home, ".claude.json"))
	s.play(m, false, s.claude(env))
	s.keep("claude-code.jsonl")
}

func claudeHook(t *testing.T) {
	s, m, env := claude(t, "")
	s.palyraIn("hook", "install", "claude-code")
	s.play(m, true, s.claude(env))
}

// claudeInside: Claude Code itself in the sandbox.
func claudeInside(t *testing.T) {
	s, m, env := claude(t, "")
	profile := filepath.Join(s.daemon.home, "profiles", "claude.toml")
	if err := os.MkdirAll(filepath.Dir(profile), 0o700); err != nil {
		t.Fatal(err)
	}
	s.write(profile, fmt.Sprintf("includes = [\"node\"]\n[[mounts]]\nsource = %q\n", filepath.Join(s.dir, "node_modules")), 0o600)
	base := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "ANTHROPIC_BASE_URL="); ok {
			base = v
		}
	}
	s.inside = true
	settings, _ := json.Marshal(map[string]any{"apiKeyHelper": "echo sk-stub"})
	s.play(m, true, func(ctx context.Context) ([]byte, error) {
		cmd := s.palyra("agent", "run", "--no-stdin", "--profile", "claude", "--egress", strings.TrimPrefix(base, "http://"),
			"-e", "ANTHROPIC_BASE_URL="+base, "-e", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "-w", s.work, "--",
			s.program("claude"), "-p", "go", "--settings", string(settings), "--allowedTools", "Bash", "Read")
		cmd.Dir = s.work
		return cmd.CombinedOutput()
	})
}

// keep writes what a client sent into testdata, for 'make test' to send it again.
func (s *stage) keep(name string) {
	if os.Getenv("PALYRA_AGENTS_RECORD") == "" {
		return
	}
	raw, err := os.ReadFile(s.record)
	if err != nil {
		s.t.Error(err)
		return
	}
	text := strings.NewReplacer(s.work, "/w", s.home, "/home/me").Replace(string(raw))
	s.write(filepath.Join("..", "mcp", "serve", "testdata", name), text, 0o644)
}
