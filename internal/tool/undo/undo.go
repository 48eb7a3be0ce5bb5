// Package undo has palyra.undo: an agent takes back what one of its own calls changed.
//
// It is a call like any other: its plan names every path that it writes and binds the present
// content, people see the diff, and policy judges it as it judges an edit. For it, the calls of
// other agents, and those in other workspaces or rooms, do not exist.
package undo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"palyra"
	"palyra/internal/tool"
)

// Undoer takes back the changes of calls.
type Undoer interface {
	// Size returns how many paths a call changed, and how many bytes what it replaced takes, which is found out
	// without reading any of it. A call that is not the caller's own, in this workspace, is not found.
	Size(ctx context.Context, env tool.Env, workspace string, call palyra.CallID) (paths, bytes int64, err error)
	// Preview returns the changes that undoing a call would make, their diff for people, and whether the diff shows
	// all new content. A call that is not the caller's own, in this workspace, is not found.
	Preview(ctx context.Context, env tool.Env, workspace string, call palyra.CallID) (all []palyra.Change, shown palyra.Detail, whole bool,
		err error)
	// Undo undoes a call, whole or not at all.
	Undo(ctx context.Context, env tool.Env, workspace string, call palyra.CallID) (palyra.Effects, error)
}

// All returns the package's tools.
func All(u Undoer) []tool.Tool { return []tool.Tool{taker{u}} }

type taker struct{ undo Undoer }

const schema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["call_id"],
  "properties": {
    "call_id": {"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$", "description": "The call_id of the outcome of one of your own calls in this workspace."}
  }
}`

// Spec implements tool.Tool.
func (taker) Spec() palyra.Tool {
	return palyra.Tool{
		Name: palyra.ToolUndo, Title: "Undo a call", Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin, Workspace: true,
		Description: "Takes back what one of your own calls changed in this workspace: files that it replaced or removed are put back, " +
			"what it made is removed. " +
			"It is refused where something else is there by now than the call left. Undo later calls first.",
		Capabilities: []palyra.Capability{palyra.FilesystemRead, palyra.FilesystemWrite}, InputSchema: json.RawMessage(schema), MaxInput: 4 << 10,
	}
}

// What an agent may take back at once: an approver sees all the paths, and others wait while the content is compared.
const (
	mostPaths = 1000
	mostBytes = 256 << 20
)

// Plan implements tool.Tool.
func (t taker) Plan(ctx context.Context, env tool.Env, p *palyra.Plan) error {
	var a args
	if err := tool.Arguments(*p, &a); err != nil {
		return err
	}
	paths, bytes, err := t.undo.Size(ctx, env, p.Workspace.Path, a.Call)
	if err != nil {
		return err
	}
	if paths > mostPaths || bytes > mostBytes {
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonInputTooLarge,
			"the call changed %d paths and replaced %d bytes; at most %d paths and %d bytes are taken back at once",
			paths, bytes, mostPaths, mostBytes).
			WithRemedy("ask a person to run 'palyra undo %s'", a.Call)
	}
	all, shown, whole, err := t.undo.Preview(ctx, env, p.Workspace.Path, a.Call)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := bind(p, c); err != nil {
			return err
		}
	}
	slices.Sort(p.Writes)
	slices.Sort(p.Removes)
	slices.SortFunc(p.Inputs, func(a, b palyra.Input) int { return strings.Compare(a.Path, b.Path) })
	if shown.Summary = fmt.Sprintf("undo call %s: %d paths", a.Call, len(all)); len(all) == 1 {
		shown.Summary = fmt.Sprintf("undo call %s: 1 path", a.Call)
	}
	p.Detail, p.Unshown = shown, !whole
	return nil
}

// bind puts one path into a plan: that it is written, and its present content.
func bind(p *palyra.Plan, c palyra.Change) error {
	name, err := c.Path.Name()
	if err != nil || !utf8.ValidString(name) {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonPathInvalid, "the call changed %s, a name that is not text", c.Path).
			WithRemedy("ask a person to run 'palyra undo'")
	}
	if name == "" {
		name = "."
	}
	p.Writes = append(p.Writes, name)
	if c.Now == nil {
		p.Removes = append(p.Removes, name)
	}
	in := palyra.Input{Path: name}
	if c.Was != nil {
		in.Digest, in.Mode = c.Was.Digest, c.Was.Mode
	}
	p.Inputs = append(p.Inputs, in)
	return nil
}

type args struct {
	Call palyra.CallID `json:"call_id"`
}

type result struct {
	Call    palyra.CallID  `json:"call_id"`
	Changes palyra.Effects `json:"changes"`
}

// Run implements tool.Tool.
func (t taker) Run(ctx context.Context, env tool.Env, p palyra.Plan) (json.RawMessage, error) {
	var a args
	if err := tool.Arguments(p, &a); err != nil {
		return nil, err
	}
	e, err := t.undo.Undo(ctx, env, p.Workspace.Path, a.Call)
	if err != nil {
		return nil, err
	}
	return tool.Encode(result{a.Call, e})
}
