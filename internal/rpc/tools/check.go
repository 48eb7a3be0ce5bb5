package tools

import (
	"context"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc"
)

// CheckCall implements the method. It is told like a call, and its outcome is "allowed", "observed" or a refusal.
func (s *Service) CheckCall(ctx context.Context, req *v1.CheckCallRequest, stream *connect.ServerStream[v1.CheckCallResponse]) error {
	if req.GetCall() == nil {
		return invalid("there is no call to check")
	}
	p, err := proposal(rpc.CallerOf(ctx), req.GetCall())
	if err != nil {
		return err
	}
	p.TimeoutMS, p.Surface, p.Check = 0, palyra.SurfaceHook, true // whoever runs it has limits of its own
	n := &news{send: func(m *v1.CallToolResponse) error { return stream.Send(&v1.CheckCallResponse{News: m}) }}
	if req.GetRewritten() {
		if !req.GetObserve() {
			return invalid("only a call that is observed can be judged as one that Palyra would run")
		}
		p.Surface, p.Check = palyra.SurfaceCLI, false // as 'palyra exec' proposes it
	}
	if req.GetObserve() {
		return n.end(s.calls.Observe(ctx, p, palyra.Watch{Event: n.tell}))
	}
	return n.end(s.calls.Check(ctx, p, palyra.Watch{Event: n.tell}))
}
