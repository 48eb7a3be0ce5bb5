package serve

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/client"
)

// Words of a client's answer to a view. An acceptance, and any other word, says
// only that somebody has seen it.
const declines = "decline"

// notHere tells the person who reads a view what an answer to it is worth.
const notHere = "\n\nNothing is allowed from here: an answer in this window never approves. Declining withdraws the call."

// window shows the open question of one request in the client, where the client
// can show any. It is a view: who uses an agent's client is not known to be who
// may approve, so the most an answer does is to withdraw what was asked for.
type window struct {
	show    func(ctx context.Context, text string) (string, error) // nil: the client shows nothing
	after   time.Duration                                          // a question that is answered sooner is not shown
	decline chan struct{}                                          // somebody wants the call gone

	of   palyra.ID // the question that is shown
	shut context.CancelFunc
}

func (s *Server) window(req *mcp.CallToolRequest) *window {
	w := &window{after: s.ViewAfter, decline: make(chan struct{}, 1), shut: func() {}}
	p := req.Session.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil {
		return w
	}
	if e := p.Capabilities.Elicitation; e.Form == nil && e.URL != nil {
		return w // it shows only pages
	}
	form := map[string]any{"type": "object", "properties": map[string]any{}}
	w.show = func(ctx context.Context, text string) (string, error) {
		r, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Mode: "form", Message: text, RequestedSchema: form})
		if err != nil {
			return "", err
		}
		return r.Action, nil
	}
	return w
}

// follow shows the question that is open now, and takes away any other.
func (w *window) follow(ctx context.Context, wg *sync.WaitGroup, q *client.ApprovalRequested) {
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
	wg.Go(func() { w.keep(ctx, text) })
}

// keep shows one question until it is answered or gone.
func (w *window) keep(ctx context.Context, text string) {
	t := time.NewTimer(w.after)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return
	case <-t.C:
	}
	if word, err := w.show(ctx, text); err != nil || word != declines || ctx.Err() != nil {
		return // a client that cannot show it still has the progress notes
	}
	select {
	case w.decline <- struct{}{}:
	default:
	}
}

// declined yields when somebody wants the call gone; never without a window.
func (w *window) declined() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.decline
}
