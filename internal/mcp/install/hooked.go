package install

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
)

// Hooked is what a settings file says about the hook.
type Hooked struct {
	// Command is the command of an entry that is exactly as we would write it; "" when there is no such entry.
	Command string
	Blocks  bool // it says that a failing hook blocks
	Shows   bool // it has the agent's window say who is waited for
	Other   bool // an entry names the hook, and is another than is written here
	Off     bool // the file switches all hooks off, or cannot be read
}

// FindHook looks for the hook in a settings file; ours says which command lines are. What
// only looks like the hook is told apart: a file that came with a project can say anything.
func FindHook(f HookForm, path string, ours func(command string) bool) (found Hooked) {
	doc, _, err := read(path, unreadable)
	if err != nil {
		return Hooked{Off: true}
	}
	if f.whole != nil {
		return f.findAlone(string(doc), ours)
	}
	settings, err := jsonForm{}.decode(doc)
	if err != nil {
		return Hooked{Off: true}
	}
	off, said := settings["disableAllHooks"]
	found.Off = said && off != false
	for _, path := range f.paths {
		list, err := hookList(settings, path)
		if err != nil {
			return Hooked{Off: true}
		}
		for _, e := range list {
			switch h := f.written(e); {
			case h.Command != "" && ours(h.Command):
				found.Command, found.Blocks, found.Shows = h.Command, h.Blocks, h.Shows
			case slices.ContainsFunc(commandsOf(e), f.marked):
				found.Other = true
			}
		}
	}
	return found
}

// line finds the command line in a file that is ours alone.
var line = regexp.MustCompile(`(?m)^// command: (.*)$|"command": ("(?:[^"\\]|\\.)*")`)

// findAlone looks into a file that would be ours alone.
func (f HookForm) findAlone(doc string, ours func(command string) bool) (found Hooked) {
	if doc == "" {
		return found
	}
	if m := line.FindStringSubmatch(doc); m != nil {
		command := m[1]
		if command == "" {
			_ = json.Unmarshal([]byte(m[2]), &command)
		}
		if ours(command) && f.whole(HookEntry{Form: f, Command: command}) == doc {
			return Hooked{Command: command}
		}
	}
	return Hooked{Other: true}
}

// written is an entry that is in every word as it is written here.
func (f HookForm) written(e any) HookEntry {
	all := commandsOf(e)
	if len(all) != 1 {
		return HookEntry{}
	}
	h, _ := all[0].(map[string]any)
	command, _ := h["command"].(string)
	is := numbers(e)
	for _, want := range []HookEntry{{}, {Blocks: true}, {Shows: true}} {
		want.Command = command
		if reflect.DeepEqual(is, numbers(f.entry(want))) {
			return want
		}
	}
	return HookEntry{}
}

// HooksOff reports whether a workspace's own settings of Claude Code switch all hooks off,
// also those of the person, or cannot be read.
func HooksOff(workspace string) bool {
	none := func(string) bool { return false }
	for _, name := range []string{"settings.json", "settings.local.json"} {
		if FindHook(ClaudeHooks, filepath.Join(workspace, ".claude", name), none).Off {
			return true
		}
	}
	return false
}
