package install

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const ours = "/opt/palyra hook claude-code"

func TestMergeHook(t *testing.T) {
	cases := map[string]string{
		"nothing":       ``,
		"empty":         `{}`,
		"other things":  `{"model": "x", "n": 12345678901234567890, "permissions": {"allow": ["Read"]}}`,
		"other events":  `{"hooks": {"PostToolUse": [{"matcher": "Edit", "hooks": []}]}}`,
		"other hooks":   `{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "audit"}]}]}}`,
		"an older ours": `{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "/old/palyra hook claude-code --mode check"}]}, {"matcher": "x", "hooks": []}]}}`,
		"two of ours":   `{"hooks": {"PreToolUse": [{"hooks": [{"command": "a hook claude-code"}]}, {"hooks": [{"command": "b hook claude-code"}]}]}}`,
	}
	for name, doc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := MergeHook([]byte(doc), HookEntry{Form: ClaudeHooks, Command: ours})
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(out), ClaudeHooks.mark); n != 1 {
				t.Errorf("%d entries of ours:\n%s", n, out)
			}
			for _, keep := range []string{"audit", "PostToolUse", "12345678901234567890", `"matcher": "x"`} {
				if strings.Contains(doc, keep) && !strings.Contains(string(out), keep) {
					t.Errorf("%s is gone:\n%s", keep, out)
				}
			}
			var s struct {
				Hooks struct {
					PreToolUse []struct {
						Matcher string
						Hooks   []struct {
							Type, Command string
							Timeout       int
						}
					}
				}
			}
			if err := json.Unmarshal(out, &s); err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			if e := s.Hooks.PreToolUse[0]; e.Matcher != "*" || e.Hooks[0].Type != "command" || e.Hooks[0].Command != ours ||
				e.Hooks[0].Timeout != hookTimeout {
				t.Errorf("the entry reads %+v", e)
			}
			again, err := MergeHook(out, HookEntry{Form: ClaudeHooks, Command: ours})
			if err != nil || string(again) != string(out) {
				t.Errorf("a second time changes it (%v):\n%s", err, again)
			}
		})
	}
}

func TestMergeHookLeavesAloneWhatItCannotRead(t *testing.T) {
	for name, doc := range map[string]string{
		"comments": `{"a": 1 // x` + "\n}", "a list": `[]`, "two": `{} {}`, "cut": `{"hooks":`,
		"hooks is text": `{"hooks": "x"}`, "the list is none": `{"hooks": {"PreToolUse": {}}}`,
	} {
		if out, err := MergeHook([]byte(doc), HookEntry{Form: ClaudeHooks, Command: ours}); err == nil {
			t.Errorf("%s: %s", name, out)
		}
	}
}

func TestWriteHook(t *testing.T) {
	path := HookSettings(Places{Home: t.TempDir()}, "")
	first, err := WriteHook(path, HookEntry{Form: ClaudeHooks, Command: ours})
	if err != nil || !first.Changed || first.Backup != "" {
		t.Fatalf("%+v %v", first, err)
	}
	second, err := WriteHook(path, HookEntry{Form: ClaudeHooks, Command: ours})
	if err != nil || second.Changed {
		t.Errorf("a second time: %+v %v", second, err)
	}
	third, err := WriteHook(path, HookEntry{Form: ClaudeHooks, Command: ours + " --mode check"})
	if err != nil || !third.Changed || third.Backup != "" {
		t.Errorf("another command: %+v %v", third, err)
	}
	link := filepath.Join(t.TempDir(), "settings.json")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteHook(link, HookEntry{Form: ClaudeHooks, Command: ours}); err == nil {
		t.Error("a link was written through")
	}
	fourth, err := WriteHook(path, HookEntry{Form: ClaudeHooks, Command: ours, Blocks: true})
	doc, rerr := os.ReadFile(path)
	if err != nil || rerr != nil || !fourth.Changed || strings.Count(string(doc), `"onFailure": "block"`) != 1 {
		t.Errorf("one that blocks: %+v %v %v\n%s", fourth, err, rerr, doc)
	}
	fifth, err := WriteHook(path, HookEntry{Form: ClaudeHooks, Command: ours, Unsure: true})
	if err != nil || fifth.Changed {
		t.Errorf("it blocks no more, though nobody knows the version: %+v %v", fifth, err)
	}
	sixth, err := WriteHook(path, HookEntry{Form: ClaudeHooks, Command: ours})
	if doc, rerr = os.ReadFile(path); err != nil || rerr != nil || !sixth.Changed || strings.Contains(string(doc), "onFailure") {
		t.Errorf("one for an older version: %+v %v %v\n%s", sixth, err, rerr, doc)
	}
	if doc, err := HookLines(HookEntry{Form: ClaudeHooks, Command: ours}); err != nil || !strings.Contains(doc, ClaudeHooks.mark) ||
		strings.Contains(doc, "onFailure") {
		t.Errorf("%s %v", doc, err)
	}
	if got := HookSettings(Places{Home: "/h"}, "/w"); got != filepath.Join("/w", ".claude", "settings.json") {
		t.Error(got)
	}
}
