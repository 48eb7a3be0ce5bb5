package acp

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	sdk "github.com/coder/acp-go-sdk"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/processargs"
)

// permission judges what the agent is about to do by its own means, going by what it says of it. The answer is the
// gate's: yes for this once, or no. It is never one that holds for more, and never the editor's.
func (p *Proxy) permission(ctx context.Context, r sdk.RequestPermissionRequest) (out sdk.RequestPermissionResponse, err error) {
	n, err := p.sessions.find(r.SessionId)
	if err != nil {
		return out, err
	}
	before := p.told.heardOf(r.SessionId, r.ToolCall.ToolCallId)
	if r.ToolCall.Kind == nil && before.kind != "" {
		r.ToolCall.Kind = &before.kind
	}
	input, _ := r.ToolCall.RawInput.(map[string]any)
	if option, ok := onceOption(r.Options); ok && n.comesAgain(before, input) {
		out.Outcome = sdk.NewRequestPermissionOutcomeSelected(option)
		return out, nil
	}
	request, err := p.permissionCall(n, r.ToolCall)
	if err != nil {
		return out, err
	}
	turn := n.now()
	o, err := p.pass(ctx, n, checker{p.Daemon}, request, view{call: r.ToolCall})
	if ctx.Err() != nil || turn.Err() != nil {
		return sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeCancelled()}, nil
	}
	kinds := []sdk.PermissionOptionKind{sdk.PermissionOptionKindRejectOnce, sdk.PermissionOptionKindRejectAlways}
	switch {
	case err != nil:
		_, _, text := explained(err)
		p.say(n, text)
	case o.Outcome == palyra.OutcomeAllowed:
		kinds = []sdk.PermissionOptionKind{sdk.PermissionOptionKindAllowOnce}
	default:
		p.say(n, refused(o))
	}
	for _, kind := range kinds {
		for _, option := range r.Options {
			if option.Kind == kind {
				out.Outcome = sdk.NewRequestPermissionOutcomeSelected(option.OptionId)
				return out, nil
			}
		}
	}
	if err == nil && o.Outcome == palyra.OutcomeAllowed {
		p.say(n, "the gate allows it once, and the agent offers no answer for once; it was told no")
	}
	out.Outcome = sdk.NewRequestPermissionOutcomeCancelled()
	return out, nil
}

var notName = regexp.MustCompile(`[^a-z0-9_-]+`)

// permissionCall is the call that a tool call of the agent comes to: of Palyra's own tools where what it would do is
// plain, and else of hook.acp-KIND, of which nothing is known.
func (p *Proxy) permissionCall(n *talk, c sdk.ToolCallUpdate) (client.CallRequest, error) {
	input, _ := c.RawInput.(map[string]any)
	tool, args, root := p.plain(n, c, input)
	if tool == "" {
		kind := "other"
		if c.Kind != nil {
			kind = strings.Trim(notName.ReplaceAllString(strings.ToLower(palyra.Clip(string(*c.Kind), 64)), "-"), "-")
		}
		title := kind
		if c.Title != nil && *c.Title != "" {
			title = *c.Title
		}
		all := map[string]any{"raw_input": c.RawInput, "locations": c.Locations, "content": c.Content, "title": c.Title}
		tool, args, root = palyra.ToolName("hook.acp-"+kind), map[string]any{"tool": palyra.Clip(title, 100), "input": all}, n.roots[0]
	}
	raw, err := processargs.Encode(args)
	if err != nil {
		return client.CallRequest{}, badParams("what the agent asks for cannot be sent")
	}
	return n.request(root, client.CallRequest{Tool: tool, Arguments: raw, Surface: palyra.SurfaceHook}), nil
}

// plain is what a tool call comes to where its words say all of it: a command, or one file's new content.
func (p *Proxy) plain(n *talk, c sdk.ToolCallUpdate, input map[string]any) (palyra.ToolName, any, string) {
	if c.Kind == nil {
		return "", nil, ""
	}
	switch *c.Kind {
	case sdk.ToolKindExecute:
		if a, root, ok := p.command(n, input); ok {
			return palyra.ToolProcessRun, a, root
		}
	case sdk.ToolKindEdit:
		if len(c.Content) == 0 {
			return n.writes(input)
		}
		return n.edit(c.Content)
	case sdk.ToolKindRead:
		for _, field := range []string{"file_path", "path", "abs_path"} {
			if path, ok := input[field].(string); ok && len(c.Locations) <= 1 {
				if root, clean, err := n.place(path); err == nil {
					return palyra.ToolFileRead, map[string]any{"path": clean}, root
				}
			}
		}
	}
	return "", nil, ""
}

// command is the command line of a tool call: one text for a shell, or words, and the directory that it is to run in.
// One outside of the session's is not plain.
func (p *Proxy) command(n *talk, input map[string]any) (a processargs.Arguments, root string, ok bool) {
	root, dir := n.roots[0], n.roots[0]
	for i, field := range []string{"cwd", "workdir"} {
		v, there := input[field]
		if !there {
			continue
		}
		text, is := v.(string)
		in, clean, err := n.place(text)
		if !is || err != nil || i > 0 && input["cwd"] != nil && clean != dir {
			return a, "", false
		}
		root, dir = in, clean
	}
	rel, err := filepath.Rel(root, dir)
	if err != nil {
		return a, "", false
	}
	a.Cwd = rel
	ok = p.line(&a, input)
	return a, root, ok
}

// line reads the command line itself.
func (p *Proxy) line(a *processargs.Arguments, input map[string]any) (ok bool) {
	switch c := input["command"].(type) {
	case string:
		a.Command, a.Args = p.Shell, []string{"-c", c}
		return c != ""
	case []any:
		words := make([]string, len(c))
		for i, w := range c {
			if words[i], ok = w.(string); !ok {
				return false
			}
		}
		if len(words) == 0 || words[0] == "" {
			return false
		}
		a.Command, a.Args = words[0], words[1:]
		return true
	}
	return false
}

const maxEdited = 2 << 20

// edit is the write that a tool call's one diff comes to: of a whole file, or of a text that occurs once in it.
func (n *talk) edit(content []sdk.ToolCallContent) (palyra.ToolName, any, string) {
	if len(content) != 1 || content[0].Diff == nil {
		return "", nil, ""
	}
	d := content[0].Diff
	root, path, err := n.place(d.Path)
	if err != nil {
		return "", nil, ""
	}
	text := d.NewText
	if old, there := readPlain(path); there {
		switch {
		case d.OldText == nil, *d.OldText == old:
		case *d.OldText != "" && strings.Count(old, *d.OldText) == 1 && len(old)+len(text) <= maxEdited:
			text = strings.Replace(old, *d.OldText, d.NewText, 1)
		default:
			return "", nil, ""
		}
	} else if d.OldText != nil && *d.OldText != "" {
		return "", nil, ""
	}
	return palyra.ToolFileWrite, map[string]any{"path": path, "content": text, "make_dirs": true}, root
}

// readPlain reads a text file of bounded size, through no link and no pipe.
func readPlain(path string) (string, bool) {
	if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() || fi.Size() > maxEdited {
		return "", false
	}
	raw, err := os.ReadFile(path)
	if err != nil || len(raw) > maxEdited || !utf8.Valid(raw) {
		return "", false
	}
	return string(raw), true
}
