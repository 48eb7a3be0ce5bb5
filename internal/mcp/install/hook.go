package install

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"palyra/internal/durable"
)

// hookTimeout is how long Claude Code waits for a hook, in seconds. It goes on as if
// there were none when that is over, so the hook answers sooner.
const hookTimeout = 60

// hookPath is where Claude Code keeps the hooks that come before a tool.
var hookPath = []string{"hooks", "PreToolUse"}

// hookMark is in every command line of ours.
const hookMark = " hook claude-code"

// HookSettings is Claude Code's settings file: the user's, or that of a workspace.
func HookSettings(p Places, workspace string) string {
	dir := p.Home
	if workspace != "" {
		dir = workspace
	}
	return filepath.Join(dir, ".claude", "settings.json")
}

func hookEntry(command string) map[string]any {
	return map[string]any{"matcher": "*", "hooks": []any{
		map[string]any{"type": "command", "command": command, "timeout": int64(hookTimeout)},
	}}
}

// HookLines is the entry as a file of its own.
func HookLines(command string) (string, error) {
	doc, err := jsonForm{}.set(nil, hookPath, []any{hookEntry(command)})
	return string(doc), err
}

// MergeHook returns settings with the hook in them: in the place of an older entry
// of ours, else before all others.
func MergeHook(doc []byte, command string) ([]byte, error) {
	settings, err := jsonForm{}.decode(doc)
	if err != nil {
		return nil, unreadable(err)
	}
	list, err := hookList(settings)
	if err != nil {
		return nil, err
	}
	list = withHook(list, command)
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
		return nil, unreadable(errors.New("it is written in a way that cannot be changed safely"))
	}
	return out, nil
}

// hookList is the list of hooks that come before a tool.
func hookList(settings map[string]any) ([]any, error) {
	hooks, ok := settings["hooks"].(map[string]any)
	if !ok {
		return nil, nil // what is no table is refused when it is written
	}
	switch list := hooks["PreToolUse"].(type) {
	case nil:
		return nil, nil
	case []any:
		return list, nil
	}
	return nil, unreadable(errors.New(`"PreToolUse" is not a list in it`))
}

// withHook puts our entry where the first one of ours is, and drops the others.
func withHook(list []any, command string) []any {
	out, placed := []any{}, false
	for _, e := range list {
		if !ourHook(e) {
			out = append(out, e)
			continue
		}
		if !placed {
			out, placed = append(out, hookEntry(command)), true
		}
	}
	if !placed {
		out = append([]any{hookEntry(command)}, out...)
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
	h, _ := hooks[0].(map[string]any)
	command, _ := h["command"].(string)
	return strings.Contains(command, hookMark)
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
func WriteHook(path, command string) (Result, error) {
	r := Result{Path: path}
	old, mode, err := read(path)
	if err != nil {
		return r, err
	}
	doc, err := MergeHook(old, command)
	if err != nil || old != nil && bytes.Equal(doc, old) {
		return r, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return r, fmt.Errorf("install: %w", err)
	}
	if old != nil {
		r.Backup = path + ".before-palyra"
		if err := durable.WriteFile(r.Backup, old, mode); err != nil {
			return r, fmt.Errorf("install: %w", err)
		}
	}
	r.Changed = true
	if err := durable.WriteFile(path, doc, mode); err != nil {
		return r, fmt.Errorf("install: %w", err)
	}
	return r, nil
}
