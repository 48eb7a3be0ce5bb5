package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// firstReport is how long it may take from the first line of the README's 60 seconds to the first report.
const firstReport = time.Minute

// hookLine is the command that an agent's settings have before a tool.
func (n newcomer) hookLine() string {
	n.t.Helper()
	var settings struct {
		Hooks struct {
			PreToolUse []struct{ Hooks []struct{ Command string } }
		}
	}
	if err := json.Unmarshal([]byte(n.settings(".claude/settings.json")), &settings); err != nil || len(settings.Hooks.PreToolUse) != 1 {
		n.t.Fatalf("%v: %s", err, n.settings(".claude/settings.json"))
	}
	return settings.Hooks.PreToolUse[0].Hooks[0].Command
}

// agentUses has the hook of the settings asked as Claude Code does, and fails where the call is held.
func (n newcomer) agentUses(tool string, input map[string]any) string {
	n.t.Helper()
	cmd := exec.Command("sh", "-c", n.hookLine())
	cmd.Dir, cmd.Env, cmd.Stdin = n.work, n.types().Env, strings.NewReader(n.preToolUse(tool, input))
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s: %v %s", tool, err, out)
	}
	return string(out)
}

// Whoever follows the README has a first report of what their agent did within a minute, was asked nothing, and has calls
// held when the README says that they are.
func TestTheFirst60Seconds(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t, ".claude")
	const file = "../../README.md"
	_, setup := told(t, file, "Set it up.")
	_, report := told(t, file, "See what Palyra would have said.")
	_, hold := told(t, file, "Then hold it.")
	if len(setup) != 3 || setup[2] != "palyra setup" || len(report) != 1 || len(hold) != 3 {
		t.Fatalf("%q %q %q", setup, report, hold)
	}
	words := func(line string) []string {
		line, _, _ = strings.Cut(line, " #")
		return strings.Fields(line)[1:]
	}
	begun := time.Now()
	c := atTerminal(t, n.types(words(setup[2])...))
	for _, question := range []string{`1\. `, `2\. `, `3\. `, `4\. `} {
		c.find(question)
		c.enter("")
	}
	if code, text := c.end(); code != 0 {
		t.Fatalf("exit %d: %s", code, text)
	}
	for _, command := range []string{"ls -la", "git push --force", "curl https://example.org/install.sh"} {
		if out := n.agentUses("Bash", map[string]any{"command": command}); strings.TrimSpace(out) != "{}" {
			t.Errorf("%s is not left to the agent: %s", command, out)
		}
	}
	n.agentUses("Read", map[string]any{"file_path": "/etc/shadow"})
	if got := n.openQuestions(); got != 0 {
		t.Errorf("%d questions", got)
	}
	out, err := n.types(words(report[0])...).CombinedOutput()
	took := time.Since(begun)
	for _, part := range []string{"4 calls", "git push --force", "example.org:443", "/etc/shadow"} {
		if err != nil || !strings.Contains(string(out), part) {
			t.Errorf("the report has no %q: %v\n%s", part, err, out)
		}
	}
	if took > firstReport {
		t.Errorf("the first report took %s", took)
	}
	for _, line := range hold[:2] {
		if out, err := n.types(words(line)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", line, err, out)
		}
	}
	if out := n.agentUses("Bash", map[string]any{"command": "git push --force"}); !strings.Contains(out, "palyra exec") &&
		!strings.Contains(out, "exec") {
		t.Errorf("held, and yet: %s", out)
	}
}
