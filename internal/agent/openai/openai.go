// Package openai asks models that speak the chat completions of OpenAI's API: OpenAI's own, and those of Ollama,
// vLLM, llama.cpp and the many others that took it over.
//
// It only translates: a question into a request, a stream of chunks into an answer. It asks once and does not try
// again, it holds no key and opens no connection; the agent's Wire does that. An answer counts when the server said
// why it stopped: a stream that ends without that was cut.
package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/shared"

	"palyra"
	"palyra/internal/agent"
)

// DefaultURL is where OpenAI's own models are.
const DefaultURL = "https://api.openai.com/v1"

// Client sends requests.
type Client interface {
	// Do sends one. An answer that is not a stream of events is an error.
	Do(req *http.Request) (*http.Response, error)
}

// Model is a server that speaks the protocol.
type Model struct{ chat openai.ChatCompletionService }

// New returns the models at a base URL.
func New(baseURL string, c Client) *Model {
	return &Model{openai.NewChatCompletionService( // and not a whole client, which would look into the environment
		option.WithBaseURL(baseURL), option.WithHTTPClient(c), option.WithMaxRetries(0),
	)}
}

// Sign puts a key on a request.
func Sign(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }

// Ask implements agent.Model.
func (m *Model) Ask(ctx context.Context, q agent.Question, say func(string) error) (agent.Answer, error) {
	body, err := request(q)
	if err != nil {
		return agent.Answer{}, err
	}
	stream := m.chat.NewStreaming(ctx, body)
	defer func() { _ = stream.Close() }()
	if err := stream.Err(); err != nil {
		return agent.Answer{}, fault(err, false)
	}
	var r reader
	for stream.Next() {
		if err := r.take(stream.Current(), say); err != nil {
			return agent.Answer{}, err
		}
	}
	if err := stream.Err(); err != nil && !r.ended() {
		return agent.Answer{}, fault(err, true)
	}
	if !r.ended() {
		return agent.Answer{}, agent.Cut(errors.New("the stream ended too early"))
	}
	return r.answer(), nil
}

// request puts a question into the protocol's words.
func request(q agent.Question) (openai.ChatCompletionNewParams, error) {
	p := openai.ChatCompletionNewParams{
		Model: q.Model, Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(q.System)},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	if q.MaxTokens > 0 {
		p.MaxCompletionTokens = openai.Int(q.MaxTokens)
	}
	for _, t := range q.Tools {
		var schema shared.FunctionParameters
		if err := json.Unmarshal(t.Schema, &schema); err != nil {
			return p, fmt.Errorf("openai: schema of %s: %w", t.Name, err)
		}
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: t.Name, Description: openai.String(t.Description), Parameters: schema,
		}))
	}
	for i, x := range q.Talk {
		for _, r := range x.Heard.Results {
			p.Messages = append(p.Messages, openai.ToolMessage(r.Text, r.ID))
		}
		if len(x.Heard.Texts) > 0 {
			p.Messages = append(p.Messages, openai.UserMessage(strings.Join(x.Heard.Texts, "\n\n")))
		}
		if i < len(q.Talk)-1 {
			p.Messages = append(p.Messages, assistant(x.Said))
		}
	}
	return p, nil
}

// assistant is what the model said, as it is told again.
func assistant(s agent.Said) openai.ChatCompletionMessageParamUnion {
	var m openai.ChatCompletionAssistantMessageParam
	if s.Text != "" {
		m.Content.OfString = openai.String(s.Text)
	}
	for _, c := range s.Calls {
		m.ToolCalls = append(m.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID: c.ID, Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: string(c.Arguments)},
			},
		})
	}
	return openai.ChatCompletionMessageParamUnion{OfAssistant: &m}
}

// reader puts an answer together.
type reader struct {
	agent.Gather
	finish string
	tokens palyra.Tokens
}

func (r *reader) take(c openai.ChatCompletionChunk, say func(string) error) error {
	if u := c.Usage; u.PromptTokens+u.CompletionTokens > 0 {
		r.tokens = palyra.Tokens{InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens}
	}
	if len(c.Choices) == 0 {
		return nil
	}
	choice := c.Choices[0]
	if text := choice.Delta.Content + choice.Delta.Refusal; text != "" {
		if err := r.Text(text); err != nil {
			return err
		}
		if err := say(text); err != nil {
			return err
		}
	}
	for _, t := range choice.Delta.ToolCalls {
		if err := r.Call(t.Index, t.ID, t.Function.Name, t.Function.Arguments); err != nil {
			return err
		}
	}
	if choice.FinishReason != "" {
		r.finish = string(choice.FinishReason)
	}
	return nil
}

func (r *reader) ended() bool { return r.finish != "" }

func (r *reader) answer() agent.Answer {
	a := r.Answer()
	a.Tokens = r.tokens
	switch r.finish {
	case "length":
		a.Stop = agent.StopLength
	case "content_filter":
		a.Stop = agent.StopDeclined
	}
	return a
}

// fault puts an error of the library into ours. begun says that the answer had begun.
func fault(err error, begun bool) error {
	if said := (*ssestream.StreamError)(nil); errors.As(err, &said) {
		f := agent.FaultOf(said.Event.Data)
		f.Cut, f.Cause = begun, err
		return f
	}
	if begun {
		return agent.Cut(err)
	}
	return err
}
