package upstream

import (
	"context"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/internal/mask"
)

type shelf struct{ kept string }

func (s *shelf) Keep(_ context.Context, _ palyra.SessionID, _ palyra.CallID, data []byte) (palyra.ID, error) {
	s.kept += string(data)
	return "A", nil
}

// What a server answers has no values of secrets in it when it is delivered or kept.
func TestKnownValuesAreMasked(t *testing.T) {
	const value = "the value of a token"
	m, s := new(mask.Masker), new(shelf)
	m.Set(func(yield func(string, []byte) bool) { yield("token", []byte(value)) })
	r := &Registry{Config: Config{Artifacts: s, Mask: m}}
	for _, most := range []int64{100, 1 << 20} {
		var res palyra.Result
		r.deliver(t.Context(), new(palyra.Call), palyra.Plan{Limits: palyra.Limits{OutputBytes: most}}, &mcp.CallToolResult{
			Content:           []mcp.Content{&mcp.TextContent{Text: value}, &mcp.ImageContent{Data: []byte("an image with " + value)}},
			StructuredContent: map[string]any{value: []string{value}}, IsError: true,
		}, &res)
		if all := string(res.Output) + s.kept; strings.Contains(all, "the value") || !strings.Contains(all, "[secret token]") {
			t.Errorf("%s", all)
		}
	}
}
