//go:build unix

package files

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"

	"palyra"
	"palyra/internal/dotenv"
	"palyra/internal/tool"
)

type reader struct{ *shared }

const readSchema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["path"],
  "properties": {
    "path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "File to read, relative to the workspace."},
    "offset": {"type": "integer", "minimum": 0, "maximum": 1099511627776, "description": "Byte to start at. Default 0. To go on, use next_offset of the previous result."},
    "limit": {"type": "integer", "minimum": 1, "maximum": 1048576, "description": "Most bytes to return. Default 131072."},
    "encoding": {"type": "string", "enum": ["text", "base64"], "description": "text (default) for UTF-8 files, base64 for anything else."}
  }
}`

// Spec implements tool.Tool.
func (reader) Spec() palyra.Tool {
	return spec(palyra.ToolFileRead, "Read file",
		"Reads a file of the workspace, in pages. Returns content, the file's size, whether its end was reached (eof) and next_offset "+
			"for the next page.",
		readSchema)
}

type readArgs struct {
	Path     string `json:"path"`
	Offset   int64  `json:"offset"`
	Limit    int64  `json:"limit"`
	Encoding string `json:"encoding"`
}

// Plan implements tool.Tool.
func (t reader) Plan(ctx context.Context, env tool.Env, p *palyra.Plan) error {
	var a readArgs
	if err := tool.Arguments(*p, &a); err != nil {
		return err
	}
	rel, err := t.planRead(ctx, env, p, a.Path, (*root).hides)
	p.Detail.Summary = "read " + quoteUnlessPlain(rel)
	return err
}

// Run implements tool.Tool.
func (t reader) Run(ctx context.Context, _ tool.Env, p palyra.Plan) (out json.RawMessage, err error) {
	var a readArgs
	if err := tool.Arguments(p, &a); err != nil {
		return nil, err
	}
	real, err := planned(p)
	if err != nil {
		return nil, err
	}
	err = t.inWorkspace(ctx, p.Workspace, func(r *root) error {
		pg, err := r.shownPage(real, a)
		if err != nil {
			return err
		}
		pg.Path = p.Reads[0]
		out, err = pg.Encode(p.Limits.OutputBytes)
		return err
	})
	return out, err
}

// shownPage is the requested piece of a file as it may be shown.
func (r *root) shownPage(rel string, a readArgs) (tool.Page, error) {
	masked, err := r.masked(rel)
	if err != nil {
		return tool.Page{}, err
	}
	if !masked {
		return r.page(rel, a)
	}
	f, _, err := r.regular(rel)
	if err != nil {
		return tool.Page{}, err
	}
	defer func() { _ = f.Close() }()
	own, err := io.ReadAll(io.LimitReader(f, dotenv.MaxFile+1))
	if err != nil {
		return tool.Page{}, fail("read", rel, err)
	}
	text := r.masks.mask.Mask(rel, own)
	from := min(a.Offset, int64(len(text)))
	to := min(from+cmp.Or(a.Limit, tool.DefaultPage), int64(len(text)))
	return tool.Page{Data: text[from:to], Offset: a.Offset, Size: int64(len(text)), Base64: a.Encoding == "base64"}, nil
}

// page reads the requested piece. The size is that of the file's status, unless reading showed another end.
func (r *root) page(rel string, a readArgs) (tool.Page, error) {
	f, st, err := r.regular(rel)
	if err != nil {
		return tool.Page{}, err
	}
	defer func() { _ = f.Close() }()
	a.Limit = cmp.Or(a.Limit, tool.DefaultPage)
	b := make([]byte, a.Limit)
	n, err := f.ReadAt(b, a.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return tool.Page{}, fail("read", rel, err)
	}
	pg := tool.Page{Data: b[:n], Offset: a.Offset, Size: st.Size, Base64: a.Encoding == "base64"}
	switch end := a.Offset + int64(n); {
	case errors.Is(err, io.EOF) && n > 0, end > st.Size && n > 0:
		pg.Size = end
	}
	return pg, nil
}
