//go:build linux

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/stagetest"
)

func TestMCPUninstall(t *testing.T) {
	home := t.TempDir()
	env := []string{"HOME=" + home, "PALYRA_HOME=" + filepath.Join(home, "state")}
	file := filepath.Join(home, ".cursor", "mcp.json")
	if code, said, errs := alone(t, env, "mcp", "uninstall", "cursor"); code != exit.OK || !strings.Contains(said, "no entry of Palyra") {
		t.Errorf("no file: %d %s %s", code, said, errs)
	}
	stagetest.Fatal(t, os.MkdirAll(filepath.Dir(file), 0o700))
	const mine = `{"mcpServers": {"x": {"command": "y"}}, "n": 1.50}`
	stagetest.Fatal(t, os.WriteFile(file, []byte(mine), 0o600))
	code, _, errs := alone(t, env, "mcp", "install", "cursor")
	if code != exit.OK || !strings.Contains(errs, "undo: palyra mcp uninstall cursor\n") {
		t.Fatalf("%d %s", code, errs)
	}
	with, err := os.ReadFile(file)
	stagetest.Fatal(t, err)
	code, out, errs := alone(t, env, "mcp", "uninstall", "cursor", "--print")
	if now, err := os.ReadFile(file); code != exit.OK || err != nil || string(now) != string(with) ||
		!strings.HasPrefix(out, `"palyra": {`) || strings.Contains(out, `"x"`) || !strings.Contains(errs, file) {
		t.Errorf("--print: %d %v %s %s", code, err, out, errs)
	}
	code, out, errs = alone(t, env, "mcp", "uninstall", "cursor")
	now, err := os.ReadFile(file)
	if code != exit.OK || err != nil || string(now) != mine || !strings.Contains(out, file+".before-palyra") ||
		!strings.Contains(errs, "start Cursor anew") {
		t.Errorf("%d %v %s %s\n%s", code, err, out, errs, now)
	}
	if kept, err := os.ReadFile(file + ".before-palyra"); err != nil || string(kept) != mine {
		t.Errorf("%v %s", err, kept)
	}
	for _, more := range [][]string{nil, {"--print"}} {
		code, out, _ = alone(t, env, append([]string{"mcp", "uninstall", "cursor"}, more...)...)
		if code != exit.OK || !strings.Contains(out, "no entry of Palyra") {
			t.Errorf("again %v: %d %s", more, code, out)
		}
	}
}

// Whatever install wrote for a project, uninstall finds, also with a daemon elsewhere.
func TestMCPUninstallInAWorkspace(t *testing.T) {
	work := t.TempDir()
	env := []string{"HOME=" + t.TempDir(), "PALYRA_REMOTE=far"}
	if code, _, errs := alone(t, env, "mcp", "install", "codex", "--workspace", work); code != exit.OK ||
		!strings.Contains(errs, "undo: palyra mcp uninstall codex --workspace "+work) {
		t.Fatalf("%d %s", code, errs)
	}
	file := filepath.Join(work, ".codex", "config.toml")
	for _, want := range []bool{true, false} {
		code, out, errs := alone(t, env, "mcp", "uninstall", "codex", "--workspace", work, "--json")
		var done map[string]any
		if err := json.Unmarshal([]byte(out), &done); code != exit.OK || err != nil || done["client"] != "codex" || done["path"] != file ||
			done["changed"] != want {
			t.Errorf("%d %v %s %s", code, err, out, errs)
		}
		if gone := done["removed"] == true; gone != want {
			t.Errorf("the file: %s", out)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 0 { // nothing stays in the repository
		t.Errorf("%v %q", err, left)
	}
}

func TestMCPUninstallRefuses(t *testing.T) {
	home := t.TempDir()
	env := []string{"HOME=" + home}
	for _, args := range []string{"emacs", "", "cursor vscode"} {
		if code, out, said := alone(t, env, append([]string{"mcp", "uninstall"}, strings.Fields(args)...)...); code != exit.Usage || out != "" {
			t.Errorf("%q: %d %s %s", args, code, out, said)
		}
	}
	if code, _, said := alone(t, env, "mcp", "uninstall", "goose", "--workspace", home); code == exit.OK ||
		!strings.Contains(said, "leave --workspace out") {
		t.Errorf("%d %s", code, said)
	}
	if code, _, said := alone(t, nil, "mcp", "uninstall", "cursor"); code == exit.OK || !strings.Contains(said, "set HOME") {
		t.Errorf("no home: %d %s", code, said)
	}
	file := filepath.Join(home, ".claude.json")
	for _, mine := range []string{"{ // mine\n}", `{"mcpServers":{"palyra":{"command":"other"}}}`} {
		stagetest.Fatal(t, os.WriteFile(file, []byte(mine), 0o600))
		for _, more := range [][]string{nil, {"--print"}} {
			code, _, said := alone(t, env, append([]string{"mcp", "uninstall", "claude-code"}, more...)...)
			if raw, err := os.ReadFile(file); code == exit.OK || err != nil || string(raw) != mine || !strings.Contains(said, "by hand") {
				t.Errorf("%d %v %q %s", code, err, raw, said)
			}
		}
	}
	stagetest.
		// What a project's file says is made safe to look at.
		Fatal(t, os.WriteFile(filepath.Join(home, ".mcp.json"),
			[]byte("{\"mcpServers\":{\"palyra\":{\"command\":\"\u202e\",\"args\":[\"mcp\",\"serve\"]}}}"), 0o600))
	if code, out, _ := alone(t, env, "mcp", "uninstall", "claude-code", "--workspace", home, "--print"); code != exit.OK ||
		strings.Contains(out, "\u202e") || !strings.Contains(out, `"serve"`) {
		t.Errorf("%d %q", code, out)
	}
}

func TestHookUninstall(t *testing.T) {
	work := t.TempDir()
	env := []string{"HOME=" + work, "PATH="}
	file := filepath.Join(work, ".claude", "settings.json")
	stagetest.Fatal(t, os.MkdirAll(filepath.Dir(file), 0o700))
	const mine = `{"model": "x"}`
	stagetest.Fatal(t, os.WriteFile(file, []byte(mine), 0o600))
	for _, at := range [][]string{{"--workspace", work}, nil} {
		place := append([]string{"claude-code"}, at...)
		code, _, errs := alone(t, env, append([]string{"hook", "install"}, place...)...)
		if code != exit.OK || !strings.Contains(errs, "undo: palyra hook uninstall "+strings.Join(place, " ")+"\n") {
			t.Fatalf("%d %s", code, errs)
		}
		code, out, errs := alone(t, env, append([]string{"hook", "uninstall"}, place...)...)
		now, err := os.ReadFile(file)
		if code != exit.OK || err != nil || string(now) != mine || !strings.Contains(out, "does not ask Palyra") ||
			!strings.Contains(out, file+".before-palyra") {
			t.Errorf("%d %v %s %s\n%s", code, err, out, errs, now)
		}
		if code, out, _ = alone(t, env, append([]string{"hook", "uninstall"}, place...)...); code != exit.OK ||
			!strings.Contains(out, "no hook of Palyra") {
			t.Errorf("a second time: %d %s", code, out)
		}
	}
	code, out, _ := alone(t, env, "hook", "uninstall", "claude-code", "--json")
	if want := `{"agent":"claude-code","path":"` + file + `","changed":false}` + "\n"; code != exit.OK || out != want {
		t.Errorf("%d %s", code, out)
	}
}

func TestHookUninstallRefuses(t *testing.T) {
	home := t.TempDir()
	env := []string{"HOME=" + home}
	for _, args := range []string{"", "emacs", "claude-code x", "claude-code --mode check"} {
		if code, out, said := alone(t, env, append([]string{"hook", "uninstall"}, strings.Fields(args)...)...); code != exit.Usage || out != "" {
			t.Errorf("%q: %d %s %s", args, code, out, said)
		}
	}
	if code, _, said := alone(t, nil, "hook", "uninstall", "claude-code"); code == exit.OK || !strings.Contains(said, "set HOME") {
		t.Errorf("no home: %d %s", code, said)
	}
	file := filepath.Join(home, ".claude", "settings.json")
	stagetest.Fatal(t, os.MkdirAll(filepath.Dir(file), 0o700))
	const mine = `{"hooks":{"PreToolUse":[{"hooks":[{"command":"audit"},{"command":"palyra hook claude-code"}]}]}}`
	stagetest.Fatal(t, os.WriteFile(file, []byte(mine), 0o600))
	code, _, said := alone(t, env, "hook", "uninstall", "claude-code")
	if raw, err := os.ReadFile(file); code == exit.OK || err != nil || string(raw) != mine || !strings.Contains(said, "by hand") {
		t.Errorf("%d %v %s %s", code, err, raw, said)
	}
}
