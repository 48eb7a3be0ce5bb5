package install

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// hookTimeout is how long Claude Code waits for a hook, in seconds. It goes on as if
// there were none when that is over, so the hook answers sooner.
const hookTimeout = 60

// hookPath is where Claude Code keeps the hooks that come before a tool.
var hookPath = []string{"hooks", "PreToolUse"}

// hookMark is in every command line of ours for Claude Code, codexMark for Codex.
const (
	hookMark  = " hook claude-code"
	codexMark = " hook codex"
)

// HookSettings is Claude Code's settings file: the user's, or that of a workspace.
func HookSettings(p Places, workspace string) string {
	return settingsIn(p, workspace, ".claude", "settings.json")
}

// CodexHooks is Codex's file of hooks, which has the form of Claude Code's.
func CodexHooks(p Places, workspace string) string {
	return settingsIn(p, workspace, ".codex", "hooks.json")
}

func settingsIn(p Places, workspace string, parts ...string) string {
	dir := p.Home
	if workspace != "" {
		dir = workspace
	}
	return filepath.Join(append([]string{dir}, parts...)...)
}

// HookEntry is the hook as it is written.
type HookEntry struct {
	Command string
	// Blocks has Claude Code itself block the tool when the hook cannot start or is not
	// answered in time. Only versions that know the word may read it.
	Blocks bool
	// Shows has the agent's window say who is waited for, where nothing else tells that its
	// version knows the word: Codex has had it as long as it has hooks.
	Shows bool
	// Unsure keeps that word where an earlier entry of ours has it: nobody knows which version will read this one.
	Unsure bool
}

// blocks is the word in an entry.
const blocks, block = "onFailure", "block"

// HookStatus is what an agent's window shows while the hook runs: it is all that a person
// sees of a question that waits.
const HookStatus = "Palyra may be waiting for you: palyra approvals watch"

func (h HookEntry) entry() map[string]any {
	e := map[string]any{"type": "command", "command": h.Command, "timeout": int64(hookTimeout)}
	if h.Blocks {
		e[blocks] = block
	}
	if h.Shows || h.Blocks { // as old as the other word in Claude Code, as far as is known
		e["statusMessage"] = HookStatus
	}
	return map[string]any{"matcher": "*", "hooks": []any{e}}
}

// HookLines is the entry as a file of its own.
func HookLines(h HookEntry) (string, error) {
	doc, err := jsonForm{}.set(nil, hookPath, []any{h.entry()})
	return string(doc), err
}

// MergeHook returns settings with the hook in them: in the place of an older entry of ours, else before all others.
func MergeHook(doc []byte, h HookEntry) ([]byte, error) {
	settings, err := jsonForm{}.decode(doc)
	if err != nil {
		return nil, unreadable(err)
	}
	list, err := hookList(settings)
	if err != nil {
		return nil, unreadable(err)
	}
	list = withHook(list, h)
	want, err := put(settings, hookPath, list)
	if err != nil {
		return nil, err
	}
	if before, err := (jsonForm{}).decode(doc); err == nil && reflect.DeepEqual(numbers(before), numbers(want)) {
		return doc, nil
	}
	out, err := jsonForm{}.set(doc, hookPath, list)
	if err != nil {
		return nil, err
	}
	after, err := jsonForm{}.decode(out)
	if err != nil || !reflect.DeepEqual(numbers(after), numbers(want)) {
		return nil, unreadable(errWriting)
	}
	return out, nil
}

// hookList is the list of hooks that come before a tool.
func hookList(settings map[string]any) ([]any, error) {
	hooks, ok := settings["hooks"].(map[string]any)
	if !ok && settings["hooks"] != nil {
		return nil, errors.New(`"hooks" is not a table in it`)
	}
	switch list := hooks["PreToolUse"].(type) {
	case nil:
		return nil, nil
	case []any:
		return list, nil
	}
	return nil, errors.New(`"PreToolUse" is not a list in it`)
}

// withHook puts our entry where the first one of ours is, and drops the others.
func withHook(list []any, h HookEntry) []any {
	out, placed := []any{}, false
	if h.Unsure {
		h.Blocks = slices.ContainsFunc(list, blocking)
	}
	for _, e := range list {
		if !ourHook(e) {
			out = append(out, e)
			continue
		}
		if !placed {
			out, placed = append(out, h.entry()), true
		}
	}
	if !placed {
		out = append([]any{h.entry()}, out...)
	}
	return out
}

// ourHook reports whether an entry is one that we wrote: ours and nothing else.
func ourHook(e any) bool {
	m, _ := e.(map[string]any)
	hooks, _ := m["hooks"].([]any)
	if len(hooks) != 1 {
		return false
	}
	return marked(hooks[0])
}

// marked reports whether a hook runs ours.
func marked(hook any) bool {
	h, _ := hook.(map[string]any)
	command, _ := h["command"].(string)
	return strings.Contains(command, hookMark) || strings.Contains(command, codexMark)
}

// blocking reports whether an entry is one of ours that blocks.
func blocking(e any) bool {
	if !ourHook(e) {
		return false
	}
	h, _ := e.(map[string]any)["hooks"].([]any)[0].(map[string]any)
	return h[blocks] == block
}

// numbers is normal with all numbers as their text.
func numbers(v any) any {
	switch v := normal(v).(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = numbers(x)
		}
		return v
	case []any:
		for i, x := range v {
			v[i] = numbers(x)
		}
		return v
	case int64:
		return fmt.Sprint(v)
	default:
		return v
	}
}

// WriteHook merges the hook into a settings file, which need not exist.
func WriteHook(path string, h HookEntry) (Result, error) {
	return rewrite(path, private, unreadable, func(old []byte) ([]byte, error) { return MergeHook(old, h) })
}
