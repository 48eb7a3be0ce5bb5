//go:build agents

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra/client"
	"palyra/internal/agent/agenttest"
	"palyra/internal/standin"
)

// result is what a model was given for one call.
type result struct{ standin.Result }

// around is what clients put around a result: Codex says how long it took, and of its own
// shell how it went; Gemini's program says whose the words are.
var around = regexp.MustCompile(
	`^(?s:<untrusted_context>\n|Wall time: [\d.]+ seconds\nOutput:|Chunk ID: .*?\nOutput:\n|Wall time: .*?\nOutput:\n|Exit code: .*?\nOutput:\n)|\n</untrusted_context>$`)

// text is all of the result without what the client put around.
func (r result) text() string {
	return around.ReplaceAllString(strings.Join(r.Texts, ""), "")
}

// given is what a model was given for its calls, in order.
func given(r agenttest.Request) (all []result) {
	for _, one := range r.Results() {
		all = append(all, result{one})
	}
	return all
}

// model answers an agent's program: with the calls it was told, one after the other, and
// with what a call's result asks for: to wait, to read on, or to try again.
type model struct {
	t      *testing.T
	d      *daemon
	wrap   func(step) agenttest.ToolCall
	ready  func(agenttest.Request) bool // the tools are there
	mu     sync.Mutex
	step   step
	done   int // calls made
	before int // of them before this scene
	given  []result
}

var (
	waitFor = regexp.MustCompile(`palyra_call_wait \{"call_id":"([0-9A-Z]+)`)
	readOn  = regexp.MustCompile(`read on with (palyra_[a-z_]+) (\{[^\n]*\})\]`)
	goesOn  = regexp.MustCompile(`Process running with session ID (\d+)`)
)

func (m *model) answer(r agenttest.Request) agenttest.Reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !offersTools(r) {
		return agenttest.Reply{Text: []string{"a title"}}
	}
	results := given(r)
	if len(results) == 0 && !m.ready(r) {
		return agenttest.Reply{ID: "w", Calls: []agenttest.ToolCall{{
			Name: "exec_command",
			Args: encoded(map[string]any{"cmd": "sleep 1; echo waited"}),
		}}}
	}
	for len(results) > 0 && strings.HasSuffix(results[0].text(), "waited\n") { // for the tools
		results = results[1:]
	}
	m.given = results
	if len(results) == 0 {
		return m.call(m.step)
	}
	return m.next(results)
}

// offersTools tells a turn from what a program asks of its model by the way, such as a title.
func offersTools(r agenttest.Request) bool { return len(r.Tools()) > 1 }

// next is what a model does when it has read its last result.
func (m *model) next(results []result) agenttest.Reply {
	last := strings.Join(results[len(results)-1].Texts, "\n")
	if w := waitFor.FindStringSubmatch(last); w != nil {
		return m.call(step{tool: "palyra_call_wait", args: map[string]any{"call_id": w[1], "timeout_s": 40}})
	}
	if w := readOn.FindStringSubmatch(last); w != nil {
		var args map[string]any
		if err := json.Unmarshal([]byte(w[2]), &args); err != nil {
			m.t.Errorf("%s: %v", w[2], err)
		}
		return m.call(step{tool: w[1], args: args})
	}
	if w := goesOn.FindStringSubmatch(last); w != nil && len(results) < 8 {
		return m.call(step{tool: "write_stdin", args: map[string]any{
			"session_id": json.Number(w[1]), "chars": m.step.keys,
			"yield_time_ms": 30000,
		}})
	}
	if strings.Contains(last, "nobody has answered yet") && len(results) < 4 {
		m.settle()
		return m.call(m.step)
	}
	return agenttest.Reply{Text: []string{"done"}}
}

// settle waits until nothing is open.
func (m *model) settle() {
	person := m.d.client(client.OperatorDoor)
	for range 600 {
		page, err := person.Approvals(context.Background(), client.ApprovalFilter{Pending: true})
		if err == nil && len(page.Approvals) == 0 {
			return
		}
		<-time.After(200 * time.Millisecond)
	}
}

func (m *model) call(s step) agenttest.Reply {
	m.done++
	return agenttest.Reply{ID: fmt.Sprint(m.done), Calls: []agenttest.ToolCall{m.wrap(s)}}
}

// asked reports whether the model was asked for this scene.
func (m *model) asked() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.done > m.before
}

var numbered = regexp.MustCompile(`(?m)^ *\d+\t`)

// followed is what a model has of a file that it read, piece by piece, as it was told.
func followed(results []result, with tools) string {
	if with == claudes {
		return numbered.ReplaceAllString(results[len(results)-1].text(), "")
	}
	whole := ""
	for _, r := range results {
		body := r.text()
		if strings.HasPrefix(body, "[") {
			_, body, _ = strings.Cut(body, "]")
			body = strings.TrimPrefix(body, "\n")
		}
		at := len(whole) + len(body)
		if w := readOn.FindStringSubmatch(strings.Join(r.Texts, "\n")); w != nil {
			var next struct{ Offset int }
			_ = json.Unmarshal([]byte(w[2]), &next)
			at = next.Offset
		}
		whole += body[:max(0, min(at-len(whole), len(body)))]
	}
	return whole
}

func encoded(v any) []string {
	raw, _ := json.Marshal(v)
	return []string{string(raw)}
}
