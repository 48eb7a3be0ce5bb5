// Package runs serves RunService: where runs are started, followed, spoken to and ended.
//
// Who starts a run comes from the credential; what the client says of itself is a label. Whose runs a caller may
// see, follow, speak to and end is what palyra.Reach says; of others' they learn nothing, not even that they exist.
// Following a run holds the follower's own goroutine and nothing else: a slow client is cut off by the door, a
// client that is gone ends its stream, and the run does not notice either.
//
// The package decides nothing: on a RunStream each message passes the door's
// chain by itself, and an answer to an approval goes where all answers go.
package runs

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"palyra"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"

	v1 "palyra/api/gen/palyra/v1"
)

// StartRequest is a run to start. Principal, Owner and PeerUID come from the
// credential; nothing else in it is trusted.
type StartRequest struct {
	Principal palyra.Principal
	Owner     palyra.Principal // whose agent it is
	PeerUID   int64
	Surface   palyra.Surface
	Provider  string
	Input     string
	Title     string
	Workspace string
	Session   string // a session's id, a name of the client's own, or empty
	Key       string // idempotency key, unique for the principal
	Budget    palyra.Budget
	NoWait    bool
	Within    []string // the only workspaces the credential reaches

	Credential string // what it is started with
}

// Runs owns the runs.
type Runs interface {
	// Start puts a run on record and starts it. It outlives ctx.
	Start(ctx context.Context, r StartRequest) (palyra.Run, error)
	// Attach calls f with the entries after the one numbered after, those there are and those that come, on the
	// caller's goroutine. It returns nil after run_finished was told, f's error, or when ctx ends.
	Attach(ctx context.Context, id palyra.RunID, after int64, f func(palyra.TapeEntry) error) error
	// Cancel ends a run.
	Cancel(ctx context.Context, id palyra.RunID, by string) error
	// Get returns a run as it stands; NotFound when there is none.
	Get(ctx context.Context, id palyra.RunID) (palyra.Run, error)
	// List returns a page of runs, newest first, and whether there are more.
	List(ctx context.Context, f palyra.RunFilter) (page []palyra.Run, more bool, err error)
	// Input says something to a run, and puts on record who did.
	Input(ctx context.Context, id palyra.RunID, by palyra.Reach, text string) error
}

// Decider takes signed answers to approvals. *approvals.Service is one.
type Decider interface {
	DecideApproval(ctx context.Context, req *v1.DecideApprovalRequest) (*v1.DecideApprovalResponse, error)
}

// Service serves RunService.
type Service struct {
	runs    Runs
	decider Decider
}

// New returns the service.
func New(runs Runs, decider Decider) *Service { return &Service{runs, decider} }

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewRunServiceHandler(s, opts...)
}

// StartRun implements the method.
func (s *Service) StartRun(ctx context.Context, req *v1.StartRunRequest) (*v1.StartRunResponse, error) {
	r, err := start(rpc.CallerOf(ctx), req)
	if err != nil {
		return nil, err
	}
	run, err := s.runs.Start(ctx, r)
	res := &v1.StartRunResponse{Run: &v1.Run{}}
	return wire.Answer(res, res.GetRun(), run, err)
}

// AttachRun implements the method.
func (s *Service) AttachRun(ctx context.Context, req *v1.AttachRunRequest, stream *connect.ServerStream[v1.AttachRunResponse]) error {
	run, err := s.attachable(ctx, req)
	if err != nil {
		return err
	}
	if err := stream.Send(nil); err != nil { // headers: the client is attached
		return err
	}
	return s.runs.Attach(ctx, run.ID, req.GetAfterSeq(), func(e palyra.TapeEntry) error {
		m, err := wire.FromEntry(e)
		if err != nil {
			return err
		}
		return stream.Send(&v1.AttachRunResponse{Entry: m})
	})
}

// attachable returns the run of a request to follow it.
func (s *Service) attachable(ctx context.Context, req *v1.AttachRunRequest) (palyra.Run, error) {
	if req.GetAfterSeq() < 0 {
		return palyra.Run{}, invalid("the sequence number is negative")
	}
	return s.reached(ctx, palyra.ActSee, req.GetRunId())
}

// CancelRun implements the method.
func (s *Service) CancelRun(ctx context.Context, req *v1.CancelRunRequest) (*v1.CancelRunResponse, error) {
	if _, err := s.reached(ctx, palyra.ActCancel, req.GetRunId()); err != nil {
		return nil, err
	}
	return &v1.CancelRunResponse{}, s.runs.Cancel(ctx, palyra.RunID(req.GetRunId()), string(rpc.CallerOf(ctx).Principal))
}

// GetRun implements the method.
func (s *Service) GetRun(ctx context.Context, req *v1.GetRunRequest) (*v1.GetRunResponse, error) {
	run, err := s.reached(ctx, palyra.ActSee, req.GetRunId())
	res := &v1.GetRunResponse{Run: &v1.Run{}}
	return wire.Answer(res, res.GetRun(), run, err)
}

// ListRuns implements the method.
func (s *Service) ListRuns(ctx context.Context, req *v1.ListRunsRequest) (*v1.ListRunsResponse, error) {
	f, err := filter(rpc.CallerOf(ctx), req)
	if err != nil {
		return nil, err
	}
	runs, more, err := s.runs.List(ctx, f)
	if err != nil {
		return nil, err
	}
	page := wire.RunPage{Runs: runs}
	if more && len(runs) > 0 {
		page.Next = string(runs[len(runs)-1].ID)
	}
	res := &v1.ListRunsResponse{}
	return res, wire.FromWord(page, res)
}

// SendRunInput implements the method.
func (s *Service) SendRunInput(ctx context.Context, req *v1.SendRunInputRequest) (*v1.SendRunInputResponse, error) {
	switch n := len(req.GetText()); {
	case n == 0:
		return nil, invalid("there is nothing to say")
	case n > maxText:
		return nil, tooLarge("what is said to a run", maxText)
	}
	run, err := s.reached(ctx, palyra.ActFeed, req.GetRunId())
	if err != nil {
		return nil, err
	}
	return &v1.SendRunInputResponse{}, s.runs.Input(ctx, run.ID, rpc.CallerOf(ctx).Reach(), req.GetText())
}

// reached returns a run that the caller may do something with.
func (s *Service) reached(ctx context.Context, act palyra.Act, id string) (palyra.Run, error) {
	run, err := s.runs.Get(ctx, palyra.RunID(id))
	if err != nil {
		return palyra.Run{}, err
	}
	if !rpc.CallerOf(ctx).Reach().May(act, run.Reached()) {
		return palyra.Run{}, rpc.Missing("run")
	}
	return run, nil
}
