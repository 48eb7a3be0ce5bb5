// Package review has palyra.stage.keep and palyra.stage.drop, by which a person keeps or drops what an agent and its calls
// wrote on the agent's stage.
//
// Both are calls like any other: proposed, judged, recorded and attested. What is kept is judged once more as the changes
// of a run are, before any of it is the workspace's. Only a person's own command calls them: no agent does, neither for itself nor for one
// that it started.
package review

import (
	"context"
	"encoding/json"
	"fmt"

	"palyra"
	"palyra/internal/commandagent"
	"palyra/internal/tool"
)

// Works knows what is staged.
type Works interface {
	// Meant returns how many of the changed paths of an agent a choice means, how many there are, and the digest of the
	// list of those that are meant. An agent that the caller may not end is not found, nor is one of another workspace;
	// a path that means nothing is an error, and so is an agent that still runs, or whose list of all is no more the
	// one that was shown.
	Meant(ctx context.Context, env tool.Env, workspace string, agent palyra.CallID, paths []palyra.PathText, shown palyra.Digest,
	) (meant, all int, list palyra.Digest, err error)
}

// All returns the package's tools.
func All(w Works) []tool.Tool {
	return []tool.Tool{
		reviewer{
			w, palyra.ToolStageKeep, "Keep staged work", "keep",
			"Makes what an agent wrote on its stage the workspace's, all of it or parts. A person calls it, with 'palyra keep'.",
		},
		reviewer{
			w, palyra.ToolStageDrop, "Drop staged work", "drop",
			"Throws away what an agent wrote on its stage, all of it or parts. A person calls it, with 'palyra drop'.",
		},
	}
}

type reviewer struct {
	works       Works
	name        palyra.ToolName
	title, verb string
	text        string
}

const (
	maxInput = 1 << 20
	schema   = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["agent"],
  "properties": {
    "agent": {"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$", "description": "The call_id of the agent whose work is staged."},
    "paths": {"type": "array", "maxItems": 10000, "items": {"type": "string", "minLength": 1, "maxLength": 16384}, "description": "Paths, directories and patterns below the workspace. Default: all."},
    "digest": {"type": "string", "maxLength": 128, "description": "The digest of the list of changes that was shown (counts.list_sha256 of 'palyra changes'). Where the list is another one by now, nothing is done."}
  }
}`
)

// Spec implements tool.Tool.
func (t reviewer) Spec() palyra.Tool {
	return palyra.Tool{
		Name: t.name, Title: t.title, Description: t.text, Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin, Workspace: true,
		Capabilities: []palyra.Capability{palyra.FilesystemRead, palyra.FilesystemWrite},
		InputSchema:  json.RawMessage(schema), MaxInput: maxInput,
	}
}

type args struct {
	Agent palyra.CallID     `json:"agent"`
	Paths []palyra.PathText `json:"paths"`
	Shown palyra.Digest     `json:"digest"`
}

// Plan implements tool.Tool.
func (t reviewer) Plan(ctx context.Context, env tool.Env, p *palyra.Plan) error {
	if env.Parent != "" || p.Staging.Of != "" || !commandagent.Is(env.Principal) { // nor does the one that started it
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "an agent does not decide about what is staged").
			WithRemedy("a person runs 'palyra keep' or 'palyra drop' on the daemon's machine, without a token")
	}
	var a args
	if err := tool.Arguments(*p, &a); err != nil {
		return err
	}
	for _, path := range a.Paths {
		if _, err := path.Name(); err != nil {
			return palyra.Errorf(palyra.Invalid, palyra.ReasonPathInvalid, "a path cannot be read").
				WithRemedy("write it as 'palyra changes' shows it")
		}
	}
	meant, all, list, err := t.works.Meant(ctx, env, p.Workspace.Path, a.Agent, a.Paths, a.Shown)
	if err != nil {
		return err
	}
	p.Inputs = []palyra.Input{{Path: palyra.StagedWork + string(a.Agent), Digest: list}} // what is decided about is what was planned
	p.Detail.Summary = fmt.Sprintf("%s %d of %d paths that agent %s changed", t.verb, meant, all, a.Agent)
	if t.name == palyra.ToolStageKeep {
		p.Staging = palyra.Staging{Writes: palyra.WritesStaged}
	}
	return nil
}

// Run implements tool.Tool. What decides about stages is run by who has them.
func (t reviewer) Run(context.Context, tool.Env, palyra.Plan) (json.RawMessage, error) {
	return nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "no agent's work is staged on this system")
}
