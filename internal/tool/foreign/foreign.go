// Package foreign gives names to tools of the agent's own, so that policy and
// people can be asked about them.
//
// An agent that keeps its tools has some that Palyra knows nothing of but what
// they are called and what they are given. Such a tool is hook.NAME: it can be
// checked and never run, it counts as the most sensitive thing there is, and a
// person who is asked sees its name and its input as they came.
package foreign

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	"palyra"
)

// nameForm is what the name of a foreign tool looks like: the agent's own name of
// it, in small letters.
var nameForm = regexp.MustCompile(`^hook\.[a-z0-9_-]{1,100}$`)

const maxInput = 1 << 20

const schema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["tool", "input"],
  "properties": {
    "tool": {"type": "string", "minLength": 1, "maxLength": 100, "description": "What the agent calls its tool."},
    "input": {"type": "object", "description": "What the agent gives it, as it came."}
  }
}`

// Tool describes a foreign tool, if the name is one.
func Tool(name string) (palyra.Tool, bool) {
	if !nameForm.MatchString(name) {
		return palyra.Tool{}, false
	}
	return palyra.Tool{
		Name: name, Title: "Tool of the agent", Source: palyra.SourceAgent, Tier: palyra.TierUnsandboxed,
		Description:  "A tool of the agent's own. Palyra does not know what it does and cannot run it; whether the agent may use it can be asked.",
		Capabilities: []palyra.Capability{palyra.ProcessExec, palyra.FilesystemWrite, palyra.Network},
		InputSchema:  json.RawMessage(schema), MaxInput: maxInput, Workspace: true,
	}, true
}

// reads names the tools that only read, and their field with the path.
var reads = map[string]string{"hook.read": "file_path", "hook.notebookread": "notebook_path", "hook.ls": "path", "hook.grep": "path"}

// onlyPath is the path of a tool that only reads, where the input has nothing else.
func onlyPath(name string, input json.RawMessage) string {
	var fields map[string]any
	if json.Unmarshal(input, &fields) != nil || len(fields) != 1 || reads[name] == "" {
		return ""
	}
	path, _ := fields[reads[name]].(string)
	return path
}

// Driver plans foreign tools.
type Driver struct{}

// Tool describes a foreign tool, if the name is one.
func (Driver) Tool(name string) (palyra.Tool, bool) { return Tool(name) }

// Plan says in words what is known, which is little.
func (Driver) Plan(_ context.Context, c *palyra.Call, p *palyra.Plan) error {
	if !c.Proposal.Check {
		return palyra.Errorf(palyra.Denied, palyra.ReasonUnsupported, "%s is a tool of the agent's own and cannot be run here", palyra.Clip(p.Tool, 128)).
			WithRemedy("it can only be checked: palyra check --tool %s", palyra.Clip(p.Tool, 128))
	}
	var a struct {
		Tool  string          `json:"tool"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(p.Arguments, &a); err != nil {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonSchemaMismatch, "the arguments of %s cannot be read", p.Tool).WithCause(err)
	}
	p.Detail.Summary = "use " + palyra.Clip(a.Tool, 100) + ", a tool of the agent's own"
	if path := onlyPath(p.Tool, a.Input); path != "" {
		p.Detail.Summary = fmt.Sprintf("let the agent's own %s read %q", palyra.Clip(a.Tool, 100), palyra.Clip(path, 300))
	}
	p.Detail.Notes = append(p.Detail.Notes, "Palyra does not know what this tool does with its input")
	return nil
}
