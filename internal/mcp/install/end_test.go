package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A hook that observes is there at the end of a session as well; one that does not is not, and what others have there stays.
func TestHookAtTheEnd(t *testing.T) {
	others := `{"hooks": {"SessionEnd": [{"hooks": [{"type": "command", "command": "mine"}]}], "PreToolUse": []}, "model": "x"}`
	for _, doc := range []string{``, `{}`, others} {
		path := filepath.Join(t.TempDir(), "settings.json")
		if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		read := func() string {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return string(raw)
		}
		observes := HookEntry{Form: ClaudeHooks, Command: ours + " --observe", Ends: true}
		for range 2 {
			if _, err := WriteHook(path, observes); err != nil {
				t.Fatal(err)
			}
		}
		if text := read(); strings.Count(text, ours) != 2 || !strings.Contains(text, "SessionEnd") ||
			strings.Contains(doc, "mine") != strings.Contains(text, "mine") {
			t.Errorf("observing:\n%s", text)
		}
		found := FindHook(ClaudeHooks, path, func(c string) bool { return c == observes.Command })
		if found.Command != observes.Command || found.Other {
			t.Errorf("%+v", found)
		}
		if _, err := WriteHook(path, HookEntry{Form: ClaudeHooks, Command: ours}); err != nil {
			t.Fatal(err)
		}
		if text := read(); strings.Count(text, ours) != 1 || strings.Contains(text, "--observe") ||
			strings.Contains(doc, "mine") != strings.Contains(text, "mine") {
			t.Errorf("no more observing:\n%s", text)
		}
		if _, err := WriteHook(path, observes); err != nil {
			t.Fatal(err)
		}
		if _, err := RemoveHook(ClaudeHooks, path); err != nil {
			t.Fatal(err)
		}
		raw, _ := os.ReadFile(path) // gone, where nothing else is in it
		if text := string(raw); strings.Contains(text, ours) || strings.Contains(doc, "mine") != strings.Contains(text, "mine") {
			t.Errorf("taken out:\n%s", raw)
		}
	}
	if lines, err := HookLines(HookEntry{Form: ClaudeHooks, Command: ours, Ends: true}); err != nil || strings.Count(lines, ours) != 2 {
		t.Errorf("%v\n%s", err, lines)
	}
}
