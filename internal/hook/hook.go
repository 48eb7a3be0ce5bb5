// Package hook knows agents that keep their own tools and ask a program before they use one: what those tools are
// like, which words each agent asks and is answered in, and which files an agent keeps for itself.
//
// Promises: a tool that is not in an agent's table is not known, and is asked about; so is one that is given a field
// its table does not have. A file is an agent's own only where the agent's program says that it works, in directories
// of this user that nobody else can write to, after all links. Nothing that a model writes takes part in either.
//
// It does not judge and it reads no file's content.
package hook

import (
	"embed"
	"encoding/json"
	"maps"
	"slices"
	"sync"
)

// AgentProgram is one that asks: a table, agents/NAME.json.
type AgentProgram struct {
	Name    string `json:"name"` // claude-code, codex, …
	Title   string `json:"title"`
	Program string `json:"program"` // as it is found in the PATH

	Version string `json:"version"` // from which the table was read; "": not said there
	ReadOn  string `json:"read"`    // when
	Source  string `json:"source"`  // "program": the program itself said so; "documentation"
	Note    string `json:"note"`

	Dialect    Dialect `json:"dialect"`
	Project    string  `json:"project"`    // the variable with the directory that it was started for
	Plain      bool    `json:"plain"`      // it is Claude Code, or uses its names: what its tools take besides is its own
	Event      string  `json:"event"`      // that comes before a tool
	Rewrites   bool    `json:"rewrites"`   // a hook may change a tool's input
	OwnServer  bool    `json:"own_server"` // it says for certain whose a tool of MCP is
	SilentYes  bool    `json:"silent_yes"` // it knows no word for a plain yes
	Fails      string  `json:"fails"`      // what becomes of a call whose hook fails by itself: "open" or "closed"
	SaysNo     bool    `json:"says_no"`    // a failure has to be answered as a no: its exit codes mean nothing
	AnsweredBy string  `json:"answered_by"`

	Tools  map[string]AgentTool `json:"tools"`
	Untold map[string]string    `json:"untold"` // tools that no hook is told of, and what they do
}

// AgentTool is one of an agent's own, as far as it is known.
type AgentTool struct {
	Like   string            `json:"like"`    // the tool of Claude Code that does the same, or "talk"
	Fields map[string]string `json:"fields"`  // that tool's field → what it is called here
	Takes  []string          `json:"takes"`   // further fields, which change nothing that is judged
	Unless []string          `json:"unless"`  // fields with which it does more
	GoesOn bool              `json:"goes_on"` // the agent works on while it runs
	Since  string            `json:"since"`   // an older version that has it
	Note   string            `json:"note"`
}

// Talk is what a tool is like that touches nothing but the agent's own notes, tasks and windows.
const Talk = "talk"

//go:embed agents/*.json
var tables embed.FS

// agents are all tables, read once. A table that cannot be read is a defect that the tests find: its agent is unknown then.
var agents = sync.OnceValue(func() map[string]AgentProgram {
	all := map[string]AgentProgram{}
	files, _ := tables.ReadDir("agents")
	for _, f := range files {
		var a AgentProgram
		raw, err := tables.ReadFile("agents/" + f.Name())
		if err == nil && json.Unmarshal(raw, &a) == nil {
			all[a.Name] = a
		}
	}
	return all
})

// Names lists the agents that are known.
func Names() []string { return slices.Sorted(maps.Keys(agents())) }

// Find returns an agent by name. The tools of one that another's hook answers for are that one's.
func Find(name string) (AgentProgram, bool) {
	all := agents()
	a, ok := all[name]
	if by, also := all[a.AnsweredBy]; ok && also {
		a.Tools = by.Tools
	}
	return a, ok
}

// Answers is the name under which the agent's hook is answered.
func (a AgentProgram) Answers() string {
	if a.AnsweredBy != "" {
		return a.AnsweredBy
	}
	return a.Name
}

// Talks reports whether a tool does nothing that could be judged: the agent's own rules go on holding for it.
func (a AgentProgram) Talks(name string, input map[string]json.RawMessage) bool {
	t := a.Tools[name]
	if t.Like != Talk {
		return false
	}
	for _, field := range t.Unless {
		if v, there := input[field]; there && string(v) != "null" {
			return false
		}
	}
	return true
}

// Shell reports whether a tool runs a shell command.
func (a AgentProgram) Shell(name string) bool { return a.Tools[name].Like == LikeShell }

// Like says which tool of Claude Code does the same as a call, and with which fields. It is not ok where the table does
// not know the tool, or not all that it is given: then nobody can say what it comes to.
func (a AgentProgram) Like(name string, input map[string]json.RawMessage) (like string, given map[string]json.RawMessage, ok bool) {
	t, known := a.Tools[name]
	if !known || t.Like == Talk {
		return "", nil, false
	}
	if a.Plain {
		return t.Like, input, true
	}
	theirs := t.names()
	fields, judged := map[string]json.RawMessage{}, map[string]bool{}
	for ours, name := range theirs {
		judged[name] = true
		if v, there := input[name]; there {
			fields[ours] = v
		}
	}
	for name := range input {
		if !judged[name] && !slices.Contains(t.Takes, name) {
			return "", nil, false
		}
	}
	return t.Like, fields, true
}

// names are what a tool calls the fields that are judged.
func (t AgentTool) names() map[string]string {
	all := map[string]string{}
	for _, ours := range likes[t.Like] {
		all[ours] = ours
	}
	maps.Copy(all, t.Fields)
	return all
}

// Field is what a tool calls a field that Claude Code's like of it has.
func (a AgentProgram) Field(tool, ours string) string {
	if name, other := a.Tools[tool].Fields[ours]; other {
		return name
	}
	return ours
}

// LikeShell is the tool of Claude Code that runs a command.
const LikeShell = "Bash"

// likes are the tools of Claude Code that others are compared with, and the fields that are judged.
var likes = map[string][]string{
	LikeShell:     {"command"},
	"Read":        {"file_path"},
	"LS":          {"path"},
	"Glob":        {"pattern", "path"},
	"Grep":        {"pattern", "path", "glob"},
	"Write":       {"file_path", "content"},
	"Edit":        {"file_path", "old_string", "new_string"},
	"WebFetch":    {"url"},
	"apply_patch": {"command"},
}
