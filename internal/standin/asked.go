package standin

import (
	"encoding/json"
	"strings"
)

// Result is what a model was given for one call: as it stood on the wire, and its texts.
type Result struct {
	Raw   string
	Texts []string
}

// item is one of a conversation, in any of the four protocols.
type item struct {
	Type    string          `json:"type"`
	Speaker string          `json:"role"`
	Output  json.RawMessage `json:"output"`  // responses
	Content json.RawMessage `json:"content"` // messages, chat completions
	Parts   []struct {      // Gemini
		FunctionResponse *struct {
			Response json.RawMessage `json:"response"`
		} `json:"functionResponse"`
	} `json:"parts"`
}

// Results are what the model was given for its calls, in order.
func (r Request) Results() (all []Result) {
	var body struct {
		Input, Messages, Contents []item
	}
	_ = json.Unmarshal([]byte(r.Raw), &body)
	for _, it := range append(append(body.Input, body.Messages...), body.Contents...) {
		switch {
		case strings.HasSuffix(it.Type, "_call_output"):
			all = append(all, read1(it.Output))
		case it.Speaker == "tool":
			all = append(all, read1(it.Content))
		case it.Parts != nil:
			for _, p := range it.Parts {
				if p.FunctionResponse != nil {
					all = append(all, read1(p.FunctionResponse.Response))
				}
			}
		default:
			var blocks []item
			_ = json.Unmarshal(it.Content, &blocks)
			for _, b := range blocks {
				if b.Type == "tool_result" {
					all = append(all, read1(b.Content))
				}
			}
		}
	}
	return all
}

// read1 finds the texts in a result: a text, a list of parts, or an object with one.
func read1(raw json.RawMessage) Result {
	r := Result{Raw: string(raw)}
	var text string
	var list []struct{ Text string }
	var object struct{ Output, Error string }
	switch {
	case json.Unmarshal(raw, &text) == nil:
		r.Texts = []string{text}
	case json.Unmarshal(raw, &list) == nil:
		for _, p := range list {
			r.Texts = append(r.Texts, p.Text)
		}
	case json.Unmarshal(raw, &object) == nil:
		r.Texts = []string{object.Output + object.Error}
	}
	return r
}

// Tools are the names of the tools that a model is offered. What a program asks by the way, for a title, has none.
func (r Request) Tools() (names []string) {
	list, _ := r.Body["tools"].([]any)
	for _, t := range list {
		names = append(names, named(t, "")...)
	}
	return names
}

// named are the names of one entry: a tool's own, or those of the tools within it.
func named(t any, space string) (names []string) {
	m, _ := t.(map[string]any)
	if f, ok := m["function"].(map[string]any); ok { // chat completions
		m = f
	}
	name, _ := m["name"].(string)
	for _, within := range []string{"functionDeclarations", "tools"} { // Gemini's, and namespaces of responses
		if list, ok := m[within].([]any); ok {
			for _, t := range list {
				names = append(names, named(t, name)...)
			}
			return names
		}
	}
	if name == "" {
		return nil
	}
	return []string{strings.TrimPrefix(space+"/"+name, "/")}
}
