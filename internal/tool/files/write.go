//go:build unix

package files

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"palyra"
	"palyra/internal/tool"
)

type writer struct{ *shared }

const writeSchema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["path"],
  "properties": {
    "path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "File to write, relative to the workspace. Links are not followed."},
    "content": {"type": "string", "description": "The whole new content, as text. Give either content or content_b64."},
    "content_b64": {"type": "string", "description": "The whole new content, as standard base64, for content that is not text."},
    "mode": {"type": "string", "enum": ["create", "overwrite"], "description": "create: the file must not exist yet. overwrite: it must exist. Default: either."},
    "make_dirs": {"type": "boolean", "description": "Make missing directories on the way. Default false."},
    "executable": {"type": "boolean", "description": "Set (true) or clear (false) the execute permission. Default: as it was; not set on a new file."}
  }
}`

// Spec implements tool.Tool.
func (writer) Spec() palyra.Tool {
	return writing(spec(palyra.ToolFileWrite, "Write file",
		"Writes a whole file of the workspace, in one step: it is replaced completely or not at all. For small changes to a large file "+
			"use palyra.fs.edit or palyra.fs.apply_patch.",
		writeSchema), writeInput)
}

type writeArgs struct {
	Path       string  `json:"path"`
	Content    *string `json:"content"`
	ContentB64 *string `json:"content_b64"`
	Mode       string  `json:"mode"`
	MakeDirs   bool    `json:"make_dirs"`
	Executable *bool   `json:"executable"`
}

// Plan implements tool.Tool.
func (t writer) Plan(ctx context.Context, env tool.Env, p *palyra.Plan) error {
	return t.changing(ctx, env, p, named(*p), func(r *root) error {
		c, err := writeChange(r, env, *p)
		if err != nil {
			return err
		}
		bind(p, []change{c}, nil)
		p.Guarded = r.guarded([]change{c})
		show([]change{c}).detail(p, fmt.Sprintf("%s %s, %s", c.action, quoteUnlessPlain(c.path), size(len(c.after))))
		t.lasting(env, p, []change{c})
		return nil
	})
}

type writeResult struct {
	Path     string        `json:"path"`
	Created  bool          `json:"created"`
	Changed  bool          `json:"changed"`
	Bytes    int           `json:"bytes"`
	SHA256   palyra.Digest `json:"sha256"`
	Previous palyra.Digest `json:"previous_sha256"` // empty when the file is new
}

// Run implements tool.Tool.
func (t writer) Run(ctx context.Context, env tool.Env, p palyra.Plan) (out json.RawMessage, err error) {
	err = t.changing(ctx, env, &p, named(p), func(r *root) error {
		c, err := writeChange(r, env, p)
		if err != nil {
			return err
		}
		if err := bound(p, []change{c}, nil); err != nil {
			return err
		}
		if err := t.apply(ctx, r, env, []change{c}, p.Lasting && env.Approved); err != nil {
			return err
		}
		out, err = tool.Encode(writeResult{
			Path: c.path, Created: !c.before.exists, Changed: !c.unchanged(), Bytes: len(c.after),
			SHA256: palyra.SumBytes(c.after), Previous: c.before.digest,
		})
		return err
	})
	return out, err
}

// named returns the file of a call about one file.
func named(p palyra.Plan) []string {
	var a struct {
		Path string `json:"path"`
	}
	if json.Unmarshal(p.Arguments, &a) != nil { // reported where the arguments are read for planning
		return nil
	}
	return []string{a.Path}
}

// writeChange reads the file and returns it with the new content.
func writeChange(r *root, env tool.Env, p palyra.Plan) (change, error) {
	var a writeArgs
	if err := tool.Arguments(p, &a); err != nil {
		return change{}, err
	}
	content, err := a.content()
	if err != nil {
		return change{}, err
	}
	rel, err := cleanTarget(a.Path, p.Workspace.Path, env.Asked)
	if err != nil {
		return change{}, err
	}
	if int64(len(content)) > r.cfg.MaxFile {
		return change{}, tooLarge(rel, r.cfg.MaxFile)
	}
	c := change{path: rel, action: "overwrite", after: content}
	if c.before, err = r.look(rel); err != nil {
		return change{}, err
	}
	if err := a.fits(rel, c.before); err != nil {
		return change{}, err
	}
	c.mode = c.before.mode & 0o777 // set-id bits do not survive a change of content
	if !c.before.exists {
		c.action, c.mode = "create", c.before.newMode
	}
	if a.Executable != nil {
		c.mode = executable(c.mode, *a.Executable)
	}
	return c, r.keepsValues(c)
}

func (a writeArgs) content() ([]byte, error) {
	bad := func(text string) ([]byte, error) {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonSchemaMismatch, "%s", text).
			WithRemedy("give the whole content as text in \"content\", or as base64 in \"content_b64\"")
	}
	switch {
	case a.Content != nil && a.ContentB64 != nil:
		return bad("both \"content\" and \"content_b64\" are given")
	case a.Content == nil && a.ContentB64 == nil:
		return bad("neither \"content\" nor \"content_b64\" is given")
	case a.Content != nil:
		if strings.IndexByte(*a.Content, 0) >= 0 {
			return bad("\"content\" contains a NUL character")
		}
		return []byte(*a.Content), nil
	}
	b, err := base64.StdEncoding.Strict().DecodeString(*a.ContentB64)
	if err != nil {
		return bad("\"content_b64\" is not standard base64")
	}
	return b, nil
}

// fits compares the caller's expectation with the file.
func (a writeArgs) fits(rel string, s state) error {
	switch {
	case a.Mode == "create" && s.exists:
		return palyra.Errorf(palyra.Conflict, palyra.ReasonExists, "%s exists already", quote(rel)).
			WithRemedy("use mode overwrite, or another path")
	case a.Mode == "overwrite" && !s.exists:
		return palyra.Errorf(palyra.NotFound, palyra.ReasonFileNotFound, "%s does not exist", quote(rel)).
			WithRemedy("use mode create, or check the path with palyra.fs.list")
	case s.missing != "" && !a.MakeDirs:
		return palyra.Errorf(palyra.NotFound, palyra.ReasonFileNotFound, "the directory %s does not exist", quote(s.missing)).
			WithRemedy("set make_dirs to true, or check the path with palyra.fs.list")
	}
	return nil
}
