package serve

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/client"
)

// Bounds on what a model reads of one result.
const (
	maxText = 24 << 10 // of each stream, and of the output
	tailOf  = 4        // one part in four is the end
)

// landed turns the end of a call into a result.
func (f *flight) landed(e ending) *mcp.CallToolResult {
	if e.err != nil {
		return failure(f.request.Tool, f.callID(), e.err)
	}
	return result(e.outcome)
}

// result is an outcome as a client gets it: a text for the model, and the same in
// fields.
func result(o palyra.Outcome) *mcp.CallToolResult {
	r := &mcp.CallToolResult{IsError: o.Outcome != palyra.OutcomeFinished || o.ReasonCode != ""}
	small := o
	small.Attestation = nil
	var notes []string
	for _, s := range []struct {
		name string
		text *string
		b64  *string
	}{{"stdout", &small.Stdout, &small.StdoutB64}, {"stderr", &small.Stderr, &small.StderrB64}} {
		if *s.b64 != "" {
			*s.b64, small.Truncated = "", true
			notes = append(notes, fmt.Sprintf("%s is not text; read it with %s", s.name, pages(o, s.name)))
		}
		if cut, less := bounded(*s.text); less {
			*s.text, small.Truncated = cut, true
			notes = append(notes, fmt.Sprintf("%s is shortened; the rest: %s", s.name, pages(o, s.name)))
		}
	}
	if cut, less := bounded(string(o.Output)); less {
		small.Output, small.Truncated = cutOutput(cut), true
		notes = append(notes, "the output is shortened; the rest: "+pages(o, "output"))
	}
	r.Content = []mcp.Content{&mcp.TextContent{Text: words(small, notes)}}
	if id := artifactOf(o.Output); id != "" {
		r.Content = append(r.Content, &mcp.ResourceLink{URI: artifactURI(id, 0), Name: "artifact " + string(id), Description: "the whole output, in pages"})
	}
	if raw, err := small.Marshal(); err == nil {
		r.StructuredContent = withoutAttestation(raw)
	}
	return r
}

// withoutAttestation drops the member that is null here: clients read the rest.
func withoutAttestation(raw []byte) json.RawMessage {
	if body, ok := strings.CutSuffix(string(raw), `,"attestation":null}`); ok {
		return json.RawMessage(body + "}")
	}
	return raw
}

// pages says how to read the whole of what was shortened.
func pages(o palyra.Outcome, stream string) string {
	return fmt.Sprintf(`%s {"call_id":%q,"stream":%q}`, outputTool, o.CallID, stream)
}

// cutOutput keeps a shortened output valid JSON.
func cutOutput(text string) json.RawMessage {
	raw, err := json.Marshal(map[string]any{"truncated": true, "text": text})
	if err != nil { // text always encodes
		return json.RawMessage("null")
	}
	return raw
}

// artifactOf is the artifact that an output was kept as, or "".
func artifactOf(output json.RawMessage) palyra.ID {
	var cut struct {
		Truncated bool      `json:"truncated"`
		Artifact  palyra.ID `json:"artifact_id"`
	}
	if len(output) > 64<<10 || json.Unmarshal(output, &cut) != nil || !cut.Truncated {
		return ""
	}
	return cut.Artifact
}

// bounded keeps the beginning and the end of a long text, at whole characters.
func bounded(s string) (string, bool) {
	if len(s) <= maxText {
		return s, false
	}
	head, tail := maxText-maxText/tailOf, len(s)-maxText/tailOf
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return fmt.Sprintf("%s\n… %d bytes left out …\n%s", s[:head], tail-head, s[tail:]), true
}

// words is an outcome for a model to read.
func words(o palyra.Outcome, notes []string) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if o.Outcome != palyra.OutcomeFinished || o.ReasonCode != "" {
		say("%s: %s (%s)", o.Outcome, o.Reason, o.ReasonCode)
		if o.Remedy != "" {
			say("remedy: %s", o.Remedy)
		}
	}
	b.WriteString(o.Stdout)
	if o.Stderr != "" {
		newline(&b)
		say("stderr:")
		b.WriteString(o.Stderr)
	}
	if len(o.Output) > 0 && string(o.Output) != "null" {
		newline(&b)
		b.WriteString(readable(o))
	}
	newline(&b)
	if o.Outcome == palyra.OutcomeFinished && (o.ExitCode != 0 || o.Signal != "") {
		say("exit code %d%s", o.ExitCode, bySignal(o.Signal))
	}
	for _, p := range o.Quarantined {
		say("taken out of the workspace, which keeps it sealed: %q", p.Raw())
	}
	for _, text := range o.Left {
		say("left behind: %s", text)
	}
	for _, n := range notes {
		say("%s", n)
	}
	if o.Outcome != palyra.OutcomeFinished {
		say("call %s", o.CallID)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func bySignal(s string) string {
	if s == "" {
		return ""
	}
	return ", signal " + s
}

func newline(b *strings.Builder) {
	if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
		b.WriteByte('\n')
	}
}

// state is a result that is no outcome.
type state struct {
	Outcome    string        `json:"outcome"`
	Tool       string        `json:"tool"`
	ReasonCode palyra.Reason `json:"reason_code,omitempty"`
	Reason     string        `json:"reason,omitempty"`
	Remedy     string        `json:"remedy,omitempty"`
	CallID     palyra.ID     `json:"call_id"`
	ApprovalID palyra.ID     `json:"approval_id,omitempty"`
}

// pending is the answer to a request whose call goes on.
func (f *flight) pending() *mcp.CallToolResult {
	why := f.news()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.id == "" {
		return failure(f.request.Tool, "", palyra.Errorf(palyra.Unavailable, client.ReasonNoDaemon, "%s", noDaemon))
	}
	s := state{
		Outcome: "pending", Tool: f.request.Tool, CallID: f.id, Reason: why,
		Remedy: fmt.Sprintf(`call %s {"call_id":%q} for the result; do not repeat the call`, waitTool, f.id),
	}
	if f.question != nil {
		s.ApprovalID = f.question.ApprovalID
	}
	return &mcp.CallToolResult{
		Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("pending: %s\n%s", s.Reason, s.Remedy)}}, StructuredContent: s,
	}
}

const noDaemon = "Palyra's daemon does not answer"

// failure is an error as a client gets it. Where the daemon listens is nobody's
// business there.
func failure(tool string, call palyra.ID, err error) *mcp.CallToolResult {
	e := palyra.AsError(err)
	s := state{Outcome: "failed", Tool: tool, ReasonCode: e.Reason, Reason: e.Text, Remedy: e.Remedy, CallID: call}
	if e.Reason == client.ReasonNoDaemon {
		s.Reason, s.Remedy = noDaemon, "have a person start it with 'palyra up'"
	}
	text := fmt.Sprintf("failed: %s (%s)", s.Reason, s.ReasonCode)
	if s.Remedy != "" {
		text += "\nremedy: " + s.Remedy
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: s}
}
