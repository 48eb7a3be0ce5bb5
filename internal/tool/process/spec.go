package process

import (
	"encoding/json"

	"palyra"
)

const maxInput = 4 << 20 // room for 1 MiB of stdin in base64, or with many escapes, and the arguments

// Members of the schemas, in the order in which models read them.
const (
	programSchema = `
    "command": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "Program to run. A bare name is looked up in the program directories of the system and of the profile; a path with a slash is relative to cwd. No shell is involved."},
    "args": {"type": "array", "maxItems": 4096, "items": {"type": "string", "maxLength": 131071}, "description": "Arguments, one per element, passed on exactly as given: no quoting, globbing or variables."},
    "cwd": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "Directory to run in, relative to the workspace. Default: the workspace."},
    "env": {"type": "object", "maxProperties": 128, "additionalProperties": {"type": "string", "maxLength": 131071}, "description": "Environment variables to add. Names that make programs run or load other code, and names of secrets, are refused."},`
	inputSchema = `
    "stdin": {"type": "string", "maxLength": 1048576, "description": "Text for standard input, without NUL. Default: none."},
    "stdin_b64": {"type": "string", "maxLength": 1398104, "description": "Bytes for standard input, in base64, instead of stdin."},
    "stdin_live": {"type": "boolean", "description": "Feed standard input while the program runs. Refused for shells and other interpreters."},
    "terminal": {"type": "object", "additionalProperties": false, "properties": {
      "rows": {"type": "integer", "minimum": 1, "maximum": 1000},
      "cols": {"type": "integer", "minimum": 1, "maximum": 1000}
    }, "description": "Run on a terminal of this size. Default: no terminal."},`
	roomSchema = `
    "tier": {"type": "string", "enum": ["b", "c"], "description": "Sandbox tier to run in. Default: the configured one."},
    "profile": {"type": "string", "minLength": 1, "maxLength": 64, "description": "What the sandbox is furnished with: toolchains, caches, hosts. Default: by the command; none for nothing. Needs tier c."},
    "egress": {"type": "array", "maxItems": 32, "items": {"type": "string", "minLength": 3, "maxLength": 260}, "description": "Hosts to reach, as host:port; the host may be *.suffix or an address. Default: those that the command names; [] for none. Those of the profile are added. Needs tier c."},
    "bindings": {"type": "array", "maxItems": 16, "items": {"type": "string", "minLength": 1, "maxLength": 128}, "description": "Secrets to use, by the names of their bindings. The program gets placeholders; the values go in on the way to the hosts that they are bound to. Needs tier c."},
    "script": {"type": "string", "minLength": 1, "maxLength": 131070, "description": "Script to run instead of a command: with /bin/sh, or with what its #! line names, if that is sh, bash, zsh, python, node, perl or ruby. Needs tier c."},
    "require_limits": {"type": "boolean", "description": "Refuse to run where the kernel does not hold memory and processes of the whole run."},`
	agentSchema = `
    "agent_socket": {"type": "boolean", "description": "The program is an agent itself: it gets a door of its own to Palyra, at which it reaches this workspace and what it starts there. Needs tier c."},
    "agent_within": {"type": "array", "maxItems": 32, "items": {"type": "string", "minLength": 1, "maxLength": 4096}, "description": "Registered workspaces that the agent may work in beside its own, by absolute path; * alone: all that whoever makes this call reaches. Needs agent_socket."},
    "staged": {"type": "boolean", "description": "What the agent and all its calls write stays on one layer, until a person keeps it or drops it. Needs agent_socket, without agent_within and live."},
    "live": {"type": "boolean", "description": "Write to the workspace while it runs, seen by others, instead of to a layer that is judged and kept when it has ended. For servers that watch files. Asks more often."},`
	limitSchema = `
    "limits": {"type": "object", "additionalProperties": false, "properties": {
      "cpu_ms": {"type": "integer"},
      "memory_bytes": {"type": "integer"},
      "processes": {"type": "integer"},
      "open_files": {"type": "integer"},
      "file_bytes": {"type": "integer"},
      "emitted_bytes": {"type": "integer"},
      "disk_bytes": {"type": "integer"}
    }, "description": "Tighter limits for this run; they can only be lowered."},
    "timeout_ms": {"type": "integer", "description": "Wall clock limit in milliseconds; it can only be lowered."}`
	publishSchema = `
    "publish": {"type": "array", "maxItems": 8, "items": {"type": "string", "minLength": 1, "maxLength": 11}, "description": "Ports to reach the process at, as PORT or HOST:INSIDE: HOST is a port of this machine from 1024 on, at 127.0.0.1 and in your other calls of this session; INSIDE is the one that the program listens on. Needs tier c."},`
)

const (
	schemaHead = `{
  "type": "object",
  "additionalProperties": false,
  "properties": {`
	schemaTail = `
  }
}`
	schema      = schemaHead + programSchema + inputSchema + roomSchema + agentSchema + limitSchema + schemaTail
	startSchema = schemaHead + programSchema + publishSchema + roomSchema + limitSchema + schemaTail
)

// startSpec describes the tool for background processes.
func startSpec(tier palyra.Tier) palyra.Tool {
	t := spec(tier)
	t.Name, t.Title, t.InputSchema = palyra.ToolProcessStart, "Start background process", json.RawMessage(startSchema)
	t.Description = "Starts a program in a sandbox, in the workspace, and answers with its process_id while it goes on: " +
		"a development server, a watcher. " +
		"It writes to the workspace directly. It ends when you stop it (palyra.process.stop), when the session ends, or after 24 hours. " +
		"What it prints is read with palyra.process.output."
	return t
}

// spec describes the tool.
func spec(tier palyra.Tier) palyra.Tool {
	return palyra.Tool{
		Name: Name, Title: "Run program", Source: palyra.SourceBuiltin, Tier: tier, Workspace: true,
		Description: "Runs a program in a sandbox, in the workspace, without network but for the hosts that are asked for. Returns its " +
			"exit code or signal, " +
			"stdout and stderr, also when it fails. The program may read and write the workspace, but not what makes others run code " +
			"(hooks, CI and editor settings); " +
			"the rest of the system it can read only where programs need it.",
		Capabilities: []palyra.Capability{palyra.ProcessExec, palyra.FilesystemWrite, palyra.FilesystemRead},
		InputSchema:  json.RawMessage(schema), MaxInput: maxInput,
	}
}
