// Package observe serves ObserveService: whether calls that agents run by their own tools are observed or held.
package observe

import (
	"context"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

// Mode is whether calls are observed.
type Mode interface {
	// Observation says whether calls are observed now.
	Observation(ctx context.Context) (palyra.Observation, error)
	// Set has calls observed for a time from now on; with none they are held.
	Set(ctx context.Context, span time.Duration, by palyra.Principal, sig palyra.Signature) (palyra.Observation, error)
}

// Service serves ObserveService.
type Service struct{ mode Mode }

// New returns the service.
func New(m Mode) *Service { return &Service{m} }

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewObserveServiceHandler(s, opts...)
}

// GetObservation implements the method.
func (s *Service) GetObservation(ctx context.Context, _ *v1.GetObservationRequest) (*v1.GetObservationResponse, error) {
	o, err := s.mode.Observation(ctx)
	res := &v1.GetObservationResponse{Observation: &v1.Observation{}}
	return wire.Answer(res, res.GetObservation(), o, err)
}

// SetObservation implements the method.
func (s *Service) SetObservation(ctx context.Context, req *v1.SetObservationRequest) (*v1.SetObservationResponse, error) {
	if req.GetSpan() != nil && !req.GetSpan().IsValid() {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "the span is no length of time")
	}
	who := rpc.CallerOf(ctx)
	o, err := s.mode.Set(ctx, req.GetSpan().AsDuration(), who.Principal, who.Evidence)
	res := &v1.SetObservationResponse{Observation: &v1.Observation{}}
	return wire.Answer(res, res.GetObservation(), o, err)
}
