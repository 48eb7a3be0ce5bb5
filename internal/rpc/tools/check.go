package tools

import (
	"context"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc"
)

// CheckCall implements the method. It is told like a call, and its outcome is "allowed" or a refusal.
func (s *Service) CheckCall(ctx context.Context, req *v1.CheckCallRequest, stream *connect.ServerStream[v1.CheckCallResponse]) error {
	if req.GetCall() == nil {
		return invalid("there is no call to check")
	}
	p, err := proposal(rpc.CallerOf(ctx), req.GetCall())
	if err != nil {
		return err
	}
	p.TimeoutMS, p.Surface = 0, palyra.SurfaceHook // whoever runs it has limits of its own
	n := &news{send: func(m *v1.CallToolResponse) error { return stream.Send(&v1.CheckCallResponse{News: m}) }}
	return n.end(s.calls.Check(ctx, p, palyra.Watch{Event: n.tell}))
}
