package agenttest

import (
	"encoding/json"
	"strings"
)

// Gemini is the reply as a stream of Gemini's generated contents.
func (p Reply) Gemini() string {
	var b strings.Builder
	var parts []any
	for _, t := range p.Text {
		parts = append(parts, object{"text": t})
	}
	for _, c := range p.Calls {
		parts = append(parts, object{"functionCall": object{"name": c.Name, "args": json.RawMessage(strings.Join(c.Args, ""))}})
	}
	event(&b, "", object{
		"candidates":    []any{object{"index": 0, "content": object{"role": "model", "parts": parts}, "finishReason": "STOP"}},
		"usageMetadata": object{"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18},
		"modelVersion":  "m",
	})
	return b.String()
}
