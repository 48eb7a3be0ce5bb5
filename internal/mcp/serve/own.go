package serve

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
)

// The tools that this server has beside the catalog's.
const (
	waitTool   = "palyra_call_wait"
	outputTool = "palyra_call_output"
	ownWait    = "palyra.call.wait"
)

// Bounds of what those tools are asked for.
const (
	maxID   = 64
	maxWait = 600 // seconds
	maxPage = 64 << 10
)

var waitSchema = json.RawMessage(fmt.Sprintf(`{"type":"object","additionalProperties":false,"properties":{`+
	`"call_id":{"type":"string","maxLength":%d,"description":"The call_id of a pending result. Default: your latest call."},`+
	`"timeout_s":{"type":"integer","minimum":1,"maximum":%d,"description":"How long to wait, in seconds. Default %d."}}}`,
	maxID, maxWait, int(DefaultPendingAfter.Seconds())))

var pageSchema = json.RawMessage(fmt.Sprintf(`{"type":"object","additionalProperties":false,"required":["call_id","stream"],"properties":{`+
	`"call_id":{"type":"string","maxLength":%d,"description":"The call_id of a result that was shortened."},`+
	`"stream":{"enum":["stdout","stderr","output"],"description":"Which part of the result."},`+
	`"offset":{"type":"integer","minimum":0,"description":"Byte to start at. Default 0. To go on, use next_offset of the previous page."},`+
	`"limit":{"type":"integer","minimum":1,"maximum":%d,"description":"Most bytes to return. Default: as many as there is room for."}}}`,
	maxID, maxPage))

// addOwnTools adds the tools that are this server's.
func (s *Server) addOwnTools() {
	no := false
	hints := func(title string) *mcp.ToolAnnotations {
		return &mcp.ToolAnnotations{Title: title, ReadOnlyHint: true, DestructiveHint: &no, OpenWorldHint: &no}
	}
	s.mcp.AddTool(&mcp.Tool{
		Name: waitTool, Title: "Wait for a call", InputSchema: waitSchema, Annotations: hints("Wait for a call"),
		Description: "Waits for a call that was answered with outcome \"pending\", as one that a person has to approve, and returns its " +
			"result. Still pending: wait again.",
	}, s.wait)
	s.mcp.AddTool(&mcp.Tool{
		Name: outputTool, Title: "Read a call's output", InputSchema: pageSchema, Annotations: hints("Read a call's output"),
		Description: "Reads the stdout, stderr or output of a finished call in pages, where its result was shortened.",
	}, s.output)
}

// strict reads the arguments of an own tool: nothing else looks at them.
func strict(raw json.RawMessage, into any) error {
	if err := json.Unmarshal(arguments(raw), into); err != nil {
		return palyra.Errorf(palyra.Invalid, palyra.ReasonSchemaMismatch, "the arguments do not fit the tool's schema").
			WithRemedy("see the tool's input schema")
	}
	return nil
}

func invalid(text string) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonSchemaMismatch, "%s", text).WithRemedy("see the tool's input schema")
}

// wait follows a call that goes on. Its cancel only ends the wait.
func (s *Server) wait(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	session := s.session(req.Session, req.ClientInfo())
	var a struct {
		Call    palyra.CallID `json:"call_id"`
		Seconds int64         `json:"timeout_s"`
	}
	err := strict(req.Params.Arguments, &a)
	if a.Call == "" && soleClient(req) {
		a.Call = s.latest.get(session)
	}
	switch {
	case err != nil:
	case a.Seconds < 0 || a.Seconds > maxWait || len(a.Call) > maxID:
		err = invalid("call_id or timeout_s is out of bounds")
	case a.Call == "" && !soleClient(req):
		err = palyra.Errorf(palyra.Invalid, palyra.ReasonSchemaMismatch, "which call is meant: there is no session here").
			WithRemedy("name it by its call_id")
	case a.Call == "":
		err = palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "this session has made no call yet")
	}
	if err != nil {
		return failure(ownWait, "", err), nil
	}
	limit := time.Duration(a.Seconds) * time.Second
	if limit == 0 {
		limit = max(s.PendingAfter, 0)
	}
	f := &flight{server: s, session: session, room: s.room(req.ClientInfo()), tell: s.teller(req), stir: make(chan struct{}, 1), of: a.Call}
	f.request.Tool = ownWait
	return f.fly(ctx, limit)
}

// output reads a finished call's result in pages.
func (s *Server) output(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var a struct {
		Call   palyra.CallID `json:"call_id"`
		Stream string        `json:"stream"`
		Offset int64         `json:"offset"`
		Limit  int64         `json:"limit"`
	}
	if err := strict(req.Params.Arguments, &a); err != nil {
		return failure(outputTool, "", err), nil
	}
	a.Limit = cmp.Or(a.Limit, maxPage)
	if a.Call == "" || len(a.Call) > maxID || a.Offset < 0 || a.Limit < 1 || a.Limit > maxPage {
		return failure(outputTool, "", invalid("call_id, offset or limit is out of bounds")), nil
	}
	call, err := s.Backend.GetCall(ctx, a.Call)
	if err == nil && call.Outcome == nil {
		err = palyra.Errorf(palyra.Conflict, palyra.ReasonNotFound, "the call has not ended").WithRemedy("wait for it with %s", waitTool)
	}
	if err != nil {
		return failure(outputTool, a.Call, err), nil
	}
	data, err := streamOf(*call.Outcome, a.Stream)
	if err != nil {
		return failure(outputTool, a.Call, err), nil
	}
	return paged(a.Call, a.Stream, data, a.Offset, min(a.Limit, int64(s.room(req.ClientInfo())-notesRoom))), nil
}

func streamOf(o palyra.Outcome, name string) ([]byte, error) {
	text, b64 := "", ""
	switch name {
	case "stdout":
		text, b64 = o.Stdout, o.StdoutB64
	case "stderr":
		text, b64 = o.Stderr, o.StderrB64
	case "output":
		return []byte(readable(o)), nil
	default:
		return nil, invalid("stream must be stdout, stderr or output")
	}
	if b64 == "" {
		return []byte(text), nil
	}
	return base64.StdEncoding.DecodeString(b64)
}

// paged is one page of a stream; of text it ends with a whole character.
func paged(call palyra.CallID, stream string, data []byte, offset, limit int64) *mcp.CallToolResult {
	from := min(offset, int64(len(data)))
	end := min(from+limit, int64(len(data)))
	part := data[from:end]
	if utf8.Valid(data) {
		if text := dropCutRune(string(part)); end < int64(len(data)) && text != "" { // else the page is smaller than a character
			part = part[:len(text)]
		}
	}
	p := piece{
		Encoding: "text", Content: string(part), Offset: from, Size: int64(len(data)), EOF: from+int64(len(part)) >= int64(len(data)),
		what: stream,
		next: func(at int64) string { return pages(call, stream, int(at)) },
	}
	room := len(part) // the caller has seen to it
	if !utf8.Valid(part) {
		p.Encoding, p.Content = "base64", base64.StdEncoding.EncodeToString(part)
		room = len(p.Content)
	}
	var t texts
	t.piece(p, room+notesRoom)
	return t.result()
}
