// Package install writes Palyra into the configuration of MCP clients, and takes it out again.
//
// Promises: a file is changed in one place only, and everything else in it means what it meant before: that is
// checked before it is written. What cannot be read for certain, comments in JSON for one, is left alone and said.
// The old file is kept beside the new one. Doing it twice changes nothing.
package install

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"runtime"

	"palyra"
)

// Server is how a client starts Palyra's MCP server.
type Server struct {
	Command string
	Args    []string
	Shared  bool // the file is a project's
}

// Client is a program that speaks MCP.
type Client struct {
	Name  string // claude-code, …
	Title string
	form  form
	path  []string // of its entry in the file
	entry func(Server) any
	user  func(p Places) string // the file of the user
	local string                // the file in a workspace; "": there is none
}

// Places is where a user's files are.
type Places struct {
	Home   string // the user's
	Config string // $XDG_CONFIG_HOME, or what stands for it
	Codex  string // $CODEX_HOME; "": below Home
}

// form is a file format.
type form interface {
	// decode reads a file; an empty one is an empty map.
	decode(doc []byte) (map[string]any, error)
	// set returns the file with the value at the path, the rest as it was.
	set(doc []byte, path []string, value any) ([]byte, error)
	// cut finds what to change so that the value at the path is gone; errNone when the text has none.
	cut(doc []byte, path []string) (edit, error)
}

// maxFile is the largest configuration that is read.
const maxFile = 64 << 20

const entryName = "palyra"

// Clients lists the clients that are known.
func Clients() []Client {
	plain := func(s Server) any { return map[string]any{"command": s.Command, "args": list(s.Args)} }
	typed := func(s Server) any { return map[string]any{"type": "stdio", "command": s.Command, "args": list(s.Args)} }
	in := func(parts ...string) func(Places) string {
		return func(p Places) string { return filepath.Join(append([]string{p.Home}, parts...)...) }
	}
	return []Client{
		{"claude-code", "Claude Code", jsonForm{}, []string{"mcpServers", entryName}, typed, in(".claude.json"), ".mcp.json"},
		{"codex", "Codex", tomlForm{}, []string{"mcp_servers", entryName}, func(s Server) any {
			return map[string]any{"command": s.Command, "args": list(s.Args), "tool_timeout_sec": int64(120), codexAsks: codexPasses}
		}, CodexConfig, ".codex/config.toml"},
		{"cursor", "Cursor", jsonForm{}, []string{"mcpServers", entryName}, plain, in(".cursor", "mcp.json"), ".cursor/mcp.json"},
		{"goose", "Goose", yamlForm{}, []string{"extensions", entryName}, func(s Server) any {
			return map[string]any{
				"type": "stdio", "name": entryName, "enabled": true, "cmd": s.Command, "args": list(s.Args), "timeout": 300,
				"description": "Tools behind Palyra's gate",
			}
		}, func(p Places) string { return filepath.Join(p.Config, "goose", "config.yaml") }, ""},
		{"vscode", "VS Code", jsonForm{}, []string{"servers", entryName}, typed, func(p Places) string {
			if runtime.GOOS == "darwin" {
				return filepath.Join(p.Home, "Library", "Application Support", "Code", "User", "mcp.json")
			}
			return filepath.Join(p.Config, "Code", "User", "mcp.json")
		}, ".vscode/mcp.json"},
	}
}

// codexAsks has Codex leave the asking to the gate: without it 'codex exec' refuses every tool that is not
// read-only, and its window asks before Palyra does. Codex knows the word since April 2026.
const codexAsks, codexPasses = "default_tools_approval_mode", "approve"

// Sets says how an entry changes the client's own questions; "" where it does not.
func (c Client) Sets() string {
	if c.Name == "codex" {
		return fmt.Sprintf("%s = %q for this server: Codex does not ask before Palyra's tools, the gate does", codexAsks, codexPasses)
	}
	return ""
}

func list(args []string) []any {
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = a
	}
	return out
}

// Find returns a client by name.
func Find(name string) (Client, bool) {
	for _, c := range Clients() {
		if c.Name == name {
			return c, true
		}
	}
	return Client{}, false
}

// Path is the file to write: the user's, or that of a workspace.
func (c Client) Path(p Places, workspace string) (string, error) {
	if workspace == "" {
		return c.user(p), nil
	}
	if c.local == "" {
		return "", palyra.Errorf(palyra.Invalid, palyra.ReasonUnsupported, "%s has no configuration of its own in a workspace", c.Title).
			WithRemedy("leave --workspace out")
	}
	return filepath.Join(workspace, filepath.FromSlash(c.local)), nil
}

// Lines is the entry as a file of its own.
func (c Client) Lines(s Server) (string, error) {
	doc, err := c.form.set(nil, c.path, c.entry(s))
	return string(doc), err
}

// Merge returns a file with the entry in it. A file that has it is returned as it is.
func (c Client) Merge(doc []byte, s Server) ([]byte, error) {
	before, err := c.form.decode(doc)
	if err != nil {
		return nil, unreadable(err)
	}
	want, err := put(before, c.path, c.entry(s))
	if err != nil {
		return nil, err
	}
	if again, err := c.form.decode(doc); err == nil && reflect.DeepEqual(normal(again), normal(want)) {
		return doc, nil
	}
	out, err := c.form.set(doc, c.path, c.entry(s))
	if err != nil {
		return nil, err
	}
	after, err := c.form.decode(out)
	if err != nil || !reflect.DeepEqual(normal(after), normal(want)) {
		return nil, unreadable(errWriting)
	}
	return out, nil
}

func unreadable(why error) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the file cannot be changed: %v", why).
		WithRemedy("put the lines of --print into it by hand")
}

// put sets the value at a path of a decoded file.
func put(m map[string]any, path []string, value any) (map[string]any, error) {
	if len(path) == 1 {
		m[path[0]] = value
		return m, nil
	}
	inner, ok := m[path[0]].(map[string]any)
	if m[path[0]] == nil {
		inner, ok = map[string]any{}, true
	}
	if !ok {
		return nil, unreadable(fmt.Errorf("%q is not a table in it", path[0]))
	}
	inner, err := put(inner, path[1:], value)
	m[path[0]] = inner
	return m, err
}

// Result is what a change did.
type Result struct {
	Path    string `json:"path"`
	Backup  string `json:"backup,omitempty"` // the file as it was
	Changed bool   `json:"changed"`
	Removed bool   `json:"removed,omitempty"` // the file had nothing else in it, and is gone
}

// Modes of files that are made: a user's own is nobody else's, one of a project is read by all who work in it.
const (
	private fs.FileMode = 0o600
	shared  fs.FileMode = 0o644
)

// Write merges the entry into a file, which need not exist.
func (c Client) Write(path string, s Server) (Result, error) {
	mode := private
	if s.Shared {
		mode = shared
	}
	return rewrite(path, mode, c.holds(path), unreadable, func(old []byte) ([]byte, error) { return c.Merge(old, s) })
}
