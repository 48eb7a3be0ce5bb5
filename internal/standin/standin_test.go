package standin

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestRequests: what real programs send of their tools and results is found, in all four protocols.
func TestRequests(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/messages":         `{"tools":[{"name":"Bash"},{"name":"Read"}],"messages":[{"role":"user","content":"x"},{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"out"}]}]}]}`,
		"/v1/responses":        `{"tools":[{"type":"function","name":"Bash"},{"type":"namespace","name":"Read"}],"input":[{"type":"message","role":"user"},{"type":"function_call_output","output":"out"}]}`,
		"/v1/chat/completions": `{"tools":[{"function":{"name":"Bash"}},{"function":{"name":"Read"}}],"messages":[{"role":"tool","content":"out"}]}`,
		"/v1beta/models/x:streamGenerateContent": `{"tools":[{"functionDeclarations":[{"name":"Bash"},{"name":"Read"}]}],
			"contents":[{"role":"user","parts":[{"functionResponse":{"name":"Bash","response":{"output":"out"}}}]}]}`,
	} {
		r, err := http.NewRequest(http.MethodPost, "http://x"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		q := Read(r, []byte(body))
		if got := q.Tools(); !slices.Equal(got, []string{"Bash", "Read"}) {
			t.Errorf("%s: %q", path, got)
		}
		if got := q.Results(); len(got) != 1 || strings.Join(got[0].Texts, "") != "out" {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if q := (Request{Raw: "nonsense"}); q.Tools() != nil || q.Results() != nil {
		t.Error("nonsense")
	}
}

// TestServe: it answers in the protocol that it is asked in, and only on this machine.
func TestServe(t *testing.T) {
	m, err := Serve(func(Request) Reply {
		return Reply{Text: []string{"hello"}, Calls: []ToolCall{{Name: "t", Args: []string{"{}"}}}}
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(m.URL, "http://127.0.0.1:") {
		t.Error(m.URL)
	}
	for path, want := range map[string]string{
		"/v1/messages": "event: message_stop", "/v1/responses": "event: response.completed", "/v1/chat/completions": "[DONE]",
		"/v1beta/models/x:streamGenerateContent": "functionCall",
	} {
		r, err := http.Post(m.URL+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || !strings.Contains(string(raw), want) || !strings.Contains(string(raw), "hello") {
			t.Errorf("%s: %v %s", path, err, raw)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := http.Get(m.URL); err == nil {
		t.Error("it still answers")
	}
}
