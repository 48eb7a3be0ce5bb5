package serve

import (
	"encoding/json"
	"strings"

	"palyra"
)

// readable is an output for a model to read: the texts that an upstream server returned, as they are, and one
// line for each part that is not a text; and a file of a skill. The fields of the result have it whole.
func readable(o palyra.Outcome) string {
	if text, _, ok := skillFile(o); ok {
		return text
	}
	var got struct {
		Content []json.RawMessage `json:"content"`
	}
	if !strings.HasPrefix(string(o.Tool), "mcp.") || json.Unmarshal(o.Output, &got) != nil || len(got.Content) == 0 {
		return string(o.Output)
	}
	lines := make([]string, len(got.Content))
	for i, raw := range got.Content {
		var item struct {
			Type string  `json:"type"`
			Text *string `json:"text"`
		}
		lines[i] = string(raw)
		if json.Unmarshal(raw, &item) == nil && item.Type == "text" && item.Text != nil {
			lines[i] = *item.Text
		}
	}
	return strings.Join(lines, "\n")
}
