//go:build agents

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/agent/agenttest"
	"palyra/internal/hook"
	"palyra/internal/mcp/install"
)

// TestAgents drives the real programs, each way, against a model of the test's own, and
// writes a table of what each model was given.
func TestAgents(t *testing.T) {
	b := newTable(t)
	t.Cleanup(func() { b.write(t) })
	for name, way := range map[string]func(*testing.T, *table){
		"codex-exec": codexExec, "codex-window": codexWindow, "codex-sandbox": codexSandbox,
		"codex-hook": codexHook, "codex-hook-window": codexHookWindow,
		"claude-mcp": claudeMCP, "claude-hook": claudeHook, "claude-hook-window": claudeWindow,
		"claude-agent-run": claudeInside, "claude-agent-run-mcp": claudeInsideMCP,
		"opencode-mcp": opencodeMCP, "gemini-mcp": geminiMCP,
		"opencode-hook": opencodeHook, "gemini-hook": geminiHook, "copilot-hook": copilotHook, "claude-hook-matrix": claudeMatrix,
		"codex-hook-trust": codexTrust, "claude-park": claudePark, "claude-named": claudeNamed, "codex-named": codexNamed,
		"opencode-named": opencodeNamed, "gemini-named": geminiNamed,
		"claude-acp": claudeACP, "claude-agent-acp": claudeAgentACP, "codex-acp": codexACP,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way(t, b)
		})
	}
}

// codex prepares Codex for a model that it knows or does not.
func codex(t *testing.T, b *table, with tools, name string) (*stage, *model, []string) {
	s := newAgentStage(t, b, with)
	m := &model{t: t, d: s.daemon, wrap: func(c step) agenttest.ToolCall {
		if c.text != "" {
			return agenttest.ToolCall{Name: c.tool, Free: true, Args: []string{c.text}}
		}
		call := agenttest.ToolCall{Name: c.tool, Args: encoded(c.args)}
		if strings.HasPrefix(c.tool, "palyra_") {
			call.Namespace = "mcp__palyra"
		}
		return call
	}, ready: func(r agenttest.Request) bool {
		return with != palyras || strings.Contains(r.Raw, `"name":"mcp__palyra"`)
	}}
	srv := agenttest.NewFunc(t, m.answer)
	config := filepath.Join(s.home, ".codex", "config.toml")
	if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
		t.Fatal(err)
	}
	s.write(config, fmt.Sprintf(
		"model = %q\nmodel_provider = \"stub\"\n\n[model_providers.stub]\nname = \"stub\"\nbase_url = %q\nwire_api = \"responses\"\n\n"+
			"[projects.%q]\ntrust_level = \"trusted\"\n\n[sandbox_workspace_write]\nnetwork_access = true\n", name, srv.URL+"/v1", s.work), 0o600)
	if with == palyras {
		s.palyraIn("mcp", "install", "codex")
		s.tap(config)
	}
	return s, m, append(os.Environ(), "PWD="+s.work, "HOME="+s.home, "CODEX_HOME="+filepath.Dir(config))
}

// codexRun runs it without a window.
func (s *stage) codexRun(env []string, more ...string) func(ctx context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		cmd := exec.CommandContext(ctx, s.program("codex"), append([]string{"exec", "--skip-git-repo-check"}, append(more, "go")...)...)
		cmd.Dir, cmd.Env, cmd.WaitDelay = s.work, env, 5*time.Second // what it started may outlive it
		return cmd.CombinedOutput()
	}
}

func codexExec(t *testing.T, b *table) {
	s, m, env := codex(t, b, palyras, "stub")
	s.play(m, scenes(s.work, palyras), s.codexRun(env))
	s.keep("codex-exec.jsonl")
}

// codexWindow does the same in Codex's own window, and looks at what it shows while
// Palyra waits.
func codexWindow(t *testing.T, b *table) {
	s, m, env := codex(t, b, palyras, "stub")
	line := s.program("codex") + " -s read-only -a on-request"
	s.play(m, scenes(s.work, palyras), func(ctx context.Context) ([]byte, error) {
		shown := false
		return s.inWindow(ctx, env, line, func(screen string) ([]string, bool) {
			switch {
			case !m.asked() && strings.Contains(screen, "Ask Codex to do anything"):
				return []string{"go", "Enter"}, false
			case !shown && strings.Contains(screen, "Nothing is decided in this window"):
				shown = true
				if strings.Contains(screen, "Allow") {
					t.Errorf("an Allow that allows nothing:\n%s", screen)
				}
				return []string{"Enter"}, false
			}
			return nil, strings.Contains(screen, "• done")
		})
	})
}

// codexHook: Codex's own shell and editor behind the gate.
func codexHook(t *testing.T, b *table) {
	s, m, env := codex(t, b, codexes, "gpt-5.5")
	s.palyraIn("hook", "install", "codex")
	s.play(m, append(scenes(s.work, codexes), edits(s.work, codexes)...),
		s.codexRun(env, "-s", "workspace-write", "--dangerously-bypass-hook-trust"))
	s.play(m, []scene{s.picture()}, s.codexRun(env, "-s", "workspace-write", "--dangerously-bypass-hook-trust"))
	s.play(m, []scene{selfAnswered()}, s.codexRun(env, "-s", "danger-full-access", "--dangerously-bypass-hook-trust"))
}

// picture: Codex's reader of pictures, which takes any path, is asked about.
func (s *stage) picture() scene {
	file := filepath.Join(s.home, "outside.png")
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		s.t.Fatal(err)
	}
	s.write(file, b.String(), 0o600)
	return scene{
		name: "picture outside, denied", step: step{tool: "view_image", args: map[string]any{"path": file}}, want: refusedHook,
		answer: palyra.AnswerDeny, after: time.Second,
	}
}

// codexHookWindow trusts the hook in Codex's window, and uses it there and without one.
func codexHookWindow(t *testing.T, b *table) {
	s, m, env := codex(t, b, codexes, "gpt-5.5")
	s.palyraIn("hook", "install", "codex")
	line := s.program("codex") + " -s workspace-write -a never"
	all := append(scenes(s.work, codexes), edits(s.work, codexes)...)
	s.play(m, pick(all, "program", "write, allowed after 3 s", "write, denied"), func(ctx context.Context) ([]byte, error) {
		told, must := false, strings.HasPrefix(s.now, "write, allowed")
		out, err := s.inWindow(ctx, env, line, func(screen string) ([]string, bool) {
			told = told || strings.Contains(screen, install.HookStatus)
			switch {
			case strings.Contains(screen, "2. Use existing model"):
				return []string{"2"}, false
			case strings.Contains(screen, "Trust all and continue"):
				return []string{"2", "Enter"}, false
			case !m.asked() && strings.Contains(screen, "Ask Codex to do anything"):
				return []string{"go", "Enter"}, false
			}
			return nil, strings.Contains(screen, "• done")
		})
		if must && !told {
			t.Errorf("the window never said who waits:\n%s", out)
		}
		return out, err
	})
	s.play(m, pick(all, "program, allowed after 3 s", "program, denied"), s.codexRun(env, "-s", "workspace-write"))
}

// codexSandbox: in Codex's own sandbox the command says that it may not connect.
func codexSandbox(t *testing.T, b *table) {
	s, _, env := codex(t, b, palyras, "stub")
	cmd := exec.Command(s.program("codex"), "sandbox", bin(t, "palyra"), "--home", s.daemon.home, "exec", "--", "ls")
	cmd.Dir, cmd.Env = s.work, env
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "may not connect") || strings.Contains(string(out), "palyra up") {
		t.Errorf("%v %s", err, out)
	}
}

// claude prepares Claude Code.
func claude(t *testing.T, b *table, with tools) (*stage, *model, []string) {
	s := newAgentStage(t, b, with)
	m := &model{t: t, d: s.daemon, wrap: func(c step) agenttest.ToolCall {
		if strings.HasPrefix(c.tool, "palyra_") {
			c.tool = "mcp__palyra__" + c.tool
		}
		return agenttest.ToolCall{Name: c.tool, Args: encoded(c.args)}
	}, ready: func(agenttest.Request) bool { return true }}
	srv := agenttest.NewFunc(t, m.answer)
	return s, m, append(os.Environ(), "PWD="+s.work, "HOME="+s.home, "ANTHROPIC_BASE_URL="+srv.URL, "ANTHROPIC_API_KEY="+stubKey,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "IS_SANDBOX=1")
}

const stubKey = "sk-stub-for-a-model-of-the-tests-own"

func (s *stage) claude(env []string, more ...string) func(ctx context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		cmd := exec.CommandContext(ctx, s.program("claude"), append([]string{"-p", "go"}, more...)...)
		cmd.Dir, cmd.Env, cmd.WaitDelay = s.work, env, 5*time.Second // what it started may outlive it
		return cmd.CombinedOutput()
	}
}

func claudeMCP(t *testing.T, b *table) {
	s, m, env := claude(t, b, palyras)
	s.palyraIn("mcp", "install", "claude-code")
	s.tap(filepath.Join(s.home, ".claude.json"))
	s.play(m, scenes(s.work, palyras), s.claude(env))
	s.keep("claude-code.jsonl")
}

func claudeHook(t *testing.T, b *table) {
	s, m, env := claude(t, b, claudes)
	s.palyraIn("hook", "install", "claude-code")
	s.play(m, append(scenes(s.work, claudes), edits(s.work, claudes)...), s.claude(env))
}

// claudeMatrix: Claude Code's own tools, with everything allowed in it.
func claudeMatrix(t *testing.T, b *table) {
	s, m, env := claude(t, b, claudes)
	s.hooked(m, hook.ClaudeCode, s.claude(env, "--dangerously-skip-permissions"))
}

// codexTrust: 'install' has Codex trust the hook, and codex exec asks it then; a hook that is not trusted it skips, and
// the doctor says so.
func codexTrust(t *testing.T, b *table) {
	s, m, env := codex(t, b, codexes, "gpt-5.5")
	s.palyraIn("hook", "install", "codex")
	s.play(m, pick(scenes(s.work, codexes), "program", "program, denied"), s.codexRun(env, "-s", "workspace-write"))
	s.examined(hook.Codex)
	config := filepath.Join(s.home, ".codex", "config.toml")
	raw, err := os.ReadFile(config)
	if err != nil || !strings.Contains(string(raw), "trusted_hash = 'sha256:") {
		t.Fatalf("%v\n%s", err, raw)
	}
	s.write(config, strings.Replace(string(raw), "trusted_hash = 'sha256:", "trusted_hash = 'sha256:0", 1), 0o600)
	cmd := s.palyra("hook", "doctor", "codex", "--json")
	cmd.Env = append(cmd.Environ(), "HOME="+s.home, "PATH="+filepath.Join(s.dir, "node_modules", ".bin")+":"+os.Getenv("PATH"))
	out, err := cmd.Output()
	if err == nil || !strings.Contains(string(out), `"verdict":"passes"`) || !strings.Contains(string(out), "skips it") {
		t.Errorf("a hook that is not trusted, by the doctor: %v %s", err, out)
	}
}

// claudeWindow: what a person sees in Claude Code's window while the hook waits.
func claudeWindow(t *testing.T, b *table) {
	s, m, env := claude(t, b, claudes)
	s.palyraIn("hook", "install", "claude-code")
	known, _ := json.Marshal(map[string]any{ // what it asks of somebody new
		"hasCompletedOnboarding": true, "theme": "dark",
		"customApiKeyResponses": map[string]any{"approved": []string{stubKey[len(stubKey)-20:]}},
		"projects":              map[string]any{s.work: map[string]any{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
	})
	s.write(filepath.Join(s.home, ".claude.json"), string(known), 0o600)
	all := append(scenes(s.work, claudes), edits(s.work, claudes)...)
	s.play(m, pick(all, "program, allowed after 3 s", "write, allowed after 3 s", "write, allowed after 80 s", "write, denied"),
		func(ctx context.Context) ([]byte, error) {
			told, must := "", strings.HasPrefix(s.now, "write, allowed")
			out, err := s.inWindow(ctx, env, s.program("claude"), func(screen string) ([]string, bool) {
				if l := lineWith(screen, install.HookStatus); l != "" {
					told = l
				}
				if !m.asked() && strings.Contains(screen, "❯") {
					return []string{"go", "Enter"}, false
				}
				return nil, strings.Contains(screen, "● done")
			})
			if must && told == "" {
				t.Errorf("the window never said who waits:\n%s", out)
			}
			return out, err
		})
}

// claudeRoom prepares Claude Code itself in the sandbox.
func (s *stage) claudeRoom(env []string, more ...string) func(ctx context.Context) ([]byte, error) {
	profile := filepath.Join(s.daemon.home, "profiles", "claude.toml")
	if err := os.MkdirAll(filepath.Dir(profile), 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.write(profile, fmt.Sprintf("includes = [\"node\"]\n[[mounts]]\nsource = %q\n", filepath.Join(s.dir, "node_modules")), 0o600)
	base := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "ANTHROPIC_BASE_URL="); ok {
			base = v
		}
	}
	settings, _ := json.Marshal(map[string]any{"apiKeyHelper": "echo sk-stub"})
	s.inside = true
	return func(ctx context.Context) ([]byte, error) {
		cmd := s.palyra(append([]string{
			"agent", "run", "--no-stdin", "--profile", "claude", "--egress", strings.TrimPrefix(base, "http://"),
			"-e", "ANTHROPIC_BASE_URL=" + base, "-e", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "-w", s.work, "--",
			s.program("claude"), "-p", "go", "--settings", string(settings),
		}, more...)...)
		cmd.Dir = s.work
		return cmd.CombinedOutput()
	}
}

// claudeInside: its own tools ask nothing in there.
func claudeInside(t *testing.T, b *table) {
	s, m, env := claude(t, b, claudes)
	all := scenes(s.work, claudes)
	for i := range all {
		all[i].answer = ""
	}
	run := s.claudeRoom(env, "--allowedTools", "Bash", "Read", "Write")
	s.play(m, append(pick(all, "read", "read 24390 bytes", "program"), scene{
		name: "program, nobody is asked", step: toRun(claudes, "touch made && echo made"), want: "made", makes: "made",
	}, scene{
		name: "what is not there", step: toRun(claudes, "cat "+s.daemon.home+"/config.toml "+s.home+"; ls -a "+s.daemon.home+" || echo none"),
		want: `(?s).*No such file.*none`,
	}), run)
}

// claudeInsideMCP: Palyra's tools, called from in there, ask as everywhere.
func claudeInsideMCP(t *testing.T, b *table) {
	s, m, env := claude(t, b, palyras)
	server := `{"mcpServers":{"palyra":{"type":"stdio","command":"palyra","args":["mcp","serve"]}}}`
	s.play(m, scenes(s.work, palyras), s.claudeRoom(env, "--mcp-config", server, "--allowedTools", "mcp__palyra"))
}
