//go:build linux

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/stagetest"
	"palyra/internal/mcp/install"
)

func TestMCPInstall(t *testing.T) {
	home := t.TempDir()
	env := []string{"HOME=" + home, "PALYRA_HOME=" + filepath.Join(home, "state")}
	code, out, _ := alone(t, env, "mcp", "install", "cursor", "--print")
	file := filepath.Join(home, ".cursor", "mcp.json")
	if _, err := os.Stat(file); code != exit.OK || err == nil || !strings.Contains(out, `"mcpServers"`) {
		t.Fatalf("--print: %d %v %s", code, err, out)
	}
	code, said, errs := alone(t, env, "mcp", "install", "cursor")
	raw, err := os.ReadFile(file)
	if code != exit.OK || err != nil || string(raw) != out || !strings.Contains(said, file) {
		t.Fatalf("%d %v %s %s\n%s", code, err, said, errs, raw)
	}
	var got struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	self, _ := os.Executable()
	if err := json.Unmarshal(raw, &got); err != nil || got.Servers["palyra"].Command != self {
		t.Errorf("%v %+v", err, got)
	}
	if args := strings.Join(got.Servers["palyra"].Args, " "); args != "--home "+filepath.Join(home, "state")+" mcp serve" {
		t.Errorf("args %q", args)
	}
	if code, said, _ = alone(t, env, "mcp", "install", "cursor"); code != exit.OK || !strings.Contains(said, "already") {
		t.Errorf("again: %d %s", code, said)
	}
	code, said, _ = alone(t, env, "mcp", "install", "vscode", "--workspace", home, "--json")
	var done install.Result
	if err := json.Unmarshal([]byte(said), &done); code != exit.OK || err != nil || !done.Changed ||
		done.Path != filepath.Join(home, ".vscode", "mcp.json") {
		t.Errorf("%d %v %s", code, err, said)
	}
}

func TestMCPInstallRefuses(t *testing.T) {
	home := t.TempDir()
	env := []string{"HOME=" + home}
	if code, _, said := alone(t, env, "mcp", "install", "emacs"); code != exit.Usage || !strings.Contains(said, "claude-code") {
		t.Errorf("%d %s", code, said)
	}
	if code, _, said := alone(t, env, "mcp", "install", "goose", "--workspace", home); code == exit.OK || !strings.Contains(said, "remedy") {
		t.Errorf("%d %s", code, said)
	}
	file := filepath.Join(home, ".claude.json")
	const mine = "{ // mine\n}"
	if err := os.WriteFile(file, []byte(mine), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, said := alone(t, env, "mcp", "install", "claude-code")
	if raw, err := os.ReadFile(file); code == exit.OK || err != nil || string(raw) != mine || !strings.Contains(said, "--print") {
		t.Errorf("%d %v %q %s", code, err, raw, said)
	}
}

// TestMCPInstallBelievesNoOtherHook: what a project's own file says, and what only looks
// like the hook, does not take the warning away.
func TestMCPInstallBelievesNoOtherHook(t *testing.T) {
	home, work := t.TempDir(), t.TempDir()
	env := []string{"HOME=" + home, "PALYRA_HOME=" + filepath.Join(home, "state"), "PATH=/nowhere"}
	mine, theirs := filepath.Join(home, ".claude", "settings.json"), filepath.Join(work, ".claude", "settings.json")
	stagetest.Fatal(t, os.MkdirAll(filepath.Dir(mine), 0o700))
	stagetest.Fatal(t, os.MkdirAll(filepath.Dir(theirs), 0o700))
	code, _, said := alone(t, env, "hook", "install", "claude-code", "--own-server", "palyra")
	real, err := os.ReadFile(mine)
	if code != exit.OK || err != nil {
		t.Fatal(said, err)
	}
	like := `{"hooks":{"PreToolUse":[{"matcher":"NoSuchTool","hooks":[{"type":"command",` +
		`"command":"true # hook claude-code --own-server palyra "}]}]}}`
	with := func(old, by string) string {
		t.Helper()
		if !strings.Contains(string(real), old) {
			t.Fatalf("no %s in %s", old, real)
		}
		return strings.Replace(string(real), old, by, 1)
	}
	const other, off = "is not the one that this program writes", "switch all hooks off"
	for name, test := range map[string]struct{ mine, theirs, want string }{
		"a project's that looks like it":   {"{}", like, other},
		"a project's that is it":           {"{}", string(real), other},
		"the person's that looks like it":  {like, "{}", other},
		"for another tool":                 {with(`"*"`, `"Nothing"`), "{}", other},
		"of another kind":                  {with(`"type": "command"`, `"type": "prompt"`), "{}", other},
		"that starts another program":      {with(`"command": "/`, `"command": "/tmp/`), "{}", other},
		"that lets a failure pass":         {with(" || exit 2", ""), "{}", other},
		"that does not wait":               {with(`"type":`, `"async": true, "type":`), "{}", other},
		"with all hooks off":               {with("{", `{"disableAllHooks": true,`), "{}", off},
		"with all hooks off in a project":  {string(real), `{"disableAllHooks": true}`, off},
		"the person's, beside a project's": {string(real), like, ""},
	} {
		stagetest.Fatal(t, os.WriteFile(mine, []byte(test.mine), 0o600))
		stagetest.Fatal(t, os.WriteFile(theirs, []byte(test.theirs), 0o600))
		code, _, said := alone(t, env, "mcp", "install", "claude-code", "--workspace", work)
		already := strings.Contains(said, "behind the gate already")
		warned := strings.Contains(said, "does not pass Palyra") && strings.Contains(said, "to put them behind the gate:")
		if code != exit.OK || already != (test.want == "") || warned == already || !strings.Contains(said, test.want) {
			t.Errorf("%s: %d %s", name, code, said)
		}
	}
}

// TestMCPInstallSaysWhatItSets: clients that would ask by themselves are told not to, and
// people are told that, and that the client's own tools do not pass Palyra; uninstall
// takes back all of it.
func TestMCPInstallSaysWhatItSets(t *testing.T) {
	home := t.TempDir()
	env := []string{"HOME=" + home, "PALYRA_HOME=" + filepath.Join(home, "state"), "PATH=/nowhere"}
	settings := filepath.Join(home, ".claude", "settings.json")
	const mine = "{\n  \"permissions\": {\n    \"allow\": [\"Read\"]\n  }\n}\n"
	stagetest.Fatal(t, os.MkdirAll(filepath.Dir(settings), 0o700))
	stagetest.Fatal(t, os.WriteFile(settings, []byte(mine), 0o600))
	code, _, said := alone(t, env, "mcp", "install", "claude-code")
	raw, err := os.ReadFile(settings)
	if code != exit.OK || err != nil || !strings.Contains(string(raw), `"mcp__palyra"`) || strings.Contains(string(raw), "PreToolUse") {
		t.Fatalf("%d %v %s\n%s", code, err, said, raw)
	}
	for _, want := range []string{
		`set: "mcp__palyra" in permissions.allow`, "does not pass Palyra",
		"palyra hook install claude-code --own-server palyra",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not said:\n%s", want, said)
		}
	}
	stagetest.Fatal(t, os.Remove(settings))
	for own, want := range map[string]string{"": "the hook asks about Palyra's own tools as well", "palyra": "behind the gate already"} {
		if code, _, said := alone(t, env, "hook", "install", "claude-code", "--own-server", own); code != exit.OK {
			t.Fatal(said)
		}
		code, _, said = alone(t, env, "mcp", "install", "claude-code")
		if code != exit.OK || !strings.Contains(said, want) || strings.Contains(said, "does not pass Palyra") ||
			strings.Contains(said, "as well") != (own == "") {
			t.Errorf("with the hook for %q: %d %s", own, code, said)
		}
	}
	stagetest.Fatal(t, os.WriteFile(settings, []byte(mine), 0o600))
	code, _, said = alone(t, env, "mcp", "install", "claude-code", "--hook")
	if raw, err = os.ReadFile(settings); code != exit.OK || err != nil || !strings.Contains(string(raw), "--own-server palyra || exit 2") ||
		!strings.Contains(said, "version is not known") {
		t.Errorf("%d %v %s\n%s", code, err, said, raw)
	}
	code, out, said := alone(t, env, "mcp", "install", "claude-code", "--hook", "--json")
	var one struct {
		Client string
		Hook   struct{ Command string }
	}
	if err := json.Unmarshal([]byte(out), &one); code != exit.OK || err != nil || one.Client != "claude-code" ||
		!strings.Contains(one.Hook.Command, "hook claude-code") {
		t.Errorf("not one object: %d %v %s\n%s", code, err, said, out)
	}
	for _, args := range [][]string{{"hook", "uninstall", "claude-code"}, {"mcp", "uninstall", "claude-code"}} {
		if code, _, said := alone(t, env, args...); code != exit.OK {
			t.Fatalf("%v: %d %s", args, code, said)
		}
	}
	var got, want any
	raw, err = os.ReadFile(settings)
	if stagetest.Fatal(t, err); json.Unmarshal(raw, &got) != nil || json.Unmarshal([]byte(mine), &want) != nil ||
		!reflect.DeepEqual(got, want) {
		t.Errorf("not as it was:\n%s", raw)
	}
	code, _, said = alone(t, env, "mcp", "install", "codex")
	if code != exit.OK || !strings.Contains(said, `default_tools_approval_mode = "approve"`) ||
		!strings.Contains(said, "does not pass Palyra") {
		t.Errorf("%d %s", code, said)
	}
	if code, _, said = alone(t, env, "mcp", "install", "goose", "--hook"); code != exit.Usage {
		t.Errorf("%d %s", code, said)
	}
}

// What --print prints is all that would be written.
func TestMCPInstallPrintsAll(t *testing.T) {
	home := t.TempDir()
	env := []string{"HOME=" + home, "PALYRA_HOME=" + filepath.Join(home, "state"), "PATH=/nowhere"}
	code, out, said := alone(t, env, "mcp", "install", "claude-code", "--hook", "--print")
	for _, want := range []string{`"mcpServers"`, `"mcp__palyra"`, "PreToolUse", "--own-server palyra || exit 2"} {
		if code != exit.OK || !strings.Contains(out, want) {
			t.Errorf("%d: %s is not in\n%s%s", code, want, out, said)
		}
	}
	if strings.Count(said, "these lines go into") != 3 || !strings.Contains(said, filepath.Join(home, ".claude", "settings.json")) {
		t.Error(said)
	}
	code, out, _ = alone(t, env, "mcp", "install", "claude-code", "--hook", "--print", "--json")
	var one struct {
		Lines string
		Rule  string `json:"allow_lines"`
		Hook  struct{ Lines string }
	}
	if err := json.Unmarshal([]byte(out), &one); code != exit.OK || err != nil || one.Lines == "" || one.Rule == "" || one.Hook.Lines == "" {
		t.Errorf("%d %v %s", code, err, out)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) != 0 {
		t.Errorf("something was written: %v %v", left, err)
	}
}

// TestMCPServeStartsNoDaemon: without one it serves, says on stderr that it waits for one, and leaves nothing in the state.
func TestMCPServeStartsNoDaemon(t *testing.T) {
	home := t.TempDir()
	env := []string{"HOME=" + t.TempDir(), "PALYRA_HOME=" + home}
	code, out, said := alone(t, env, "mcp", "serve")
	if code != exit.OK || out != "" || !strings.Contains(said, "no daemon answers") {
		t.Errorf("%d %q %s", code, out, said)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) != 0 {
		t.Errorf("%v %v", left, err)
	}
}

// TestMCPServeSpeaksOnStdout: nothing but the protocol is there.
func TestMCPServeSpeaksOnStdout(t *testing.T) {
	s := stagetest.Open(t, Main, nil)
	cmd := s.Command("mcp", "serve")
	cmd.Stdin = strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, `{"jsonrpc":"2.0"`) && !strings.HasPrefix(line, `{"result"`) && !json.Valid([]byte(line)) {
			t.Errorf("%q is no message", line)
		}
	}
}

func TestMCPServeRefuses(t *testing.T) {
	s := stagetest.Open(t, Main, nil)
	env := []string{"PALYRA_HOME=" + s.Home, "HOME=" + s.Home}
	for _, args := range [][]string{
		{"--http", "0.0.0.0:0"}, {"--http", "example.com:1"}, {"--http", "127.0.0.1"}, {"--token-file", "x"}, {"--pending-after", "soon"},
	} {
		if code, _, said := alone(t, env, append([]string{"mcp", "serve"}, args...)...); code != exit.Usage {
			t.Errorf("%v: %d %s", args, code, said)
		}
	}
	open := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(open, []byte(strings.Repeat("x", 26)), 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, said := alone(t, env, "mcp", "serve", "--http", "127.0.0.1:0", "--token-file", open)
	if code == exit.OK || !strings.Contains(said, "chmod 600") {
		t.Errorf("a token that others can read: %d %s", code, said)
	}
}
