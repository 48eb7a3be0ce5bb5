//go:build agents

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"palyra"
)

// step is a call that the model makes. Text in the place of arguments is for a tool that
// takes no JSON.
type step struct {
	tool string
	args map[string]any
	text string
	keys string // are typed at the command while it runs
}

// tools are those that an agent works with.
type tools int

const (
	palyras    tools = iota // over MCP
	claudes                 // Claude Code's own
	codexes                 // Codex's own
	geminis                 // those of Gemini's program
	opencodes               // opencode's own
	copilots                // Copilot's own
	claudesACP              // what Zed's adapter has in the place of Claude Code's own
)

// own are the names of an agent's shell, reader and writer, and of their fields.
var own = map[tools]struct{ shell, command, read, write, path, content string }{
	claudes:   {"Bash", "command", "Read", "Write", "file_path", "content"},
	geminis:   {"run_shell_command", "command", "read_file", "write_file", "file_path", "content"},
	opencodes: {"bash", "command", "read", "write", "filePath", "content"},
	copilots:  {"bash", "command", "view", "create", "path", "file_text"},

	claudesACP: {"mcp__acp__Bash", "command", "mcp__acp__Read", "mcp__acp__Write", "file_path", "content"},
}

// scene is one thing that an agent does.
type scene struct {
	name   string
	step   step
	want   string        // a regular expression of all that the model is given in the end
	answer palyra.Answer // "": nobody is asked
	after  time.Duration // that the answer takes
	makes  string        // a file that is there afterwards
	spares string        // one that is not
	ends   bool          // a no may end the turn, and the model hears nothing
	whole  string        // what the model has read when it has followed every note
}

// source is what the larger file has: as people write programs, with all that is escaped on the way.
func source() string {
	const line = "\tif err != nil { return \"x\\t0\" } // ein Kommentar\n"
	return strings.Repeat(line, 24390/len(line)+1)[:24390]
}

// What a model is told of a no, by whoever's tool it was, and of a wait by its own shell.
const (
	refusedThere = `refused: user:\w+ denied the call \(approval_denied\)\nremedy: talk to the approver; the same plan cannot be asked again for a while\ncall \w+\n` + schemaAdded
	// by Claude Code, to an error of a tool that it had not shown whole
	schemaAdded  = `(?s:\nThis tool's input schema was not in your prompt.*)?`
	waitedShell  = `(palyra: waiting for a person to answer \w+ in Palyra: .*\r?\n)?`
	refusedShell = `(?s).*user:\w+ denied the call \(approval_denied\).*`
	refusedHook  = `(?s).*palyra: (denied|refused): user:\w+ denied the call.* \(approval_denied, call \w+\); talk to the approver.*`
)

// scenes are what every agent does, with the tools it works with.
func scenes(work string, with tools) []scene {
	say := map[tools][3]string{ // the whole of a small file, of a program's output, of a no
		palyras: {"hello world", `%s\n`, refusedThere},
		claudes: {"1\thello world", `%s`, refusedShell},
		codexes: {"hello world", `%s\n`, refusedShell},
	}[with]
	waited := map[tools]string{palyras: "", claudes: waitedShell, codexes: waitedShell}[with]
	all := []scene{
		{name: "read", step: toRead(with, work, "small.txt"), want: say[0]},
		{name: "read 24390 bytes", step: toRead(with, work, "big.go"), want: `(?s).*`, whole: source()},
		{name: "program", step: toRun(with, "ls small.txt"), want: fmt.Sprintf(say[1], "small.txt")},
	}
	for _, after := range []time.Duration{3 * time.Second, 80 * time.Second} {
		made := fmt.Sprintf("made%.0f", after.Seconds())
		all = append(all, scene{
			name: fmt.Sprintf("program, allowed after %.0f s", after.Seconds()), step: toRun(with, "touch "+made+" && echo made"),
			want: waited + fmt.Sprintf(say[1], "made"), answer: palyra.AnswerAllow, after: after, makes: made,
		})
	}
	return append(all, scene{
		name: "program, denied", step: toRun(with, "touch never"), want: say[2],
		answer: palyra.AnswerDeny, after: time.Second, spares: "never",
	})
}

// edits are scenes of the agent's editor.
func edits(work string, with tools) []scene {
	done := map[tools]string{
		palyras: `(?s).*new\d+\.txt.*`, claudes: `File created successfully at: .*new\d+\.txt.*`,
		codexes: `(?s).*Success.*A new\d+\.txt\n`,
	}[with]
	no := map[tools]string{palyras: refusedThere, claudes: refusedHook, codexes: refusedHook}[with]
	return []scene{
		{
			name: "write, allowed after 3 s", step: toWrite(with, work, "new3.txt"), want: done, answer: palyra.AnswerAllow,
			after: 3 * time.Second, makes: "new3.txt",
		},
		{
			name: "write, allowed after 80 s", step: toWrite(with, work, "new80.txt"), want: done, answer: palyra.AnswerAllow,
			after: 80 * time.Second, makes: "new80.txt",
		},
		{
			name: "write, denied", step: toWrite(with, work, "newer.txt"), want: no, answer: palyra.AnswerDeny, after: time.Second,
			spares: "newer.txt",
		},
	}
}

func toRead(with tools, work, name string) step {
	switch with {
	case claudes, claudesACP, geminis, opencodes, copilots:
		return step{tool: own[with].read, args: map[string]any{own[with].path: filepath.Join(work, name)}}
	case codexes:
		return toRun(with, "cat "+name)
	}
	return step{tool: "palyra_fs_read", args: map[string]any{"path": name}}
}

func toRun(with tools, line string) step {
	switch with {
	case claudesACP: // its own shell has no time-out of its own
		return step{tool: own[with].shell, args: map[string]any{own[with].command: line, "timeout": 100_000}}
	case claudes, geminis, opencodes, copilots:
		return step{tool: own[with].shell, args: map[string]any{own[with].command: line, "description": "x"}}
	case codexes: // its model gives a command ten seconds unless it says otherwise, and asks again later
		return step{tool: "exec_command", args: map[string]any{"cmd": line, "yield_time_ms": 30000, "max_output_tokens": 20000}}
	}
	return step{tool: "palyra_process_run", args: map[string]any{"command": "/bin/sh", "args": []string{"-c", line}}}
}

func toWrite(with tools, work, name string) step {
	switch with {
	case claudes, claudesACP, geminis, opencodes, copilots:
		return step{tool: own[with].write, args: map[string]any{own[with].path: filepath.Join(work, name), own[with].content: "new\n"}}
	case codexes:
		return step{tool: "apply_patch", text: "*** Begin Patch\n*** Add File: " + name + "\n+new\n*** End Patch\n"}
	}
	return step{tool: "palyra_fs_write", args: map[string]any{"path": name, "content": "new\n"}}
}

// selfAnswered: Codex's model asks for a terminal, and types the answer to its own question there.
func selfAnswered() scene {
	s := toRun(codexes, "touch own")
	s.args["tty"], s.args["yield_time_ms"], s.keys = true, 3000, "allow\r"
	return scene{
		name: "program at a terminal, answers itself, denied", step: s, want: refusedShell, answer: palyra.AnswerDeny,
		after: 20 * time.Second, spares: "own",
	}
}

// pick keeps the scenes whose names have one of these beginnings.
func pick(all []scene, names ...string) (some []scene) {
	for _, c := range all {
		for _, n := range names {
			if c.name == n {
				some = append(some, c)
			}
		}
	}
	return some
}

// matrix is what holds in every agent with the hook, whatever it puts around a result.
func matrix(work string, with tools) []scene {
	unknown := step{tool: map[tools]string{
		claudes: "WebSearch", geminis: "google_web_search", opencodes: "skill", copilots: "skill",
	}[with], args: map[string]any{"query": "anything at all"}}
	if with == opencodes {
		unknown.args = map[string]any{"name": "anything"}
	}
	if with == copilots {
		unknown.args = map[string]any{"skill": "anything"}
	}
	all := []scene{
		{name: "allow", step: toRead(with, work, "small.txt"), want: `(?s).*hello world.*`},
		{name: "rewrite", step: toRun(with, "ls small.txt; id -un"), want: `(?s).*small.txt.*\bagent\b.*`},
		{
			name: "ask then allow, program", step: toRun(with, "touch asked && echo made"), want: `(?s).*made.*`,
			answer: palyra.AnswerAllow, after: 3 * time.Second, makes: "asked",
		},
		{
			name: "deny, program", step: toRun(with, "touch never"), want: refusedShell, answer: palyra.AnswerDeny, after: time.Second,
			spares: "never",
		},
		{
			name: "ask then allow, write", step: toWrite(with, work, "new.txt"), want: `(?s).*`, answer: palyra.AnswerAllow,
			after: 3 * time.Second, makes: "new.txt",
		},
		{name: "deny, write", step: toWrite(with, work, "newer.txt"), want: `(?s).*approval_denied.*`, answer: palyra.AnswerDeny, after: time.Second, spares: "newer.txt"},
		{
			name: "a command of 96 KiB", step: toRun(with, "touch long; : "+strings.Repeat("x", 96<<10)), want: `(?s).*longer than can be passed on.*`,
			spares: "long",
		},
	}
	if unknown.tool != "" {
		all = append(all, scene{
			name: "unknown tool, denied", step: unknown, want: `(?s).*approval_denied.*`, answer: palyra.AnswerDeny,
			after: time.Second,
		})
	}
	return all
}

// without are scenes of an agent whose daemon is down.
func without(work string, with tools) []scene {
	return []scene{
		{name: "daemon down, write", step: toWrite(with, work, "down.txt"), want: `(?s).*`, spares: "down.txt"},
		{name: "daemon down, program", step: toRun(with, "touch down"), want: `(?s).*`, spares: "down"},
	}
}
