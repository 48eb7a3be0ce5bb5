//lint:file-ignore SA1019 the suite asks for what older revisions have: roots, sampling, logging

package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The newest revision asks a client within a result. These fixtures ask, and go on
// when they are answered.

func field(name, kind string) any {
	return map[string]any{"type": "object", "properties": map[string]any{name: map[string]any{"type": kind}}, "required": []string{name}}
}

func ask(message, name, kind string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: field(name, kind)}
}

func completion(prompt string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: prompt}}}, MaxTokens: 50}
}

// needs is a result that asks.
func needs(state string, asks mcp.InputRequestMap) *mcp.CallToolResult {
	return &mcp.CallToolResult{InputRequests: asks, RequestState: state}
}

// filled is what a person filled in under a key; nil when nobody did.
func filled(in mcp.InputResponseMap, key string) map[string]any {
	if r, ok := in[key].(*mcp.ElicitResult); ok && r != nil && r.Action == "accept" {
		return r.Content
	}
	return nil
}

func name(in mcp.InputResponseMap, key string) string {
	s, _ := filled(in, key)["name"].(string)
	return s
}

func sampled(in mcp.InputResponseMap, key string) (string, bool) {
	r, ok := in[key].(*mcp.CreateMessageWithToolsResult)
	if !ok || r == nil {
		return "", false
	}
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			return t.Text, true
		}
	}
	return "", true
}

func roots(in mcp.InputResponseMap) (int, bool) {
	r, ok := in["client_roots"].(*mcp.ListRootsResult)
	if !ok || r == nil {
		return 0, false
	}
	return len(r.Roots), true
}

// addInputs adds those tools and the prompt.
func addInputs(s *mcp.Server, add func(string, string, handler)) {
	for kind, h := range map[string]func(*mcp.CallToolParamsRaw) (*mcp.CallToolResult, error){
		"elicitation": asksName, "sampling": asksModel, "list_roots": asksRoots, "request_state": keepsState, "tampered_state": keepsState,
		"multiple_inputs": asksAll, "multi_round": asksTwice,
	} {
		add("test_input_required_result_"+kind, anyObject, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult,
			error,
		) {
			return h(r.Params)
		})
	}
	add("test_input_required_result_capabilities", anyObject, asksWhatIsThere)
	s.AddPrompt(&mcp.Prompt{Name: "test_input_required_result_prompt", Description: "asks"},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			if c := filled(r.Params.InputResponses, "user_context"); c != nil {
				return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{
					Role:    "user",
					Content: &mcp.TextContent{Text: fmt.Sprint(c["context"])},
				}}}, nil
			}
			return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"user_context": ask("which context?", "context", "string")}}, nil
		})
}

func asksName(p *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
	if n := name(p.InputResponses, "user_name"); n != "" {
		return text("hello %s", n), nil
	}
	return needs("", mcp.InputRequestMap{"user_name": ask("what is your name?", "name", "string")}), nil
}

func asksModel(p *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
	if said, ok := sampled(p.InputResponses, "capital_question"); ok {
		return text("the model says %s", said), nil
	}
	return needs("", mcp.InputRequestMap{"capital_question": completion("what is the capital of France?")}), nil
}

func asksRoots(p *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
	if n, ok := roots(p.InputResponses); ok {
		return text("%d roots", n), nil
	}
	return needs("", mcp.InputRequestMap{"client_roots": &mcp.ListRootsParams{}}), nil
}

const kept = "kept by the client"

func keepsState(p *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
	if p.RequestState != "" && p.RequestState != kept {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "this is not the state that was given out"}
	}
	if p.RequestState == kept && filled(p.InputResponses, "confirm") != nil {
		return text("state-ok"), nil
	}
	return needs(kept, mcp.InputRequestMap{"confirm": ask("please confirm", "ok", "boolean")}), nil
}

func asksAll(p *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
	who := name(p.InputResponses, "user_name")
	said, one := sampled(p.InputResponses, "greeting")
	n, two := roots(p.InputResponses)
	if who != "" && one && two {
		return text("%s %s, %d roots", said, who, n), nil
	}
	return needs("all", mcp.InputRequestMap{
		"user_name": ask("what is your name?", "name", "string"), "greeting": completion("greet"),
		"client_roots": &mcp.ListRootsParams{},
	}), nil
}

func asksTwice(p *mcp.CallToolParamsRaw) (*mcp.CallToolResult, error) {
	who, second := strings.CutPrefix(p.RequestState, "second:")
	switch {
	case second:
		return text("%s likes %v", who, filled(p.InputResponses, "step2")["color"]), nil
	case p.RequestState == "first":
		return needs("second:"+name(p.InputResponses, "step1"), mcp.InputRequestMap{"step2": ask("which colour?", "color", "string")}), nil
	}
	return needs("first", mcp.InputRequestMap{"step1": ask("what is your name?", "name", "string")}), nil
}

func asksWhatIsThere(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	caps, asks := r.ClientCapabilities(), mcp.InputRequestMap{}
	if len(r.Params.InputResponses) > 0 || caps == nil {
		return text("enough was said"), nil
	}
	if caps.Elicitation != nil {
		asks["user_name"] = ask("what is your name?", "name", "string")
	}
	if caps.Sampling != nil {
		asks["greeting"] = completion("greet")
	}
	if len(asks) == 0 {
		return text("there is nobody to ask"), nil
	}
	return needs("", asks), nil
}

// needsSampling refuses clients that cannot sample, as the protocol has it.
func needsSampling(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if caps := r.ClientCapabilities(); caps != nil && caps.Sampling != nil {
		return text("it can sample"), nil
	}
	data, err := json.Marshal(mcp.MissingRequiredClientCapabilityData{RequiredCapabilities: &mcp.ClientCapabilities{
		Sampling: &mcp.SamplingCapabilities{},
	}})
	if err != nil {
		return nil, err
	}
	return nil, &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: "sampling is needed", Data: data}
}
