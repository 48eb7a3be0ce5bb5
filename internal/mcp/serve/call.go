package serve

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/client"
)

// call takes a client's request to the daemon and waits for what becomes of it.
func (s *Server) call(ctx context.Context, req *mcp.CallToolRequest, tool palyra.ToolName) (*mcp.CallToolResult, error) {
	session := s.session(req.Session, req.ClientInfo())
	f := &flight{
		server: s, session: session, room: s.room(req.ClientInfo()), cancels: true, tell: s.teller(req), window: s.window(req),
		stir: make(chan struct{}, 1),
		request: client.CallRequest{
			Tool: tool, Arguments: arguments(req.Params.Arguments), Workspace: s.Workspace, Session: session, Surface: palyra.SurfaceMCP,
			Key: "mcp/" + rand.Text(), // so that a repeat after a lost connection finds the first
		},
	}
	if j := jobOf(ctx); j != nil { // it has been answered already
		f.hold, f.tell, f.window = j.hold, j.tell, nil
		return f.fly(ctx, 0)
	}
	return f.fly(ctx, s.PendingAfter)
}

func arguments(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}")
	}
	return raw
}

// teller sends progress notes of a request, where the client wants any.
func (s *Server) teller(req *mcp.CallToolRequest) func(context.Context, string) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func(context.Context, string) {}
	}
	beats := 0.0
	return func(ctx context.Context, text string) {
		beats++
		err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: beats, Message: text})
		if err != nil {
			s.Log.Debug("a progress note did not reach the client", "error", err)
		}
	}
}

// flight is a request on its way: the call it became, or the one it waits for.
type flight struct {
	server  *Server
	session string
	room    int                // for its result
	request client.CallRequest // of a call that is to be made
	of      palyra.CallID      // of a call that is waited for
	cancels bool               // a client's cancel ends the call
	tell    func(context.Context, string)
	window  *window       // of the question in the client; a wait has none
	stir    chan struct{} // there is news to tell
	named   bool          // the session knows the call's id; the listener's own
	call    *client.Following
	hold    func(*client.Following) // gets the call, for a task; may be nil
}

// follow begins to follow the call, over restarts of the daemon.
func (f *flight) follow() *client.Following {
	o := client.FollowOptions{Watch: f.hear, Lost: func(error) { f.wakeTeller() }}
	if f.of != "" {
		return client.FollowKnown(f.server.Backend, f.of, o)
	}
	return client.Follow(f.server.Backend, f.request, o)
}

// fly waits for the outcome, at most for the limit, and meanwhile tells the client what the call waits for.
func (f *flight) fly(ctx context.Context, limit time.Duration) (*mcp.CallToolResult, error) {
	view, unview := context.WithCancel(context.WithoutCancel(ctx))
	f.call = f.follow()
	if f.hold != nil {
		f.hold(f.call)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer unview()
	defer f.call.Close()
	beat := time.NewTicker(f.server.Beat)
	defer beat.Stop()
	late, extend := f.lateness(limit)
	var taken, begun <-chan struct{}
	if f.request.Tool == palyra.ToolProcessStart {
		begun = f.call.Running()
	}
	for {
		select {
		case <-f.call.Done():
			return f.landed(f.call.Outcome()), nil
		case <-begun:
			return f.started(), nil
		case <-f.stir:
			f.tell(ctx, f.news())
			f.window.follow(view, &wg, f.server.unseen, f.call.Progress().Question)
		case <-beat.C:
			f.tell(ctx, f.news())
		case <-late:
			if !extend() {
				return f.pending(), nil
			}
			taken = f.call.Known()
		case <-taken:
			return f.pending(), nil
		case <-f.server.stopping:
			return f.pending(), nil
		case <-ctx.Done():
			f.abandon(ctx)
			return nil, ctx.Err()
		}
	}
}

// lateness tells when a request has taken too long. It is extended once while the daemon has not yet named
// the call: without a name the client could neither wait for the call nor learn that there is no call.
func (f *flight) lateness(limit time.Duration) (late <-chan time.Time, extend func() bool) {
	if limit <= 0 {
		return nil, func() bool { return false }
	}
	t := time.NewTimer(limit)
	extended := false
	return t.C, func() bool {
		if p := f.call.Progress(); extended || p.ID != "" || p.Away {
			return false
		}
		extended = true
		t.Reset(unknownFor)
		return true
	}
}

const (
	unknownFor = 5 * time.Second // for a daemon that is there and has not yet named the call
	idPatience = time.Minute     // nobody waits for the answer, and a busy daemon may yet take the call
)

// hear takes in the daemon's events of the call.
func (f *flight) hear(e client.CallEvent) {
	if e.Accepted != nil && f.of == "" && !f.named {
		f.named = true
		f.server.latest.set(f.session, e.Accepted.CallID)
	}
	if e.Accepted != nil || e.ApprovalRequested != nil || e.ApprovalResolved != nil {
		f.wakeTeller()
	}
}

// wakeTeller has news told to the client.
func (f *flight) wakeTeller() {
	select {
	case f.stir <- struct{}{}:
	default:
	}
}

// unseen notes that the client did not show a question.
func (s *Server) unseen(err error) {
	s.Log.Debug("a question was not shown in the client", "error", err)
}

// news says what the call waits for.
func (f *flight) news() string {
	p := f.call.Progress()
	switch {
	case p.Away:
		return "the daemon is away; the call is looked for when it is back"
	case p.Question != nil:
		return asked(*p.Question)
	case p.ID != "":
		return fmt.Sprintf("call %s is under way", p.ID)
	}
	return "the call is being proposed"
}

const maxSummary = 200

// asked says which question is open. Clients show it to people and some give it to
// the model, so it says nothing that would answer it.
func asked(q client.ApprovalRequested) string {
	summary := strings.Join(strings.Fields(palyra.Clip(q.Summary, maxSummary)), " ") // one line, whatever it is about
	return fmt.Sprintf("waiting for a person to answer approval %s in Palyra: %s", q.ApprovalID, summary)
}

// abandon sees to a call whose client wants no answer any more. A cancel ends it; a
// client that is gone leaves it, and so does a server that stops meanwhile.
func (f *flight) abandon(ctx context.Context) {
	if !f.cancels || !errors.Is(context.Cause(ctx), context.Canceled) {
		return
	}
	patience, done := context.WithTimeout(context.WithoutCancel(ctx), idPatience)
	defer done()
	go func() {
		select {
		case <-f.server.stopping:
			done()
		case <-patience.Done():
		}
	}()
	err := f.call.Cancel(patience)
	if id := f.call.ID(); err != nil && id != "" && palyra.CodeOf(err) != palyra.Conflict {
		f.server.Log.Warn("cannot cancel a call", "call_id", id, "reason", palyra.AsError(err).Reason)
	}
}
