// Package anthropic asks models that speak the messages of Anthropic's API.
//
// It only translates: a question into a request, a stream of events into an answer. It asks once and does not try
// again, it holds no key and opens no connection; the agent's Wire does that. An answer counts when its last event
// came: a stream that ends without that was cut.
package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"palyra"
	"palyra/internal/agent"
)

// DefaultURL is where Anthropic's own models are.
const DefaultURL = "https://api.anthropic.com"

// Client sends requests.
type Client interface {
	// Do sends one. An answer that is not a stream of events is an error.
	Do(req *http.Request) (*http.Response, error)
}

// Model is a server that speaks the protocol.
type Model struct{ messages anthropic.MessageService }

// New returns the models at a base URL.
func New(baseURL string, c Client) *Model {
	return &Model{anthropic.NewMessageService( // and not a whole client, which would look into the environment
		option.WithBaseURL(baseURL), option.WithHTTPClient(c), option.WithMaxRetries(0),
		option.WithoutOpenTelemetry(), // its spans may hold what was said
	)}
}

// Sign puts a key on a request.
func Sign(h http.Header, key string) { h.Set("X-Api-Key", key) }

// Ask implements agent.Model.
func (m *Model) Ask(ctx context.Context, q agent.Question, say func(string) error) (agent.Answer, error) {
	stream := m.messages.NewStreaming(ctx, request(q))
	if err := stream.Err(); err != nil {
		return agent.Answer{}, fault(err, false)
	}
	defer func() { _ = stream.Close() }()
	var r reader
	for !r.ended && stream.Next() {
		if err := r.take(stream.Current(), say); err != nil {
			return agent.Answer{}, err
		}
	}
	if err := stream.Err(); err != nil && !r.ended {
		return agent.Answer{}, fault(err, true)
	}
	if !r.ended {
		return agent.Answer{}, agent.Cut(errors.New("the stream ended too early"))
	}
	return r.answer(), nil
}

// request puts a question into the protocol's words.
func request(q agent.Question) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{
		Model: anthropic.Model(q.Model), MaxTokens: q.MaxTokens, System: []anthropic.TextBlockParam{{Text: q.System}},
	}
	for _, t := range q.Tools {
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
			Name: t.Name, Description: anthropic.String(t.Description), InputSchema: param.Override[anthropic.ToolInputSchemaParam](t.Schema),
		}})
	}
	for i, x := range q.Talk {
		p.Messages = append(p.Messages, anthropic.NewUserMessage(user(x.Heard)...))
		if i < len(q.Talk)-1 {
			p.Messages = append(p.Messages, anthropic.NewAssistantMessage(assistant(x.Said)...))
		}
	}
	return p
}

// user is what the model hears: results first, as the protocol wants it.
func user(h agent.Heard) (blocks []anthropic.ContentBlockParamUnion) {
	for _, r := range h.Results {
		blocks = append(blocks, anthropic.NewToolResultBlock(r.ID, r.Text, r.Failed))
	}
	for _, t := range h.Texts {
		blocks = append(blocks, anthropic.NewTextBlock(t))
	}
	return blocks
}

// assistant is what the model said, as it is told again. A text of nothing but space is refused by the server.
func assistant(s agent.Said) (blocks []anthropic.ContentBlockParamUnion) {
	if strings.TrimSpace(s.Text) != "" {
		blocks = append(blocks, anthropic.NewTextBlock(s.Text))
	}
	for _, c := range s.Calls {
		blocks = append(blocks, anthropic.NewToolUseBlock(c.ID, json.RawMessage(c.Arguments), c.Name))
	}
	if len(blocks) == 0 {
		blocks = append(blocks, anthropic.NewTextBlock("[nothing]"))
	}
	return blocks
}

// reader puts an answer together.
type reader struct {
	agent.Gather
	stop   anthropic.StopReason
	ended  bool
	tokens palyra.Tokens
}

func (r *reader) take(e anthropic.MessageStreamEventUnion, say func(string) error) error {
	switch e.Type {
	case "message_start":
		u := e.Message.Usage
		r.tokens = palyra.Tokens{InputTokens: u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens, OutputTokens: u.OutputTokens}
	case "content_block_start":
		switch b := e.ContentBlock; b.Type {
		case "text":
			return r.text(b.Text, say)
		case "tool_use":
			return r.Call(e.Index, b.ID, b.Name, "")
		}
	case "content_block_delta":
		switch d := e.Delta; d.Type {
		case "text_delta":
			return r.text(d.Text, say)
		case "input_json_delta":
			return r.Call(e.Index, "", "", d.PartialJSON)
		}
	case "message_delta":
		if e.Delta.StopReason != "" {
			r.stop = e.Delta.StopReason
		}
		if e.Usage.OutputTokens > 0 {
			r.tokens.OutputTokens = e.Usage.OutputTokens
		}
	case "message_stop":
		r.ended = true
	}
	return nil
}

func (r *reader) text(s string, say func(string) error) error {
	if s == "" {
		return nil
	}
	if err := r.Text(s); err != nil {
		return err
	}
	return say(s)
}

func (r *reader) answer() agent.Answer {
	a := r.Answer()
	a.Tokens = r.tokens
	switch r.stop {
	case anthropic.StopReasonMaxTokens, anthropic.StopReasonModelContextWindowExceeded:
		a.Stop = agent.StopLength
	case anthropic.StopReasonRefusal:
		a.Stop = agent.StopDeclined
	}
	return a
}

// fault puts an error of the library into ours. begun says that the answer had begun.
func fault(err error, begun bool) error {
	if said := (*anthropic.Error)(nil); errors.As(err, &said) {
		f := agent.FaultOf([]byte(said.RawJSON()))
		f.Cut, f.Cause = begun, err
		return f
	}
	if begun {
		return agent.Cut(err)
	}
	return err
}
