package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// save writes a file for a test.
func save(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What is kept beside a file is the file as it was before Palyra, whatever Palyra writes into it and how often; where there
// was none, none is named.
func TestKeepsTheFileFromBefore(t *testing.T) {
	hooks := func(path string, f HookForm, more string) Result {
		done, err := WriteHook(path, HookEntry{Form: f, Command: "/opt/p" + f.mark + more})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	for name, f := range map[string]HookForm{
		"claude": ClaudeHooks, "codex": CodexHooks, "gemini": GeminiHooks, "cursor": CursorHooks, "copilot": CopilotHooks,
		"opencode": OpenCodePlugin,
	} {
		none := filepath.Join(t.TempDir(), "settings")
		hooks(none, f, " --observe")
		if done := hooks(none, f, ""); done.Backup != "" {
			t.Errorf("%s: there was no file, and %s is it", name, done.Backup)
		}
		if done, err := RemoveHook(f, none); err != nil || !done.Removed || done.Backup != "" {
			t.Errorf("%s: %+v %v", name, done, err)
		}
		if left, _ := os.ReadDir(filepath.Dir(none)); len(left) != 0 {
			t.Errorf("%s: left %v", name, left)
		}
		if f.whole != nil {
			continue
		}
		const mine = `{"home": "/home/x/palyra", "version": 1}`
		path := filepath.Join(t.TempDir(), "settings")
		save(t, path, mine)
		for _, more := range []string{" --observe", "", " --mode check"} {
			if kept, err := os.ReadFile(hooks(path, f, more).Backup); err != nil || string(kept) != mine {
				t.Errorf("%s: %v %s", name, err, kept)
			}
		}
		if f.mark == ClaudeHooks.mark {
			if done, err := Allow(path, true); err != nil || done.Backup == "" {
				t.Errorf("%+v %v", done, err)
			}
		}
		done, err := RemoveHook(f, path)
		if kept, rerr := os.ReadFile(done.Backup); err != nil || rerr != nil || string(kept) != mine {
			t.Errorf("%s: %v %v %s", name, err, rerr, kept)
		}
		// One that an older version made has the hook in it.
		hooks(none, f, "")
		raw, _ := os.ReadFile(none)
		save(t, none+keptAs, string(raw))
		if done, err := RemoveHook(f, none); err != nil || !done.Removed || done.Backup != "" {
			t.Errorf("%s, with a wrong one: %+v %v", name, done, err)
		}
	}
}

// An error about a file names it, says what is wrong with it and where, and what to do; never what is only Palyra's.
func TestErrorsNameTheFile(t *testing.T) {
	dir := t.TempDir()
	to := filepath.Join(dir, "dotfiles.json")
	save(t, to, "{}")
	link, gone := filepath.Join(dir, "link.json"), filepath.Join(dir, "gone.json")
	for name, target := range map[string]string{link: to, gone: filepath.Join(dir, "nowhere")} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	texts := map[string]string{
		"[]": "not one JSON object: what is in it is an array", "{\n  \"a\": 1,\n  \"b\": {": "does not end (line 3)",
		"{\n  // mine\n}": "line 2: invalid character '/'", `{"hooks": []}`: `"hooks" is not a table`, "": "",
	}
	paths := map[string]string{link: "a link to " + to, gone: "leads to no file", dir: "no plain file"}
	for text, want := range texts {
		path := filepath.Join(dir, "of "+strings.ReplaceAll(want, "/", ""))
		save(t, path, text)
		paths[path] = want
	}
	for path, want := range paths {
		_, err := WriteHook(path, HookEntry{Form: ClaudeHooks, Command: ours})
		if want == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	file := filepath.Join(dir, "file")
	save(t, file, "")
	_, err := WriteHook(filepath.Join(file, "settings.json"), HookEntry{Form: ClaudeHooks, Command: ours})
	if err == nil || strings.Contains(err.Error(), "lstat") || !strings.Contains(err.Error(), "cannot be read: not a directory") {
		t.Error(err)
	}
	if os.Geteuid() == 0 {
		t.Log("UNPROVEN HERE: root may write everywhere")
		return
	}
	closed := filepath.Join(dir, "closed")
	save(t, filepath.Join(closed, "settings.json"), "{}")
	if err := os.Chmod(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(closed, 0o700) })
	_, err = WriteHook(filepath.Join(closed, "settings.json"), HookEntry{Form: ClaudeHooks, Command: ours})
	if err == nil || strings.Contains(err.Error(), ".tmp") || !strings.Contains(err.Error(), "permission denied") {
		t.Error(err)
	}
}

// The digest that an installation has Codex trust goes with the hook, and nothing else does.
func TestDistrustCodexHooks(t *testing.T) {
	dir := t.TempDir()
	file, config := filepath.Join(dir, "hooks.json"), filepath.Join(dir, "config.toml")
	if _, err := WriteHook(file, HookEntry{Form: CodexHooks, Command: "/opt/p hook codex"}); err != nil {
		t.Fatal(err)
	}
	keys := CodexHookKeys(file)
	if len(keys) != 1 || keys[0] != file+":pre_tool_use:0:0" {
		t.Fatal(keys)
	}
	const mine = "model = \"x\" # mine\n\n[hooks.state.\"/other:pre_tool_use:0:0\"]\ntrusted_hash = \"sha256:1\"\n"
	for _, text := range []string{"", "model = \"x\"\n", mine, "[projects.\"/w\"]\ntrust_level = \"trusted\"\n"} {
		_ = os.Remove(config)
		_ = os.Remove(config + keptAs)
		if text != "" {
			save(t, config, text)
		}
		if _, err := TrustCodexHook(config, keys[0], "sha256:ours"); err != nil {
			t.Fatal(err)
		}
		if _, err := TrustCodexHook(config, keys[0], "sha256:newer"); err != nil {
			t.Fatal(err)
		}
		if kept, err := os.ReadFile(config + keptAs); string(kept) != text || (err == nil) != (text != "") {
			t.Errorf("kept %q: %v %q", text, err, kept)
		}
		for _, want := range []bool{true, false} {
			if done, err := DistrustCodexHooks(config, keys); err != nil || done.Changed != want {
				t.Fatalf("%q: %+v %v", text, done, err)
			}
		}
		raw, err := os.ReadFile(config)
		if got := strings.TrimSpace(string(raw)); got != strings.TrimSpace(text) || (err == nil) != (text != "") {
			t.Errorf("%q became %q (%v)", text, raw, err)
		}
	}
	for _, text := range []string{
		"[hooks.state.\"" + keys[0] + "\"]\ntrusted_hash = \"x\"\nenabled = false\n",
		"[hooks]\nstate.\"" + keys[0] + "\".trusted_hash = \"x\"\n",
		"[[[",
	} {
		save(t, config, text)
		_, err := DistrustCodexHooks(config, keys)
		if raw, _ := os.ReadFile(config); err == nil || string(raw) != text || !strings.Contains(err.Error(), config) {
			t.Errorf("%q: %v, and became %q", text, err, raw)
		}
	}
	if err := CheckCodexConfig(config); err == nil || !strings.Contains(err.Error(), "line 1, column") {
		t.Error(err)
	}
}
