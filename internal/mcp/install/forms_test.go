package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHookForms: in every agent's file the hook is written once, what was there stays, and taking it out leaves what was
// there.
func TestHookForms(t *testing.T) {
	for name, c := range map[string]struct {
		form         HookForm
		others, want string
	}{
		"gemini": {GeminiHooks, `{"model": "x", "hooks": {"BeforeTool": [{"matcher": "a", "hooks": [{"command": "audit"}]}]}}`, `"timeout": 60000`},
		"cursor": {CursorHooks, `{"version": 1, "hooks": {"preToolUse": [{"command": "audit"}], "stop": []}}`, `"failClosed": true`},
		"codex":  {CodexHooks, `{"hooks": {"Stop": []}}`, `"matcher": "*"`},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			p := Places{Home: home, Config: filepath.Join(home, ".config")}
			path := c.form.Path(p, "")
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(c.others), 0o600); err != nil {
				t.Fatal(err)
			}
			command := "/p" + c.form.Mark() + " || exit 2"
			for _, changed := range []bool{true, false} {
				if done, err := WriteHook(path, HookEntry{Form: c.form, Command: command}); err != nil || done.Changed != changed {
					t.Fatalf("%+v %v", done, err)
				}
			}
			doc, err := os.ReadFile(path)
			if n := strings.Count(string(doc), c.form.Mark()); err != nil || n != len(c.form.paths) || !strings.Contains(string(doc), c.want) {
				t.Errorf("%v %d\n%s", err, n, doc)
			}
			if strings.Contains(c.others, "audit") != strings.Contains(string(doc), "audit") {
				t.Errorf("what was there is gone:\n%s", doc)
			}
			found := FindHook(c.form, path, func(got string) bool { return got == command })
			if found.Command != command || found.Other || found.Off {
				t.Errorf("it is not found: %+v", found)
			}
			if done, err := RemoveHook(c.form, path); err != nil || !done.Changed {
				t.Errorf("%+v %v", done, err)
			}
			if doc, err = os.ReadFile(path); err != nil || strings.Contains(string(doc), c.form.Mark()) {
				t.Errorf("%v\n%s", err, doc)
			}
		})
	}
}

// TestHookFiles: files that are ours alone, in the place of which nobody else's is overwritten or removed.
func TestHookFiles(t *testing.T) {
	for name, form := range map[string]HookForm{"copilot": CopilotHooks, "opencode": OpenCodePlugin} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			p := Places{Home: home, Config: filepath.Join(home, ".config")}
			path := form.Path(p, "")
			command := `/p "x"` + form.Mark() + ` || echo '{"a":"\"b\""}'`
			for _, changed := range []bool{true, false} {
				if done, err := WriteHook(path, HookEntry{Form: form, Command: command}); err != nil || done.Changed != changed {
					t.Fatalf("%+v %v", done, err)
				}
			}
			ours := func(got string) bool { return got == command }
			if found := FindHook(form, path, ours); found.Command != command {
				t.Errorf("it is not found: %+v", found)
			}
			doc, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, append(doc, "// and more\n"...), 0o600); err != nil {
				t.Fatal(err)
			}
			if found := FindHook(form, path, ours); found.Command != "" || !found.Other {
				t.Errorf("one that was changed counts: %+v", found)
			}
			if done, err := RemoveHook(form, path); err != nil || !done.Removed {
				t.Errorf("%+v %v", done, err)
			}
			if err := os.WriteFile(path, []byte("somebody's own"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := WriteHook(path, HookEntry{Form: form, Command: command}); err == nil {
				t.Error("somebody's own file was overwritten")
			}
			if done, err := RemoveHook(form, path); err != nil || done.Changed {
				t.Errorf("somebody's own file was removed: %+v %v", done, err)
			}
			if local := form.Path(p, "/w"); !strings.HasPrefix(local, "/w/.") {
				t.Error(local)
			}
		})
	}
}

// TestWithTrust: what Codex is told to trust is one table, and nothing else in its settings changes.
func TestWithTrust(t *testing.T) {
	const key, hash = "/home/a b/.codex/hooks.json:pre_tool_use:0:0", "sha256:aa"
	for name, doc := range map[string]string{
		"nothing":      "",
		"others":       "model = 'x' # mine\n\n[hooks.state.\"/other:stop:0:0\"]\ntrusted_hash = 'sha256:bb'\n",
		"an older one": "model = 'x'\n\n[hooks.state.'" + key + "']\ntrusted_hash = 'sha256:old'\n\n[projects.\"/w\"]\ntrust_level = 'trusted'\n",
	} {
		t.Run(name, func(t *testing.T) {
			out, err := withTrust([]byte(doc), key, hash)
			if err != nil || strings.Count(string(out), hash) != 1 || strings.Contains(string(out), "sha256:old") {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, keep := range []string{"# mine", "sha256:bb", "trust_level"} {
				if strings.Contains(doc, keep) != strings.Contains(string(out), keep) {
					t.Errorf("%s:\n%s", keep, out)
				}
			}
			if again, err := withTrust(out, key, hash); err != nil || string(again) != string(out) {
				t.Errorf("a second time changes it: %v\n%s", err, again)
			}
		})
	}
	for name, doc := range map[string]string{
		"no table": "hooks = 1\n", "no TOML": "[", "inline": "hooks = { state = { '" + key + "' = { trusted_hash = 'sha256:old' } } }\n",
	} {
		if out, err := withTrust([]byte(doc), key, hash); err == nil {
			t.Errorf("%s:\n%s", name, out)
		}
	}
	if _, err := withTrust(nil, "", hash); err == nil {
		t.Error("no name")
	}
	if _, err := withTrust(nil, key, ""); err == nil {
		t.Error("no digest")
	}
}
