// Package artifact has palyra.artifact.read: outputs that were too large to deliver are kept as artifacts, and an
// agent reads them here in pages. A session sees its own artifacts only; another's do not exist for it.
package artifact

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"palyra"
	"palyra/internal/tool"
)

// Store is where artifacts are.
type Store interface {
	// Read returns up to limit bytes of an artifact of the session from offset
	// on, and its whole size. One that is not the session's is not found.
	Read(ctx context.Context, session palyra.SessionID, id palyra.ID, offset, limit int64) (data []byte, size int64, err error)
}

// All returns the package's tools.
func All(s Store) []tool.Tool { return []tool.Tool{reader{s}} }

type reader struct{ store Store }

const schema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["artifact_id"],
  "properties": {
    "artifact_id": {"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$", "description": "The artifact_id of a truncated output of this session."},
    "offset": {"type": "integer", "minimum": 0, "maximum": 1099511627776, "description": "Byte to start at. Default 0. To go on, use next_offset of the previous result."},
    "limit": {"type": "integer", "minimum": 1, "maximum": 1048576, "description": "Most bytes to return. Default 131072."},
    "encoding": {"type": "string", "enum": ["text", "base64"], "description": "text (default) or base64."}
  }
}`

// Spec implements tool.Tool.
func (reader) Spec() palyra.Tool {
	return palyra.Tool{
		Name: palyra.ToolArtifactRead, Title: "Read artifact", Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin, ReadOnly: true,
		Description: "Reads an output that was too large to deliver, in pages. Returns content, the whole size, whether the end was " +
			"reached (eof) and next_offset for the next page.",
		Capabilities: []palyra.Capability{palyra.ArtifactsRead}, InputSchema: json.RawMessage(schema), MaxInput: 4 << 10,
	}
}

type args struct {
	Artifact palyra.ID `json:"artifact_id"`
	Offset   int64     `json:"offset"`
	Limit    int64     `json:"limit"`
	Encoding string    `json:"encoding"`
}

// Plan implements tool.Tool.
func (t reader) Plan(_ context.Context, _ tool.Env, p *palyra.Plan) error {
	var a args
	if err := tool.Arguments(*p, &a); err != nil {
		return err
	}
	p.Detail.Summary = fmt.Sprintf("read artifact %s from byte %d", palyra.Clip(string(a.Artifact), 26), a.Offset)
	return nil
}

// Run implements tool.Tool.
func (t reader) Run(ctx context.Context, env tool.Env, p palyra.Plan) (json.RawMessage, error) {
	var a args
	if err := tool.Arguments(p, &a); err != nil {
		return nil, err
	}
	a.Limit = cmp.Or(a.Limit, tool.DefaultPage)
	data, size, err := t.store.Read(ctx, env.Session, a.Artifact, a.Offset, a.Limit)
	if err != nil {
		return nil, err
	}
	return tool.Page{
		Artifact: a.Artifact, Data: data, Offset: a.Offset, Size: size,
		Base64: a.Encoding == "base64",
	}.Encode(p.Limits.OutputBytes)
}
