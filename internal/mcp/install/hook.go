package install

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// hookTimeout is how long an agent waits for a hook, in seconds. Most go on as if there were none when that is over,
// so the hook answers sooner.
const hookTimeout = 60

// HookForm is how an agent has its hooks written.
type HookForm struct {
	file   []string   // in the user's home
	local  []string   // in a workspace; nil: as in the home
	config bool       // file is below $XDG_CONFIG_HOME
	paths  [][]string // of the lists of hooks in it; nil: the file is ours alone
	entry  func(HookEntry) map[string]any
	whole  func(HookEntry) string // the file, where it is ours alone
	mark   string                 // in every command line of ours
	plain  map[string]any         // what else the agent wants in the file
	ends   []string               // of the list of hooks that come when a session is over; nil: there is none
}

// The forms.
var (
	// ClaudeHooks is Claude Code's settings file.
	ClaudeHooks = HookForm{
		file: []string{".claude", "settings.json"}, paths: [][]string{hookPath}, entry: matched, mark: " hook claude-code",
		ends: []string{"hooks", "SessionEnd"},
	}
	// CodexHooks is Codex's file of hooks, which has the form of Claude Code's.
	CodexHooks = HookForm{file: []string{".codex", "hooks.json"}, paths: [][]string{hookPath}, entry: matched, mark: " hook codex"}
	// GeminiHooks is Gemini's settings file.
	GeminiHooks = HookForm{
		file: []string{".gemini", "settings.json"}, paths: [][]string{{"hooks", "BeforeTool"}}, mark: " hook gemini",
		entry: func(h HookEntry) map[string]any {
			e := map[string]any{"type": "command", "name": entryName, "command": h.Command, "timeout": int64(hookTimeout * 1000)}
			return map[string]any{"hooks": []any{e}}
		},
	}
	// CursorHooks is Cursor's file of hooks.
	CursorHooks = HookForm{
		file: []string{".cursor", "hooks.json"}, mark: " hook cursor", plain: map[string]any{"version": int64(1)},
		paths: [][]string{
			{"hooks", "preToolUse"},
			{"hooks", "beforeShellExecution"},
			{"hooks", "beforeMCPExecution"},
			{"hooks", "beforeReadFile"},
		},
		entry: func(h HookEntry) map[string]any {
			return map[string]any{"command": h.Command, "timeout": int64(hookTimeout), "failClosed": true}
		},
	}
	// CopilotHooks is a file of ours among Copilot's, which VS Code reads too.
	CopilotHooks = HookForm{
		file: []string{".copilot", "hooks", "palyra.json"}, local: []string{".github", "hooks", "palyra.json"},
		mark: " hook copilot", whole: copilotFile,
	}
	// OpenCodePlugin is a plugin of ours for opencode.
	OpenCodePlugin = HookForm{
		file: []string{"opencode", "plugins", "palyra.js"}, config: true, local: []string{".opencode", "plugins", "palyra.js"},
		mark: " hook opencode", whole: openCodePlugin,
	}
)

// hookPath is where Claude Code keeps the hooks that come before a tool.
var hookPath = []string{"hooks", "PreToolUse"}

// Path is the file: the user's, or that of a workspace.
func (f HookForm) Path(p Places, workspace string) string {
	dir, parts := p.Home, f.file
	switch {
	case workspace != "":
		dir = workspace
		if f.local != nil {
			parts = f.local
		}
	case f.config:
		dir = p.Config
	case f.mark == CodexHooks.mark:
		dir, parts = p.codexHome(), parts[1:]
	}
	return filepath.Join(append([]string{dir}, parts...)...)
}

// HookSettings is Claude Code's settings file: the user's, or that of a workspace.
func HookSettings(p Places, workspace string) string { return ClaudeHooks.Path(p, workspace) }

// HookEntry is the hook as it is written.
type HookEntry struct {
	Form    HookForm
	Command string
	// Blocks has Claude Code itself block the tool when the hook cannot start or is not
	// answered in time. Only versions that know the word may read it.
	Blocks bool
	// Shows has the agent's window say who is waited for, where nothing else tells that its
	// version knows the word: Codex has had it as long as it has hooks.
	Shows bool
	// Ends has the hook run as well when a session is over, where the agent tells of that.
	Ends bool
	// Unsure keeps that word where an earlier entry of ours has it: nobody knows which version will read this one.
	Unsure bool
}

// blocks is the word in an entry.
const blocks, block = "onFailure", "block"

// HookStatus is what an agent's window shows while the hook runs: it is all that a person
// sees of a question that waits.
const HookStatus = "Palyra may be waiting for you: palyra approvals watch"

// matched is the entry of Claude Code and Codex.
func matched(h HookEntry) map[string]any {
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
	doc, err := MergeHook(nil, h)
	return string(doc), err
}

// MergeHook returns settings with the hook in them: in the place of an older entry of ours, else before all others.
func MergeHook(doc []byte, h HookEntry) (_ []byte, err error) {
	if h.Form.whole != nil {
		return h.Form.alone(doc, h)
	}
	for name, value := range h.Form.plain {
		if doc, err = ifMissing(doc, name, value); err != nil {
			return nil, err
		}
	}
	for _, path := range h.Form.paths {
		if doc, err = mergeAt(doc, path, h); err != nil {
			return nil, err
		}
	}
	switch {
	case h.Form.ends == nil:
		return doc, nil
	case !h.Ends:
		return h.Form.withoutAt(doc, h.Form.ends)
	}
	h.Form.entry = atEnd
	return mergeAt(doc, h.Form.ends, h)
}

// endTimeout is how long the end of a session may wait for its line, in seconds.
const endTimeout = 5

// atEnd is the entry for the end of a session.
func atEnd(h HookEntry) map[string]any {
	return map[string]any{"hooks": []any{map[string]any{"type": "command", "command": h.Command, "timeout": int64(endTimeout)}}}
}

// alone is the file that is ours alone. One that somebody else wrote is left as it is.
func (f HookForm) alone(doc []byte, h HookEntry) ([]byte, error) {
	if doc != nil && !strings.Contains(string(doc), f.mark) {
		return nil, unreadable(errors.New("it is of that name and not Palyra's"))
	}
	return []byte(f.whole(h)), nil
}

// ifMissing puts a value into settings that have none of that name.
func ifMissing(doc []byte, name string, value any) ([]byte, error) {
	settings, err := jsonForm{}.decode(doc)
	if err != nil {
		return nil, unreadable(err)
	}
	if _, there := settings[name]; there {
		return doc, nil
	}
	return jsonForm{}.set(doc, []string{name}, value)
}

// mergeAt puts the hook into one list.
func mergeAt(doc []byte, path []string, h HookEntry) ([]byte, error) {
	settings, err := jsonForm{}.decode(doc)
	if err != nil {
		return nil, unreadable(err)
	}
	list, err := hookList(settings, path)
	if err != nil {
		return nil, unreadable(err)
	}
	list = withHook(list, h)
	want, err := put(settings, path, list)
	if err != nil {
		return nil, err
	}
	if before, err := (jsonForm{}).decode(doc); err == nil && reflect.DeepEqual(numbers(before), numbers(want)) {
		return doc, nil
	}
	out, err := jsonForm{}.set(doc, path, list)
	if err != nil {
		return nil, err
	}
	after, err := jsonForm{}.decode(out)
	if err != nil || !reflect.DeepEqual(numbers(after), numbers(want)) {
		return nil, unreadable(errWriting)
	}
	return out, nil
}

// hookList is a list of hooks that come before a tool.
func hookList(settings map[string]any, path []string) ([]any, error) {
	hooks, ok := settings[path[0]].(map[string]any)
	if !ok && settings[path[0]] != nil {
		return nil, fmt.Errorf("%q is not a table in it", path[0])
	}
	switch list := hooks[path[1]].(type) {
	case nil:
		return nil, nil
	case []any:
		return list, nil
	}
	return nil, fmt.Errorf("%q is not a list in it", path[1])
}

// withHook puts our entry where the first one of ours is, and drops the others.
func withHook(list []any, h HookEntry) []any {
	out, placed := []any{}, false
	if h.Unsure {
		h.Blocks = slices.ContainsFunc(list, func(e any) bool { return blocking(h.Form, e) })
	}
	for _, e := range list {
		if !h.Form.ours(e) {
			out = append(out, e)
			continue
		}
		if !placed {
			out, placed = append(out, h.Form.entry(h)), true
		}
	}
	if !placed {
		out = append([]any{h.Form.entry(h)}, out...)
	}
	return out
}

// ours reports whether an entry is one that we wrote: ours and nothing else.
func (f HookForm) ours(e any) bool {
	all := commandsOf(e)
	return len(all) == 1 && f.marked(all[0])
}

// commandsOf are the hooks of an entry: those in its list, or itself.
func commandsOf(e any) []any {
	m, _ := e.(map[string]any)
	if _, itself := m["command"].(string); itself {
		return []any{e}
	}
	hooks, _ := m["hooks"].([]any)
	return hooks
}

// marked reports whether a hook runs ours.
func (f HookForm) marked(hook any) bool {
	h, _ := hook.(map[string]any)
	command, _ := h["command"].(string)
	return strings.Contains(command, f.mark)
}

// blocking reports whether an entry is one of ours that blocks.
func blocking(f HookForm, e any) bool {
	if !f.ours(e) {
		return false
	}
	h, _ := commandsOf(e)[0].(map[string]any)
	return h[blocks] == block
}

// holds reports whether settings have a hook of ours, or, of Claude Code, the rule for Palyra's server.
func (f HookForm) holds(doc []byte) bool {
	if f.whole != nil {
		return strings.Contains(string(doc), f.mark)
	}
	settings, err := jsonForm{}.decode(doc)
	if err != nil {
		return false
	}
	for _, path := range append(slices.Clone(f.paths), f.ends) {
		if path == nil {
			continue
		}
		list, _ := hookList(settings, path)
		if slices.ContainsFunc(list, func(e any) bool { return slices.ContainsFunc(commandsOf(e), f.marked) }) {
			return true
		}
	}
	list, _ := rules(settings)
	return f.mark == ClaudeHooks.mark && slices.Contains(list, any(AllowRule))
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
	mode := private
	if h.Form.local != nil && strings.HasSuffix(path, filepath.Join(h.Form.local...)) {
		mode = shared
	}
	return rewrite(path, mode, h.Form.holds, unreadable, func(old []byte) ([]byte, error) { return MergeHook(old, h) })
}
