package serve_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/client"
	"palyra/internal/mcp/serve"
)

// viewer is a client that can show questions.
func viewer(t *testing.T, s *serve.Server, revision string, show func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult,
	error),
) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "Viewer", Version: "1"}, &mcp.ClientOptions{ElicitationHandler: show})
	ss, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: web(t, s), HTTPClient: &http.Client{Transport: bearer{}}},
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ss.Close() })
	return ss
}

// choice reports whether a form has something to choose.
func choice(r *mcp.ElicitRequest) bool {
	form, _ := r.Params.RequestedSchema.(map[string]any)
	fields, _ := form["properties"].(map[string]any)
	return len(fields) == 1
}

func soon(c *serve.Config) { c.ViewAfter = time.Millisecond }

// TestAViewDecidesNothing: whatever a client answers to the question it was shown,
// and however soon, the call goes on waiting for the person. A client that nobody sits
// at says "decline" at once.
func TestAViewDecidesNothing(t *testing.T) {
	for _, word := range []string{"accept", "cancel", "decline"} {
		t.Run(word, func(t *testing.T) {
			d := newDaemon()
			person, shown := make(chan struct{}), make(chan string, 4)
			d.onCall = func(ctx context.Context, _ client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
				watch(accepted("C1"))
				q := question("A1")
				q.ApprovalRequested.Summary = strings.Repeat("run a\r\n\n", 400)
				watch(q)
				select {
				case <-person:
					return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: "C1", Stdout: "a person said so"}, nil
				case id := <-d.cancelled:
					return palyra.Outcome{Outcome: palyra.OutcomeCancelled, CallID: id, ReasonCode: "cancelled", Reason: "withdrawn"}, nil
				case <-ctx.Done():
					return palyra.Outcome{}, ctx.Err()
				}
			}
			ss := viewer(t, server(t, d, soon), older, func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				shown <- r.Params.Message
				if !choice(r) {
					t.Errorf("a form with nothing in it has an Allow: %v", r.Params.RequestedSchema)
				}
				return &mcp.ElicitResult{Action: word, Content: map[string]any{}}, nil
			})
			type answer struct {
				r   *mcp.CallToolResult
				err error
			}
			done := make(chan answer, 1)
			go func() {
				r, err := ss.CallTool(t.Context(), &mcp.CallToolParams{Name: "palyra_process_run"})
				done <- answer{r, err}
			}()
			text := await(t, shown, "view")
			if !strings.Contains(text, "A1") || !strings.Contains(text, "Nothing is decided in this window") || strings.Contains(text, "decide A1") {
				t.Errorf("shown: %q", text)
			}
			if n := strings.Count(text, "\n") + 1; n > 3 {
				t.Errorf("%d lines are shown: %q", n, text)
			}
			// Another request is answered meanwhile, so the view's answer had its time.
			if _, err := ss.ListTools(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			select {
			case a := <-done:
				t.Fatalf("the view decided: %+v", a)
			default:
			}
			close(person)
			if a := await(t, done, "answer"); a.err != nil || a.r.IsError {
				t.Errorf("%v %+v", a.err, a.r)
			}
			if len(shown) != 0 {
				t.Errorf("shown again: %q", <-shown)
			}
		})
	}
}

// TestAViewGoesWithItsQuestion: an answer from elsewhere takes the view away.
func TestAViewGoesWithItsQuestion(t *testing.T) {
	d := newDaemon()
	shown, gone := make(chan struct{}), make(chan struct{})
	d.onCall = func(_ context.Context, _ client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
		watch(accepted("C1"))
		watch(question("A1"))
		<-shown
		watch(client.CallEvent{ApprovalResolved: &client.ApprovalResolved{}})
		<-gone
		return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: "C1"}, nil
	}
	ss := viewer(t, server(t, d, soon), older, func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		close(shown)
		<-ctx.Done()
		close(gone)
		return nil, ctx.Err()
	})
	r, err := ss.CallTool(t.Context(), &mcp.CallToolParams{Name: "palyra_process_run"})
	if err != nil || r.IsError {
		t.Errorf("%v %+v", err, r)
	}
}

// TestNoViewWhereNoneCanBe: the current revision has no such request, and a client
// that says nothing of it gets none; both wait as ever.
func TestNoViewWhereNoneCanBe(t *testing.T) {
	d := newDaemon()
	d.onCall = func(_ context.Context, _ client.CallRequest, watch func(client.CallEvent)) (palyra.Outcome, error) {
		watch(accepted("C1"))
		watch(question("A1"))
		<-time.After(50 * time.Millisecond) // longer than it takes a view to open
		return palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: "C1"}, nil
	}
	ss := viewer(t, server(t, d, soon), current, func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		t.Error("a view")
		return &mcp.ElicitResult{Action: "accept"}, nil
	})
	p := overHTTP(t, web(t, server(t, d, soon)), older)
	for _, ss := range []*mcp.ClientSession{ss, p.ClientSession} {
		if r, err := ss.CallTool(t.Context(), &mcp.CallToolParams{Name: "palyra_process_run"}); err != nil || r.IsError {
			t.Errorf("%v %+v", err, r)
		}
	}
}
