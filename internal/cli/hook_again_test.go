//go:build linux

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/stagetest"
)

// An installation says what the hook had been told before and is told no more, and names no file as the one from before
// Palyra that is none.
func TestHookInstallAgain(t *testing.T) {
	home := t.TempDir()
	env := []string{"HOME=" + home, "PATH=", "PALYRA_HOME=" + filepath.Join(home, "state")}
	install := func(agent string, more ...string) string {
		t.Helper()
		code, out, errs := alone(t, env, append([]string{"hook", "install", agent}, more...)...)
		if code != exit.OK || strings.Contains(out, "before-palyra") {
			t.Errorf("%s %v: %d %s %s", agent, more, code, out, errs)
		}
		return out
	}
	for _, agent := range []string{"claude-code", "codex", "gemini"} {
		if out := install(agent, "--observe", "--own-server", "palyra"); strings.Contains(out, "until now") {
			t.Errorf("the first time: %s", out)
		}
		if out := install(agent, "--observe", "--own-server", "palyra"); !strings.Contains(out, "has the hook already") {
			t.Errorf("as it was: %s", out)
		}
		out := install(agent)
		for _, want := range []string{
			"was observed until now, and is held", "palyra hook install " + agent + " --observe\n", "had --own-server until now",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in %s", agent, want, out)
			}
		}
		code, out, errs := alone(t, env, "hook", "uninstall", agent)
		if code != exit.OK || !strings.Contains(out, "it is gone") || strings.Contains(out+errs, "before-palyra") {
			t.Errorf("%s: %d %s %s", agent, code, out, errs)
		}
	}
	if code, _, errs := alone(t, env, "hook", "install", "gemini", "--workspace", filepath.Join(home, "nope")); code == exit.OK ||
		!strings.Contains(errs, "nope is no directory") {
		t.Errorf("%d %s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(home, "nope")); err == nil {
		t.Error("a directory that was mistyped is there now")
	}
	for _, line := range [][]string{{"hook", "install", "claude"}, {"hook", "doctor", "claude"}, {"agent", "run", "claude"}} {
		if code, _, errs := alone(t, env, line...); code != exit.Usage || !strings.Contains(errs, "did you mean claude-code?") {
			t.Errorf("%v: %d %s", line, code, errs)
		}
	}
}

// Codex does not start with settings that are no TOML, so the hook is not installed beside them; what Codex was told of
// the hook goes with it.
func TestHookOfCodexAndItsSettings(t *testing.T) {
	home := t.TempDir()
	env := []string{"HOME=" + home, "PATH="}
	config, hooks := filepath.Join(home, ".codex", "config.toml"), filepath.Join(home, ".codex", "hooks.json")
	stagetest.Fatal(t, os.MkdirAll(filepath.Dir(config), 0o700))
	stagetest.Fatal(t, os.WriteFile(config, []byte("model = \"x\"\nbroken = [\n"), 0o600))
	code, _, errs := alone(t, env, "hook", "install", "codex")
	if _, err := os.Stat(hooks); code == exit.OK || err == nil || !strings.Contains(errs, config) ||
		!strings.Contains(errs, "not valid TOML: see line 2") {
		t.Errorf("%d %v %s", code, err, errs)
	}
	const mine = "model = \"x\"\n"
	trusted := mine + "\n[hooks.state.\"" + hooks + ":pre_tool_use:0:0\"]\ntrusted_hash = \"sha256:1\"\n"
	for _, c := range []struct{ before, says, after string }{
		{mine, "took the hook out", mine},
		{trusted, "that Codex trusts it is out of " + config, mine},
		{trusted + "enabled = true\n", "more than a digest", trusted + "enabled = true\n"},
	} {
		stagetest.Fatal(t, os.WriteFile(config, []byte(c.before), 0o600))
		if code, _, errs = alone(t, env, "hook", "install", "codex"); code != exit.OK {
			t.Fatal(errs)
		}
		code, out, errs := alone(t, env, "hook", "uninstall", "codex")
		raw, err := os.ReadFile(config)
		if code != exit.OK || err != nil || !strings.Contains(out+errs, c.says) || strings.TrimSpace(string(raw)) != strings.TrimSpace(c.after) {
			t.Errorf("%q: %d %s %s\n%s", c.says, code, out, errs, raw)
		}
	}
}

// Where no daemon answers, that is what is said: of an approval, and before an agent starts that will need one.
func TestNoDaemonIsSaidFirst(t *testing.T) {
	env := []string{"HOME=" + t.TempDir(), "PALYRA_HOME=" + t.TempDir()}
	for _, answer := range []string{"allow", "deny"} {
		code, _, errs := alone(t, env, "approvals", "decide", "nope", answer)
		if code != exit.NoDaemon || !strings.HasPrefix(errs, "palyra: no daemon listens") || strings.Contains(errs, "digest") {
			t.Errorf("%s: %d %s", answer, code, errs)
		}
	}
	if _, out, errs := alone(t, env, "acp", "--", "/bin/true"); out != "" || !strings.Contains(errs, "no daemon listens") ||
		!strings.Contains(errs, "palyra up") {
		t.Errorf("%s %s", out, errs)
	}
}
