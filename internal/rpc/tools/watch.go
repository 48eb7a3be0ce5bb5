package tools

import (
	"context"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
)

// WatchCall implements the method. A client that lost its stream, or that let go
// of a call that waits, finds here what becomes of it.
func (s *Service) WatchCall(ctx context.Context, req *v1.WatchCallRequest, stream *connect.ServerStream[v1.WatchCallResponse]) error {
	c, err := s.reached(ctx, palyra.ActSee, req.GetCallId())
	if err != nil {
		return err
	}
	n := &news{send: func(m *v1.CallToolResponse) error { return stream.Send(&v1.WatchCallResponse{News: m}) }}
	n.accept(c.ID, c.Proposal.Session)
	return n.end(s.calls.Watch(ctx, c.ID, palyra.Watch{Event: n.tell, Running: n.run}))
}
