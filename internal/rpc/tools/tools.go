// Package tools serves ToolService: the way in for calls.
//
// The door fills in who proposes from the credential; what the client says of itself is a label. A refusal travels
// as an outcome, an error means that the record could not be kept. Whose calls a caller may see, cancel and feed is
// what palyra.Reach says; of others' they learn nothing, not even that they exist.
package tools

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"palyra"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"

	v1 "palyra/api/gen/palyra/v1"
)

// Catalog knows the tools.
type Catalog interface {
	// Tools lists the tools.
	Tools(ctx context.Context) ([]palyra.Tool, error)
	// Tool describes one; NotFound when there is none of the name.
	Tool(ctx context.Context, name palyra.ToolName) (palyra.Tool, error)
}

// Record finds calls again.
type Record interface {
	// Get returns a call as it stands.
	Get(ctx context.Context, id palyra.CallID) (*palyra.Call, error)
	// List returns a page of calls, newest first, without what is large, and where
	// the next one begins; empty: there are no more.
	List(ctx context.Context, f palyra.CallFilter) (page []*palyra.Call, next palyra.CallID, err error)
	// Held says why what is kept of a call is not what the journal says of it.
	Held(ctx context.Context, id palyra.CallID) error
}

// Proposals takes calls that are new.
type Proposals interface {
	// Call takes a proposal all the way and tells w what became durable and what was printed, in order, on the
	// caller's goroutine. The call outlives ctx; only Cancel ends it. The proposal's Session is an id, a name of the
	// client's own, or empty.
	Call(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error)
	// CallTied is Call for a caller without whom the call has no use: when ctx ends, it is cancelled.
	CallTied(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error)
	// Check is Call that runs nothing: its outcome says whether the caller may run it by its own tools.
	Check(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error)
	// Observe judges a call, a check or one that Palyra would run, which the caller makes by its own tools whatever the
	// answer would be: nobody is asked and nothing runs. It is refused while calls are held.
	Observe(ctx context.Context, p palyra.Proposal, w palyra.Watch) (palyra.Outcome, error)
}

// Calls takes calls.
type Calls interface {
	Proposals
	// Watch follows a call that was made before, as Call does, to its outcome.
	Watch(ctx context.Context, id palyra.CallID, w palyra.Watch) (palyra.Outcome, error)
	// Send feeds a running call, and puts on record who did. It refuses one that takes nothing.
	Send(ctx context.Context, id palyra.CallID, by palyra.Reach, f palyra.Feed) error
	// Cancel ends a call: its question is withdrawn, its run is stopped.
	Cancel(ctx context.Context, id palyra.CallID) error
	// Printed is a piece of what a background process printed, from a byte on; false: it does not run. A negative byte
	// means the last ones; no limit: as many as there may be in one answer.
	Printed(id palyra.CallID, from int64, limit int) (piece palyra.Chunk, size int64, running bool)
}

// Service serves ToolService.
type Service struct {
	catalog Catalog
	calls   Calls
	record  Record
}

// New returns the service.
func New(catalog Catalog, calls Calls, record Record) *Service {
	return &Service{catalog, calls, record}
}

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewToolServiceHandler(s, opts...)
}

// ListTools implements the method.
func (s *Service) ListTools(ctx context.Context, _ *v1.ListToolsRequest) (*v1.ListToolsResponse, error) {
	tools, err := s.catalog.Tools(ctx)
	res := &v1.ListToolsResponse{}
	return wire.Answer(res, res, map[string]any{"tools": tools}, err)
}

// GetTool implements the method.
func (s *Service) GetTool(ctx context.Context, req *v1.GetToolRequest) (*v1.GetToolResponse, error) {
	t, err := s.catalog.Tool(ctx, palyra.ToolName(req.GetName()))
	res := &v1.GetToolResponse{Tool: &v1.Tool{}}
	return wire.Answer(res, res.GetTool(), t, err)
}

// CallTool implements the method.
func (s *Service) CallTool(ctx context.Context, req *v1.CallToolRequest, stream *connect.ServerStream[v1.CallToolResponse]) error {
	p, err := proposal(rpc.CallerOf(ctx), req)
	if err != nil {
		return err
	}
	if req.GetEndWithClient() && p.Key != "" {
		return invalid("a call with a key may be somebody else's as well, and does not end with one client")
	}
	n := &news{send: stream.Send}
	w := palyra.Watch{Event: n.tell, Running: n.run}
	if req.GetStreamOutput() {
		w.Output = n.print
	}
	if req.GetEndWithClient() {
		return n.end(s.calls.CallTied(ctx, p, w))
	}
	return n.end(s.calls.Call(ctx, p, w))
}

// proposal joins what the request says with who the credential says it is.
func proposal(c rpc.Caller, req *v1.CallToolRequest) (palyra.Proposal, error) {
	switch palyra.Surface(req.GetDoor()) {
	case "", palyra.SurfaceAPI, palyra.SurfaceCLI, palyra.SurfaceMCP, palyra.SurfaceACP, palyra.SurfaceHook:
	default:
		return palyra.Proposal{}, invalid("the surface must be api, cli, mcp, acp or hook")
	}
	if req.GetTimeoutMs() < 0 {
		return palyra.Proposal{}, invalid("the timeout is negative")
	}
	args := json.RawMessage(req.GetArguments())
	if raw := req.GetRawArguments(); len(raw) > 0 {
		if len(args) > 0 {
			return palyra.Proposal{}, invalid("give the arguments once")
		}
		args = raw
	}
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	return palyra.Proposal{
		Proposer: c.Proposer(palyra.Surface(req.GetDoor()), palyra.SessionID(req.GetSession())),
		Key:      req.GetKey(), Workspace: req.GetWorkspace(), Tool: palyra.ToolName(req.GetTool()), Arguments: args,
		NoWait: req.GetNoWait(), TimeoutMS: req.GetTimeoutMs(),
	}, nil
}

// Bounds on what feeds a call.
const (
	maxFeed     = 64 << 10
	maxSignal   = 16
	maxTerminal = 1<<16 - 1
)

// SendInput implements the method.
func (s *Service) SendInput(ctx context.Context, req *v1.SendInputRequest) (*v1.SendInputResponse, error) {
	f, err := feed(req)
	if err != nil {
		return nil, err
	}
	c, err := s.reached(ctx, palyra.ActFeed, req.GetCallId())
	if err != nil {
		return nil, err
	}
	return &v1.SendInputResponse{}, s.calls.Send(ctx, c.ID, rpc.CallerOf(ctx).Reach(), f)
}

// feed checks what is sent to a call.
func feed(req *v1.SendInputRequest) (palyra.Feed, error) {
	f := palyra.Feed{Data: req.GetData(), End: req.GetEnd(), Signal: req.GetSignal()}
	rows, cols := req.GetRows(), req.GetCols()
	switch {
	case len(f.Data) > maxFeed:
		return f, palyra.Errorf(palyra.Exhausted, palyra.ReasonInputTooLarge, "the input is longer than %d bytes", maxFeed).
			WithRemedy("send it in pieces")
	case f.Signal != "" && !signalName(f.Signal):
		return f, invalid("the signal is not a name like SIGINT")
	case rows < 0 || cols < 0 || rows > maxTerminal || cols > maxTerminal || (rows == 0) != (cols == 0):
		return f, invalid("the terminal's size does not make sense")
	case len(f.Data) == 0 && !f.End && f.Signal == "" && rows == 0:
		return f, invalid("there is nothing to send")
	}
	f.Rows, f.Cols = int(rows), int(cols)
	return f, nil
}

// signalName reports whether s can be a signal's name. Which signals there are is the runner's business.
func signalName(s string) bool {
	name, ok := strings.CutPrefix(s, "SIG")
	return ok && name != "" && len(s) <= maxSignal && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// CancelCall implements the method.
func (s *Service) CancelCall(ctx context.Context, req *v1.CancelCallRequest) (*v1.CancelCallResponse, error) {
	c, err := s.reached(ctx, palyra.ActCancel, req.GetCallId())
	if err != nil {
		return nil, err
	}
	return &v1.CancelCallResponse{}, s.calls.Cancel(ctx, c.ID)
}

// GetCall implements the method. A record that somebody changed is not shown: who looks at it would believe it.
func (s *Service) GetCall(ctx context.Context, req *v1.GetCallRequest) (*v1.GetCallResponse, error) {
	c, err := s.reached(ctx, palyra.ActSee, req.GetCallId())
	if err != nil {
		return nil, err
	}
	if err := s.record.Held(ctx, c.ID); err != nil {
		return nil, err
	}
	res := &v1.GetCallResponse{Call: &v1.Call{}}
	if req.GetPrinted() {
		res.Printed = s.printed(c.ID, req)
	}
	return res, wire.FromWord(visibleCall(rpc.CallerOf(ctx), c), res.GetCall())
}

// printed is what a background process printed; nil: it does not run.
func (s *Service) printed(id palyra.CallID, req *v1.GetCallRequest) *v1.Printed {
	from := max(req.GetPrintedFrom(), 0)
	if req.GetPrintedLast() {
		from = -1
	}
	p, size, runs := s.calls.Printed(id, from, 0)
	if !runs {
		return nil
	}
	return &v1.Printed{Offset: p.Offset, Data: p.Data, Size: size}
}

// reached returns a call that the caller may do something with.
func (s *Service) reached(ctx context.Context, act palyra.Act, id string) (*palyra.Call, error) {
	c, err := s.record.Get(ctx, palyra.CallID(id))
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, errors.New("tools: no call and no error")
	}
	if !rpc.CallerOf(ctx).Reach().May(act, c.Reached()) {
		return nil, rpc.Missing("call")
	}
	return c, nil
}

// visibleCall is a call as somebody may see it. An agent knows what it proposed. What a diff and notes tell beside
// that comes from files which nobody has let it read: they are for those who answer.
func visibleCall(who rpc.Caller, c *palyra.Call) *palyra.Call {
	if c == nil || !who.IsAgent() && c.Keep == nil {
		return c
	}
	own := *c // others may look at the same one
	if c.Keep != nil {
		keep := *c.Keep
		keep.Result = nil // what it printed is withheld until the question is answered
		own.Keep = &keep
	}
	if !who.IsAgent() {
		return &own
	}
	own.Detail = palyra.Detail{Summary: c.Detail.Summary}
	own.Plan.Detail = own.Detail
	return &own
}

// pages bounds a page of calls.
const (
	defaultPage = 100
	largestPage = 500
)

// ListCalls implements the method.
func (s *Service) ListCalls(ctx context.Context, req *v1.ListCallsRequest) (*v1.ListCallsResponse, error) {
	var f palyra.CallFilter
	if err := wire.ToWord(req, &f); err != nil {
		return nil, err
	}
	if f.Limit = min(f.Limit, largestPage); f.Limit <= 0 {
		f.Limit = defaultPage
	}
	f.Reach = rpc.CallerOf(ctx).Reach()
	calls, next, err := s.record.List(ctx, f)
	if err != nil {
		return nil, err
	}
	for i, c := range calls {
		calls[i] = visibleCall(rpc.CallerOf(ctx), c)
	}
	res := &v1.ListCallsResponse{NextCursor: string(next)}
	return res, wire.FromWord(map[string]any{"calls": calls}, res)
}

func invalid(why string) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%s", why)
}
