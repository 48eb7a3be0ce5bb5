// Package sandbox serves SandboxService: what the sandbox tiers of this host
// really hold, tried out at a person's word or as it was found last.
package sandbox

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

// Doctor tries the tiers out and keeps what it found.
type Doctor interface {
	// Check tries the tiers, all there are where none is named, and keeps the signed result.
	Check(ctx context.Context, tiers []palyra.Tier, by palyra.Principal) (palyra.SignedPosture, error)
	// Last returns the last result of each tier; one that covers several stands once.
	Last(ctx context.Context) ([]palyra.SignedPosture, error)
	// Get returns a result by its digest; NotFound when there is none.
	Get(ctx context.Context, digest palyra.Digest) (palyra.SignedPosture, error)
}

// maxTiers is more than there are.
const maxTiers = 8

// Service serves SandboxService.
type Service struct{ doctor Doctor }

// New returns the service.
func New(d Doctor) *Service { return &Service{d} }

// Mount implements rpc.Service.
func (s *Service) Mount(opts ...connect.HandlerOption) (string, http.Handler) {
	return palyrav1connect.NewSandboxServiceHandler(s, opts...)
}

// RunDoctor implements the method.
func (s *Service) RunDoctor(ctx context.Context, req *v1.RunDoctorRequest) (*v1.RunDoctorResponse, error) {
	if len(req.GetTiers()) > maxTiers {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "there are not so many tiers")
	}
	var tiers []palyra.Tier
	for _, t := range req.GetTiers() {
		tiers = append(tiers, palyra.Tier(t))
	}
	p, err := s.doctor.Check(ctx, tiers, rpc.CallerOf(ctx).Principal)
	res := &v1.RunDoctorResponse{Posture: &v1.SignedPosture{}}
	return wire.Answer(res, res.GetPosture(), p, err)
}

// GetPosture implements the method.
func (s *Service) GetPosture(ctx context.Context, req *v1.GetPostureRequest) (*v1.GetPostureResponse, error) {
	list, err := s.find(ctx, palyra.Digest(req.GetDigest()))
	res := &v1.GetPostureResponse{}
	return wire.Answer(res, res, map[string]any{"postures": list}, err)
}

func (s *Service) find(ctx context.Context, digest palyra.Digest) ([]palyra.SignedPosture, error) {
	if digest == "" {
		return s.doctor.Last(ctx)
	}
	if !digest.Valid() {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "that is not a digest").
			WithRemedy("give the digest that the attestation carries: sha256: and 64 hex digits")
	}
	p, err := s.doctor.Get(ctx, digest)
	return []palyra.SignedPosture{p}, err
}
