package standin

import (
	"encoding/json"
	"fmt"
	"strings"
)

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

// Responses is the reply as a stream of OpenAI's responses.
func (p Reply) Responses() string {
	var b strings.Builder
	send := func(kind string, fields object) {
		fields["type"] = kind
		event(&b, kind, fields)
	}
	send("response.created", object{"response": object{"id": "resp_1", "object": "response", "status": "queued"}})
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
