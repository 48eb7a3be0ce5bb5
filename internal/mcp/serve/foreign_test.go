package serve_test

import (
	"context"
	"encoding/json"
	"testing"

	"palyra"
	"palyra/client"
)

// A model reads what another server's tool brought back as that server wrote it, not
// as JSON within JSON.
func TestOutputsOfOtherServers(t *testing.T) {
	for _, c := range []struct{ tool, output, want string }{
		{"mcp.files.read", `{"content":[{"type":"text","text":"line one\nline \"two\""}]}`, "line one\nline \"two\""},
		{"mcp.files.read", `{"content":[{"type":"text","text":"a"},{"type":"image","mime_type":"image/png","artifact_id":"A1"},{"type":"text","text":"b"}]}`, "a\n{\"type\":\"image\",\"mime_type\":\"image/png\",\"artifact_id\":\"A1\"}\nb"},
		{"mcp.files.read", `{"content":[],"structured":{"n":1}}`, `{"content":[],"structured":{"n":1}}`},
		{"mcp.files.read", `{"truncated":true,"text":"x"}`, `{"truncated":true,"text":"x"}`},
		{"mcp.files.read", `[1]`, `[1]`},
		{"palyra.echo", `{"content":[{"type":"text","text":"a"}]}`, `{"content":[{"type":"text","text":"a"}]}`},
	} {
		d := newDaemon()
		d.onCall = func(context.Context, client.CallRequest, func(client.CallEvent)) (palyra.Outcome, error) {
			return palyra.Outcome{Outcome: palyra.OutcomeFinished, Tool: palyra.ToolName(c.tool), CallID: "C1", Output: json.RawMessage(c.output)},
				nil
		}
		p, _ := stdio(t, server(t, d, nil))
		r, err := p.call(t.Context(), "palyra_echo", nil)
		if err != nil || words(t, r) != c.want {
			t.Errorf("%s %s: %v %+v", c.tool, c.output, err, r)
		}
	}
}
