package install

import (
	"path/filepath"
	"reflect"
	"slices"
)

// Hooked is what a settings file says about the hook.
type Hooked struct {
	// Command is the command of an entry that is exactly as we would write it; "" when there is no such entry.
	Command string
	Other   bool // an entry names the hook, and is another than is written here
	Off     bool // the file switches all hooks off, or cannot be read
}

// FindHook looks for the hook in a settings file; ours says which command lines are. What
// only looks like the hook is told apart: a file that came with a project can say anything.
func FindHook(path string, ours func(command string) bool) (found Hooked) {
	doc, _, err := read(path, unreadable)
	if err != nil {
		return Hooked{Off: true}
	}
	settings, err := jsonForm{}.decode(doc)
	if err != nil {
		return Hooked{Off: true}
	}
	off, said := settings["disableAllHooks"]
	found.Off = said && off != false
	list, err := hookList(settings)
	if err != nil {
		return Hooked{Off: true}
	}
	for _, e := range list {
		switch command := written(e); {
		case command != "" && ours(command):
			found.Command = command
		case names(e):
			found.Other = true
		}
	}
	return found
}

// written is the command of an entry that is in every word as it is written here.
func written(e any) string {
	m, _ := e.(map[string]any)
	hooks, _ := m["hooks"].([]any)
	if len(hooks) != 1 {
		return ""
	}
	h, _ := hooks[0].(map[string]any)
	command, _ := h["command"].(string)
	is := numbers(e)
	for _, want := range []HookEntry{{}, {Blocks: true}, {Shows: true}} {
		want.Command = command
		if reflect.DeepEqual(is, numbers(want.entry())) {
			return command
		}
	}
	return ""
}

// names reports whether an entry has a hook that looks like ours, alone or among others.
func names(e any) bool {
	m, _ := e.(map[string]any)
	hooks, _ := m["hooks"].([]any)
	return slices.ContainsFunc(hooks, marked)
}

// HooksOff reports whether a workspace's own settings of Claude Code switch all hooks off,
// also those of the person, or cannot be read.
func HooksOff(workspace string) bool {
	none := func(string) bool { return false }
	for _, name := range []string{"settings.json", "settings.local.json"} {
		if FindHook(filepath.Join(workspace, ".claude", name), none).Off {
			return true
		}
	}
	return false
}
