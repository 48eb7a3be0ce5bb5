package serve

import (
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/client"
	"palyra/internal/toolname"
)

// outcomeKey and pageKey are where programs find the fields of a result. Models are not shown them: several clients
// give structured content to the model in the place of the text, so there is none.
const (
	outcomeKey = "palyra/outcome"
	pageKey    = "palyra/page"
)

// landed turns the end of a call into a result.
func (f *flight) landed(o palyra.Outcome, err error) *mcp.CallToolResult {
	if err != nil {
		return failure(f.request.Tool, f.call.ID(), err)
	}
	return result(o, f.room)
}

// result is an outcome as a client gets it: texts for the model, of at most room bytes, and its fields for
// programs. A result that is not whole says so, how much is missing and how to read it, in a text of its own
// that comes first: a tool's output cannot pass for it, and a client that cuts a result keeps its beginning.
func result(o palyra.Outcome, room int) *mcp.CallToolResult {
	t := outcomeText(o, room)
	r := t.result()
	r.IsError = o.Outcome != palyra.OutcomeFinished || o.ReasonCode != ""
	r.Meta[outcomeKey] = fieldsOf(o, t.less)
	if id := artifactOf(o.Output); id != "" {
		r.Content = append(r.Content, &mcp.ResourceLink{
			URI: artifactURI(id, 0), Name: "artifact " + string(id),
			Description: "the whole output, in pages",
		})
	}
	return r
}

// texts is the part of a result that a model reads.
type texts struct {
	body  string
	notes []string
	less  bool   // the body is not all of it
	place *place // of a piece
}

func (t *texts) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// result is the texts as MCP has them.
func (t *texts) result() *mcp.CallToolResult {
	r := &mcp.CallToolResult{Content: t.content(), Meta: mcp.Meta{}}
	if t.place != nil {
		r.Meta[pageKey] = t.place
	}
	return r
}

// content has the notes, where there are any, and then the rest.
func (t *texts) content() []mcp.Content {
	var all []mcp.Content
	if len(t.notes) > 0 {
		all = append(all, &mcp.TextContent{Text: "[palyra: " + strings.Join(t.notes, "; ") + "]"})
	}
	if t.body == "" && len(all) == 0 {
		t.body = "[palyra: finished without output]"
	}
	if t.body != "" {
		all = append(all, &mcp.TextContent{Text: t.body})
	}
	return all
}

// state is the fields of a result: those of an outcome, or of an answer that is not an outcome.
type state struct {
	Outcome     string            `json:"outcome"`
	Tool        palyra.ToolName   `json:"tool"`
	ReasonCode  palyra.Reason     `json:"reason_code,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	Remedy      string            `json:"remedy,omitempty"`
	ExitCode    int               `json:"exit_code,omitempty"`
	Signal      string            `json:"signal,omitempty"`
	Truncated   bool              `json:"truncated,omitempty"`
	Quarantined []palyra.PathText `json:"sealed_path_created,omitempty"`
	Left        []string          `json:"left_behind,omitempty"`
	Effects     palyra.Settlement `json:"effects,omitempty"`
	Changes     *palyra.Effects   `json:"changes,omitempty"`
	CallID      palyra.CallID     `json:"call_id"`
	ApprovalID  palyra.ApprovalID `json:"approval_id,omitempty"`
	SessionID   palyra.SessionID  `json:"session_id,omitempty"`
}

func fieldsOf(o palyra.Outcome, less bool) state {
	return state{
		Outcome: string(o.Outcome), Tool: o.Tool, ReasonCode: o.ReasonCode, Reason: o.Reason, Remedy: forModels(o.ReasonCode, o.Remedy),
		ExitCode: o.ExitCode, Signal: o.Signal, Truncated: o.Truncated || less, Quarantined: o.Quarantined, Left: o.Left,
		Effects: o.Effects, Changes: o.Changes,
		CallID: o.CallID, ApprovalID: o.ApprovalID, SessionID: o.SessionID,
	}
}

// forModels is a remedy that a model can follow: it has the schemas of the tools, and
// no terminal to look them up in.
func forModels(code palyra.Reason, remedy string) string {
	if i := strings.Index(remedy, "'palyra tools show "); i >= 0 && code == palyra.ReasonSchemaMismatch {
		hint := strings.TrimSuffix(strings.TrimSuffix(remedy[:i], "See "), "see ")
		return hint + "see the tool's input schema"
	}
	return remedy
}

// plainResult is a result that is no outcome.
func plainResult(s state, fails bool, text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: fails, Content: []mcp.Content{&mcp.TextContent{Text: text}}, Meta: mcp.Meta{outcomeKey: s}}
}

// pending is the answer to a request whose call goes on.
func (f *flight) pending() *mcp.CallToolResult {
	why, p := f.news(), f.call.Progress()
	switch {
	case p.ID == "" && p.Away:
		return failure(f.request.Tool, "", palyra.Errorf(palyra.Unavailable, client.ReasonNoDaemon, "%s", noDaemon))
	case p.ID == "":
		return failure(f.request.Tool, "", palyra.Errorf(palyra.Unavailable, client.ReasonConnectionLost, "%s", notTaken).WithRemedy(lookFirst))
	}
	s := state{
		Outcome: "pending", Tool: f.request.Tool, CallID: p.ID, Reason: why,
		Remedy: fmt.Sprintf(`call %s {"call_id":%q} for the result; do not repeat the call`, waitTool, p.ID),
	}
	if p.Question != nil {
		s.ApprovalID = p.Question.ApprovalID
	}
	return plainResult(s, false, fmt.Sprintf("pending: %s\n%s", s.Reason, s.Remedy))
}

// started is the answer to a request for a background process that runs now.
func (f *flight) started() *mcp.CallToolResult {
	id := f.call.ID()
	s := state{Outcome: string(palyra.OutcomeRunning), Tool: f.request.Tool, CallID: id}
	return plainResult(s, false, fmt.Sprintf("running: process_id %s\nread what it prints with %s, end it with %s",
		id, toolname.Encode(string(palyra.ToolProcessPrint)), toolname.Encode(string(palyra.ToolProcessStop))))
}

// Texts about a daemon that is away, and about one that is there and too slow: only of the first is it
// certain that nothing was done.
const (
	noDaemon  = "Palyra's daemon does not answer"
	notTaken  = "Palyra's daemon did not say in time whether it took the call"
	lookFirst = "see whether it was made before you make it again"
)

// failure is an error as a client gets it. It does not tell where the daemon listens.
func failure(tool palyra.ToolName, call palyra.CallID, err error) *mcp.CallToolResult {
	e := palyra.AsError(err)
	s := state{Outcome: "failed", Tool: tool, ReasonCode: e.Reason, Reason: e.Text, Remedy: forModels(e.Reason, e.Remedy), CallID: call}
	switch e.Reason {
	case client.ReasonNoDaemon:
		s.Reason, s.Remedy = noDaemon, "have a person start it with 'palyra up'"
	case client.ReasonOutOfReach:
		s.Reason, s.Remedy = "this server may not connect to Palyra's daemon", "have a person let it out of the sandbox that it was started in"
	}
	text := fmt.Sprintf("failed: %s (%s)", s.Reason, s.ReasonCode)
	if s.Remedy != "" {
		text += "\nremedy: " + s.Remedy
	}
	return plainResult(s, true, text)
}
