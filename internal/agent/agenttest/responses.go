package agenttest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// NewFunc starts a server that asks answer for each reply, for programs whose
// requests cannot be counted: they name conversations, warm up and try again.
func NewFunc(tb testing.TB, answer func(Request) Reply) *Server {
	s := &Server{answer: answer, news: make(chan struct{}, 1024)}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Responses is the reply as a stream of OpenAI's responses.
func (p Reply) Responses() string {
	var b strings.Builder
	send := func(kind string, fields object) {
		fields["type"] = kind
		event(&b, kind, fields)
	}
	send("response.created", object{"response": object{"id": "resp_1", "object": "response", "status": "in_progress"}})
	n := 0
	item := func(it object) {
		send("response.output_item.added", object{"output_index": n, "item": it})
		send("response.output_item.done", object{"output_index": n, "item": it})
		n++
	}
	if len(p.Text) > 0 {
		item(object{
			"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
			"content": []any{object{"type": "output_text", "text": strings.Join(p.Text, ""), "annotations": []any{}}},
		})
	}
	for i, c := range p.Calls {
		it := object{
			"type": "function_call", "id": fmt.Sprintf("fc_%d", i), "call_id": fmt.Sprintf("call_%s_%d", p.ID, i), "status": "completed",
			"name": c.Name, "arguments": strings.Join(c.Args, ""),
		}
		if c.Namespace != "" {
			it["namespace"] = c.Namespace
		}
		if c.Free {
			it["type"], it["input"] = "custom_tool_call", it["arguments"]
			delete(it, "arguments")
		}
		item(it)
	}
	send("response.completed", object{"response": object{
		"id": "resp_1", "object": "response", "status": "completed", "output": []any{},
		"usage": object{
			"input_tokens": 11, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": 7,
			"output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 18,
		},
	}})
	return b.String()
}
