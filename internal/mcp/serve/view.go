package serve

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/client"
	"palyra/internal/mcp/task"
)

// notHere tells the person who reads a view what an answer to it is worth.
const notHere = "\n\nNothing is decided in this window. Answer in a terminal of your own: palyra approvals watch. To withdraw the " +
	"call, cancel it."

// viewForm has one thing to choose, which decides nothing: a form without any is
// shown with a button that says "Allow".
func viewForm() any {
	const seen = "seen"
	return map[string]any{
		"type": "object", "required": []string{seen},
		"properties": map[string]any{seen: map[string]any{
			"type": "string", "title": "Palyra waits for you elsewhere", "description": "Closing this decides nothing.",
			"enum": []string{"I answer it in another terminal"},
		}},
	}
}

// window shows the open question of one request in the client, where the client can show any. It is a view and
// nothing more: who uses an agent's client is not known to be who may approve, and a client without a person
// answers by itself, most with a decline. So no answer does anything.
type window struct {
	show  func(ctx context.Context, text string) error // nil: the client shows nothing
	after time.Duration                                // a question that is answered sooner is not shown

	of   palyra.ApprovalID // the question that is shown
	shut context.CancelFunc
}

func (s *Server) window(req *mcp.CallToolRequest) *window { return s.windowOf(req.Session, "") }

// windowOf is a window in a session, for the call of a task where it names one.
func (s *Server) windowOf(ss *mcp.ServerSession, id string) *window {
	w := &window{after: s.ViewAfter, shut: func() {}}
	p := ss.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil {
		return w
	}
	if e := p.Capabilities.Elicitation; e.Form == nil && e.URL != nil {
		return w // it shows only pages
	}
	w.show = func(ctx context.Context, text string) error {
		ask := &mcp.ElicitParams{Mode: "form", Message: text, RequestedSchema: viewForm()}
		if id != "" {
			ask.Meta = task.Relate(nil, id)
		}
		_, err := ss.Elicit(ctx, ask)
		return err
	}
	return w
}

// follow shows the question that is open now, and takes away any other.
func (w *window) follow(ctx context.Context, wg *sync.WaitGroup, log func(error), q *client.ApprovalRequested) {
	switch {
	case w == nil || w.show == nil:
		return
	case q == nil:
		w.shut()
		w.of = ""
		return
	case q.ApprovalID == w.of:
		return
	}
	w.shut()
	w.of = q.ApprovalID
	ctx, w.shut = context.WithCancel(ctx)
	text := asked(*q) + notHere
	wg.Go(func() {
		if err := w.keep(ctx, text); err != nil && ctx.Err() == nil {
			log(err) // the client still has the progress notes
		}
	})
}

// keep shows one question until it is answered or gone.
func (w *window) keep(ctx context.Context, text string) error {
	t := time.NewTimer(w.after)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-t.C:
	}
	return w.show(ctx, text)
}
