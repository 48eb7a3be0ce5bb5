package serve

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra"
	"palyra/client"
)

// call takes a client's request to the daemon and waits for what becomes of it.
func (s *Server) call(ctx context.Context, req *mcp.CallToolRequest, tool string) (*mcp.CallToolResult, error) {
	session := s.session(req.Session, req.ClientInfo())
	f := &flight{
		server: s, session: session, room: s.room(req.ClientInfo()), cancels: true, tell: s.teller(req), window: s.window(req), stir: make(chan struct{}, 1), known: make(chan struct{}),
		request: client.CallRequest{
			Tool: tool, Arguments: arguments(req.Params.Arguments), Workspace: s.Workspace, Session: session, Surface: palyra.SurfaceMCP,
			Key: "mcp/" + rand.Text(), // so that a repeat after a lost connection finds the first
		},
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
	request client.CallRequest // of a call that is to be made; a wait has none
	cancels bool               // a client's cancel ends the call
	tell    func(context.Context, string)
	window  *window       // of the question in the client; a wait has none
	stir    chan struct{} // there is news to tell
	known   chan struct{} // closed when the call has an id

	mu       sync.Mutex // guards what follows
	id       palyra.ID
	question *client.ApprovalRequested // that it waits for
	away     bool                      // the daemon is
}

type ending struct {
	outcome palyra.Outcome
	err     error
}

// fly waits for the outcome, at most for the limit, and tells the client meanwhile
// what it waits for.
func (f *flight) fly(ctx context.Context, limit time.Duration) (*mcp.CallToolResult, error) {
	stream, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan ending, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		out, err := f.pursue(stream)
		done <- ending{out, err}
	})
	defer wg.Wait()
	defer hangUp()
	beat := time.NewTicker(f.server.Beat)
	defer beat.Stop()
	late, extend := f.lateness(limit)
	var taken <-chan struct{}
	for {
		select {
		case e := <-done:
			return f.landed(e), nil
		case <-f.stir:
			f.tell(ctx, f.news())
			f.window.follow(stream, &wg, f.unseen, f.open())
		case <-beat.C:
			f.tell(ctx, f.news())
		case <-late:
			if !extend() {
				return f.pending(), nil
			}
			taken = f.known
		case <-taken:
			return f.pending(), nil
		case <-f.server.stopping:
			return f.pending(), nil
		case <-ctx.Done():
			f.left(ctx, done)
			return nil, ctx.Err()
		}
	}
}

// lateness tells when a request has taken too long. It is extended once for a daemon
// that is there and has not yet said under which name it took the call: without a name
// the client could neither wait for the call nor be told that there is none.
func (f *flight) lateness(limit time.Duration) (late <-chan time.Time, extend func() bool) {
	if limit <= 0 {
		return nil, func() bool { return false }
	}
	t := time.NewTimer(limit)
	extended := false
	return t.C, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		if extended || f.id != "" || f.away {
			return false
		}
		extended = true
		t.Reset(unknownFor)
		return true
	}
}

// Patience with a daemon that is away, and with a call that has no id yet.
const (
	firstPause     = 100 * time.Millisecond
	longestPause   = 2 * time.Second
	unknownFor     = 5 * time.Second // a call that is perhaps not on record is not looked for longer
	idPatience     = time.Minute     // nobody waits for the answer, and a busy daemon may yet take the call
	cancelPatience = 10 * time.Second
)

// pursue follows the call to its outcome, over restarts of the daemon.
func (f *flight) pursue(ctx context.Context) (palyra.Outcome, error) {
	pause, began := firstPause, time.Now()
	for {
		out, err := f.once(ctx)
		if err == nil || ctx.Err() != nil || !goneAway(err) {
			return out, err
		}
		if f.callID() == "" && time.Since(began) > unknownFor {
			return out, err
		}
		f.note(func() { f.away = true })
		rest := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			rest.Stop()
			return out, err
		case <-rest.C:
			pause = min(2*pause, longestPause)
		}
	}
}

// once makes the call, or watches it where it is known.
func (f *flight) once(ctx context.Context) (palyra.Outcome, error) {
	if id := f.callID(); id != "" {
		return f.server.Backend.WatchCall(ctx, id, f.hear)
	}
	return f.server.Backend.Call(ctx, f.request, f.hear)
}

// goneAway reports whether an error only says that the daemon went away.
func goneAway(err error) bool {
	switch palyra.AsError(err).Reason {
	case client.ReasonNoDaemon, client.ReasonConnectionLost, palyra.ReasonStopping:
		return true
	}
	return false
}

// hear takes what the daemon tells of the call.
func (f *flight) hear(e client.CallEvent) {
	switch {
	case e.Accepted != nil:
		f.note(func() { f.away = false })
		f.accepted(e.Accepted.CallID)
	case e.ApprovalRequested != nil:
		f.note(func() { f.question = e.ApprovalRequested })
	case e.ApprovalResolved != nil:
		f.note(func() { f.question = nil })
	}
}

func (f *flight) accepted(id palyra.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.id == "" {
		close(f.known)
		f.server.latest.set(f.session, id)
	}
	f.id = id
}

// note changes what is known, and has it told.
func (f *flight) note(change func()) {
	f.mu.Lock()
	change()
	f.mu.Unlock()
	select {
	case f.stir <- struct{}{}:
	default:
	}
}

func (f *flight) callID() palyra.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.id
}

// unseen notes that the client did not show a question.
func (f *flight) unseen(err error) {
	f.server.Log.Debug("a question was not shown in the client", "error", err)
}

// open is the question that waits for a person, or nil.
func (f *flight) open() *client.ApprovalRequested {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.question
}

// news says what the call waits for.
func (f *flight) news() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.away:
		return "the daemon is away; the call is looked for when it is back"
	case f.question != nil:
		return asked(*f.question)
	case f.id != "":
		return fmt.Sprintf("call %s is under way", f.id)
	}
	return "the call is being proposed"
}

const maxSummary = 200

// asked says which question is open. Clients show it to people and some give it to
// the model, so it says nothing that would answer it.
func asked(q client.ApprovalRequested) string {
	return fmt.Sprintf("waiting for a person to answer approval %s in Palyra: %s", q.ApprovalID, palyra.Clip(q.Summary, maxSummary))
}

// left sees to a call whose client wants no answer any more. A cancel ends it; a
// client that is gone leaves it.
func (f *flight) left(ctx context.Context, over <-chan ending) {
	if !f.cancels || !errors.Is(context.Cause(ctx), context.Canceled) {
		return
	}
	late := time.NewTimer(idPatience)
	defer late.Stop()
	select {
	case <-f.known:
	case <-over:
		return // it came to nothing, or to its end
	case <-f.server.stopping:
		return
	case <-late.C:
		return // not on record, as far as anybody knows
	}
	f.cancel(ctx)
}

// cancel ends the call, whose id is known.
func (f *flight) cancel(ctx context.Context) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cancelPatience)
	defer done()
	if err := f.server.Backend.CancelCall(ctx, f.callID()); err != nil && palyra.CodeOf(err) != palyra.Conflict {
		f.server.Log.Warn("cannot cancel a call", "call_id", f.callID(), "reason", palyra.AsError(err).Reason)
	}
}
