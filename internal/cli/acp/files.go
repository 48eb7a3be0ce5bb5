package acp

import (
	"context"
	"encoding/json"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/processargs"
)

// Bounds on files.
const (
	maxFile = 6 << 20 // bytes that are read: they must fit into a message
	page    = 1 << 20
)

// readFile reads by palyra.fs.read: from the disk, since what the editor holds unsaved cannot be judged by its path.
func (p *Proxy) readFile(ctx context.Context, r sdk.ReadTextFileRequest) (out sdk.ReadTextFileResponse, err error) {
	n, err := p.sessions.find(r.SessionId)
	if err != nil {
		return out, err
	}
	root, path, err := n.place(r.Path)
	if err != nil {
		return out, err
	}
	if r.Line != nil && *r.Line < 0 || r.Limit != nil && *r.Limit < 0 {
		return out, badParams("line and limit must not be negative")
	}
	var text strings.Builder
	for offset := int64(0); ; {
		got, err := p.readPage(ctx, n, root, path, offset)
		if err != nil {
			return out, err
		}
		text.WriteString(got.Content)
		if got.EOF {
			break
		}
		if text.Len() > maxFile || got.Next <= offset {
			return out, refusal("the file has more than %d bytes%s", maxFile, remedyText("read a part of it with a program in a terminal"))
		}
		offset = got.Next
	}
	out.Content = linesOf(text.String(), r.Line, r.Limit)
	return out, nil
}

// filePage is the output of palyra.fs.read.
type filePage struct {
	Content string `json:"content"`
	EOF     bool   `json:"eof"`
	Next    int64  `json:"next_offset"`
}

func (p *Proxy) readPage(ctx context.Context, n *talk, root, path string, offset int64) (out filePage, err error) {
	args := map[string]any{"path": path, "limit": page}
	if offset > 0 {
		args["offset"] = offset
	}
	o, err := p.useFile(ctx, n, root, palyra.ToolFileRead, args, sdk.ToolKindRead)
	if err != nil {
		return out, err
	}
	if json.Unmarshal(o.Output, &out) != nil {
		return out, refusal("the file's content cannot be read")
	}
	return out, nil
}

// linesOf is limit lines from one on; the first has the number 1.
func linesOf(text string, line, limit *int) string {
	if line == nil && limit == nil {
		return text
	}
	all := strings.SplitAfter(text, "\n")
	from := 0
	if line != nil && *line > 1 {
		from = min(*line-1, len(all))
	}
	all = all[from:]
	if limit != nil {
		all = all[:min(*limit, len(all))]
	}
	return strings.Join(all, "")
}

// writeFile writes by palyra.fs.write, which remembers what it replaced.
func (p *Proxy) writeFile(ctx context.Context, r sdk.WriteTextFileRequest) (out sdk.WriteTextFileResponse, err error) {
	n, err := p.sessions.find(r.SessionId)
	if err != nil {
		return out, err
	}
	root, path, err := n.place(r.Path)
	if err != nil {
		return out, err
	}
	args := map[string]any{"path": path, "content": r.Content, "make_dirs": true}
	_, err = p.useFile(ctx, n, root, palyra.ToolFileWrite, args, sdk.ToolKindEdit)
	return out, err
}

// useFile calls a tool of files.
func (p *Proxy) useFile(ctx context.Context, n *talk, root string, tool palyra.ToolName, args map[string]any, kind sdk.ToolKind) (
	palyra.Outcome, error,
) {
	raw, err := processargs.Encode(args)
	if err != nil {
		return palyra.Outcome{}, badParams("the arguments cannot be sent")
	}
	r := n.request(root, client.CallRequest{Tool: tool, Arguments: raw, Surface: palyra.SurfaceACP})
	o, err := p.pass(ctx, n, p.Daemon, r, p.ownView(kind))
	if err != nil {
		return o, err
	}
	return o, outcomeError(o)
}
