//go:build unix

package files

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"palyra"
	"palyra/internal/tool"
	"palyra/internal/tool/files/unified"
)

type editor struct{ *shared }

const editSchema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["path", "old_string", "new_string"],
  "properties": {
    "path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "File to change, relative to the workspace. Links are not followed."},
    "old_string": {"type": "string", "minLength": 1, "description": "The text to replace, exactly as it stands in the file, with its white space. It must stand there once, unless replace_all is set: give enough of the lines around it."},
    "new_string": {"type": "string", "description": "What stands there instead. Empty to delete."},
    "replace_all": {"type": "boolean", "description": "Replace every occurrence. Default false."}
  }
}`

// Spec implements tool.Tool.
func (editor) Spec() palyra.Tool {
	return writing(spec(palyra.ToolFileEdit, "Edit file",
		"Replaces a text in a file of the workspace by another, in one step. Text files only. For changes at several places or in "+
			"several files use palyra.fs.apply_patch.",
		editSchema), patchInput)
}

// maxPlaces is the most places that one edit changes.
const maxPlaces = 500_000

type editArgs struct {
	Path string `json:"path"`
	Old  string `json:"old_string"`
	New  string `json:"new_string"`
	All  bool   `json:"replace_all"`
}

// Plan implements tool.Tool.
func (t editor) Plan(ctx context.Context, env tool.Env, p *palyra.Plan) error {
	return t.changing(ctx, env, p, named(*p), func(r *root) error {
		c, _, err := editChange(r, env, *p)
		if !p.Workspace.Known && c.before.exists {
			planUnread(p, c, err)
			t.lasting(env, p, []change{c})
			return nil
		}
		if err != nil {
			return err
		}
		bind(p, []change{c}, nil)
		p.Guarded = r.guarded([]change{c})
		show([]change{c}).detail(p, "edit "+quoteUnlessPlain(c.path))
		t.lasting(env, p, []change{c})
		return nil
	})
}

// planUnread plans an edit in a directory that nobody registered, where reading is asked about as
// well. A failure of planning that depends on the content (the text is missing, or occurs more than
// once) would let an agent guess the content text by text. So the edit is planned all the same,
// looks the same to its proposer, and fails when somebody has let it run.
func planUnread(p *palyra.Plan, c change, err error) {
	c.action = "modify"
	if err != nil {
		c.after, c.mode = c.before.content, c.before.mode
		p.Detail.Notes = append(p.Detail.Notes, "it would fail: "+palyra.AsError(err).Text)
	}
	bind(p, []change{c}, nil)
	show([]change{c}).detail(p, "")
	p.Detail.Summary = "edit " + quoteUnlessPlain(c.path)
}

type editResult struct {
	Path         string        `json:"path"`
	Replacements int           `json:"replacements"`
	Bytes        int           `json:"bytes"`
	SHA256       palyra.Digest `json:"sha256"`
	Previous     palyra.Digest `json:"previous_sha256"`
}

// Run implements tool.Tool.
func (t editor) Run(ctx context.Context, env tool.Env, p palyra.Plan) (out json.RawMessage, err error) {
	err = t.changing(ctx, env, &p, named(p), func(r *root) error {
		c, n, err := editChange(r, env, p)
		if err != nil {
			return err
		}
		if err := bound(p, []change{c}, nil); err != nil {
			return err
		}
		if err := t.apply(ctx, r, env, []change{c}, p.Lasting && env.Approved); err != nil {
			return err
		}
		out, err = tool.Encode(editResult{
			Path: c.path, Replacements: n, Bytes: len(c.after), SHA256: palyra.SumBytes(c.after), Previous: c.before.digest,
		})
		return err
	})
	return out, err
}

// editChange reads the file and returns it with the edit made, and the number of changed places. On
// failure it returns the file as it was read.
func editChange(r *root, env tool.Env, p palyra.Plan) (change, int, error) {
	var a editArgs
	if err := tool.Arguments(p, &a); err != nil {
		return change{}, 0, err
	}
	if err := a.check(); err != nil {
		return change{}, 0, err
	}
	rel, err := cleanTarget(a.Path, p.Workspace.Path, env.Asked)
	if err != nil {
		return change{}, 0, err
	}
	c := change{path: rel, action: "modify"}
	if c.before, err = r.look(rel); err != nil {
		return change{}, 0, err
	}
	if err := c.before.editable(rel); err != nil {
		return change{}, 0, err
	}
	n, err := a.places(rel, c.before)
	if err != nil {
		return c, 0, err
	}
	if int64(len(c.before.content))+int64(n)*int64(len(a.New)-len(a.Old)) > r.cfg.MaxFile {
		return c, 0, tooLarge(rel, r.cfg.MaxFile)
	}
	c.spots = a.spots(c.before.content, n)
	c.after = bytes.ReplaceAll(c.before.content, []byte(a.Old), []byte(a.New))
	c.mode = c.before.mode & 0o777 // set-id bits do not survive a change of content
	return c, n, r.keepsValues(c)
}

func notSo(remedy, format string, args ...any) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonSchemaMismatch, format, args...).WithRemedy("%s", remedy)
}

// check refuses arguments that are no edit of any file.
func (a editArgs) check() error {
	if strings.IndexByte(a.New, 0) >= 0 || strings.IndexByte(a.Old, 0) >= 0 {
		return notSo("give text without NUL", "the text contains a NUL character")
	}
	if a.Old == a.New {
		return notSo("give another new_string", "old_string and new_string are the same")
	}
	return nil
}

// places counts the occurrences of the text, and refuses an edit that is not clear.
func (a editArgs) places(rel string, s state) (int, error) {
	if !s.exists {
		return 0, palyra.Errorf(palyra.NotFound, palyra.ReasonFileNotFound, "%s does not exist", quote(rel)).
			WithRemedy("make it with palyra.fs.write, or check the path with palyra.fs.list")
	}
	if !isText(s.content) {
		return 0, notSo("replace it whole with palyra.fs.write and content_b64", "%s is not text", quote(rel))
	}
	n := bytes.Count(s.content, []byte(a.Old))
	switch {
	case n == 0:
		return 0, notSo("read the file with palyra.fs.read and copy the text exactly, with its white space", "old_string does not stand in %s",
			quote(rel))
	case n > maxPlaces:
		return 0, notSo("give more of the lines around it, or write the file whole",
			"old_string stands in %s %s; at most %d places are changed at once", quote(rel), times(n), maxPlaces)
	case n > 1 && !a.All:
		return 0, notSo("give more of the lines around it, or set replace_all", "old_string stands in %s %s", quote(rel), times(n))
	}
	return n, nil
}

// spots returns the n places that change, at most as many as can be shown.
func (a editArgs) spots(b []byte, n int) []unified.Spot {
	list, old := make([]unified.Spot, 0, min(n, maxSpots+1)), []byte(a.Old)
	for at := 0; len(list) <= maxSpots; {
		i := bytes.Index(b[at:], old)
		if i < 0 {
			break
		}
		list = append(list, unified.Spot{At: at + i, End: at + i + len(old), With: a.New})
		at += i + len(old)
	}
	return list
}

func times(n int) string {
	if n == 2 {
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}
