//lint:file-ignore SA1019 the suite asks for what older revisions have: roots, sampling, logging

package serve_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What the official conformance suite wants to find in a server under test: tools,
// resources and prompts with its names. They are added to the very server that
// serves Palyra's tools.

// handler is a tool of the suite.
type handler func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error)

const anyObject = `{"type":"object"}`

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func always(c ...mcp.Content) handler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: c}, nil
	}
}

// A picture of one point and a moment of silence: the smallest files of their kind.
func onePoint() []byte {
	b, _ := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
	return b
}

func silence() []byte {
	head := []byte("RIFF\x26\x00\x00\x00WAVEfmt " +
		"\x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data\x02\x00\x00\x00")
	return append(head, 0, 0)
}

func embedded(uri string) *mcp.EmbeddedResource {
	return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: "inside " + uri}}
}

// addFixtures adds all of it.
func addFixtures(s *mcp.Server) {
	add := func(name, schema string, h handler) {
		s.AddTool(&mcp.Tool{Name: name, Description: "for the conformance suite", InputSchema: json.RawMessage(schema)}, mcp.ToolHandler(h))
	}
	for name, h := range map[string]handler{
		"test_simple_text":       always(&mcp.TextContent{Text: "a simple text"}),
		"test_image_content":     always(&mcp.ImageContent{Data: onePoint(), MIMEType: "image/png"}),
		"test_audio_content":     always(&mcp.AudioContent{Data: silence(), MIMEType: "audio/wav"}),
		"test_embedded_resource": always(embedded("test://embedded-resource")),
		"test_multiple_content_types": always(&mcp.TextContent{Text: "mixed"}, &mcp.ImageContent{Data: onePoint(), MIMEType: "image/png"},
			embedded("test://mixed")),
		"test_streaming_elicitation":        always(&mcp.TextContent{Text: "nothing is asked"}),
		"test_tool_with_logging":            logs(3),
		"test_logging_tool":                 logs(1),
		"test_tool_with_progress":           progresses,
		"test_error_handling":               fails,
		"test_reconnection":                 reconnects,
		"test_missing_capability":           needsSampling,
		"test_elicitation_sep1034_defaults": elicits(defaultsSchema),
		"test_elicitation_sep1330_enums":    elicits(enumsSchema),
		"test_trigger_tool_change": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			add("passing_tool", anyObject, always())
			return text("the tools changed"), nil
		},
		"test_trigger_prompt_change": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			s.AddPrompt(&mcp.Prompt{Name: "passing_prompt", Description: "passing"}, prompt())
			return text("the prompts changed"), nil
		},
	} {
		add(name, anyObject, h)
	}
	add("test_sampling", `{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`, samples)
	add("test_elicitation", `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`,
		elicits(`{"type":"object","properties":{"username":{"type":"string"},"email":{"type":"string"}},"required":["username"]}`))
	add("json_schema_2020_12_tool", newestSchema, always(&mcp.TextContent{Text: "fits"}))
	add("test_x_mcp_header", `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer"}}}`,
		always(&mcp.TextContent{Text: "a region"}))
	addInputs(s, add)
	addResources(s)
	addPrompts(s)
}

const newestSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},
"additionalProperties":false}`

const defaultsSchema = `{"type":"object","properties":{"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},
"score":{"type":"number","default":95.5},"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}}}`

const enumsSchema = `{"type":"object","properties":{
"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"One"},{"const":"value2","title":"Two"},{"const":"value3","title":"Three"}]},
"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["One","Two","Three"]},
"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"One"},{"const":"value2","title":"Two"},{"const":"value3","title":"Three"}]}}}}`

func logs(n int) handler {
	return func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range n {
			_ = r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: fmt.Sprintf("line %d", i)})
		}
		return text("logged"), nil
	}
}

func progresses(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	token := r.Params.GetProgressToken()
	for _, at := range []float64{0, 50, 100} {
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: at, Total: 100})
	}
	return text("%v", token), nil
}

func fails(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	r := text("this tool fails on purpose")
	r.IsError = true
	return r, nil
}

func reconnects(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if r.Extra != nil && r.Extra.CloseSSEStream != nil {
		r.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
	}
	return text("back again"), nil
}

func elicits(schema string) handler {
	return func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var form any
		if err := json.Unmarshal([]byte(schema), &form); err != nil {
			return nil, err
		}
		res, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "please fill in", RequestedSchema: form})
		if err != nil {
			return nil, err
		}
		return text("%s: %v", res.Action, res.Content), nil
	}
}

func samples(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var a struct{ Prompt string }
	if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
		return nil, err
	}
	res, err := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{
		Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: a.Prompt}}}, MaxTokens: 100,
	})
	if err != nil {
		return nil, err
	}
	said, ok := res.Content.(*mcp.TextContent)
	if !ok {
		return nil, errors.New("no text came back")
	}
	return text("the model says %s", said.Text), nil
}

func addResources(s *mcp.Server) {
	read := func(mime, body string, blob []byte) mcp.ResourceHandler {
		return func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
				{URI: r.Params.URI, MIMEType: mime, Text: strings.ReplaceAll(body, "ID", id), Blob: blob},
			}}, nil
		}
	}
	s.AddResource(&mcp.Resource{Name: "text", URI: "test://static-text", MIMEType: "text/plain", Description: "text"},
		read("text/plain", "a text that stays", nil))
	s.AddResource(&mcp.Resource{Name: "binary", URI: "test://static-binary", MIMEType: "image/png", Description: "bytes"},
		read("image/png", "", onePoint()))
	s.AddResource(&mcp.Resource{Name: "watched", URI: "test://watched-resource", MIMEType: "text/plain", Description: "watched"},
		read("text/plain", "watched", nil))
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "template", URITemplate: "test://template/{id}/data", MIMEType: "application/json",
		Description: "by id",
	},
		read("application/json", `{"id":"ID","templateTest":true,"data":"Data for ID: ID"}`, nil))
}

// prompt answers with the contents; {name} in a text is an argument.
func prompt(contents ...mcp.Content) mcp.PromptHandler {
	return func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		res := &mcp.GetPromptResult{Description: "for the conformance suite"}
		for _, c := range contents {
			if t, ok := c.(*mcp.TextContent); ok {
				said := t.Text
				for name, value := range r.Params.Arguments {
					said = strings.ReplaceAll(said, "{"+name+"}", value)
				}
				c = &mcp.TextContent{Text: said}
			}
			if _, ok := c.(*mcp.EmbeddedResource); ok {
				c = embedded(r.Params.Arguments["resourceUri"])
			}
			res.Messages = append(res.Messages, &mcp.PromptMessage{Role: "user", Content: c})
		}
		return res, nil
	}
}

func addPrompts(s *mcp.Server) {
	arg := func(name string) *mcp.PromptArgument {
		return &mcp.PromptArgument{Name: name, Description: "an argument", Required: true}
	}
	s.AddPrompt(&mcp.Prompt{Name: "test_simple_prompt", Description: "simple"}, prompt(&mcp.TextContent{Text: "a simple prompt"}))
	s.AddPrompt(&mcp.Prompt{
		Name: "test_prompt_with_arguments", Description: "with two",
		Arguments: []*mcp.PromptArgument{arg("arg1"), arg("arg2")},
	},
		prompt(&mcp.TextContent{Text: "first {arg1}, then {arg2}"}))
	s.AddPrompt(&mcp.Prompt{
		Name: "test_prompt_with_embedded_resource", Description: "with a resource",
		Arguments: []*mcp.PromptArgument{arg("resourceUri")},
	},
		prompt(embedded(""), &mcp.TextContent{Text: "look at it"}))
	s.AddPrompt(&mcp.Prompt{Name: "test_prompt_with_image", Description: "with a picture"},
		prompt(&mcp.ImageContent{Data: onePoint(), MIMEType: "image/png"}, &mcp.TextContent{Text: "look at it"}))
}
