// Package background has the tools with which an agent looks after the background processes of its session:
// palyra.process.list, output and stop. They are started by palyra.process.start, which plans like any program.
//
// For these tools the processes of other sessions do not exist.
package background

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"

	"palyra"
	"palyra/internal/tool"
)

// Processes are the background processes of all sessions.
type Processes interface {
	// OfSession are those of a session that run now, oldest first.
	OfSession(session palyra.SessionID) []*palyra.Call
	// Printed is a piece of what one printed, from a byte on; false: it does not run. A negative byte means the last ones.
	Printed(id palyra.CallID, from int64, limit int) (piece palyra.Chunk, size int64, running bool)
	// Get returns a call, also one that has ended.
	Get(ctx context.Context, id palyra.CallID) (*palyra.Call, error)
	// Cancel ends a call, and waits for that.
	Cancel(ctx context.Context, id palyra.CallID) error
}

// Find returns the processes: the tools are there before the calls are.
type Find func() Processes

// All returns the package's tools.
func All(find Find) []tool.Tool { return []tool.Tool{lister{find}, printer{find}, stopper{find}} }

const idSchema = `{"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$", "description": "The process_id that palyra.process.start or palyra.process.list gave."}`

// spec is a tool's description. None of them touches a workspace, or anything that its session did not start: they
// count as tools that only look.
func spec(name palyra.ToolName, title, text, schema string) palyra.Tool {
	return palyra.Tool{
		Name: name, Title: title, Description: text, Source: palyra.SourceBuiltin, Tier: palyra.TierBuiltin, ReadOnly: true,
		InputSchema: json.RawMessage(schema), MaxInput: 4 << 10,
	}
}

type lister struct{ find Find }

// Spec implements tool.Tool.
func (lister) Spec() palyra.Tool {
	return spec(palyra.ToolProcessList, "List background processes",
		"Lists the background processes of this session that run now: process_id, command, published ports.",
		`{"type": "object", "additionalProperties": false, "properties": {}}`)
}

// Plan implements tool.Tool.
func (lister) Plan(_ context.Context, _ tool.Env, p *palyra.Plan) error {
	p.Detail.Summary = "list the background processes of this session"
	return nil
}

// running is a process as an agent sees it.
type running struct {
	Process   palyra.CallID `json:"process_id"`
	Command   []string      `json:"command"`
	Workspace string        `json:"workspace"`
	Publish   []string      `json:"publish,omitempty"`
	Started   time.Time     `json:"started_at"`
}

// Run implements tool.Tool.
func (t lister) Run(_ context.Context, env tool.Env, _ palyra.Plan) (json.RawMessage, error) {
	list := []running{}
	for _, c := range t.find().OfSession(env.Session) {
		list = append(list, running{c.ID, c.Plan.Argv, c.Plan.Workspace.Path, c.Plan.Publish, c.Proposed.UTC()})
	}
	return tool.Encode(struct {
		Processes []running `json:"processes"`
	}{list})
}

// own returns a process of the caller's session, running or ended.
func own(ctx context.Context, all Processes, env tool.Env, id palyra.CallID) (*palyra.Call, error) {
	c, err := all.Get(ctx, id)
	if err != nil && palyra.CodeOf(err) != palyra.NotFound {
		return nil, err
	}
	if err != nil || c.Proposal.Session != env.Session || c.Proposal.Tool != palyra.ToolProcessStart {
		return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "this session has no background process %s",
			palyra.Clip(string(id), 64)).
			WithRemedy("see %s", palyra.ToolProcessList)
	}
	return c, nil
}

type printer struct{ find Find }

const (
	defaultPage = 16 << 10
	maxPage     = 64 << 10
)

// Spec implements tool.Tool.
func (printer) Spec() palyra.Tool {
	return spec(palyra.ToolProcessPrint, "Read a background process's output",
		"Reads what a background process printed, stdout and stderr as they came: the last of it, or from an offset on. "+
			"The newest 1 MiB is there while it runs; of one that has ended, what its outcome keeps.",
		`{"type": "object", "additionalProperties": false, "required": ["process_id"], "properties": {
  "process_id": `+idSchema+`,
  "offset": {"type": "integer", "minimum": 0, "description": "Byte to begin at. Default: so that the last bytes are read. To go on, give next_offset of the previous answer."},
  "limit": {"type": "integer", "minimum": 1, "maximum": 65536, "description": "Most bytes to return. Default 16384."}
}}`)
}

type printArgs struct {
	Process palyra.CallID `json:"process_id"`
	Offset  *int64        `json:"offset"`
	Limit   int           `json:"limit"`
}

// read reads and bounds the arguments.
func (a *printArgs) read(p palyra.Plan) error {
	if err := tool.Arguments(p, a); err != nil {
		return err
	}
	if a.Limit == 0 {
		a.Limit = defaultPage
	}
	if a.Limit < 0 || a.Limit > maxPage || a.Offset != nil && *a.Offset < 0 {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "offset or limit is out of bounds").
			WithRemedy("give an offset from 0 on, and a limit from 1 to %d", maxPage)
	}
	return nil
}

// Plan implements tool.Tool.
func (printer) Plan(_ context.Context, _ tool.Env, p *palyra.Plan) error {
	var a printArgs
	p.Detail.Summary = "read what a background process of this session printed"
	return a.read(*p)
}

// printed is a piece of output as an agent reads it.
type printed struct {
	Process    palyra.CallID `json:"process_id"`
	State      palyra.State  `json:"state"`
	Content    string        `json:"content"`
	Offset     int64         `json:"offset"`
	NextOffset int64         `json:"next_offset"`
	Size       int64         `json:"size"`
	Skipped    int64         `json:"skipped,omitempty"` // bytes after the offset that was asked for, too old to be there
	ExitCode   *int          `json:"exit_code,omitempty"`
}

// Run implements tool.Tool.
func (t printer) Run(ctx context.Context, env tool.Env, p palyra.Plan) (json.RawMessage, error) {
	var a printArgs
	if err := a.read(p); err != nil {
		return nil, err
	}
	c, err := own(ctx, t.find(), env, a.Process)
	if err != nil {
		return nil, err
	}
	from := int64(-1)
	if a.Offset != nil {
		from = *a.Offset
	}
	out := printed{Process: c.ID, State: palyra.Running}
	piece, size, runs := t.find().Printed(c.ID, from, a.Limit)
	if !runs {
		if c, err = own(ctx, t.find(), env, a.Process); err != nil { // it may have ended meanwhile
			return nil, err
		}
		out.State = c.State
		if c.Outcome != nil {
			out.ExitCode = &c.Outcome.ExitCode
			piece, size = ended(*c.Outcome, from, a.Limit)
		}
	}
	if a.Offset != nil && piece.Offset > *a.Offset {
		out.Skipped = piece.Offset - *a.Offset
	}
	out.Content, out.Offset, out.Size = text(piece.Data), piece.Offset, size
	out.NextOffset = piece.Offset + int64(len(piece.Data))
	return tool.Encode(out)
}

// ended is a piece of what the outcome of a process keeps of its output, stdout first.
func ended(o palyra.Outcome, from int64, limit int) (palyra.Chunk, int64) {
	all := append(stream(o.Stdout, o.StdoutB64), stream(o.Stderr, o.StderrB64)...)
	size := int64(len(all))
	if from < 0 {
		from = max(0, size-int64(limit))
	}
	from = min(from, size)
	return palyra.Chunk{Offset: from, Data: all[from:min(size, from+int64(limit))]}, size
}

// stream is the bytes of one stream of an outcome.
func stream(text, b64 string) []byte {
	if b64 == "" {
		return []byte(text)
	}
	raw, err := base64.StdEncoding.DecodeString(b64)
	if err != nil { // a record that was changed: it is not shown
		return nil
	}
	return raw
}

// text is bytes as an agent reads them: what is no text shows as such.
func text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return string([]rune(string(b)))
}

type stopper struct{ find Find }

// Spec implements tool.Tool.
func (stopper) Spec() palyra.Tool {
	return spec(palyra.ToolProcessStop, "Stop a background process",
		"Ends a background process of this session with everything that it started, and closes its published ports.",
		`{"type": "object", "additionalProperties": false, "required": ["process_id"], "properties": {
  "process_id": `+idSchema+`
}}`)
}

type stopArgs struct {
	Process palyra.CallID `json:"process_id"`
}

// Plan implements tool.Tool.
func (stopper) Plan(_ context.Context, _ tool.Env, p *palyra.Plan) error {
	var a stopArgs
	p.Detail.Summary = "stop a background process of this session"
	return tool.Arguments(*p, &a)
}

// Run implements tool.Tool.
func (t stopper) Run(ctx context.Context, env tool.Env, p palyra.Plan) (json.RawMessage, error) {
	var a stopArgs
	if err := tool.Arguments(p, &a); err != nil {
		return nil, err
	}
	c, err := own(ctx, t.find(), env, a.Process)
	if err != nil {
		return nil, err
	}
	if err := t.find().Cancel(ctx, c.ID); err != nil && palyra.CodeOf(err) != palyra.Conflict { // Conflict: it has ended by itself
		return nil, err
	}
	if c, err = own(ctx, t.find(), env, a.Process); err != nil {
		return nil, err
	}
	out := struct {
		Process palyra.CallID      `json:"process_id"`
		State   palyra.State       `json:"state"`
		Outcome palyra.OutcomeKind `json:"outcome,omitempty"`
	}{Process: c.ID, State: c.State}
	if c.Outcome != nil {
		out.Outcome = c.Outcome.Outcome
	}
	return tool.Encode(out)
}
