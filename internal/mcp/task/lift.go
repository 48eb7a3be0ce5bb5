package task

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// wishKey is where a wish stands once it is lifted. A client that writes it there itself asks for the same.
const wishKey = "palyra/task"

// Lift puts the wish of a request for a tool to where the library leaves it alone: it drops parameters that it does
// not know, but keeps _meta. Any other message is returned as it is.
func Lift(message []byte) []byte {
	if !bytes.Contains(message, []byte(`"task"`)) || !bytes.Contains(message, []byte(MethodCall)) {
		return message
	}
	var m, params, meta map[string]json.RawMessage
	var method string
	if json.Unmarshal(message, &m) != nil || json.Unmarshal(m["method"], &method) != nil || method != MethodCall ||
		json.Unmarshal(m["params"], &params) != nil || params["task"] == nil {
		return message
	}
	if raw := params["_meta"]; raw != nil && json.Unmarshal(raw, &meta) != nil {
		return message
	}
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	meta[wishKey] = params["task"]
	delete(params, "task")
	var err error
	for _, step := range []struct {
		in   map[string]json.RawMessage
		name string
		of   any
	}{{params, "_meta", meta}, {m, "params", params}} {
		if step.in[step.name], err = json.Marshal(step.of); err != nil {
			return message
		}
	}
	out, err := json.Marshal(m)
	if err != nil {
		return message
	}
	if bytes.HasSuffix(message, []byte("\n")) {
		out = append(out, '\n')
	}
	return out
}

// Wished takes a lifted wish out of a request's _meta; nil when the request is to be no task.
func Wished(meta map[string]any) (*Wish, error) {
	said, is := meta[wishKey]
	if !is {
		return nil, nil
	}
	delete(meta, wishKey)
	raw, err := json.Marshal(said)
	if err != nil {
		return nil, err
	}
	var w Wish
	if bytes.Equal(raw, []byte("null")) || json.Unmarshal(raw, &w) != nil {
		return nil, fmt.Errorf("what the request says about its task is not an object with a whole number of milliseconds as its ttl")
	}
	if w.TTL != nil && *w.TTL < 0 {
		return nil, fmt.Errorf("the ttl of a task cannot be negative")
	}
	return &w, nil
}

// changed is a result of the library with what it does not know.
type changed struct {
	mcp.ResultBase
	raw json.RawMessage
}

// MarshalJSON implements json.Marshaler.
func (c *changed) MarshalJSON() ([]byte, error) { return c.raw, nil }

// Offer adds to a server's greeting that its tools can be called as tasks. An answer for another revision stays as it is.
func Offer(r *mcp.InitializeResult) (mcp.Result, error) {
	if r.ProtocolVersion != Revision {
		return r, nil
	}
	return change(r, func(m map[string]any) {
		capabilities, _ := m["capabilities"].(map[string]any)
		if capabilities == nil {
			capabilities = map[string]any{}
			m["capabilities"] = capabilities
		}
		none := map[string]any{}
		capabilities["tasks"] = map[string]any{
			"list": none, "cancel": none, "requests": map[string]any{"tools": map[string]any{"call": none}},
		}
	})
}

// Mark adds to a list of tools which of them can be called as tasks.
func Mark(r *mcp.ListToolsResult, can func(name string) bool) (mcp.Result, error) {
	return change(r, func(m map[string]any) {
		tools, _ := m["tools"].([]any)
		for _, t := range tools {
			tool, _ := t.(map[string]any)
			if name, _ := tool["name"].(string); can(name) {
				tool["execution"] = map[string]any{"taskSupport": Optional}
			}
		}
	})
}

func change(r mcp.Result, by func(map[string]any)) (mcp.Result, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // numbers of a schema stay as they are
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return nil, err
	}
	by(m)
	out := &changed{}
	out.raw, err = json.Marshal(m)
	return out, err
}

// Offered reports whether a greeting says that tools can be called as tasks, and that a task can be cancelled.
func Offered(greeting []byte) (calls, cancel bool) {
	var g struct {
		Version      string `json:"protocolVersion"`
		Capabilities struct {
			Tasks struct {
				Cancel   *struct{} `json:"cancel"`
				Requests struct {
					Tools struct {
						Call *struct{} `json:"call"`
					} `json:"tools"`
				} `json:"requests"`
			} `json:"tasks"`
		} `json:"capabilities"`
	}
	if json.Unmarshal(greeting, &g) != nil || g.Version != Revision {
		return false, false
	}
	t := g.Capabilities.Tasks
	return t.Requests.Tools.Call != nil, t.Cancel != nil
}

// Supports reads which tools of a list can be called as tasks.
func Supports(list []byte) map[string]Support {
	if !bytes.Contains(list, []byte(`"taskSupport"`)) {
		return nil
	}
	var l struct {
		Tools []struct {
			Name      string `json:"name"`
			Execution struct {
				Support Support `json:"taskSupport"`
			} `json:"execution"`
		} `json:"tools"`
	}
	if json.Unmarshal(list, &l) != nil {
		return nil
	}
	of := map[string]Support{}
	for _, t := range l.Tools {
		if t.Execution.Support == Optional || t.Execution.Support == Required {
			of[t.Name] = t.Execution.Support
		}
	}
	return of
}
