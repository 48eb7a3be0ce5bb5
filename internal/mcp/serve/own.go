package serve

import (
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
	maxID       = 64
	maxWait     = 600 // seconds
	maxPage     = 64 << 10
	defaultPage = 16 << 10
)

var waitSchema = json.RawMessage(fmt.Sprintf(`{"type":"object","additionalProperties":false,"properties":{`+
	`"call_id":{"type":"string","maxLength":%d,"description":"The call_id of a pending result. Default: your latest call."},`+
	`"timeout_s":{"type":"integer","minimum":1,"maximum":%d,"description":"How long to wait, in seconds. Default %d."}}}`,
	maxID, maxWait, int(DefaultPendingAfter.Seconds())))

var pageSchema = json.RawMessage(fmt.Sprintf(`{"type":"object","additionalProperties":false,"required":["call_id","stream"],"properties":{`+
	`"call_id":{"type":"string","maxLength":%d,"description":"The call_id of a result that was shortened."},`+
	`"stream":{"enum":["stdout","stderr","output"],"description":"Which part of the result."},`+
	`"offset":{"type":"integer","minimum":0,"description":"Byte to start at. Default 0. To go on, use next_offset of the previous page."},`+
	`"limit":{"type":"integer","minimum":1,"maximum":%d,"description":"Most bytes to return. Default %d."}}}`, maxID, maxPage, defaultPage))

// own adds the tools that are this server's.
func (s *Server) own() {
	no := false
	hints := func(title string) *mcp.ToolAnnotations {
		return &mcp.ToolAnnotations{Title: title, ReadOnlyHint: true, DestructiveHint: &no, OpenWorldHint: &no}
	}
	s.mcp.AddTool(&mcp.Tool{
		Name: waitTool, Title: "Wait for a call", InputSchema: waitSchema, OutputSchema: outputSchema, Annotations: hints("Wait for a call"),
		Description: "Waits for a call that was answered with outcome \"pending\", as one that a person has to approve, and returns its result. Still pending: wait again.",
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
		Call    palyra.ID `json:"call_id"`
		Seconds int64     `json:"timeout_s"`
	}
	err := strict(req.Params.Arguments, &a)
	if a.Call == "" && alone(req) {
		a.Call = s.latest.get(session)
	}
	switch {
	case err != nil:
	case a.Seconds < 0 || a.Seconds > maxWait || len(a.Call) > maxID:
		err = invalid("call_id or timeout_s is out of bounds")
	case a.Call == "" && !alone(req):
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
	f := &flight{server: s, session: session, tell: s.teller(req), stir: make(chan struct{}, 1), known: make(chan struct{}), id: a.Call}
	f.request.Tool = ownWait
	return f.fly(ctx, limit)
}

// page is a piece of a call's output.
type page struct {
	CallID     palyra.ID `json:"call_id"`
	Stream     string    `json:"stream"`
	Encoding   string    `json:"encoding"`
	Content    string    `json:"content"`
	Offset     int       `json:"offset"`
	Size       int       `json:"size"`
	NextOffset int       `json:"next_offset"`
	EOF        bool      `json:"eof"`
}

// output reads a finished call's result in pages.
func (s *Server) output(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var a struct {
		Call   palyra.ID `json:"call_id"`
		Stream string    `json:"stream"`
		Offset int64     `json:"offset"`
		Limit  int64     `json:"limit"`
	}
	if err := strict(req.Params.Arguments, &a); err != nil {
		return failure(outputTool, "", err), nil
	}
	if a.Limit == 0 {
		a.Limit = defaultPage
	}
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
	return paged(page{CallID: a.Call, Stream: a.Stream}, data, a.Offset, a.Limit), nil
}

func streamOf(o palyra.Outcome, name string) ([]byte, error) {
	text, b64 := "", ""
	switch name {
	case "stdout":
		text, b64 = o.Stdout, o.StdoutB64
	case "stderr":
		text, b64 = o.Stderr, o.StderrB64
	case "output":
		return o.Output, nil
	default:
		return nil, invalid("stream must be stdout, stderr or output")
	}
	if b64 == "" {
		return []byte(text), nil
	}
	return base64.StdEncoding.DecodeString(b64)
}

// paged is one page; of text it ends with a whole character.
func paged(p page, data []byte, offset, limit int64) *mcp.CallToolResult {
	p.Size = len(data)
	p.Offset = int(min(offset, int64(len(data))))
	end := int(min(int64(p.Offset)+limit, int64(len(data))))
	whole := end
	for whole < len(data) && whole > p.Offset && !utf8.RuneStart(data[whole]) {
		whole--
	}
	if utf8.Valid(data) && whole > p.Offset { // else the page is smaller than a character
		end = whole
	}
	piece := data[p.Offset:end]
	p.Encoding, p.Content = "text", string(piece)
	if !utf8.Valid(piece) {
		p.Encoding, p.Content = "base64", base64.StdEncoding.EncodeToString(piece)
	}
	p.NextOffset, p.EOF = end, end >= len(data)
	text := p.Content
	if !p.EOF {
		text += fmt.Sprintf("\n… bytes %d to %d of %d; go on with offset %d", p.Offset, end, p.Size, end)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: p}
}
