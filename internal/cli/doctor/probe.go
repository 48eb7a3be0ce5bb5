package doctor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"palyra/internal/hook"
	"palyra/internal/standin"
)

// probe is a use of one tool that the model makes, several times, each with another mark.
type probe struct {
	tool string // as the model calls it
	kind string // read, edit, …
	name string // of the row
	does []string
	call func(a arena, mark string) standin.ToolCall
	took func(a arena, mark string, given string) bool // it had its effect
}

// arena is where the probes take place.
type arena struct {
	root   string // everything
	home   string
	work   string // the agent's workspace
	kept   string // what the hook was asked
	model  string // the address of the model
	server string // of MCP: the line that starts it, as words
}

// The kinds of probes.
var (
	shellProbes = []string{hook.ProbeAllow, hook.ProbeDeny, hook.ProbeRewrite, hook.ProbeExit, hook.ProbeCrash}
	toolProbes  = []string{hook.ProbeAllow, hook.ProbeDeny, hook.ProbeExit, hook.ProbeCrash}
)

// args makes a call of JSON.
func args(tool string, fields map[string]any) standin.ToolCall {
	raw, _ := json.Marshal(fields) // texts and numbers
	return standin.ToolCall{Name: tool, Args: []string{string(raw)}}
}

// isThere reports whether a mark's file is in the workspace.
func isThere(a arena, mark, _ string) bool {
	_, err := os.Lstat(filepath.Join(a.work, mark))
	return err == nil
}

// shell is a probe of a shell: the command makes a file.
func shell(tool, field string, more map[string]any) probe {
	return probe{tool: tool, name: tool, does: shellProbes, took: isThere, call: func(a arena, mark string) standin.ToolCall {
		fields := map[string]any{field: "touch " + mark}
		for k, v := range more {
			fields[k] = v
		}
		return args(tool, fields)
	}}
}

// write is a probe of a tool that writes a file.
func write(tool, path, content string) probe {
	return probe{tool: tool, name: tool, does: toolProbes, took: isThere, call: func(a arena, mark string) standin.ToolCall {
		return args(tool, map[string]any{path: filepath.Join(a.work, mark), content: "new\n"})
	}}
}

// secret is what a file has that a tool reads.
func secret(mark string) string { return "content-of-" + strings.TrimPrefix(mark, "palyra-probe-") }

// read is a probe of a tool that reads a file: the model is given its content.
func read(tool, path string) probe {
	return probe{
		tool: tool, kind: "read", name: tool, does: toolProbes[:2],
		call: func(a arena, mark string) standin.ToolCall {
			at := filepath.Join(a.work, mark+".txt")
			_ = os.WriteFile(at, []byte(secret(mark)+"\n"), 0o600)
			return args(tool, map[string]any{path: at})
		},
		took: func(_ arena, mark, given string) bool { return strings.Contains(given, secret(mark)) },
	}
}

// edited is the name of the file that is edited: no mark, so that reading it is let through.
func edited(mark string) string { return strings.Replace(mark, "palyra-probe-", "edited-", 1) }

// edit is a probe of a tool that edits a file, which was read before: some agents want that.
func edit(tool, path, old, with string, more map[string]any) probe {
	return probe{
		tool: tool, kind: "edit", name: tool, does: toolProbes[:2],
		call: func(a arena, mark string) standin.ToolCall {
			fields := map[string]any{path: filepath.Join(a.work, edited(mark)+".txt"), old: secret(edited(mark)), with: "changed " + mark}
			for k, v := range more {
				fields[k] = v
			}
			return args(tool, fields)
		},
		took: func(a arena, mark, _ string) bool {
			raw, err := os.ReadFile(filepath.Join(a.work, edited(mark)+".txt"))
			return err == nil && strings.Contains(string(raw), "changed")
		},
	}
}

// fetch is a probe of a tool that fetches a page: the model's own server is asked for it.
func fetch(tool, field string, more map[string]any) probe {
	return probe{
		tool: tool, name: tool, does: toolProbes[:2],
		call: func(a arena, mark string) standin.ToolCall {
			fields := map[string]any{field: a.model + "/" + mark}
			for k, v := range more {
				fields[k] = v
			}
			return args(tool, fields)
		},
		took: isThere, // the server makes the file
	}
}

// foreign is a probe of a tool of an MCP server.
func foreign(tool, space string) probe {
	return probe{tool: tool, name: "a tool of MCP", does: toolProbes[:2], took: isThere, call: func(_ arena, mark string) standin.ToolCall {
		c := args(tool, map[string]any{"name": mark})
		c.Namespace = space
		return c
	}}
}

// subagent is a probe of the shell of a subagent.
func subagent(tool string, fields map[string]any) probe {
	does := toolProbes[:2]
	return probe{tool: tool, name: "the shell of a subagent", does: does, took: isThere, call: func(_ arena, mark string) standin.ToolCall {
		all := map[string]any{"prompt": subPrompt + mark}
		for k, v := range fields {
			all[k] = v
		}
		return args(tool, all)
	}}
}

// What tells the conversations of the doctor's model apart.
const (
	mainPrompt = "PALYRA-DOCTOR: make the calls"
	subPrompt  = "PALYRA-SUBAGENT: "
)
