// Package foreign gives names to tools of the agent's own, so that policy and people can be asked about them.
//
// Of such a tool Palyra knows only its name and its input. It is called hook.NAME here: it can be checked and never
// run, it counts as most sensitive, and a person who is asked sees its name and input unchanged. A few are known to
// read or change just the one file that they name; then the plan says which.
package foreign

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"palyra"
)

// nameForm is the form of a foreign tool's name: the agent's own name of it, in small letters.
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

// everything are the capabilities of a tool about which nothing is known.
var everything = []palyra.Capability{palyra.ProcessExec, palyra.FilesystemWrite, palyra.Network}

// known are the tools that only read, or change, the file that one field names: Claude Code's. The
// plan says which file they touch.
var known = map[palyra.ToolName]struct {
	field string
	does  palyra.Capability
}{
	"hook.read": {"file_path", palyra.FilesystemRead}, "hook.notebookread": {"notebook_path", palyra.FilesystemRead},
	"hook.ls": {"path", palyra.FilesystemRead}, "hook.grep": {"path", palyra.FilesystemRead},
	"hook.write": {"file_path", palyra.FilesystemWrite}, "hook.edit": {"file_path", palyra.FilesystemWrite},
	"hook.multiedit": {"file_path", palyra.FilesystemWrite}, "hook.notebookedit": {"notebook_path", palyra.FilesystemWrite},
}

// Tool describes a foreign tool, if the name is one.
func Tool(name palyra.ToolName) (palyra.Tool, bool) {
	if !nameForm.MatchString(string(name)) {
		return palyra.Tool{}, false
	}
	does := everything
	if k, ok := known[name]; ok {
		does = []palyra.Capability{k.does}
	}
	return palyra.Tool{
		Name: name, Title: "Tool of the agent", Source: palyra.SourceAgent, Tier: palyra.TierUnsandboxed,
		Description: "A tool of the agent's own. Palyra does not know what it does and cannot run it; whether the agent may use it can " +
			"be asked.",
		Capabilities: does, InputSchema: json.RawMessage(schema), MaxInput: maxInput, Workspace: true,
	}, true
}

// Driver plans foreign tools.
type Driver struct {
	// Target finds the file of a workspace that a path names, through no link. Without it nothing
	// is known of tools that write.
	Target func(ctx context.Context, w palyra.WorkspaceRef, path string) (rel string, err error)
}

// Tool describes a foreign tool, if the name is one.
func (Driver) Tool(name palyra.ToolName) (palyra.Tool, bool) { return Tool(name) }

// Plan describes the call, of which little is known.
func (d Driver) Plan(ctx context.Context, c *palyra.Call, p *palyra.Plan) error {
	if !c.Proposal.Check {
		return palyra.Errorf(palyra.Denied, palyra.ReasonUnsupported, "%s is a tool of the agent's own and cannot be run here",
			palyra.Clip(p.Tool, 128)).
			WithRemedy("it can only be checked: palyra check --tool %s", palyra.Clip(p.Tool, 128))
	}
	var a struct {
		Tool  string          `json:"tool"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(p.Arguments, &a); err != nil {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonSchemaMismatch, "the arguments of %s cannot be read", p.Tool).WithCause(err)
	}
	name := palyra.Clip(a.Tool, 100)
	if ok, err := d.touches(ctx, p, name, a.Input); ok || err != nil {
		return err
	}
	p.Capabilities = slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.Capabilities, everything))))
	p.Detail.Summary = "use " + name + ", a tool of the agent's own"
	p.Detail.Notes = append(p.Detail.Notes, "Palyra does not know what this tool does with its input")
	return nil
}

// touches puts the file that a known tool reads or writes into the plan. ok is false where the
// agent could find another file by the input than we do.
func (d Driver) touches(ctx context.Context, p *palyra.Plan, name string, input json.RawMessage) (ok bool, err error) {
	k, is := known[p.Tool]
	var fields map[string]any
	if !is || string(p.Tool) != "hook."+strings.ToLower(name) || json.Unmarshal(input, &fields) != nil {
		return false, nil
	}
	at, _ := fields[k.field].(string)
	if !path.IsAbs(at) || path.Clean(at) != at {
		return false, nil
	}
	if k.does == palyra.FilesystemRead {
		if len(fields) != 1 { // other fields could lead it elsewhere
			return false, nil
		}
		p.Reads = []string{at}
		p.Detail.Summary = fmt.Sprintf("let the agent's own %s read %q", name, palyra.Clip(at, 300))
		return true, nil
	}
	if d.Target == nil || !isPlainPath(at) {
		return false, nil
	}
	rel, err := d.Target(ctx, p.Workspace, at)
	if err != nil {
		return false, err
	}
	p.Writes = []string{rel}
	p.Detail.Summary = fmt.Sprintf("let the agent's own %s change %q", name, palyra.Clip(rel, 300))
	p.Detail.Notes = append(p.Detail.Notes, "what the tool makes of the file is not shown as a diff; its input is shown whole")
	return true, nil
}

// isPlainPath reports whether a path has no character that an agent's tool may read in another way
// than we do, and no space at its end, which the tool removes.
func isPlainPath(at string) bool {
	return strings.TrimSpace(at) == at && strings.IndexFunc(at, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}
