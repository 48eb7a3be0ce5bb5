package anthropic

import (
	"encoding/json"
	"testing"

	"go.uber.org/goleak"

	"palyra/internal/agent"
	"palyra/internal/agent/agenttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func protocol() agenttest.Protocol {
	return agenttest.Protocol{
		New: func(base string, w *agent.Wire) agent.Model { return New(base, w) }, Sign: Sign,
		Overloaded: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
	}
}

func TestAnthropic(t *testing.T) { protocol().Run(t) }

// The request is what the protocol's documents say.
func TestRequest(t *testing.T) {
	s := agenttest.New(t, agenttest.Reply{Text: []string{"ok"}})
	if _, err := New(s.URL, agenttest.Wire(Sign)).Ask(t.Context(), agenttest.Question(), func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	q := s.Seen()[0]
	if q.Path != "/v1/messages" || q.Header.Get("X-Api-Key") != agenttest.Key || q.Header.Get("Anthropic-Version") == "" ||
		q.Header.Get("Authorization") != "" {
		t.Errorf("%s %v", q.Path, q.Header)
	}
	type block struct {
		Type, Text, ID, Name string
		Input                map[string]any
		For                  string `json:"tool_use_id"`
		Error                bool   `json:"is_error"`
	}
	var got struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Most     int    `json:"max_tokens"`
		System   []block
		Messages []struct {
			Role    string
			Content []block
		} `json:"messages"`
		Tools []struct {
			Name   string
			Schema map[string]any `json:"input_schema"`
		} `json:"tools"`
	}
	if err := json.Unmarshal([]byte(q.Raw), &got); err != nil {
		t.Fatal(err)
	}
	if got.Model != "m" || !got.Stream || got.Most != 99 || got.System[0].Text != "be good" || len(got.Tools) != 1 ||
		got.Tools[0].Name != "palyra_echo" ||
		got.Tools[0].Schema["type"] != "object" || got.Tools[0].Schema["additionalProperties"] != false {
		t.Errorf("%s", q.Raw)
	}
	m := got.Messages
	if len(m) != 3 || m[0].Role != "user" || m[1].Role != "assistant" || m[2].Role != "user" || m[1].Content[0].Text != "yes" ||
		m[1].Content[1].Input["text"] != "<a>" || m[1].Content[1].ID != "c1_1" || m[2].Content[0].For != "c1_1" || !m[2].Content[1].Error ||
		m[2].Content[2].Text != "and now?" {
		t.Errorf("%s", q.Raw)
	}
}

// A model that said nothing is told again as one that did.
func TestNothingSaid(t *testing.T) {
	if b := assistant(agent.Said{Text: " \n"}); len(b) != 1 || b[0].OfText.Text == " \n" {
		t.Errorf("%+v", b)
	}
}
