package install

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"palyra"
)

const (
	ourEntry = `{"matcher":"*","hooks":[{"type":"command","command":"/p hook claude-code || exit 2"}]}`
	audit    = `{"hooks": [{"command": "audit"}], "n": 1.50}`
)

func TestWithoutHook(t *testing.T) {
	for _, c := range []struct{ name, old, want string }{
		{"alone", `{"model": "x", "hooks": {"PreToolUse": [` + ourEntry + `]}}`, `{"model": "x"}`},
		{"nothing else", `{"hooks":{"PreToolUse":[` + ourEntry + `,` + ourEntry + `]}}`, `{}`},
		{"beside other events", `{"hooks": {"PreToolUse": [` + ourEntry + `], "Stop": []}}`, `{"hooks": { "Stop": []}}`},
		{"first", `{"hooks":{"PreToolUse":[` + ourEntry + `, ` + audit + ` ]}}`, `{"hooks":{"PreToolUse":[ ` + audit + ` ]}}`},
		{"last", `{"hooks":{"PreToolUse":[` + audit + " ,\n" + ourEntry + "\n]}}", `{"hooks":{"PreToolUse":[` + audit + "\n]}}"},
		{
			"everywhere", `{"hooks":{"PreToolUse":[` + ourEntry + "," + audit + "," + ourEntry + ", 1," + ourEntry + `]}}`,
			`{"hooks":{"PreToolUse":[` + audit + `, 1]}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := WithoutHook(ClaudeHooks, []byte(c.old))
			if err != nil || string(got) != c.want {
				t.Fatalf("%v\n%s\nwant\n%s", err, got, c.want)
			}
			if again, err := WithoutHook(ClaudeHooks, got); err != nil || string(again) != c.want {
				t.Errorf("a second time: %v\n%s", err, again)
			}
		})
	}
}

func TestWithoutHookWhereThereIsNone(t *testing.T) {
	for _, doc := range []string{
		"", "\n", "{}", `{"hooks":null}`, `{"hooks":{"PreToolUse":null}}`, `{"hooks":{"PreToolUse":[]}}`,
		`{"hooks":{"PreToolUse":[` + audit + `,1,{"hooks":[]}]}}`,
		`{"hooks":{"PostToolUse":[` + ourEntry + `]}}`, `{"PreToolUse":[` + ourEntry + `]}`,
	} {
		if got, err := WithoutHook(ClaudeHooks, []byte(doc)); err != nil || string(got) != doc {
			t.Errorf("%q: %v %s", doc, err, got)
		}
	}
}

func TestWithoutHookLeavesAloneWhatItCannotChange(t *testing.T) {
	mixed := `{"hooks":[{"command":"audit"},{"command":"/p hook claude-code"}]}`
	for name, doc := range map[string]string{
		"comments": `{"hooks":{"PreToolUse":[` + ourEntry + "]} // x\n}", "a list": `[]`, "nothing": `null`, "two": `{} {}`, "cut": `{"hooks":`,
		"hooks is text": `{"hooks": "x"}`, "the list is none": `{"hooks": {"PreToolUse": {}}}`,
		"hooks twice":    `{"hooks":{"PreToolUse":[` + ourEntry + `]},"hooks":{}}`,
		"the list twice": `{"hooks":{"PreToolUse":[` + ourEntry + `],"PreToolUse":[]}}`,
		"with others":    `{"hooks":{"PreToolUse":[` + ourEntry + `,` + mixed + `]}}`,
	} {
		got, err := WithoutHook(ClaudeHooks, []byte(doc))
		if err == nil || got != nil || !strings.Contains(palyra.AsError(err).Remedy, "by hand") {
			t.Errorf("%s: %v %s", name, err, got)
		}
	}
}

func TestRemoveHook(t *testing.T) {
	home := t.TempDir()
	path := HookSettings(Places{Home: home}, "")
	none, err := RemoveHook(ClaudeHooks, path)
	if _, serr := os.Stat(filepath.Dir(path)); err != nil || none.Changed || serr == nil {
		t.Errorf("no file: %+v %v", none, err)
	}
	if _, err := WriteHook(path, HookEntry{Form: ClaudeHooks, Command: ours}); err != nil {
		t.Fatal(err)
	}
	made, err := RemoveHook(ClaudeHooks, path)
	if left, _ := os.ReadDir(filepath.Dir(path)); err != nil || !made.Removed || made.Backup != "" || len(left) != 0 {
		t.Errorf("a file of ours: %+v %v, %v stay", made, err, left)
	}
	if err := os.WriteFile(path, []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	old, _ := os.ReadFile(path)
	if _, err := WriteHook(path, HookEntry{Form: ClaudeHooks, Command: ours}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(home, "link.json")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := RemoveHook(ClaudeHooks, link); err == nil {
		t.Error("a link was written through")
	}
	done, err := RemoveHook(ClaudeHooks, path)
	now, rerr := os.ReadFile(path)
	if err != nil || rerr != nil || !done.Changed || strings.TrimSpace(string(now)) != "{}" {
		t.Fatalf("%+v %v %v\n%s", done, err, rerr, now)
	}
	if kept, err := os.ReadFile(done.Backup); err != nil || string(kept) != string(old) {
		t.Errorf("the old file: %v\n%s", err, kept)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	if again, err := RemoveHook(ClaudeHooks, path); err != nil || again.Changed || again.Backup != "" {
		t.Errorf("a second time: %+v %v", again, err)
	}
}

// settled is settings as Claude Code reads them, without what is empty of hooks and ours.
func settled(t interface{ Fatal(...any) }, doc []byte) map[string]any {
	m := map[string]any{}
	if len(strings.TrimSpace(string(doc))) == 0 {
		return m
	}
	if err := json.Unmarshal(doc, &m); err != nil {
		t.Fatal(err, string(doc))
	}
	hooks, ok := m["hooks"].(map[string]any)
	if list, is := hooks["PreToolUse"].([]any); is {
		var rest []any
		for _, e := range list {
			if !ClaudeHooks.ours(e) {
				rest = append(rest, e)
			}
		}
		hooks["PreToolUse"] = rest
		if rest == nil {
			delete(hooks, "PreToolUse")
		}
	}
	if ok && len(hooks) == 0 {
		delete(m, "hooks")
	}
	return m
}

// Installing and uninstalling gives back settings that mean what they meant.
func TestHookThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entry := rapid.SampledFrom([]string{audit, ourEntry, "1", `{"matcher": "Bash" }`, `{"hooks":[]}`, `"a,b]"`})
		space := rapid.SampledFrom([]string{"", " ", "\n\t", "\r\n  "})
		sep := space.Draw(t, "before") + "," + space.Draw(t, "after")
		list := "[" + space.Draw(t, "in") + strings.Join(rapid.SliceOfN(entry, 0, 4).Draw(t, "list"), sep) + space.Draw(t, "out") + "]"
		members := []string{`"PreToolUse":` + list, `"Stop": [{}]`, `"PostToolUse":[` + ourEntry + `]`}
		hooks := `"hooks" : {` + strings.Join(rapid.Permutation(members).Draw(t, "members")[:rapid.IntRange(0, 3).Draw(t, "n")], sep) + `}`
		doc := "{" + strings.Join(rapid.Permutation([]string{`"a":"}"`, hooks, `"n":12345678901234567890`}).Draw(t, "file"), sep) +
			space.Draw(t, "end") + "}\n"
		with, err := MergeHook([]byte(doc), HookEntry{Form: ClaudeHooks, Command: ours})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{string(with), doc} {
			out, err := WithoutHook(ClaudeHooks, []byte(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if diff := cmp.Diff(settled(t, []byte(doc)), settled(t, out)); diff != "" ||
				strings.Count(string(out), ClaudeHooks.mark) != strings.Count(hooks, `PostToolUse`) {
				t.Fatalf("%s\n%s\nbecame\n%s", diff, text, out)
			}
		}
	})
}

func FuzzWithoutHook(f *testing.F) {
	for _, doc := range []string{
		"", "{}", `{"hooks":{"PreToolUse":[` + ourEntry + `, ` + audit + `]}}`,
		`{"a":1,"hooks":{"PreToolUse":[` + ourEntry + `]},"b":2}`, `{"hooks":{"PreToolUse":null}}`,
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		out, err := WithoutHook(ClaudeHooks, doc)
		if err != nil {
			return
		}
		if diff := cmp.Diff(settled(t, doc), settled(t, out)); diff != "" {
			t.Fatalf("%s\n%s\nbecame\n%s", diff, doc, out)
		}
	})
}
