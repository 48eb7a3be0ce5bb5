// Package status serves StatusService: what the daemon is, and its end.
//
// Agents get what they need to talk to the daemon and nothing about its keys, directories or troubles.
package status

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

// Daemon is the daemon, as it speaks of itself.
type Daemon interface {
	// Status says what the daemon is and how it does.
	Status(ctx context.Context) (wire.Status, error)
	// Shutdown begins a stop in good order and returns.
	Shutdown(ctx context.Context, by palyra.Principal) error
}

// Service serves StatusService.
type Service struct{ daemon Daemon }

// New returns the service.
func New(d Daemon) *Service { return &Service{d} }

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewStatusServiceHandler(s, opts...)
}

// GetStatus implements the method.
func (s *Service) GetStatus(ctx context.Context, _ *v1.GetStatusRequest) (*v1.GetStatusResponse, error) {
	st, err := s.daemon.Status(ctx)
	if err != nil {
		return nil, err
	}
	if rpc.CallerOf(ctx).IsAgent() {
		st = wire.Status{Version: st.Version, StateID: st.StateID, Instance: st.Instance, StartedAt: st.StartedAt, JournalOK: st.JournalOK}
	}
	res := &v1.GetStatusResponse{Status: &v1.Status{}}
	return res, wire.FromWord(st, res.Status)
}

// Shutdown implements the method.
func (s *Service) Shutdown(ctx context.Context, _ *v1.ShutdownRequest) (*v1.ShutdownResponse, error) {
	return &v1.ShutdownResponse{}, s.daemon.Shutdown(ctx, rpc.CallerOf(ctx).Principal)
}
