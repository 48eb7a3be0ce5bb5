package openai

import (
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"palyra/internal/agent"
	"palyra/internal/agent/agenttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func protocol() agenttest.Protocol {
	return agenttest.Protocol{
		New: func(base string, w *agent.Wire) agent.Model { return New(base+"/v1", w) }, Sign: Sign,
		Overloaded: `data: {"error":{"type":"server_error","code":"overloaded_error","message":"busy"}}` + "\n\n",
	}
}

func TestOpenAI(t *testing.T) { protocol().Run(t) }

// The request is what the protocol's documents say.
func TestRequest(t *testing.T) {
	s := agenttest.New(t, agenttest.Reply{Text: []string{"ok"}})
	if _, err := New(s.URL+"/v1", agenttest.Wire(Sign)).Ask(t.Context(), agenttest.Question(), func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	q := s.Seen()[0]
	if q.Path != "/v1/chat/completions" || q.Header.Get("Authorization") != "Bearer "+agenttest.Key {
		t.Errorf("%s %v", q.Path, q.Header)
	}
	var got struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Most     int    `json:"max_completion_tokens"`
		Messages []struct {
			Role, Content string
			ID            string `json:"tool_call_id"`
			Calls         []struct {
				ID, Type string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		} `json:"messages"`
		Tools []struct {
			Type     string
			Function struct {
				Name       string
				Parameters map[string]any
			}
		} `json:"tools"`
		Options struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal([]byte(q.Raw), &got); err != nil {
		t.Fatal(err)
	}
	if got.Model != "m" || !got.Stream || got.Most != 99 || !got.Options.Usage || len(got.Tools) != 1 ||
		got.Tools[0].Function.Name != "palyra_echo" ||
		got.Tools[0].Function.Parameters["additionalProperties"] != false {
		t.Errorf("%s", q.Raw)
	}
	roles := ""
	for _, m := range got.Messages {
		roles += m.Role + " "
	}
	if roles != "system user assistant tool tool user " {
		t.Fatalf("%s", roles)
	}
	m := got.Messages
	if m[2].Content != "yes" || len(m[2].Calls) != 2 || m[2].Calls[0].Function.Arguments != `{"text":"<a>"}` || m[3].ID != "c1_1" ||
		m[4].Content != "two" || m[5].Content != "and now?" {
		t.Errorf("%s", q.Raw)
	}
}

// Some servers use one index for all calls, or no ids at all.
func TestOddCalls(t *testing.T) {
	chunk := func(calls string) string {
		return `data: {"choices":[{"index":0,"delta":{"tool_calls":[` + calls + `]},"finish_reason":null}]}` + "\n\n"
	}
	end := `data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n"
	for name, raw := range map[string]string{
		"one index": chunk(`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\":1}"}}`) +
			chunk(`{"index":0,"id":"b","function":{"name":"y","arguments":"{\"n\":2}"}}`) + end,
		"no ids": chunk(`{"index":0,"function":{"name":"x","arguments":"{\"n\":1}"}},{"index":0,"function":{"name":"y","arguments":"{\"n\":2}"}}`) + end,
		"no done": chunk(`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\":1}"}}`) +
			chunk(`{"index":1,"id":"b","function":{"name":"y","arguments":"{\"n\""}}`) + chunk(`{"index":1,"function":{"arguments":":2}"}}`) + end,
	} {
		a, err := New(agenttest.New(t, agenttest.Reply{Raw: raw}).URL, agenttest.Wire(func(http.Header, string) {})).
			Ask(t.Context(), agenttest.Question(), nil)
		if err != nil || len(a.Calls) != 2 || a.Calls[0] != (agent.Asked{Name: "x", Arguments: `{"n":1}`}) ||
			a.Calls[1] != (agent.Asked{Name: "y", Arguments: `{"n":2}`}) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

// A server is known by its certificate, or not spoken to.
func TestCertificates(t *testing.T) {
	s := agenttest.New(t, agenttest.Reply{Text: []string{"ok"}})
	safe := httptest.NewUnstartedServer(s.Config.Handler)
	safe.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	safe.StartTLS()
	defer safe.Close()
	w := agenttest.Wire(Sign)
	if _, err := New(safe.URL, w).Ask(t.Context(), agenttest.Question(), nil); err == nil || len(s.Seen()) != 0 {
		t.Errorf("an unknown certificate: %v", err)
	}
	w.Roots = x509.NewCertPool()
	w.Roots.AddCert(safe.Certificate())
	if a, err := New(safe.URL, w).Ask(t.Context(), agenttest.Question(), func(string) error { return nil }); err != nil || a.Text != "ok" {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestABadSchema(t *testing.T) {
	q := agenttest.Question()
	q.Tools[0].Schema = json.RawMessage(`[`)
	if _, err := New("http://127.0.0.1:1", agenttest.Wire(Sign)).Ask(t.Context(), q, nil); err == nil {
		t.Error("it was sent")
	}
}
