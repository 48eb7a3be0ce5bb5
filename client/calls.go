package client

import (
	"context"
	"io"
	"unicode/utf8"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc/wire"
)

// Tools lists the tools.
func (c *Client) Tools(ctx context.Context) ([]palyra.Tool, error) {
	res, err := c.tools().ListTools(ctx, &v1.ListToolsRequest{})
	return words[palyra.Tool](res, err, "tools")
}

// Tool describes one tool.
func (c *Client) Tool(ctx context.Context, name palyra.ToolName) (palyra.Tool, error) {
	res, err := c.tools().GetTool(ctx, &v1.GetToolRequest{Name: string(name)})
	return word[palyra.Tool](res.GetTool(), err)
}

// Call proposes a tool call and waits for its outcome. watch may be nil. When
// ctx ends the call goes on without its client; CancelCall ends it.
func (c *Client) Call(ctx context.Context, r CallRequest, watch func(CallEvent)) (palyra.Outcome, error) {
	stream, err := c.tools().CallTool(ctx, r.wire())
	f := follower{watch: watch}
	return f.end(receiveAll(stream, err, f.hear))
}

// Check asks whether the caller may make a call by its own tools: policy judges
// it, people are asked where policy wants that, and nothing runs. The outcome is
// "allowed" or a refusal. When ctx ends the question stays; CancelCall ends it.
func (c *Client) Check(ctx context.Context, r CallRequest, watch func(CallEvent)) (palyra.Outcome, error) {
	stream, err := c.tools().CheckCall(ctx, &v1.CheckCallRequest{Call: r.wire()})
	f := follower{watch: watch}
	return f.end(receiveAll(stream, err, func(m *v1.CheckCallResponse) error { return f.hear(m.GetNews()) }))
}

// Observe is Check for a caller that makes the call whatever the answer would be: nobody is asked, and the outcome,
// "observed", says what would have become of it. A rewritten call is judged as Call would be. It is refused while
// calls are held.
func (c *Client) Observe(ctx context.Context, r CallRequest, rewritten bool) (palyra.Outcome, error) {
	stream, err := c.tools().CheckCall(ctx, &v1.CheckCallRequest{Call: r.wire(), Observe: true, Rewritten: rewritten})
	f := follower{}
	return f.end(receiveAll(stream, err, func(m *v1.CheckCallResponse) error { return f.hear(m.GetNews()) }))
}

// wire puts a request into the protocol's words.
func (r CallRequest) wire() *v1.CallToolRequest {
	req := &v1.CallToolRequest{
		Tool: string(r.Tool), Arguments: string(r.Arguments), Workspace: r.Workspace, Session: r.Session, Key: r.Key,
		NoWait: r.NoWait, TimeoutMs: r.Timeout.Milliseconds(), Door: string(r.Surface), StreamOutput: r.StreamOutput,
	}
	if !utf8.Valid(r.Arguments) { // the daemon, not the wire, refuses them
		req.Arguments, req.RawArguments = "", r.Arguments
	}
	return req
}

// WatchCall follows a call that was made before and waits for its outcome. watch may be nil; it does not hear what
// the call prints. When ctx ends the call goes on.
func (c *Client) WatchCall(ctx context.Context, id palyra.CallID, watch func(CallEvent)) (palyra.Outcome, error) {
	stream, err := c.tools().WatchCall(ctx, &v1.WatchCallRequest{CallId: string(id)})
	f := follower{watch: watch}
	return f.end(receiveAll(stream, err, func(m *v1.WatchCallResponse) error { return f.hear(m.GetNews()) }))
}

// follower collects the events of one call.
type follower struct {
	watch   func(CallEvent)
	running bool // CallRunning was passed on
	out     *palyra.Outcome
}

func (f *follower) hear(m *v1.CallToolResponse) error {
	if o := m.GetOutcome(); o != nil {
		w, err := word[palyra.Outcome](o, nil)
		f.out = &w
		return err
	}
	e, ok, err := event(m)
	if ok && f.watch != nil {
		f.tell(e)
	}
	return err
}

// tell passes an event on. A daemon of an earlier version does not say that a call runs, so its
// first output counts as that.
func (f *follower) tell(e CallEvent) {
	if e.Output != nil && !f.running {
		f.running = true
		f.watch(CallEvent{Running: new(CallRunning)})
	}
	f.running = f.running || e.Running != nil
	f.watch(e)
}

// end returns the outcome; a stream that ended without one was cut.
func (f *follower) end(err error) (palyra.Outcome, error) {
	switch {
	case err != nil:
		return palyra.Outcome{}, err
	case f.out == nil:
		return palyra.Outcome{}, lostConnection(io.ErrUnexpectedEOF)
	}
	return *f.out, nil
}

// event turns a message into an event; ok is false for messages of a newer daemon.
func event(m *v1.CallToolResponse) (e CallEvent, ok bool, err error) {
	switch {
	case m.GetAccepted() != nil:
		e.Accepted = new(CallAccepted)
		err = wire.ToWord(m.GetAccepted(), e.Accepted)
	case m.GetApprovalRequested() != nil:
		e.ApprovalRequested = new(ApprovalRequested)
		err = wire.ToWord(m.GetApprovalRequested(), e.ApprovalRequested)
	case m.GetApprovalResolved() != nil:
		e.ApprovalResolved = new(ApprovalResolved)
		err = wire.ToWord(m.GetApprovalResolved(), e.ApprovalResolved)
	case m.GetRunning() != nil:
		e.Running = new(CallRunning)
	case m.GetOutput() != nil:
		o := m.GetOutput() // not by way of JSON: the output may be large
		e.Output = &palyra.Chunk{Stream: o.GetStream(), Offset: o.GetOffset(), Data: o.GetData()}
	default:
		return e, false, nil
	}
	if err != nil {
		return e, false, failure(err)
	}
	return e, true, nil
}

// inputPiece is the most that travels at once to a call's stdin.
const inputPiece = 64 << 10

// SendInput feeds a running call: bytes for its stdin and their end, a signal, a new size of its
// terminal. Only the caller who made it may. Long data goes in pieces; the rest of the feed comes
// with the last one. Each piece is sent once: after an error it is not known how much arrived.
func (c *Client) SendInput(ctx context.Context, id palyra.CallID, f palyra.Feed) error {
	for len(f.Data) > inputPiece {
		piece := &v1.SendInputRequest{CallId: string(id), Data: f.Data[:inputPiece]}
		if _, err := c.tools().SendInput(ctx, piece); err != nil {
			return failure(err)
		}
		f.Data = f.Data[inputPiece:]
	}
	_, err := c.tools().SendInput(ctx, &v1.SendInputRequest{
		CallId: string(id), Data: f.Data, End: f.End, Signal: f.Signal, Rows: int64(f.Rows), Cols: int64(f.Cols),
	})
	return failure(err)
}

// CancelCall ends a call: a waiting question is withdrawn, a run is stopped.
// Through the operator door it is signed.
func (c *Client) CancelCall(ctx context.Context, id palyra.CallID) error {
	_, err := c.tools().CancelCall(ctx, &v1.CancelCallRequest{CallId: string(id)})
	return failure(err)
}

// GetCall returns a call as it stands.
func (c *Client) GetCall(ctx context.Context, id palyra.CallID) (palyra.Call, error) {
	res, err := c.tools().GetCall(ctx, &v1.GetCallRequest{CallId: string(id)})
	return word[palyra.Call](res.GetCall(), err)
}

// Printed is a piece of what a background process printed, of both streams as it came.
type Printed struct {
	Offset int64 // of Data in all that was printed
	Data   []byte
	Size   int64 // of all that was printed so far
}

// GetPrinted returns a call and a piece of what it printed, from a byte on, where it is a background process that runs;
// else nil. A negative byte means the last ones.
func (c *Client) GetPrinted(ctx context.Context, id palyra.CallID, from int64) (palyra.Call, *Printed, error) {
	res, err := c.tools().GetCall(ctx, &v1.GetCallRequest{CallId: string(id), Printed: true, PrintedFrom: max(from, 0), PrintedLast: from < 0})
	x, err := word[palyra.Call](res.GetCall(), err)
	p := res.GetPrinted()
	if err != nil || p == nil {
		return x, nil, err
	}
	return x, &Printed{Offset: p.GetOffset(), Data: p.GetData(), Size: p.GetSize()}, nil
}

// Calls lists calls, newest first.
func (c *Client) Calls(ctx context.Context, f CallFilter) (CallPage, error) {
	req := &v1.ListCallsRequest{}
	if err := wire.FromWord(f, req); err != nil {
		return CallPage{}, failure(err)
	}
	res, err := c.tools().ListCalls(ctx, req)
	return word[CallPage](res, err)
}

// Sessions lists sessions.
func (c *Client) Sessions(ctx context.Context, f SessionFilter) (SessionPage, error) {
	req := &v1.ListSessionsRequest{}
	if err := wire.FromWord(f, req); err != nil {
		return SessionPage{}, failure(err)
	}
	res, err := c.sessions().ListSessions(ctx, req)
	return word[SessionPage](res, err)
}

// Session returns one session.
func (c *Client) Session(ctx context.Context, id palyra.SessionID) (palyra.Session, error) {
	res, err := c.sessions().GetSession(ctx, &v1.GetSessionRequest{SessionId: string(id)})
	return word[palyra.Session](res.GetSession(), err)
}

// CloseSession closes a session and ends its leases (signed).
func (c *Client) CloseSession(ctx context.Context, id palyra.SessionID) error {
	_, err := c.sessions().CloseSession(ctx, &v1.CloseSessionRequest{SessionId: string(id)})
	return failure(err)
}
