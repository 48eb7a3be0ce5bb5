package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra"
)

// namedKey is a key that an agent must not see.
const namedKey = "sk-ant-a-key-that-only-the-vault-has-0123456789"

// fakeAgent stands for an agent's program: it says how it was started.
const fakeAgent = `#!/bin/sh
echo "args: $*"
env | grep -E '^(ANTHROPIC|CLAUDE|IS_SANDBOX|DISABLE)' | sort
ls -d "$CLAUDE_CONFIG_DIR" && echo kept >> "$CLAUDE_CONFIG_DIR/notes" && cat "$CLAUDE_CONFIG_DIR/notes"
`

// TestAgentByName: `palyra agent run claude-code`, with a program of the test's own by that name: how it is started, what
// its room has, and that its key comes from the vault and from nowhere else.
func TestAgentByName(t *testing.T) {
	for _, who := range []string{"root", "user"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			s := &staging{daemon: newDaemon(t)}
			if who == "user" {
				s.as = s.ordinary(shipped...)
			} else {
				s.mustStart(shipped...)
				s.as = func(_ string, args ...string) *exec.Cmd { return s.palyra(args...) }
			}
			s.agentByName(t)
		})
	}
}

func (s *staging) agentByName(t *testing.T) {
	s.must("workspace", "add", s.work)
	tools := filepath.Join(filepath.Dir(s.work), "agents", "node_modules", ".bin")
	fake := filepath.Join(filepath.Dir(tools), "claude-code", "cli")
	if err := os.MkdirAll(filepath.Dir(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	s.write(fake, fakeAgent, 0o755)
	if err := os.Symlink("../claude-code/cli", filepath.Join(tools, "claude")); err != nil {
		t.Fatal(err)
	}
	named := func(env string, args ...string) *exec.Cmd {
		cmd := s.as("palyra", append([]string{"agent", "run", "--no-stdin"}, args...)...)
		cmd.Dir, cmd.Env = s.work, append(cmd.Environ(), "PATH="+tools+":/usr/bin:/bin")
		if env != "" {
			cmd.Env = append(cmd.Env, env)
		}
		return cmd
	}
	said := func(cmd *exec.Cmd, code int, want ...string) string {
		t.Helper()
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Fatalf("%v: exit %d, want %d\n%s", cmd.Args[1:], got, code, out)
		}
		for _, w := range want {
			if !strings.Contains(string(out), w) {
				t.Errorf("%v: no %q in\n%s", cmd.Args[1:], w, out)
			}
		}
		return string(out)
	}
	said(named("", "claude"), 2, "claude-code, codex, opencode, gemini", "palyra agent run -- claude")
	said(named("", "codex"), 125, "no program codex on your path")
	said(named("", "--print", "--json", "claude-code", "-p", "x"), 0, `"state":"missing"`, `"headless":true`, `"api.anthropic.com:443"`,
		`"platform.claude.com:443"`, fake)
	said(named("ANTHROPIC_API_KEY="+namedKey, "claude-code"), 126, "stands in your environment", "palyra vault put claude-code")
	said(named("", "-e", "ANTHROPIC_API_KEY="+namedKey, "claude-code"), 126, "would put the key on record", "palyra vault put claude-code")
	s.keyOfFile(t, named)

	for run := range 2 {
		cmd := named("ANTHROPIC_API_KEY="+namedKey, "claude-code", "-p", "say -e X=1 --json")
		var wg sync.WaitGroup
		wg.Go(func() { s.allowsNext(t) })
		out := said(cmd, 0, "args: --dangerously-skip-permissions -p say -e X=1 --json\n", "IS_SANDBOX=1", "DISABLE_AUTOUPDATER=1",
			"/home/agent/.cache/claude-code", strings.Repeat("kept\n", run+1))
		if !strings.Contains(out, "\nANTHROPIC_API_KEY=") || strings.Contains(out, namedKey) {
			t.Errorf("the key, or no placeholder:\n%s", out)
		}
		wg.Wait()
	}
	said(named("", "--park", "claude-code", "-p", "later"), 75, "parked: the start waits for an answer to", "run the same line again")
	s.allowsNext(t)
	said(named("", "--park", "claude-code", "-p", "later"), 0, "args: --dangerously-skip-permissions -p later\n")
	said(named("", "--print", "--json", "claude-code"), 0, `"state":"current"`, `"binding":"claude-code"`)
}

// keyOfFile moves a key of a file into the vault, and refuses one that others can read.
func (s *staging) keyOfFile(t *testing.T, named func(env string, args ...string) *exec.Cmd) {
	t.Helper()
	file := filepath.Join(s.work, "key")
	for _, mode := range []os.FileMode{0o644, 0o600} {
		s.put("key", namedKey+"\n")
		if strings.HasSuffix(t.Name(), "/root") {
			_ = os.Chown(file, 0, 0) // it is the person's own
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		cmd := named("", "--no-wait", "--key-file", file, "claude-code")
		out, _ := cmd.CombinedOutput()
		if want := map[os.FileMode]string{0o644: "chmod 600", 0o600: "is in the vault now"}[mode]; !strings.Contains(string(out), want) {
			t.Errorf("%o: no %q in\n%s", mode, want, out)
		}
		if strings.Contains(string(out), namedKey) {
			t.Errorf("%o: the key was printed", mode)
		}
	}
	_ = os.Remove(file)
}

// allowsNext waits for a question, looks at it, and allows it.
func (s *staging) allowsNext(t *testing.T) {
	for range 300 {
		out, _ := s.as("palyra", "approvals", "list", "--pending", "--json").Output()
		var page struct {
			Approvals []palyra.Approval `json:"approvals"`
		}
		_ = json.Unmarshal(out, &page)
		for _, a := range page.Approvals {
			if !slices.Contains(a.Plan.Argv, "-p") { // the one that --no-wait left open
				continue
			}
			if !slices.Equal(a.Plan.Egress, []string{"api.anthropic.com:443"}) || a.Plan.Profile != "claude-code" || !a.Plan.AgentSocket {
				t.Errorf("the question: %v %s", a.Plan.Egress, a.Plan.Profile)
			}
			yes := s.as("palyra", "approvals", "decide", string(a.ID), "allow", "--digest", string(a.PlanDigest))
			if out, err := yes.CombinedOutput(); err != nil {
				t.Errorf("%v %s", err, out)
			}
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	t.Error("nobody asked")
}
