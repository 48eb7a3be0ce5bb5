// Package hook knows agents that keep their own tools and ask a program before they use one: which of those tools
// do nothing but talk, which run a command, and which files an agent keeps for itself.
//
// Promises: a tool that is not in an agent's table is not known, and is asked about. A file is an agent's own only
// where the agent's program says that it works, in directories of this user that nobody else can write to, after
// all links. Nothing that a model writes takes part in either.
//
// It does not judge and it reads no file's content.
package hook

import "encoding/json"

// AgentProgram is one that asks.
type AgentProgram struct {
	Name  string // claude-code, codex
	Title string
	tools map[string]agentTool
}

// agentTool is one of an agent's own, as far as it is known.
type agentTool struct {
	kind   kind
	unless []string // fields of its input with which it does more
}

// kind is the kind of a tool.
type kind int

const (
	unknown kind = iota
	talks        // touches nothing but the agent's own notes, tasks and windows
	shell        // runs the command in its field "command"
)

// Find returns an agent by name.
func Find(name string) (AgentProgram, bool) {
	for _, a := range []AgentProgram{claudeCode, codex} {
		if a.Name == name {
			return a, true
		}
	}
	return AgentProgram{}, false
}

// Talks reports whether a tool does nothing that could be judged: the agent's own rules go on holding for it.
func (a AgentProgram) Talks(name string, input map[string]json.RawMessage) bool {
	t := a.tools[name]
	if t.kind != talks {
		return false
	}
	for _, field := range t.unless {
		if v, there := input[field]; there && string(v) != "null" {
			return false
		}
	}
	return true
}

// Shell reports whether a tool runs the shell command in its field "command".
func (a AgentProgram) Shell(name string) bool { return a.tools[name].kind == shell }

// claudeCode is Claude Code. The names are those that the program itself gave to its
// model, with what each takes: version 2.1.325, and those of 2.0 which it no longer has.
//
// Not here, and why: Skill (a skill's own text may have commands that run when it is loaded, and no hook sees them:
// seen in 2.1.325), Workflow (runs a script), EnterWorktree and ExitWorktree (run git and take directories away),
// CronCreate (has the agent start again by itself), SendMessage (reaches other sessions), NotebookEdit, WebSearch.
var claudeCode = AgentProgram{Name: "claude-code", Title: "Claude Code", tools: map[string]agentTool{
	"Bash":    {kind: shell}, // 2.0
	"Monitor": {kind: shell}, // 2.1.325: a command whose lines come as events

	"TodoWrite":       {kind: talks}, // 2.0
	"TodoRead":        {kind: talks}, // 2.0
	"EnterPlanMode":   {kind: talks}, // 2.0
	"ExitPlanMode":    {kind: talks}, // 2.0
	"AskUserQuestion": {kind: talks}, // 2.0
	"BashOutput":      {kind: talks}, // 2.0: reads a command of the agent's own
	"KillShell":       {kind: talks}, // 2.0: ends one

	"Task":  {kind: talks, unless: []string{"isolation"}}, // 2.0: what a subagent calls comes to the hook itself
	"Agent": {kind: talks, unless: []string{"isolation"}}, // 2.1.325: the same; with isolation it makes worktrees

	"ToolSearch":           {kind: talks}, // 2.1.325: schemas of tools
	"TaskCreate":           {kind: talks}, // 2.1.325: a list of things to do
	"TaskUpdate":           {kind: talks}, // 2.1.325
	"TaskList":             {kind: talks}, // 2.1.325
	"TaskGet":              {kind: talks}, // 2.1.325
	"TaskOutput":           {kind: talks}, // 2.1.325: as BashOutput
	"TaskStop":             {kind: talks}, // 2.1.325: as KillShell
	"ListAgents":           {kind: talks}, // 2.1.325
	"ReportFindings":       {kind: talks}, // 2.1.325: a list in the window
	"ScheduleWakeup":       {kind: talks}, // 2.1.325: when this session goes on
	"CronList":             {kind: talks}, // 2.1.325
	"ListMcpResourcesTool": {kind: talks}, // 2.1: names only
}}

// codex is Codex, whose hooks use Claude Code's words. Version 0.166.0 asks before its
// shell, its patches and MCP tools; it has no others that a hook is told of.
var codex = AgentProgram{Name: "codex", Title: "Codex", tools: map[string]agentTool{
	"Bash": {kind: shell}, // 0.166.0: exec_command
}}
