// Package agenttest is a server of models for tests: it speaks the streams of OpenAI's chat completions and
// responses, of Anthropic's messages and of Gemini's contents as they are on the wire, gives the replies it was
// told to, whole or in any pieces, breaks off, drips, babbles or never ends, and keeps what it was asked.
package agenttest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// ToolCall is a tool call in a reply, its arguments in pieces.
type ToolCall struct {
	Name      string
	Namespace string // of the tool, in responses
	Free      bool   // its argument is text and no JSON, in responses
	Args      []string
}

// Reply is one answer of the server. Status 0 is a stream made of Text and
// Calls; any other is an answer with Body. Raw, if set, is the stream itself.
type Reply struct {
	Status int
	Header map[string]string
	Body   string

	ID    string // tells the calls of one reply from those of another
	Text  []string
	Calls []ToolCall
	Stop  string // the protocol's own word; "": as the reply needs it
	Raw   string

	Piece   int           // bytes written at a time; 0: all
	Cut     int           // bytes after which the connection is broken; 0: never
	Drip    time.Duration // between pieces
	Endless string        // is sent over and over after the stream's beginning
	Wait    chan struct{} // is waited for before anything is sent
	Hang    bool          // says nothing until the client leaves
}

// Request is what the server was asked.
type Request struct {
	Path   string
	Header http.Header
	Body   map[string]any
	Raw    string
}

// Server gives the replies of its list, one per request; when they are used up it answers with status 418.
type Server struct {
	*httptest.Server
	answer  func(Request) Reply // takes the place of the list
	mu      sync.Mutex
	replies []Reply
	seen    []Request
	news    chan struct{}
}

// New starts a server that ends with the test.
func New(tb testing.TB, replies ...Reply) *Server {
	s := &Server{replies: replies, news: make(chan struct{}, 1024)}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Add adds replies.
func (s *Server) Add(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies = append(s.replies, replies...)
}

// Seen returns what was asked so far.
func (s *Server) Seen() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.seen...)
}

// Asked is told of each request.
func (s *Server) Asked() <-chan struct{} { return s.news }

func (s *Server) take(r *http.Request) Reply {
	raw, _ := io.ReadAll(r.Body)
	q := Request{Path: r.URL.Path, Header: r.Header.Clone(), Raw: string(raw)}
	_ = json.Unmarshal(raw, &q.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, q)
	select {
	case s.news <- struct{}{}:
	default: // nobody counts them
	}
	if s.answer != nil {
		return s.answer(q)
	}
	if len(s.replies) == 0 {
		return Reply{Status: http.StatusTeapot, Body: `{"error":{"message":"no reply is left"}}`}
	}
	next := s.replies[0]
	s.replies = s.replies[1:]
	return next
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	p := s.take(r)
	if p.Wait != nil {
		select {
		case <-p.Wait:
		case <-r.Context().Done():
			return
		}
	}
	for k, v := range p.Header {
		w.Header().Set(k, v)
	}
	if p.Status != 0 {
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(p.Status)
		_, _ = io.WriteString(w, p.Body)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	p.send(w, r)
}

// send writes the stream as the reply says.
func (p Reply) send(w http.ResponseWriter, r *http.Request) {
	stream := p.Raw
	switch {
	case stream != "":
	case strings.HasSuffix(r.URL.Path, "/messages"):
		stream = p.Anthropic()
	case strings.HasSuffix(r.URL.Path, "/responses"):
		stream = p.Responses()
	case strings.Contains(r.URL.Path, ":streamGenerateContent"):
		stream = p.Gemini()
	default:
		stream = p.OpenAI()
	}
	if p.Cut > 0 {
		stream = stream[:min(p.Cut, len(stream))]
	}
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	piece := p.Piece
	if piece == 0 {
		piece = max(len(stream), 1)
	}
	for len(stream) > 0 {
		n := min(piece, len(stream))
		if _, err := io.WriteString(w, stream[:n]); err != nil {
			return
		}
		_ = flush.Flush()
		stream = stream[n:]
		if p.Drip > 0 && !wait(r, p.Drip) {
			return
		}
	}
	for p.Endless != "" {
		if _, err := io.WriteString(w, p.Endless); err != nil {
			return
		}
		_ = flush.Flush()
		if r.Context().Err() != nil {
			return
		}
	}
	if p.Hang {
		<-r.Context().Done()
	}
	if p.Cut > 0 {
		panic(http.ErrAbortHandler) // the connection breaks
	}
}

func wait(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

func event(b *strings.Builder, name string, v any) {
	raw, _ := json.Marshal(v)
	if name != "" {
		fmt.Fprintf(b, "event: %s\n", name)
	}
	fmt.Fprintf(b, "data: %s\n\n", raw)
}

type object = map[string]any

// OpenAI is the reply as a stream of chat completion chunks.
func (p Reply) OpenAI() string {
	var b strings.Builder
	chunk := func(delta object, finish any) {
		event(&b, "", object{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}},
		})
	}
	chunk(object{"role": "assistant", "content": ""}, nil)
	for _, t := range p.Text {
		chunk(object{"content": t}, nil)
	}
	for i, c := range p.Calls {
		chunk(object{"tool_calls": []any{object{
			"index": i, "id": fmt.Sprintf("call_%d", i), "type": "function",
			"function": object{"name": c.Name, "arguments": ""},
		}}}, nil)
		for _, a := range c.Args {
			chunk(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": a}}}}, nil)
		}
	}
	stop := p.Stop
	switch {
	case stop != "":
	case len(p.Calls) > 0:
		stop = "tool_calls"
	default:
		stop = "stop"
	}
	chunk(object{}, stop)
	event(&b, "", object{
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": []any{},
		"usage": object{"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
	})
	b.WriteString("data: [DONE]\n\n")
	return b.String()
}

// Anthropic is the reply as a stream of message events.
func (p Reply) Anthropic() string {
	var b strings.Builder
	event(&b, "message_start", object{"type": "message_start", "message": object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []any{}, "stop_reason": nil,
		"usage": object{"input_tokens": 11, "output_tokens": 1},
	}})
	event(&b, "ping", object{"type": "ping"})
	n := 0
	block := func(start object, deltas []object) {
		event(&b, "content_block_start", object{"type": "content_block_start", "index": n, "content_block": start})
		for _, d := range deltas {
			event(&b, "content_block_delta", object{"type": "content_block_delta", "index": n, "delta": d})
		}
		event(&b, "content_block_stop", object{"type": "content_block_stop", "index": n})
		n++
	}
	if len(p.Text) > 0 {
		var deltas []object
		for _, t := range p.Text {
			deltas = append(deltas, object{"type": "text_delta", "text": t})
		}
		block(object{"type": "text", "text": ""}, deltas)
	}
	for i, c := range p.Calls {
		var deltas []object
		for _, a := range c.Args {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": a})
		}
		block(object{"type": "tool_use", "id": fmt.Sprintf("toolu_%s%d", p.ID, i), "name": c.Name, "input": object{}}, deltas)
	}
	stop := p.Stop
	switch {
	case stop != "":
	case len(p.Calls) > 0:
		stop = "tool_use"
	default:
		stop = "end_turn"
	}
	event(&b, "message_delta", object{
		"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil},
		"usage": object{"output_tokens": 7},
	})
	event(&b, "message_stop", object{"type": "message_stop"})
	return b.String()
}
