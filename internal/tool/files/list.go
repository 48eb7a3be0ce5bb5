//go:build unix

package files

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/tool"
)

const defaultEntries = 500

type lister struct{ *shared }

const listSchema = `{
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "Directory to list, relative to the workspace. Default: the workspace itself."},
    "recursive": {"type": "boolean", "description": "Also list what is in its directories. Default false. Does not go into .git directories or links."},
    "limit": {"type": "integer", "minimum": 1, "maximum": 5000, "description": "Most entries to return. Default 500."}
  }
}`

// Spec implements tool.Tool.
func (lister) Spec() palyra.Tool {
	return spec(palyra.ToolFileList, "List directory",
		"Lists a directory of the workspace, sorted by name: path, type (file, dir, symlink, other), size of files, target of links. "+
			"A path that is not UTF-8 is quoted, and read by that text.",
		listSchema)
}

type listArgs struct {
	Path      string `json:"path"`
	Recursive bool   `json:"recursive"`
	Limit     int    `json:"limit"`
}

// Plan implements tool.Tool.
func (t lister) Plan(ctx context.Context, env tool.Env, p *palyra.Plan) error {
	var a listArgs
	if err := tool.Arguments(*p, &a); err != nil {
		return err
	}
	rel, err := t.planRead(ctx, env, p, a.Path, nil)
	p.Detail.Summary = "list " + quoteUnlessPlain(rel)
	if a.Recursive {
		p.Detail.Summary += " and what is below"
	}
	return err
}

type listed struct {
	Path        string `json:"path"`
	Type        string `json:"type"`
	Size        *int64 `json:"size,omitempty"`
	Target      string `json:"target,omitempty"`
	InvalidName bool   `json:"invalid_name,omitempty"` // the name is not UTF-8, and quoted
}

type listResult struct {
	Path       string   `json:"path"`
	Entries    []listed `json:"entries"`
	Truncated  bool     `json:"truncated"`            // there are more than the limit
	Unreadable int      `json:"unreadable,omitempty"` // directories that could not be opened
}

// Run implements tool.Tool.
func (t lister) Run(ctx context.Context, env tool.Env, p palyra.Plan) (json.RawMessage, error) {
	var a listArgs
	if err := tool.Arguments(p, &a); err != nil {
		return nil, err
	}
	real, err := planned(p)
	if err != nil {
		return nil, err
	}
	a.Limit = cmp.Or(a.Limit, defaultEntries)
	release, err := t.take(ctx, env, bytesOfNames)
	if err != nil {
		return nil, err
	}
	defer release()
	res := listResult{Path: p.Reads[0], Entries: []listed{}}
	err = t.inWorkspace(ctx, p.Workspace, func(r *root) error {
		w := walker{ctx: ctx, deep: a.Recursive, visit: func(e dirEntry) error {
			if len(res.Entries) == a.Limit {
				res.Truncated = true
				return errEnough
			}
			res.Entries = append(res.Entries, e.listed())
			return nil
		}}
		err := w.walk(r, real)
		res.Unreadable = w.unreadable
		return err
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return tool.Encode(res)
}

func (e dirEntry) listed() listed {
	l := listed{Path: textOf(e.rel), Type: "other", InvalidName: !utf8.ValidString(e.rel)}
	switch e.st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		l.Type, l.Size = "file", &e.st.Size
	case unix.S_IFDIR:
		l.Type = "dir"
	case unix.S_IFLNK:
		l.Type = "symlink"
		target, _, _ := readlinkAt(e.dir, e.name)
		l.Target = strings.ToValidUTF8(target, "\uFFFD")
	}
	return l
}
